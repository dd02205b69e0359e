"""Texts set as page images, the way VisRAG renders text collections (its Table 13).

800 pixels wide, 24 pixel DejaVu Sans in one column, as high as the text needs. VisRAG's public code has no renderer,
so what its paper leaves open is decided here: lines break between words, a paragraph starts after one empty line, and
all of it is black on white.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from medvrag_core.corpus.lines import Line
from medvrag_core.errors import InputError
from medvrag_core.settings import StageSettings

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont


class TypesetSettings(StageSettings):
    """How a text is set; all lengths in pixels. The defaults are those of VisRAG's Table 13."""

    width: int = Field(800, ge=100, description="of the page; its height is what the text needs")
    font: str = Field("DejaVuSans.ttf", description="file name of a TrueType font")
    font_folder: str = Field("", description="where it lies; empty: anywhere among the fonts of the system")
    font_size: int = Field(24, ge=6)
    margin: int = Field(20, ge=0, description="white on all four sides")
    spacing: int = Field(4, ge=0, description="white between two lines")
    max_pixels: int = Field(20_000_000, description="of one page")


@dataclass(frozen=True)
class TypesetPage:
    """A text as it was printed.

    Attributes
    ----------
    image : 8-bit gray, black on white
    lines : printed lines from top to bottom with their words, rectangles in pixels; ``block`` is the number of the
        paragraph
    """

    image: Image
    lines: tuple[Line, ...]


def typeset(paragraphs: Sequence[str], settings: TypesetSettings) -> TypesetPage:
    """Print paragraphs on one page; white space within a paragraph only parts words, a line break starts another.

    A word that is wider than a line is broken where the line ends, and its parts are words of their own.

    Raises
    ------
    InputError : there is no such font, or the page would have more than ``max_pixels``
    """
    from PIL import Image, ImageDraw

    font = _font(settings.font_folder, settings.font, settings.font_size)
    ascent, descent = font.getmetrics()
    space = font.getlength(" ")
    room = settings.width - 2 * settings.margin
    pitch = ascent + descent + settings.spacing
    lines: list[Line] = []
    top = settings.margin
    given = [part for paragraph in paragraphs for part in paragraph.splitlines() if part.split()]
    for block, paragraph in enumerate(given):
        top += pitch if block else 0
        for row in _rows(paragraph.split(), font.getlength, space, room):
            words, x = [], float(settings.margin)
            for text, width in row:
                words.append((text, (round(x), float(top), round(x) + width, float(top + ascent + descent))))
                x += width + space
            box = (words[0][1][0], words[0][1][1], words[-1][1][2], words[0][1][3])
            lines.append(Line(" ".join(text for text, _ in row), box, block, settings.font_size, words=tuple(words)))
            top += pitch
    height = max(top - settings.spacing, settings.margin + ascent + descent) + settings.margin
    if settings.width * height > settings.max_pixels:
        raise InputError(
            f"a page of {settings.width} x {height} pixels is above the cap of {settings.max_pixels}",
            way_out="cut the text, or raise max_pixels",
        )
    image = Image.new("L", (settings.width, height), 255)
    draw = ImageDraw.Draw(image)
    for line in lines:
        for text, word_box in line.words:
            draw.text(word_box[:2], text, font=font, fill=0)
    return TypesetPage(image, tuple(lines))


def _rows(
    words: Sequence[str], length: Callable[[str], float], space: float, room: float
) -> list[list[tuple[str, float]]]:
    """Words with their widths, line by line."""
    rows: list[list[tuple[str, float]]] = []
    x = 0.0
    for word in words:
        for part, width in _parts(word, length, room):
            if not rows or x + space + width > room:
                rows.append([])
                x = -space
            rows[-1].append((part, width))
            x += space + width
    return rows


def _parts(word: str, length: Callable[[str], float], room: float) -> list[tuple[str, float]]:
    """A word with its width, or its parts where it is wider than a line; at least one character a part."""
    parts = []
    while (width := length(word)) > room and len(word) > 1:
        fitting = max(1, int(len(word) * room / width))
        while fitting > 1 and length(word[:fitting]) > room:
            fitting -= 1
        while fitting < len(word) - 1 and length(word[: fitting + 1]) <= room:
            fitting += 1
        parts.append((word[:fitting], length(word[:fitting])))
        word = word[fitting:]
    return [*parts, (word, width)]


@lru_cache(maxsize=4)
def _font(folder: str, name: str, size: int) -> FreeTypeFont:
    from PIL import ImageFont

    try:
        # The basic layout is part of every Pillow; the other one needs a library that not every system has.
        return ImageFont.truetype(str(Path(folder) / name), size, layout_engine=ImageFont.Layout.BASIC)
    except OSError:
        raise InputError(
            f"the font {name} is not {f'in {folder}' if folder else 'among the fonts of this system'}",
            way_out="install it (Debian: fonts-dejavu-core), or name the folder that holds it",
        ) from None
