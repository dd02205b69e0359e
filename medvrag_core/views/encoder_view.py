"""What the encoder makes of a page, and how the words of a query meet its patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.showing import PagePicture
from medvrag_core.encoders.grids import patch_boxes
from medvrag_core.encoders.page_budget import PageBudget
from medvrag_core.index.similarity_maps import ScoreParts
from medvrag_core.records import PageVectors
from medvrag_core.views.markup import HtmlBlock, escape
from medvrag_core.views.page_maps import MAX_KB, PageMap, half_clear, page_maps
from medvrag_core.views.pages import alt_text, credit_html, image_size, page_thumbnail
from medvrag_core.views.theme import BLUE, PALETTE

_NAMED = 3
"""Words named when a patch is pointed at."""


def patches_view(image: Path | PagePicture, page: PageVectors) -> HtmlBlock:
    """The page with the box of every patch; patches that share a vector share a color.

    Raises InputError if the image is missing or unusable.
    """
    count, dim = page.vectors.shape
    shared = np.bincount(page.vector_of)
    boxes = []
    for patch, (box, vector) in enumerate(zip(page.boxes, page.vector_of, strict=True), start=1):
        others = int(shared[vector]) - 1
        told = f"patch {patch}, vector {vector + 1}" + (f", shared with {others} more" if others else "")
        boxes.append(_Box(box, told, PALETTE[int(vector) % (len(PALETTE) - 1)], fill=0.16))
    return _boxed(image, boxes, f"{page.page_id}: {len(page.boxes)} patches, {count} vectors of width {dim}")


def grid_view(image: Path | PagePicture, budget: PageBudget) -> HtmlBlock:
    """The page with the grid that ColQwen2.5 would lay over it; nothing is encoded."""
    down, across = budget.grid
    boxes = [
        _Box(box, f"row {place // across + 1}, column {place % across + 1}", BLUE, fill=0.0, line=0.4)
        for place, box in enumerate(patch_boxes(down, across))
    ]
    wide, high = budget.shown
    told = (
        f"seen at {wide} × {high} pixels: {down} × {across} = {budget.patches} patches; "
        f"{budget.vectors} vectors of width {budget.dim} after merging"
    )
    return _boxed(image, boxes, told)


@dataclass(frozen=True)
class _Box:
    box: NDArray[np.float32]
    told: str
    color: str
    fill: float
    line: float = 0.8


def _boxed(image: Path | PagePicture, boxes: Sequence[_Box], caption: str, *, width: int = 560) -> HtmlBlock:
    uri = page_thumbnail(image, width=width, max_kb=MAX_KB)
    pixels_wide, pixels_high = image_size(image)
    height = width * pixels_high / pixels_wide
    marks = []
    for one in boxes:
        x0, y0, x1, y1 = np.clip(one.box, 0, 1) * (width, height, width, height)
        marks.append(
            f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{max(0.0, x1 - x0):.1f}" height="{max(0.0, y1 - y0):.1f}" '
            f'fill="{one.color}" fill-opacity="{one.fill}" stroke="{one.color}" stroke-width="{one.line}">'
            f"<title>{escape(one.told)}</title></rect>"
        )
    return HtmlBlock(
        f'<figure class="medvrag-patches" style="margin:1em 0;max-width:{width}px">'
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{alt_text(image, caption)}" '
        f'style="display:block;width:100%;height:auto;border:1px solid #8884;background:#fff">'
        f'<image href="{uri}" width="{width}" height="{height:.0f}" preserveAspectRatio="none"/>{"".join(marks)}</svg>'
        f'<figcaption style="font-size:.85em;opacity:.95;text-align:left">{escape(caption)}'
        f"{credit_html(image)}</figcaption></figure>"
    )


def query_maps(
    image: Path | PagePicture, page: PageVectors, parts: ScoreParts, words: Sequence[str], *, query: str
) -> HtmlBlock:
    """Which patches answer each word of a query, and what each word and each patch adds to the score S.

    Parameters
    ----------
    image : the page image
    page : its vectors
    parts : of the query on this page
    words : m texts, what each row of the query stands for
    query : its text

    Raises InputError if the image is missing or unusable.
    """
    return page_maps(
        image,
        page.boxes,
        query_shadings(parts, words),
        columns=("word", "forward", "backward", "share of S"),
        title=f"{query} on {page.page_id}",
        legend="Shade the page by",
        labels=_patch_labels(parts, words),
    )


def query_shadings(parts: ScoreParts, words: Sequence[str]) -> list[PageMap]:
    """The shadings of :func:`query_maps`: the score by patch, whatever fits best, then the m words of the query."""
    score, forward, backward = parts.score, float(parts.forward.sum()), float(parts.backward.sum())
    added, strongest = parts.of_patches, parts.page_map
    weighted = "" if parts.backward_weight == 1 else f" (weight {parts.backward_weight:g})"
    whole = PageMap(
        name="the score S",
        cells=(f"{forward:.3f}", f"{backward:.3f}", _share(score, score)),
        note=f"What each patch adds to S = {score:.3f}: forward {forward:.3f} plus backward {backward:.3f}{weighted}.",
        values=added,
        scale=half_clear(added),
    )
    behind = PageMap(
        name="whatever fits best",
        cells=("", "", ""),
        note="Similarity of each patch with the word that it answers best: the backward half before it is averaged.",
        values=strongest,
        scale=half_clear(strongest),
    )
    maps, halves = parts.row_maps, (parts.forward, parts.backward_of_rows)
    scale = half_clear(maps)
    by_word = [
        PageMap(
            name=word or "␣",
            cells=(f"{halves[0][row]:.3f}", f"{halves[1][row]:.3f}", _share(halves[0][row] + halves[1][row], score)),
            note=_word_note(word, row, parts),
            values=maps[row],
            best=tuple(map(int, parts.best_patches(row))),
            scale=scale,
        )
        for row, word in enumerate(words)
    ]
    return [whole, behind, *by_word]


def _word_note(word: str, row: int, parts: ScoreParts) -> str:
    best = parts.best_patches(row)
    which = f"patch {best[0] + 1}" if len(best) == 1 else f"{len(best)} patches that share a vector"
    return f"Similarity of each patch with “{word}”; outlined: the best, {which}, {parts.similarity[row].max():.3f}."


def _share(part: float, score: float) -> str:
    """In percent; a score below zero has no shares."""
    return f"{part / score:.1%}" if score > 0 else "–"


def _patch_labels(parts: ScoreParts, words: Sequence[str]) -> list[str]:
    labels = []
    for patch, (column, added) in enumerate(zip(parts.row_maps.T, parts.of_patches, strict=True), start=1):
        best = np.argsort(-column, kind="stable")[:_NAMED]
        named = ", ".join(f"{words[row]} {column[row]:.2f}" for row in best)
        labels.append(f"patch {patch} adds {added:.3f}; {named}")
    return labels
