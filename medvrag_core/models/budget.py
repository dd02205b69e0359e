"""Which page images fit into one prompt, and at which size; a page is sent whole or not at all (case BC-39)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from medvrag_core.models.base import PageImage
from medvrag_core.models.image_tokens import MARKS, TILE, image_tokens
from medvrag_core.models.outcomes import CallError
from medvrag_core.settings import ModelSettings

Overflow = Literal["drop_pages", "scale_pages", "refuse"]
Cost = Callable[[int, int], int]
"""Width and height in pixels -> visual tokens, the two marks around an image not counted."""

FLOOR_PIXELS = 401_408
"""No page is made smaller than this: 512 visual tokens, about 65 dpi for a US Letter page."""

_STEPS = 100


@dataclass(frozen=True)
class Room:
    """What one prompt may hold.

    Attributes
    ----------
    context : tokens of prompt and reply together
    reserve : tokens kept for the reply
    text : tokens of all text in the prompt
    images : most images in one prompt
    """

    context: int
    reserve: int
    text: int
    images: int

    @property
    def tokens(self) -> int:
        """Left for images; negative when the text alone is too long."""
        return self.context - self.reserve - self.text


@dataclass(frozen=True)
class Fit:
    """Images to send, best rank first, each with its visual tokens.

    ``dropped`` counts pages left out; ``factor`` is the share of its pixels that each larger page kept.
    """

    images: tuple[PageImage, ...]
    tokens: tuple[int, ...]
    dropped: int = 0
    factor: float = 1.0


def page_cost(settings: ModelSettings) -> Cost:
    """Tokens of a page image under the pixel limits of a model."""
    return partial(image_tokens, max_pixels=settings.max_pixels, min_pixels=settings.min_pixels)


def fit_images(images: Sequence[PageImage], room: Room, cost: Cost, overflow: Overflow) -> Fit:
    """Choose the images of one prompt.

    Parameters
    ----------
    images : best rank first, at the size wanted
    overflow : what gives way. ``drop_pages``: the lowest-ranked pages, until the rest fits. ``scale_pages``: pixels,
        by one factor for all pages, none below :data:`FLOOR_PIXELS` (a page that is smaller by itself stays as it
        is); where that is not enough, the lowest-ranked pages. ``refuse``: nothing. The limit on the number of images
        can only be met by leaving pages out.

    Raises
    ------
    CallError
        Of kind ``rejected``, with the numbers and the settings behind them: the text alone does not fit, no single
        page fits beside it, or ``refuse`` was chosen and not all pages fit.
    """
    if room.tokens < 0:
        raise CallError("rejected", f"the text of the prompt does not fit: {_numbers(room)}", way_out=_LESS_TEXT)
    whole = _sum(images, cost)
    if len(images) <= room.images and whole <= room.tokens:
        return Fit(tuple(images), tuple(cost(i.width, i.height) for i in images))
    if overflow == "refuse":
        raise CallError(
            "rejected",
            f"{len(images)} page images of {whole} tokens do not fit: {_numbers(room)}, {room.images} images at most",
            way_out=_LESS_IMAGES,
        )
    for count in range(min(len(images), room.images), 0, -1):
        for factor in _factors(images[:count]) if overflow == "scale_pages" else (1.0,):
            sent = tuple(scaled(image, factor) for image in images[:count])
            if _sum(sent, cost) <= room.tokens:
                tokens = tuple(cost(image.width, image.height) for image in sent)
                return Fit(sent, tokens, len(images) - count, factor)
    raise CallError(
        "rejected",
        f"not even the first of {len(images)} page images fits: {_numbers(room)}, {room.images} images at most",
        way_out=_LESS_IMAGES,
    )


def scaled(image: PageImage, factor: float) -> PageImage:
    """The image with ``factor`` of its pixels, sides in whole tiles; one that is at the floor stays as it is.

    >>> from pathlib import Path
    >>> scaled(PageImage(path=Path("p.jpg"), width=1120, height=1400), 0.25)
    PageImage(path=PosixPath('p.jpg'), width=560, height=700)
    """
    if factor >= 1.0 or _pixels(image) <= FLOOR_PIXELS:
        return image
    side = math.sqrt(factor) / TILE
    # Rounded up, so that cutting to whole tiles cannot bring a page below the floor.
    width, height = (TILE * math.ceil(length * side) for length in (image.width, image.height))
    return image.model_copy(update={"width": min(width, image.width), "height": min(height, image.height)})


def _factors(images: Sequence[PageImage]) -> list[float]:
    """1.00, 0.99, ... down to the least factor that keeps every page at or above the floor."""
    least = max((FLOOR_PIXELS / _pixels(i) for i in images if _pixels(i) > FLOOR_PIXELS), default=1.0)
    return [step / _STEPS for step in range(_STEPS, 0, -1) if step / _STEPS >= least]


def _sum(images: Sequence[PageImage], cost: Cost) -> int:
    return sum(cost(image.width, image.height) + MARKS for image in images)


def _pixels(image: PageImage) -> int:
    return image.width * image.height


def _numbers(room: Room) -> str:
    free = f"{max(room.tokens, 0)} tokens are free for images"
    return f"{free} (context {room.context} - reply {room.reserve} - text {room.text})"


_LESS_TEXT = (
    "raise 'reader_model.context_tokens', or lower 'loop.summaries_shown' or 'reader_model.max_tokens'; "
    "text is never cut"
)
_LESS_IMAGES = (
    "raise 'reader_model.context_tokens' or 'reader_model.max_images' as far as the server goes, lower "
    "'loop.pages_shown' or 'reader_model.max_pixels', or let 'loop.overflow' be drop_pages or scale_pages"
)
