"""Pages a second a core of a corpus build beside plain PyMuPDF in one process, on the same files.

    python benchmarks/rendering.py --source FOLDER --files 4 --json benchmarks/results/rendering.json

Plain PyMuPDF opens each file, renders each page at 300 dpi, saves it as JPEG of the same quality and reads its words;
the build does that in child processes under limits, and tells regions, hidden text and a ledger besides. OCR is off.
Processor time is compared, since it hardly depends on what else the machine does; wall time is told beside it.
Without ``--source`` the files are made: ``--files`` documents of ten pages of text. ``--pages-only N`` builds N made
files of ten pages at 36 dpi instead, and tells how the parent's memory grew: 2,000 of them are 20,000 pages.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pymupdf
from PIL import Image

from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.settings import CorpusSettings

SENTENCE = "Patient {} took {} tablets of 75 mg aspirin daily for {} weeks without bleeding."


def main() -> None:
    """Measure, print, and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="folder of PDF files")
    parser.add_argument("--files", type=int, default=4, help="the first so many of them")
    parser.add_argument("--pages-only", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, help="write the results there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        found = scale(work, given.pages_only) if given.pages_only else speed(work, given.source, given.files)
    found["machine"] = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    print(json.dumps(found, indent=1))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def speed(work: Path, source: Path | None, files: int) -> dict[str, Any]:
    """Pages a second of processor time, each renderer beside plain PyMuPDF."""
    paths = make(work / "made", files, lines=40) if source is None else sorted(source.glob("*.pdf"))[:files]
    pdfs = work / "pdfs"
    pdfs.mkdir()
    for path in paths:
        (pdfs / path.name).symlink_to(path.resolve())
    pages, plain_cpu, plain_wall = measured(lambda: plainly(paths, 300, 85))
    found: dict[str, Any] = {"files": [path.name for path in paths], "pages": pages, "dpi": 300}
    found["plain"] = {"pages_per_cpu_second": pages / plain_cpu, "pages_per_second": pages / plain_wall}
    for renderer in ("pymupdf", "pypdfium2"):
        for workers in (1, 2):
            settings = CorpusSettings.model_validate({"ocr": "off", "renderer": renderer})
            build = partial(
                build_corpus, pdfs, work / f"{renderer}-{workers}", settings, workers=workers, progress=False
            )
            count, cpu, wall = measured(partial(pages_of, build))
            found[f"{renderer}, {workers} at once"] = {
                "pages": count,
                "pages_per_cpu_second": count / cpu,
                "pages_per_second": count / wall,
                "of_plain_by_cpu": (count / cpu) / (pages / plain_cpu),
                "of_plain_by_wall": (count / wall) / (pages / plain_wall),
            }
    return found


def scale(work: Path, files: int) -> dict[str, Any]:
    """Memory of the parent after a tenth of the files and after all."""
    settings = CorpusSettings(dpi=36, ocr="off")
    make(work / "few", max(1, files // 10), lines=3)
    few, _, _ = measured(lambda: len(build_corpus(work / "few", work / "a", settings, progress=False).pages))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    make(work / "all", files, lines=3)
    pages, cpu, wall = measured(lambda: len(build_corpus(work / "all", work / "b", settings, progress=False).pages))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {
        "pages": pages,
        "parent_mb_after": {str(few): before, str(pages): after},
        "largest_child_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10,
        "seconds": wall,
        "cpu_seconds": cpu,
    }


def make(folder: Path, files: int, *, lines: int) -> list[Path]:
    """PDFs of ten pages of text."""
    folder.mkdir()
    paths = []
    for number in range(files):
        with pymupdf.open() as document:
            for page in range(10):
                text = "\n".join(SENTENCE.format(number, page + 1, line + 1) for line in range(lines))
                document.new_page().insert_text((50, 60), text)
            document.save(path := folder / f"made{number:05d}.pdf")
        paths.append(path)
    return paths


def plainly(paths: list[Path], dpi: int, quality: int) -> int:
    """What a short script would do; the number of pages."""
    pages = 0
    for path in paths:
        with pymupdf.open(path) as document:
            for page in document:
                pixels = page.get_pixmap(dpi=dpi, alpha=False)
                image = Image.frombuffer("RGB", (pixels.width, pixels.height), pixels.samples)
                image.save(io.BytesIO(), "JPEG", quality=quality)
                page.get_text("words")
                pages += 1
    return pages


def pages_of(build: Callable[[], CorpusStore]) -> int:
    """The number of pages of the corpus that ``build`` makes."""
    return len(build().pages)


def measured(work: Callable[[], int]) -> tuple[int, float, float]:
    """What ``work`` gave, its processor time with that of its children, and its wall time in seconds."""
    begun, used = time.perf_counter(), _cpu()
    count = work()
    return count, _cpu() - used, time.perf_counter() - begun


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
