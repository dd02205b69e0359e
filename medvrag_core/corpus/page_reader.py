"""Pages of an opened document: image, text and words of each, stored in the folder of the job."""

from __future__ import annotations

import errno
import hashlib
import io
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.front_matter import front_matter
from medvrag_core.corpus.hidden import CAUSES, split_hidden
from medvrag_core.corpus.job import BLANK, MIN_SIDE, Job, Message, Note, RenderedPage
from medvrag_core.corpus.lines import Line, PageLines, reading_order, words_of
from medvrag_core.corpus.opened import OpenedDocument, OpenedPage
from medvrag_core.corpus.regions import find_regions, page_text
from medvrag_core.corpus.text import is_garbled, normalize, readable_characters, vocabulary_of
from medvrag_core.corpus.textlayer import fraction_box
from medvrag_core.records import Page, PageLayout, Region, TextSource, Word

_MAX_SIDE = 30_000
_LONGEST_WEBP = 16_383  # more does not fit the format
_SUFFIXES = {"jpeg": "jpg", "png": "png", "webp": "webp"}
_MAX_OCR_PIXELS = 6_000_000
_FEW_CHARACTERS = 50
_SORTABLE_LINES = 4_000
_FIGURES_READ = 4
_NOTHING = "nothing is printed on the page"
_GLANCE = 16  # every so many-th row and column of a page tell at once of most that something is printed
_FIGURE_SHARE = 0.03


class Engines:
    """OCR engines by name, loaded once a page needs one."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def read(self, name: str, image: NDArray[np.uint8]) -> list[Line]:
        """Lines on ``image`` (uint8, height x width x 3), in its pixels."""
        from medvrag_core.corpus.ocr import ocr_engine

        if name not in self._loaded:
            self._loaded[name] = ocr_engine(name)
        return list(self._loaded[name].read(image))


class PageReader:
    """Renders the pages of one file and reads their text."""

    def __init__(self, job: Job, say: Callable[[Message], None], engines: Engines) -> None:
        self.job, self.settings, self._say, self._engines = job, job.settings, say, engines

    def read(self, document: OpenedDocument, number: int) -> Message:
        """Store one page and tell what became of it; a bad page is a message, not an error."""
        try:
            page = document.page(number)
            try:
                return self._read(document, page, number)
            finally:
                page.close()
        except MemoryError:
            notes = Note(state="dropped", reason="memory_limit", detail=f"more than {self.settings.memory_mb} MB")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            notes = Note(state="dropped", reason="damaged", detail=words_of_error(error))
        except Exception as error:
            memory = "malloc" in str(error) or ("alloc" in str(error) and "fail" in str(error))
            notes = Note(state="dropped", reason="memory_limit" if memory else "damaged", detail=words_of_error(error))
        return Message(event="page", number=number, notes=(notes,))

    def _read(self, document: OpenedDocument, page: OpenedPage, number: int) -> Message:
        longest = _LONGEST_WEBP if self.settings.image_format == "webp" else _MAX_SIDE
        dpi = capped_dpi(page.width, page.height, self.settings.dpi, self.settings.max_pixels, longest)
        pixels = page.render(dpi)
        high, wide = pixels.shape[:2]
        notes = []
        if dpi < self.settings.dpi:
            size = f"{page.width:.0f} x {page.height:.0f} pt"
            text = f"{size} rendered at {dpi:.1f} instead of {self.settings.dpi} dpi"
            notes.append(Note(state="changed", reason="pixel_cap", detail=text))
        size = f"{wide} x {high} pixels"
        if min(wide, high) < MIN_SIDE:
            return self._dropped(number, "degenerate_render", f"rendered as {size}")
        blank = _is_unicolor(pixels)
        if blank and self.settings.blank_pages == "leave_out":
            return self._dropped(number, BLANK, _NOTHING)
        if blank:
            notes.append(Note(state="changed", reason=BLANK, detail=_NOTHING))

        lines, source, more = self._lines(page, number, pixels, ocr=not blank)
        notes += more
        vocabulary = vocabulary_of(word for line in lines.lines for word, _ in line.words)
        regions = tuple(find_regions(lines, vocabulary))
        words = words_of(lines)
        if self.settings.ocr_figures and self.settings.ocr == "auto" and source == "pdf":
            figure_words, regions = self._read_figures(page, number, regions)
            words += figure_words
        image = f"images/p{number:04d}.{_SUFFIXES[self.settings.image_format]}"
        page_id = f"{self.job.article_id}#p{number}"
        rendered = RenderedPage(
            page=Page(
                page_id=page_id,
                article_id=self.job.article_id,
                number=number,
                width_pt=round(page.width, 3),
                height_pt=round(page.height, 3),
                image=f"{self.job.image_prefix}/{image}",
                image_width=wide,
                image_height=high,
                dpi=round(dpi, 3),
                rotation=page.rotation,
                text_source=source,
                text=page_text(regions),
            ),
            image_sha256=self._save_image(pixels, Path(self.job.folder) / image),
            layout=PageLayout(page_id=page_id, words=words, regions=regions),
        )
        (Path(self.job.folder) / f"p{number:04d}.json").write_text(rendered.to_json(), encoding="utf-8")
        front = front_matter(document.metadata, lines) if number == 1 else None
        how = {"pdf": "text_layer", "ocr": "ocr", "none": "no_text"}[source]
        notes.append(Note(state="kept", reason=how, detail=f"{size}, {len(rendered.layout.words)} words"))
        return Message(event="page", number=number, notes=tuple(notes), front=front)

    @staticmethod
    def _dropped(number: int, reason: str, detail: str) -> Message:
        return Message(event="page", number=number, notes=(Note(state="dropped", reason=reason, detail=detail),))

    def _save_image(self, pixels: NDArray[np.uint8], path: Path) -> str:
        from PIL import Image

        image, stored = Image.frombuffer("RGB", (pixels.shape[1], pixels.shape[0]), pixels), io.BytesIO()
        if self.settings.image_format == "png":
            image.save(stored, "PNG", compress_level=3)
        else:
            image.save(stored, self.settings.image_format.upper(), quality=self.settings.jpeg_quality)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(stored.getbuffer())
        return hashlib.sha256(stored.getbuffer()).hexdigest()

    # --- text ---------------------------------------------------------------------------

    def _lines(
        self, page: OpenedPage, number: int, pixels: NDArray[np.uint8], *, ocr: bool
    ) -> tuple[PageLines, TextSource, list[Note]]:
        layer = page.text_layer()
        notes: list[Note] = []
        if self.settings.ocr == "always":
            layer = PageLines((), layer.frame, layer.to_page)
        else:
            shown, hidden = split_hidden(layer, pixels)
            if hidden:
                notes.append(_hidden_note(hidden, self.settings.hidden_text))
            if self.settings.hidden_text == "leave_out":
                layer = shown
        text = " ".join(line.text for line in layer.lines)
        found = readable_characters(text)
        if ocr and self.settings.ocr != "off" and self._wants_ocr(layer, text):
            if number in self.job.no_ocr:
                notes.append(Note(state="changed", reason="ocr_failed", detail="OCR hit a limit and was left out"))
            else:
                self._say(Message(event="ocr", number=number))
                read = self._ocr_page(page)
                if is_garbled(text) or readable_characters(" ".join(x.text for x in read.lines)) > found:
                    return read, "ocr", notes
        if found == 0:
            return PageLines((), layer.frame, layer.to_page, layer.drawings), "none", notes
        lines = list(layer.lines)
        order = reading_order(lines, layer.width) if len(lines) <= _SORTABLE_LINES else lines
        return PageLines(tuple(order), layer.frame, layer.to_page, layer.drawings), "pdf", notes

    @staticmethod
    def _wants_ocr(layer: PageLines, text: str) -> bool:
        if is_garbled(text) or readable_characters(text) == 0:
            return True
        area = layer.width * layer.height
        images = sum((b[2] - b[0]) * (b[3] - b[1]) for kind, b in layer.drawings if kind.endswith("image"))
        return readable_characters(text) < _FEW_CHARACTERS and images > 0.25 * area

    def _ocr_page(self, page: OpenedPage) -> PageLines:
        from medvrag_core.corpus.ocr import page_of, scaled

        width, height = page.width, page.height
        dpi = capped_dpi(width, height, self.settings.ocr_dpi, _MAX_OCR_PIXELS)
        found = [scaled(line, 72 / dpi) for line in self._ocr(page.render(dpi))]
        return page_of(found, width, height)

    def _read_figures(
        self, page: OpenedPage, number: int, regions: tuple[Region, ...]
    ) -> tuple[tuple[Word, ...], tuple[Region, ...]]:
        """Read the largest figures that hold no text of their own: their words, and the regions with their text."""
        from medvrag_core.corpus.ocr import scaled

        def share(region: Region) -> float:
            return (region.box[2] - region.box[0]) * (region.box[3] - region.box[1])

        silent = [r for r in regions if r.kind == "figure" and len(r.text.split()) < 5 and share(r) >= _FIGURE_SHARE]
        width, height = page.width, page.height
        words: list[Line] = []
        read: dict[int, Region] = {}
        for region in sorted(silent, key=share, reverse=True)[:_FIGURES_READ]:
            if number in self.job.no_ocr:
                break
            self._say(Message(event="ocr", number=number))
            x, y = region.box[0] * width, region.box[1] * height
            clip = (x, y, region.box[2] * width, region.box[3] * height)
            dpi = capped_dpi(clip[2] - x, clip[3] - y, self.settings.ocr_dpi, _MAX_OCR_PIXELS)
            found = [scaled(line, 72 / dpi, x, y) for line in self._ocr(page.render(dpi, clip))]
            found = [line for line in found if readable_characters(line.text) > 0]
            if found:
                words += found
                text = " ".join(normalize(line.text) for line in reading_order(found, width))
                read[id(region)] = Region(kind="figure", box=region.box, text=text)
        displayed = PageLines(tuple(words), (0.0, 0.0, width, height), lambda box: fraction_box(box, width, height))
        return words_of(displayed), tuple(read.get(id(region), region) for region in regions)

    def _ocr(self, pixels: NDArray[np.uint8]) -> list[Line]:
        return self._engines.read(self.settings.ocr_engine, pixels)


def _is_unicolor(pixels: NDArray[np.uint8]) -> bool:
    """Looks at no more of a page than it must."""
    if (pixels[::_GLANCE, ::_GLANCE] != pixels[0, 0]).any():
        return False
    strips = (pixels[top : top + 64] for top in range(0, len(pixels), 64))
    return all((strip == pixels[0, 0]).all() for strip in strips)


def _hidden_note(hidden: Counter[str], setting: str) -> Note:
    causes = ", ".join(f"{hidden[cause]} {words}" for cause, words in CAUSES.items() if hidden[cause])
    what = "kept in the text" if setting == "keep" else "left out of the text"
    return Note(state="changed", reason="hidden_text", detail=f"{hidden.total()} words {what}: {causes}")


def capped_dpi(width_pt: float, height_pt: float, dpi: float, max_pixels: int, max_side: int = _MAX_SIDE) -> float:
    """The resolution at which a page stays within ``max_pixels`` and ``max_side`` pixels a side.

    Known before anything is allocated (BC-33).

    >>> round(capped_dpi(3421, 1890, 300, 20_000_000), 1)
    126.6
    >>> capped_dpi(612, 792, 300, 20_000_000)
    300
    """
    if not (math.isfinite(width_pt) and math.isfinite(height_pt)):
        raise ValueError(f"page size {width_pt} x {height_pt} pt is not a size")
    wide, high = width_pt * dpi / 72 + 1, height_pt * dpi / 72 + 1
    shrink = min(1.0, math.sqrt(max_pixels / (wide * high)), max_side / max(wide, high))
    if shrink == 1.0:
        return dpi
    dpi *= shrink
    # The renderer rounds both sides up, which can put a page a row over the cap.
    while math.ceil(width_pt * dpi / 72) * math.ceil(height_pt * dpi / 72) > max_pixels and dpi > 1:
        dpi *= 0.9995
    return dpi


def words_of_error(error: Exception) -> str:
    """What went wrong, in one short line."""
    return normalize(f"{type(error).__name__}: {error}")[:200]
