"""What the encoder makes of a page, and how the words of a query meet its patches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from medvrag_core.index.similarity_maps import Floats, ScoreParts
from medvrag_core.records import PageVectors
from medvrag_core.views.markup import HtmlBlock, escape
from medvrag_core.views.page_maps import MAX_KB, PageMap, page_maps
from medvrag_core.views.pages import image_size, page_thumbnail
from medvrag_core.views.theme import PALETTE

_NAMED = 3
"""Words named when a patch is pointed at."""


def patches_view(image: Path, page: PageVectors, *, patch: str = "patch", width: int = 640) -> HtmlBlock:
    """The page with the box of every patch; patches that share a vector share a color.

    Parameters
    ----------
    image : the page image
    page : its vectors
    patch : what a patch of this encoder is, in words

    Raises InputError if the image is missing or unusable.
    """
    uri = page_thumbnail(image, width=width, max_kb=MAX_KB)
    pixels_wide, pixels_high = image_size(image)
    height = width * pixels_high / pixels_wide
    shared = np.bincount(page.vector_of)
    marks = []
    for number, (box, vector) in enumerate(zip(page.boxes, page.vector_of, strict=True), start=1):
        x0, y0, x1, y1 = np.clip(box, 0, 1) * (width, height, width, height)
        color = PALETTE[int(vector) % (len(PALETTE) - 1)]
        others = int(shared[vector]) - 1
        told = f"patch {number}, vector {vector + 1}" + (f", shared with {others} more" if others else "")
        marks.append(
            f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{max(0.0, x1 - x0):.1f}" height="{max(0.0, y1 - y0):.1f}" '
            f'fill="{color}" fill-opacity="0.16" stroke="{color}" stroke-width="1"><title>{escape(told)}</title></rect>'
        )
    count, dim = page.vectors.shape
    told = (
        f"{page.page_id}: {len(page.boxes)} patches, each {patch}; {count} vectors of width {dim}, "
        f"{page.vectors.size * 2 / 1000:.0f} KB as float16"
    )
    return HtmlBlock(
        f'<figure class="medvrag-patches" style="margin:1em 0;max-width:{width}px">'
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(told)}" '
        f'style="display:block;width:100%;height:auto;border:1px solid #8884;background:#fff">'
        f'<image href="{uri}" width="{width}" height="{height:.0f}" preserveAspectRatio="none"/>{"".join(marks)}</svg>'
        f'<figcaption style="font-size:.85em;opacity:.8">{escape(told)}</figcaption></figure>'
    )


def query_maps(image: Path, page: PageVectors, parts: ScoreParts, words: Sequence[str], *, query: str) -> HtmlBlock:
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
    score, forward, backward = parts.score, float(parts.forward.sum()), float(parts.backward.sum())
    added, strongest = parts.of_patches, parts.page_map
    whole = PageMap(
        name="whole query",
        cells=("", f"{forward:.3f}", f"{backward:.3f}", _share(score, score)),
        note=f"What each patch adds to the score S = {score:.3f}: forward {forward:.3f} plus backward {backward:.3f}.",
        values=added,
        scale=_scale(added),
    )
    behind = PageMap(
        name="whole query, backward half",
        cells=("", "", f"{backward:.3f}", ""),
        note="Best similarity of each patch with any word; its mean over the vectors is the backward half.",
        values=strongest,
        scale=_scale(strongest),
    )
    scale = _scale(parts.row_maps)
    by_word = [
        PageMap(
            name=word,
            cells=(
                f"{parts.row_maps[row].max():.3f}",
                f"{parts.forward[row]:.3f}",
                f"{parts.backward_of_rows[row]:.3f}",
                _share(parts.of_rows[row], score),
            ),
            note=_word_note(word, row, parts),
            values=parts.row_maps[row],
            best=tuple(map(int, parts.best_patches(row))),
            scale=scale,
        )
        for row, word in enumerate(words)
    ]
    return page_maps(
        image,
        page.boxes,
        [whole, behind, *by_word],
        columns=("word", "best patch", "forward", "backward", "share of S"),
        title=f"{query} on {page.page_id}",
        legend="Shade the page by",
        labels=_patch_labels(parts, words),
    )


def _word_note(word: str, row: int, parts: ScoreParts) -> str:
    best = parts.best_patches(row)
    which = f"patch {best[0] + 1}" if len(best) == 1 else f"{len(best)} patches that share a vector"
    return f"Similarity of each patch with “{word}”; outlined: the best, {which}."


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


def _scale(values: Floats) -> tuple[float, float]:
    """Half of all patches stay clear, whatever similarities an encoder gives."""
    return float(np.median(values)), float(values.max())
