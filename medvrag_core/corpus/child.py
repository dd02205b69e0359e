"""The only process that opens PDF files: ``python -m medvrag_core.corpus.child``, one file, then exit.

Reads a :class:`~medvrag_core.corpus.job.Job` as JSON from standard input, sets its own limits,
writes page files into the job's folder and one JSON line a page to standard output. Whatever a
hostile file does here (hang, exhaust memory, abort), the parent lives and goes on. Scripts and
attachments inside a PDF are never touched.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.hidden import CAUSES, split_hidden
from medvrag_core.corpus.job import MIN_SIDE, FrontMatter, Job, Message, Note, RenderedPage
from medvrag_core.corpus.lines import Line, PageLines, reading_order, words_of
from medvrag_core.corpus.regions import find_regions, page_text
from medvrag_core.corpus.text import is_garbled, join_lines, normalize, readable_characters, vocabulary_of
from medvrag_core.corpus.textlayer import fraction_box, read_text_layer
from medvrag_core.records import Page, PageLayout, Region, TextSource, Word

_MAX_FILE = 512 << 20
_MAX_SIDE = 30_000
_LONGEST_WEBP = 16_383  # more does not fit the format
_SUFFIXES = {"jpeg": "jpg", "png": "png", "webp": "webp"}
_MAX_OCR_PIXELS = 6_000_000
_FEW_CHARACTERS = 50
_SORTABLE_LINES = 4_000
_FIGURES_READ = 4
_FIGURE_SHARE = 0.03


def main() -> int:
    """Serve one job; the exit code is 0 whenever the story of the file was told to its end."""
    out = _private_stdout()
    job = Job.from_json(sys.stdin.buffer.read(), source="job")
    _limit_process(job.settings.memory_mb)
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    _say(out, Message(event="ready"))
    try:
        _render_file(job, out)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _say(out, Message(event="disk"))
    return 0


def _render_file(job: Job, out: TextIO) -> None:
    document = _open(job, out)
    if document is None:
        return
    pages = document.page_count
    notes = [Note(state="changed", reason="repaired", detail="damaged file, read after repair")]
    _say(out, Message(event="opened", pages=pages, notes=tuple(notes) if document.is_repaired else ()))
    reader = _PageReader(job, out)
    for number in range(job.first_page, min(pages, job.settings.max_pages) + 1):
        _limit_cpu(job.settings.seconds_per_page)
        _say(out, reader.read(document, number))
    _say(out, Message(event="done"))


def _open(job: Job, out: TextIO) -> Any:
    """The opened document, or None after a ``refused`` message."""
    import pymupdf

    def refuse(reason: str, detail: str) -> None:
        _say(out, Message(event="refused", notes=(Note(state="dropped", reason=reason, detail=detail),)))

    with Path(job.path).open("rb") as handle:
        head = handle.read(1024)
    if b"%PDF-" not in head:
        what = "an HTML page" if b"<html" in head.lower() or b"<!doctype html" in head.lower() else "no PDF header"
        return refuse("not_a_pdf", "the file is empty" if not head else f"{what} in the first 1,024 bytes")
    try:
        document = pymupdf.open(job.path, filetype="pdf")
        if document.needs_pass and not document.authenticate(""):
            return refuse("encrypted", "needs a password")
        if document.page_count < 1:
            return refuse("no_pages", "no page can be found" + (" after repair" if document.is_repaired else ""))
        return document
    except MemoryError:
        return refuse("memory_limit", f"opening needs more than {job.settings.memory_mb} MB")
    except OSError:
        raise
    except Exception as error:
        return refuse("damaged", _words(error))


class _PageReader:
    """Renders pages and reads their text; holds the OCR engine once a page needed it."""

    def __init__(self, job: Job, out: TextIO) -> None:
        self.job, self.settings, self.out = job, job.settings, out
        self._engine: Any = None

    def read(self, document: Any, number: int) -> Message:
        """Store one page and tell what became of it; a bad page is a message, not an error."""
        import pymupdf

        try:
            return self._read(document, number)
        except MemoryError:
            notes = Note(state="dropped", reason="memory_limit", detail=f"more than {self.settings.memory_mb} MB")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            notes = Note(state="dropped", reason="damaged", detail=_words(error))
        except Exception as error:
            memory = "malloc" in str(error) or ("alloc" in str(error) and "fail" in str(error))
            notes = Note(state="dropped", reason="memory_limit" if memory else "damaged", detail=_words(error))
        finally:
            pymupdf.TOOLS.store_shrink(100)
        return Message(event="page", number=number, notes=(notes,))

    def _read(self, document: Any, number: int) -> Message:
        page = document.load_page(number - 1)
        longest = _LONGEST_WEBP if self.settings.image_format == "webp" else _MAX_SIDE
        dpi = capped_dpi(page.rect.width, page.rect.height, self.settings.dpi, self.settings.max_pixels, longest)
        pixels = page.get_pixmap(dpi=None, matrix=_zoom(dpi), alpha=False)
        notes = []
        if dpi < self.settings.dpi:
            size = f"{page.rect.width:.0f} x {page.rect.height:.0f} pt"
            text = f"{size} rendered at {dpi:.1f} instead of {self.settings.dpi} dpi"
            notes.append(Note(state="changed", reason="pixel_cap", detail=text))
        size = f"{pixels.width} x {pixels.height} pixels"
        if min(pixels.width, pixels.height) < MIN_SIDE:
            return self._dropped(number, "degenerate_render", f"rendered as {size}")
        if pixels.is_unicolor:
            return self._dropped(number, "blank_page", "nothing is printed on the page")

        lines, source, more = self._lines(page, number, pixels)
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
                width_pt=round(page.rect.width, 3),
                height_pt=round(page.rect.height, 3),
                image=f"{self.job.image_prefix}/{image}",
                image_width=pixels.width,
                image_height=pixels.height,
                dpi=round(dpi, 3),
                text_source=source,
                text=page_text(regions),
            ),
            image_sha256=self._save_image(pixels, Path(self.job.folder) / image),
            layout=PageLayout(page_id=page_id, words=words, regions=regions),
        )
        (Path(self.job.folder) / f"p{number:04d}.json").write_text(rendered.to_json(), encoding="utf-8")
        front = front_matter(document.metadata or {}, lines) if number == 1 else None
        how = {"pdf": "text_layer", "ocr": "ocr", "none": "no_text"}[source]
        notes.append(Note(state="kept", reason=how, detail=f"{size}, {len(rendered.layout.words)} words"))
        return Message(event="page", number=number, notes=tuple(notes), front=front)

    @staticmethod
    def _dropped(number: int, reason: str, detail: str) -> Message:
        return Message(event="page", number=number, notes=(Note(state="dropped", reason=reason, detail=detail),))

    def _save_image(self, pixels: Any, path: Path) -> str:
        from PIL import Image

        path.parent.mkdir(exist_ok=True)
        image = Image.frombuffer("RGB", (pixels.width, pixels.height), pixels.samples)
        if self.settings.image_format == "png":
            image.save(path, compress_level=3)
        else:
            image.save(path, self.settings.image_format.upper(), quality=self.settings.jpeg_quality)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    # --- text ---------------------------------------------------------------------------

    def _lines(self, page: Any, number: int, pixels: Any) -> tuple[PageLines, TextSource, list[Note]]:
        layer = read_text_layer(page)
        notes: list[Note] = []
        if self.settings.ocr == "always":
            layer = PageLines((), layer.frame, layer.to_page)
        else:
            shown, hidden = split_hidden(layer, _array(pixels))
            if hidden:
                notes.append(_hidden_note(hidden, self.settings.hidden_text))
            if self.settings.hidden_text == "leave_out":
                layer = shown
        text = " ".join(line.text for line in layer.lines)
        found = readable_characters(text)
        if self.settings.ocr != "off" and self._wants_ocr(layer, text):
            if number in self.job.no_ocr:
                notes.append(Note(state="changed", reason="ocr_failed", detail="OCR hit a limit and was left out"))
            else:
                _say(self.out, Message(event="ocr", number=number))
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

    def _ocr_page(self, page: Any) -> PageLines:
        from medvrag_core.corpus.ocr import page_of, scaled

        width, height = page.rect.width, page.rect.height
        dpi = capped_dpi(width, height, self.settings.ocr_dpi, _MAX_OCR_PIXELS)
        found = [scaled(line, 72 / dpi) for line in self._ocr(page.get_pixmap(matrix=_zoom(dpi), alpha=False))]
        return page_of(found, width, height)

    def _read_figures(
        self, page: Any, number: int, regions: tuple[Region, ...]
    ) -> tuple[tuple[Word, ...], tuple[Region, ...]]:
        """Read the largest figures that hold no text of their own: their words, and the regions with their text."""
        import pymupdf

        from medvrag_core.corpus.ocr import scaled

        def share(region: Region) -> float:
            return (region.box[2] - region.box[0]) * (region.box[3] - region.box[1])

        silent = [r for r in regions if r.kind == "figure" and len(r.text.split()) < 5 and share(r) >= _FIGURE_SHARE]
        width, height = page.rect.width, page.rect.height
        words: list[Line] = []
        read: dict[int, Region] = {}
        for region in sorted(silent, key=share, reverse=True)[:_FIGURES_READ]:
            if number in self.job.no_ocr:
                break
            _say(self.out, Message(event="ocr", number=number))
            x, y = region.box[0] * width, region.box[1] * height
            clip = pymupdf.Rect(x, y, region.box[2] * width, region.box[3] * height)
            dpi = capped_dpi(clip.width, clip.height, self.settings.ocr_dpi, _MAX_OCR_PIXELS)
            pixels = page.get_pixmap(matrix=_zoom(dpi), clip=clip, alpha=False)
            found = [scaled(line, 72 / dpi, x, y) for line in self._ocr(pixels)]
            found = [line for line in found if readable_characters(line.text) > 0]
            if found:
                words += found
                text = " ".join(normalize(line.text) for line in reading_order(found, width))
                read[id(region)] = Region(kind="figure", box=region.box, text=text)
        displayed = PageLines(tuple(words), (0.0, 0.0, width, height), lambda box: fraction_box(box, width, height))
        return words_of(displayed), tuple(read.get(id(region), region) for region in regions)

    def _ocr(self, pixels: Any) -> list[Line]:
        from medvrag_core.corpus.ocr import ocr_engine

        if self._engine is None:
            self._engine = ocr_engine(self.settings.ocr_engine)
        return list(self._engine.read(_array(pixels)))


def _array(pixels: Any) -> NDArray[np.uint8]:
    """Pixels as uint8 of shape (height, width, 3), not copied."""
    return np.frombuffer(pixels.samples_mv, dtype=np.uint8).reshape(pixels.height, pixels.width, 3)


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


def front_matter(metadata: dict[str, Any], page: PageLines) -> FrontMatter:
    """Title and identifiers from the first page, its metadata title only if the page shows it too."""
    text = normalize(" ".join(line.text for line in page.lines))
    title = normalize(str(metadata.get("title") or ""))
    shown = vocabulary_of(text.split())
    words = [word.strip(".,;:()").lower() for word in title.split()]
    if len(words) < 3 or sum(word in shown for word in words) < 0.8 * len(words):
        title = _largest_text(page)
    doi = re.search(r"\b10\.\d{4,9}/[-._;()/:A-Za-z0-9]+", f"{metadata.get('subject') or ''} {text}")
    pmid = re.search(r"\bPMID:?\s*(\d{4,9})\b", text)
    licence = re.search(r"creativecommons\.org/licenses/([a-z-]+)/(\d\.\d)", text.replace(" ", ""))
    return FrontMatter(
        title=title[:400],
        doi=doi.group().rstrip(".;:)(").lower() if doi else "",
        pmid=pmid.group(1) if pmid else "",
        licence=f"CC {licence.group(1).upper()} {licence.group(2)}" if licence else "",
    )


def _largest_text(page: PageLines) -> str:
    top = [x for x in page.lines if x.box[1] - page.frame[1] < 0.6 * page.height and len(x.text.strip()) > 3]
    for size in sorted({round(line.size, 1) for line in top}, reverse=True):
        title = join_lines([line.text for line in top if abs(line.size - size) < 0.6])
        if len(title.split()) >= 4:
            return title
    return ""


# --- process ----------------------------------------------------------------------------


def _private_stdout() -> TextIO:
    """Keep the real standard output for messages; libraries that print reach nothing."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return own


def _say(out: TextIO, message: Message) -> None:
    out.write(message.to_json() + "\n")
    out.flush()


def _limit_process(memory_mb: int) -> None:
    """Address space, core and file size, where the system knows them."""
    try:
        import resource
    except ImportError:
        return
    for name, value in (("RLIMIT_AS", memory_mb << 20), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", _MAX_FILE)):
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, ValueError, OSError):
            continue  # macOS knows the names but refuses some values


def _limit_cpu(seconds: float) -> None:
    """Let processor time run out some time after the parent's watchdog, in case the parent is gone."""
    try:
        import resource

        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + 8 * seconds + 60), hard))
    except (ImportError, ValueError, OSError):
        return


def _zoom(dpi: float) -> Any:
    import pymupdf

    return pymupdf.Matrix(dpi / 72, dpi / 72)


def _words(error: Exception) -> str:
    return normalize(f"{type(error).__name__}: {error}")[:200]


if __name__ == "__main__":
    sys.exit(main())
