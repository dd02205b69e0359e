"""VisRAG's page concatenation (equation 3): the best pages side by side in one image, for models that take one image.

As in VisRAG's code all pages are brought to the height of the tallest and stand from left to right, best first. What it
has no limit for has one here, before any memory is taken: a row of more pixels is made smaller as a whole. A model gets
the row at its own number of pixels, so that a page of three has a third of those that it would have alone.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from PIL import Image, UnidentifiedImageError

from medvrag_core.errors import InputError
from medvrag_core.reasoning.composition import RoundState, Stage
from medvrag_core.records import EvidenceItem
from medvrag_core.runs.publish import sha256_of, whole_file

RECIPE = "side-by-side-1"
"""How an image is made of pages; part of its name and of the fingerprint of answers."""
MAX_PIXELS = 40_000_000
"""Of one joined image at most, 120 MB while it is made; three US Letter pages at 300 dpi are 25 million."""
HEADROOM = 4
"""Pixels of a joined image for each that the model gets: at twice the sides, being resized again costs no sharpness."""


class JoinPages(Stage):
    """Puts all pages of the exhibit into one image; a text that stands for a page is joined as text.

    The item that a reader gets is named after all of its pages and holds their texts, for readers of text. A single
    page, or none, is left as it is.

    Parameters
    ----------
    folder : takes the images, each under a name made from the content of its pages
    model_pixels : most pixels of one image that the model gets; None for a reader that looks at no image, for which
        none is made
    """

    needs: ClassVar = ("exhibit",)
    makes: ClassVar = ("exhibit",)

    def __init__(self, folder: Path, model_pixels: int | None) -> None:
        self.folder = folder
        self.max_pixels = None if model_pixels is None else min(HEADROOM * model_pixels, MAX_PIXELS)
        self._writing = threading.Lock()

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`; raises InputError for a page image that is missing or cannot be read."""
        assert state.exhibit is not None
        pages = state.exhibit.evidence
        if len(pages) < 2:
            return state.made(exhibit=state.exhibit)
        name = " + ".join(page.evidence_id for page in pages)
        images = [Path(page.image) for page in pages if page.image]
        path = ""
        if self.max_pixels is not None and len(images) == len(pages):
            path = str(self._image(images, self.max_pixels))
        joined = EvidenceItem(
            evidence_id=name,
            page_id=name,
            text="\n\n".join(page.text for page in pages),
            image=path,
            stands_for=tuple(page.evidence_id for page in pages),
        )
        return state.made(exhibit=state.exhibit.model_copy(update={"evidence": (joined,)}))

    def _image(self, images: Sequence[Path], max_pixels: int) -> Path:
        for image in images:
            if not image.is_file():
                raise InputError(f"{image}: page image not found", way_out="build the corpus of this run again")
        told = "\n".join([RECIPE, str(max_pixels), *map(sha256_of, images)])
        path = self.folder / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.png"
        with self._writing:
            if not path.is_file():
                with whole_file(path) as temporary:
                    join_images(images, max_pixels).save(temporary, format="PNG", compress_level=3)
        return path


def join_images(images: Sequence[Path], max_pixels: int) -> Image.Image:
    """Images side by side, in RGB.

    Parameters
    ----------
    images : from left to right; their pixels are read one image after another
    max_pixels : cap on the row; above it all are made smaller by one factor

    Raises
    ------
    InputError : a file is no readable image
    """
    sizes = row_sizes([_size(path) for path in images], max_pixels)
    row = Image.new("RGB", (sum(width for width, _ in sizes), sizes[0][1]))
    left = 0
    for path, size in zip(images, sizes, strict=True):
        try:
            with Image.open(path) as opened:
                page = opened.convert("RGB")
        except (OSError, Image.DecompressionBombError) as error:
            raise _unreadable(path, error) from None
        row.paste(page if page.size == size else page.resize(size, Image.Resampling.BICUBIC), (left, 0))
        left += size[0]
    return row


def row_sizes(sizes: Sequence[tuple[int, int]], max_pixels: int) -> list[tuple[int, int]]:
    """Width and height of each image in the row: all as high as the highest, or lower where the row were too large.

    >>> row_sizes([(100, 200), (50, 100)], max_pixels=100_000)
    [(100, 200), (100, 200)]
    >>> row_sizes([(100, 200), (50, 100)], max_pixels=10_000)
    [(50, 100), (50, 100)]
    """
    height = max(high for _, high in sizes)
    ratios = [wide / high for wide, high in sizes]
    # Rounded down, so that the row stays within its bound.
    height = max(1, min(height, math.isqrt(int(max_pixels / sum(ratios)))))
    return [(max(1, int(ratio * height)), height) for ratio in ratios]


def _size(path: Path) -> tuple[int, int]:
    try:
        with Image.open(path) as opened:
            return opened.size
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    said = " ".join(str(error).split())[:200]
    return InputError(f"{path}: not a readable image ({said})", way_out="build the corpus of this run again")
