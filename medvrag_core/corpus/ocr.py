"""Reading text from page images: whole pages without a text layer, and figures on request.

Two engines behind one class: RapidOCR, whose models ship inside its package, and the ``tesseract``
program. Both run in the corpus child process under its limits, on one thread.
"""

from __future__ import annotations

import csv
import io
import math
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.lines import Line, PageLines, Rectangle, hull, reading_order
from medvrag_core.corpus.text import normalize
from medvrag_core.corpus.textlayer import fraction_box
from medvrag_core.errors import InputError, MedvragError

_MIN_SCORE = 0.5
_SECONDS_PER_IMAGE = 120
_CELL_GAP = 2.0  # heights of a word; words of justified prose stand closer


class OcrEngine(ABC):
    """Finds printed lines in an image."""

    @abstractmethod
    def read(self, image: NDArray[np.uint8]) -> list[Line]:
        """Lines of an RGB image, uint8 of shape (height, width, 3); rectangles are in pixels."""

    def read_files(self, images: Sequence[Path]) -> list[list[Line]]:
        """Lines of each image file, in order."""
        from PIL import Image

        return [self.read(np.asarray(Image.open(path).convert("RGB"))) for path in images]


def ocr_engine(name: str) -> OcrEngine:
    """The engine called ``name`` in the settings (``rapidocr`` or ``tesseract``)."""
    return TesseractEngine() if name == "tesseract" else RapidOcrEngine()


class RapidOcrEngine(OcrEngine):
    """RapidOCR on ONNX Runtime; pages are taken as upright, so its angle classifier stays off."""

    def __init__(self) -> None:
        from rapidocr import RapidOCR

        self._engine: Any = RapidOCR(
            params={
                "Global.use_cls": False,
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
            }
        )

    def read(self, image: NDArray[np.uint8]) -> list[Line]:
        """See :class:`OcrEngine`."""
        found = self._engine(np.ascontiguousarray(image[:, :, ::-1]))
        if found.boxes is None or found.txts is None:
            return []
        lines: list[Line] = []
        for corners, text, score in zip(found.boxes, found.txts, found.scores, strict=True):
            points = np.asarray(corners, dtype=float)
            if score >= _MIN_SCORE and text.strip() and np.isfinite(points).all():
                x0, y0 = points.min(axis=0)
                x1, y1 = points.max(axis=0)
                lines.append(line_of(text, (float(x0), float(y0), float(x1), float(y1)), block=len(lines)))
        return lines


class TesseractEngine(OcrEngine):
    """The ``tesseract`` program, called without a shell."""

    def __init__(self) -> None:
        program = shutil.which("tesseract")
        if program is None:
            raise InputError(
                "the program 'tesseract' was not found", way_out="install it or set corpus.ocr_engine to rapidocr"
            )
        self._program = program

    def read(self, image: NDArray[np.uint8]) -> list[Line]:
        """See :class:`OcrEngine`."""
        from PIL import Image

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.png"
            Image.fromarray(image).save(path)
            return self.read_files([path])[0]

    def read_files(self, images: Sequence[Path]) -> list[list[Line]]:
        """See :class:`OcrEngine`; one call of the program reads all, so that it loads its model once."""
        names = "".join(f"{path.resolve()}\n" for path in images)
        command = [self._program, "stdin", "stdout", "--psm", "3", "tsv"]
        seconds = _SECONDS_PER_IMAGE * len(images)
        try:
            done = subprocess.run(command, input=names.encode(), capture_output=True, check=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise MedvragError(f"tesseract read {len(images)} images for more than {seconds} s") from None
        except subprocess.CalledProcessError as error:
            said = normalize(error.stderr.decode("utf-8", "replace"))[-200:]
            raise MedvragError(
                f"tesseract failed ({said})", way_out="see what `tesseract IMAGE stdout` prints"
            ) from None
        return lines_of_tsv(done.stdout.decode("utf-8", "replace"), len(images))


def lines_of_tsv(table: str, pages: int = 1) -> list[list[Line]]:
    """Lines of each page from tesseract's TSV output (level 5 rows are words)."""
    words: dict[tuple[str, ...], list[tuple[str, Rectangle]]] = {}
    for row in csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE):
        if row["level"] == "5" and (row["text"] or "").strip() and float(row["conf"]) >= 100 * _MIN_SCORE:
            x, y, w, h = (float(row[name]) for name in ("left", "top", "width", "height"))
            key = (row["page_num"], row["block_num"], row["par_num"], row["line_num"])
            words.setdefault(key, []).append((row["text"].strip(), (x, y, x + w, y + h)))
    lines: list[list[Line]] = [[] for _ in range(pages)]
    numbers: dict[tuple[str, ...], int] = {}
    for where, own in words.items():
        block = numbers.setdefault(where[:3], len(numbers))
        for cell in _cells(own):
            box = hull([box for _, box in cell])
            line = Line(" ".join(t for t, _ in cell), box, block, size=box[3] - box[1], words=tuple(cell))
            lines[int(where[0]) - 1].append(line)
    return lines


def _cells(row: Sequence[tuple[str, Rectangle]]) -> list[list[tuple[str, Rectangle]]]:
    """Words of a row cut where the white between them is wide: tesseract runs on over the cells of a table."""
    gap = _CELL_GAP * median(box[3] - box[1] for _, box in row)
    cells = [[row[0]]]
    for left, right in pairwise(row):
        if right[1][0] - left[1][2] > gap:
            cells.append([])
        cells[-1].append(right)
    return cells


def line_of(text: str, box: Rectangle, block: int) -> Line:
    """A line whose words share its box in proportion to their characters.

    >>> [(word, round(b[0]), round(b[2])) for word, b in line_of("dose 5 mg", (0.0, 0.0, 90.0, 10.0), 0).words]
    [('dose', 0, 40), ('5', 50, 60), ('mg', 70, 90)]
    """
    text = " ".join(text.split())
    step = (box[2] - box[0]) / max(len(text), 1)
    words, at = [], 0
    for word in text.split():
        left = box[0] + at * step
        words.append((word, (left, box[1], left + len(word) * step, box[3])))
        at += len(word) + 1
    return Line(text, box, block, size=box[3] - box[1], words=tuple(words))


def scaled(line: Line, factor: float, dx: float = 0.0, dy: float = 0.0, block: int | None = None) -> Line:
    """``line`` with all rectangles multiplied by ``factor`` and moved; for pixels to points."""

    def move(box: Rectangle) -> Rectangle:
        return (box[0] * factor + dx, box[1] * factor + dy, box[2] * factor + dx, box[3] * factor + dy)

    words = tuple((text, move(box)) for text, box in line.words)
    number = line.block if block is None else block
    return Line(line.text, move(line.box), number, line.size * factor, line.bold, words)


def page_of(found: Sequence[Line], width: float, height: float) -> PageLines:
    """Lines found on an image as a page of that size, in reading order; all in one unit of length."""
    lines = tuple(merge_paragraphs(reading_order(found, width)))
    return PageLines(lines, (0.0, 0.0, width, height), lambda box: fraction_box(box, width, height))


def merge_paragraphs(lines: list[Line]) -> list[Line]:
    """Give neighboring lines of one column and size one block number, as text layers have it."""
    out: list[Line] = []
    for line in lines:
        if out:
            last = out[-1]
            height = last.box[3] - last.box[1]
            below = -0.3 * height <= line.box[1] - last.box[3] <= 0.9 * height
            beside = min(line.box[2], last.box[2]) - max(line.box[0], last.box[0]) > 0.5 * min(line.width, last.width)
            if below and beside and math.isclose(line.size, last.size, rel_tol=0.35):
                out.append(scaled(line, 1.0, block=last.block))
                continue
        out.append(scaled(line, 1.0, block=out[-1].block + 1 if out else 0))
    return out
