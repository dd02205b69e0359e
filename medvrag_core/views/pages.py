"""Page images in the book: thumbnails, and heatmaps that show which patches answer a query."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.showing import PagePicture, as_picture
from medvrag_core.errors import InputError
from medvrag_core.views.markup import HtmlBlock, escape

_FORMATS = ("JPEG", "PNG", "WEBP")
_BOX_WIDTH = 300
MAX_KB = 150
"""Most kilobytes (of 1,000 bytes) that one embedded image takes, as base64 text."""


def page_thumbnail(image: Path | PagePicture, *, width: int = 240, max_kb: int = 14) -> str:
    """A small JPEG of a page as a ``data:`` URI; the same file gives the same text.

    A page that may not be shown (see :mod:`medvrag_core.corpus.showing`) gives a neutral box that says why instead.

    Parameters
    ----------
    image : a page image of any format that corpora have
    width : pixels; smaller images keep their size
    max_kb : upper bound of the URI; quality and width go down until it fits

    Raises
    ------
    InputError : the file is missing or is no image
    """
    picture = as_picture(image)
    return _box_uri(picture) if picture.hidden else _data_uri(picture.path, width, max_kb)


def credit_html(image: Path | PagePicture) -> str:
    """The line under a page: whose it is and its licence; empty for an image that belongs to no known page."""
    picture = as_picture(image)
    if not picture.credit:
        return ""
    private = f" Not for a published book: {picture.restricted}." if picture.restricted and not picture.hidden else ""
    return f'<small class="mv-credit" style="display:block;opacity:.95">{escape(picture.credit + private)}</small>'


def alt_text(image: Path | PagePicture, told: str) -> str:
    """What stands for a page image where it cannot be seen: ``told``, or why it is not shown. Escaped."""
    picture = as_picture(image)
    return escape(f"{told}. The page is not shown: {picture.hidden}." if picture.hidden else told)


def page_heatmap(
    image: Path | PagePicture,
    boxes: NDArray[np.float32],
    scores: Sequence[float] | NDArray[np.floating],
    *,
    title: str = "",
    labels: Sequence[str] = (),
    width: int = 640,
    max_kb: int = MAX_KB,
) -> HtmlBlock:
    """A page with its patch boxes shaded by their similarity to a query.

    Parameters
    ----------
    image : the page image
    boxes : shape (n, 4), fractions of the page (see ``records.Box``)
    scores : n similarities; the lowest is left clear, the highest gets the full shade
    title : caption, for example the query
    labels : n texts shown when a box is pointed at
    width : pixels of the embedded image

    Raises
    ------
    InputError : the image is unusable, lengths differ, or a number is not finite
    """
    areas = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    values = np.asarray(scores, dtype=np.float64)
    if len(areas) != len(values) or (labels and len(labels) != len(areas)):
        raise InputError(f"{as_picture(image).path}: {len(areas)} boxes, {len(values)} scores, {len(labels)} labels")
    if not (np.isfinite(areas).all() and np.isfinite(values).all()):
        raise InputError(f"{as_picture(image).path}: a box or score is not a finite number")
    uri = page_thumbnail(image, width=width, max_kb=max_kb)
    pixels_wide, pixels_high = image_size(image)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    shades = (values - low) / (high - low) if high > low else np.zeros_like(values)
    height = width * pixels_high / pixels_wide
    marks = []
    # Weak boxes first, so that the strongest are on top where boxes overlap.
    for i in np.argsort(shades, kind="stable"):
        x0, y0, x1, y1 = np.clip(areas[i], 0, 1)
        name = f"{labels[i]} – " if labels else ""
        marks.append(
            f'<rect x="{x0 * width:.1f}" y="{y0 * height:.1f}" width="{max(0, x1 - x0) * width:.1f}" '
            f'height="{max(0, y1 - y0) * height:.1f}" fill="#d55e00" fill-opacity="{0.6 * shades[i] ** 2:.3f}" '
            f'stroke="#a04600" stroke-opacity="{0.15 + 0.6 * shades[i]:.2f}" '
            f'stroke-width="{0.5 + 1.2 * shades[i]:.1f}">'
            f"<title>{escape(name)}similarity {values[i]:.3f}</title></rect>"
        )
    alt = alt_text(image, f"Page with {len(values)} patches shaded by similarity{': ' + title if title else ''}")
    caption = f"{escape(title)}<br>" if title else ""
    return HtmlBlock(
        f'<figure class="medvrag-heatmap" style="margin:1em 0;max-width:{width}px">'
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{alt}" '
        f'style="display:block;width:100%;height:auto;border:1px solid #8884;background:#fff">'
        f'<image href="{uri}" width="{width}" height="{height:.0f}" preserveAspectRatio="none"/>{"".join(marks)}</svg>'
        f'<figcaption style="font-size:.85em;opacity:.95">{caption}similarity from {low:.3f} (clear) to {high:.3f} '
        f"(shaded){credit_html(image)}</figcaption></figure>"
    )


def image_size(image: Path | PagePicture) -> tuple[int, int]:
    """Width and height of a page image in pixels."""
    from PIL import Image

    with Image.open(as_picture(image).path, formats=_FORMATS) as opened:
        return opened.width, opened.height


def _box_uri(picture: PagePicture) -> str:
    """An empty page of the same shape with its id and the reason, as SVG."""
    wide, high = image_size(picture)
    height = round(_BOX_WIDTH * high / wide)
    lines = [picture.page_id, "is not shown:", *textwrap.wrap(picture.hidden, _BOX_WIDTH // 9)]
    text = "".join(
        f'<text x="{_BOX_WIDTH // 2}" y="{height // 3 + 20 * place}">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_BOX_WIDTH} {height}">'
        f'<rect width="100%" height="100%" fill="#eceff2"/>'
        f'<g font-family="sans-serif" font-size="15" text-anchor="middle" fill="#59636e">{text}</g></svg>'
    )
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _data_uri(path: Path, width: int, max_kb: int) -> str:
    from PIL import Image

    try:
        with Image.open(path, formats=_FORMATS) as opened:
            # Decodes JPEGs straight to about the size wanted.
            opened.draft("RGB", (width, width * 4))
            page = opened.convert("RGB")
    except FileNotFoundError:
        raise InputError(f"{path}: no such page image", way_out="build the corpus again") from None
    except (OSError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: not a usable page image ({error})") from None
    size = min(width, page.width)
    while True:
        small = page.resize((size, max(1, round(page.height * size / page.width))), Image.Resampling.LANCZOS)
        for quality in (80, 65, 50, 35):
            buffer = io.BytesIO()
            small.save(buffer, "JPEG", quality=quality, optimize=True)
            text = "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
            if len(text) <= max_kb * 1000:
                return text
        if size <= 16:
            return text
        size = size * 3 // 4
