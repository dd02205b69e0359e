"""A page under several shadings, one at a time, as static HTML: no kernel, no script, no request.

The rows of a table are radio buttons inside a form of their own, so that any number of these stands on one page without
ids, and arrow keys step through the shadings. A browser without the CSS selector ``:has()`` shows the first one alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.showing import PagePicture, as_picture
from medvrag_core.errors import InputError
from medvrag_core.views.markup import HtmlBlock, escape
from medvrag_core.views.pages import alt_text, credit_html, image_size, page_thumbnail

MAX_KB = 150
"""Most kilobytes (of 1,000 bytes) that the embedded page image takes, as base64 text."""
_WIDE = 1_000
_SHADES = 8


@dataclass(frozen=True)
class PageMap:
    """One shading of the patches of a page.

    Attributes
    ----------
    name : what is chosen in the table
    cells : its other cells, finished texts
    note : what the shading says, in words; stands below the page and is read out when it is chosen
    values : shape (p,), one a patch
    scale : the value up to which a patch has no shade, and the one that has the deepest
    best : patches with an outline
    """

    name: str
    cells: tuple[str, ...]
    note: str
    values: NDArray[np.floating]
    scale: tuple[float, float]
    best: tuple[int, ...] = ()


def half_clear(values: NDArray[np.floating]) -> tuple[float, float]:
    """A scale on which half of all patches stay clear, since encoders differ in what a similarity of 0.3 means.

    >>> half_clear(np.array([0.1, 0.2, 0.9]))
    (0.2, 0.9)
    """
    return float(np.median(values)), float(values.max())


def page_maps(
    image: Path | PagePicture,
    boxes: NDArray[np.float32],
    maps: Sequence[PageMap],
    *,
    columns: Sequence[str],
    title: str,
    legend: str,
    labels: Sequence[str] = (),
) -> HtmlBlock:
    """The page with its shadings beside the table that they are chosen in.

    Parameters
    ----------
    image : the page image
    boxes : shape (p, 4), one a patch, fractions of the page (see ``records.Box``)
    maps : at least one; the first is shown at the start
    columns : heads of the table, the one of the names first
    title : what is shown, for example the query
    legend : what a choice does
    labels : p texts shown when a patch is pointed at

    Raises
    ------
    InputError : the image is unusable, lengths differ, or a number is not finite
    """
    areas = np.asarray(boxes, dtype=np.float64)
    for shown in maps:
        if len(shown.values) != len(areas) or (labels and len(labels) != len(areas)):
            raise InputError(
                f"{as_picture(image).path}: {len(areas)} boxes, {len(shown.values)} values, {len(labels)} labels"
            )
        if not (np.isfinite(areas).all() and np.isfinite(shown.values).all()):
            raise InputError(f"{as_picture(image).path}: a box or a value of '{shown.name}' is not a finite number")
    uri = page_thumbnail(image, width=640, max_kb=MAX_KB)
    pixels_wide, pixels_high = image_size(image)
    high = round(_WIDE * pixels_high / pixels_wide)
    corners = np.rint(np.clip(areas, 0, 1) * (_WIDE, high, _WIDE, high)).astype(int)
    pointed = "".join(
        f"{_rect(box)}<title>{escape(text)}</title></rect>" for box, text in zip(corners, labels, strict=False)
    )
    alt = alt_text(image, f"{title}: page with {len(areas)} patches; what is shaded is told below the page")
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    notes = "".join(f'<p class="note">{escape(shown.note)}{_key(shown)}</p>' for shown in maps)
    rows = "".join(_row(shown, first=place == 0) for place, shown in enumerate(maps))
    return HtmlBlock(
        f'<figure class="mv-maps"><style>{_style(len(maps))}</style><figcaption class="title">{escape(title)}'
        f'</figcaption><form method="dialog"><div class="sheet"><svg viewBox="0 0 {_WIDE} {high}" role="img" '
        f'aria-label="{alt}">'
        f'<image href="{uri}" width="{_WIDE}" height="{high}" preserveAspectRatio="none"/>'
        f'{"".join(_shading(shown, corners) for shown in maps)}<g class="hit">{pointed}</g></svg>'
        f'<div class="notes" aria-live="polite">{notes}</div>{credit_html(image)}</div>'
        f'<fieldset role="radiogroup"><legend>{escape(legend)}'
        f"</legend><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></fieldset></form></figure>"
    )


def _row(shown: PageMap, *, first: bool) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in shown.cells)
    choice = f'<input type="radio" name="map"{" checked" if first else ""}>'
    return f'<tr><th scope="row"><label>{choice}<span>{escape(shown.name)}</span></label></th>{cells}</tr>'


def _shading(shown: PageMap, corners: NDArray[np.int_]) -> str:
    """One path for each depth of shade, since a page may have a thousand patches and a query thirty words."""
    clear, full = shown.scale
    shares = np.clip((shown.values - clear) / (full - clear), 0, 1) if full > clear else np.zeros(len(shown.values))
    depths = np.rint(_SHADES * shares).astype(int)
    paths = "".join(
        f'<path class="cell" fill-opacity="{0.6 * (depth / _SHADES) ** 1.5:.2f}" d="{_outlines(corners[chosen])}"/>'
        for depth in range(1, _SHADES + 1)
        if (chosen := depths == depth).any()
    )
    best = f'<path class="best" d="{_outlines(corners[list(shown.best)])}"/>' if shown.best else ""
    return f'<g class="map">{paths}{best}</g>'


def _outlines(corners: NDArray[np.int_]) -> str:
    # Every box runs the same way round, so that boxes that overlap in one path do not cancel out.
    return "".join(f"M{x0} {y0}H{x1}V{y1}H{x0}Z" for x0, y0, x1, y1 in corners)


def _rect(box: NDArray[np.int_]) -> str:
    x0, y0, x1, y1 = box
    return f'<rect x="{x0}" y="{y0}" width="{max(0, x1 - x0)}" height="{max(0, y1 - y0)}">'


def _key(shown: PageMap) -> str:
    clear, full = shown.scale
    return f' <span style="white-space:nowrap">{clear:.3f}<span class="key"></span>{full:.3f}</span>'


def _style(count: int) -> str:
    css = (resources.files("medvrag_core.views") / "assets" / "maps.css").read_text(encoding="utf-8")
    chosen = ",".join(
        f".mv-maps:has(tbody tr:nth-child({k}) input:checked) :is(.map,.note):nth-of-type({k})"
        for k in range(1, count + 1)
    )
    hidden = ".mv-maps :is(.map,.note):first-of-type{display:none}"
    return f"{css}@supports selector(:has(*)){{{hidden}{chosen}{{display:revert}}}}"
