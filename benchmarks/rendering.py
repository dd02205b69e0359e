"""Pages a second a core of a corpus build beside plain PyMuPDF in one process, on the same files.

    python benchmarks/rendering.py --source FOLDER --files 8 --json benchmarks/results/rendering.json
    python benchmarks/rendering.py --pages-only 2000 --json benchmarks/results/rendering-20000.json

All sides open each file, render each page at 300 dpi, write it to the disk as JPEG of the same quality and read its
words. ``plain`` is PyMuPDF alone, with its own JPEG encoder; ``plain, Pillow`` leaves the encoding to Pillow, as the
build does. The build works in child processes under limits, and tells regions, hidden text and a ledger besides; OCR
and summaries are off. The sides take turns, ``--rounds`` times, and processor time is compared, since it depends less
than the clock on what else the machine does; both are told, and the time of starting the children is part of both.
``results/rendering.json`` was measured at raised priority, with one other process at work on the two cores.
Without ``--source`` the files are made: ``--files`` documents of ten pages of text. ``--pages-only N`` builds N made
files of ten pages at 36 dpi instead, and tells how the parent's memory grew: 2,000 of them are 20,000 pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
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

QUALITY = CorpusSettings().jpeg_quality
SENTENCE = "Patient {} took {} tablets of 75 mg aspirin daily for {} weeks without bleeding."


def main() -> None:
    """Measure, print, and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="folder of PDF files")
    parser.add_argument("--files", type=int, default=4, help="the first so many of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages-only", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, help="write the results there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        found = (
            scale(work, given.pages_only) if given.pages_only else speed(work, given.source, given.files, given.rounds)
        )
    found["machine"] = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    print(json.dumps(found, indent=1))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def speed(work: Path, source: Path | None, files: int, rounds: int) -> dict[str, Any]:
    """Pages a second of processor time and of the clock, each side beside both plain ones."""
    paths = make(work / "made", files, lines=40) if source is None else sorted(source.glob("*.pdf"))[:files]
    pdfs = work / "pdfs"
    pdfs.mkdir()
    for path in paths:
        (pdfs / path.name).symlink_to(path.resolve())
    sides: dict[str, Callable[[Path], int]] = {
        "plain": partial(plainly, paths, by_pillow=False),
        "plain, Pillow": partial(plainly, paths, by_pillow=True),
    }
    for renderer in ("pymupdf", "pypdfium2"):
        for workers in (1, 2):
            settings = CorpusSettings.model_validate({"ocr": "off", "renderer": renderer})
            sides[f"{renderer}, {workers} at once"] = partial(built, pdfs, settings, workers)
    seconds = {name: [0.0, 0.0] for name in sides}
    pages = 0
    for number in range(rounds):
        for name, side in sides.items():
            pages, cpu, wall = measured(partial(side, work / f"{name}-{number}"))
            seconds[name][0] += cpu
            seconds[name][1] += wall
            shutil.rmtree(work / f"{name}-{number}")
    found: dict[str, Any] = {"files": [path.name for path in paths], "pages": pages, "dpi": 300, "rounds": rounds}
    for name, (cpu, wall) in seconds.items():
        found[name] = {"pages_per_cpu_second": rounds * pages / cpu, "pages_per_second": rounds * pages / wall}
        for other in ("plain", "plain, Pillow"):
            found[name][f"of '{other}' by processor time"] = seconds[other][0] / cpu
            found[name][f"of '{other}' by the clock"] = seconds[other][1] / wall
    return found


def scale(work: Path, files: int) -> dict[str, Any]:
    """Largest memory of the parent after a tenth of the files and after all."""
    settings = CorpusSettings(dpi=36, ocr="off")
    peaks: dict[str, int] = {}
    for name, count in (("few", max(1, files // 10)), ("all", files)):
        make(work / name, count, lines=3)
        build = partial(build_corpus, work / name, work / f"{name}-corpus", settings, progress=False)
        pages, cpu, wall = measured(partial(counted, build))
        peaks[str(pages)] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {
        "pages": pages,
        "parent_mb_after": peaks,
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


def plainly(paths: list[Path], folder: Path, *, by_pillow: bool) -> int:
    """What a short script would do; the number of pages."""
    folder.mkdir()
    pages = 0
    for path in paths:
        with pymupdf.open(path) as document:
            for page in document:
                pixels = page.get_pixmap(dpi=300, alpha=False)
                if by_pillow:
                    image = Image.frombuffer("RGB", (pixels.width, pixels.height), pixels.samples)
                    image.save(folder / f"{pages}.jpg", quality=QUALITY)
                else:
                    pixels.save(folder / f"{pages}.jpg", jpg_quality=QUALITY)
                page.get_text("words")
                pages += 1
    return pages


def built(pdfs: Path, settings: CorpusSettings, workers: int, folder: Path) -> int:
    """The number of pages of a corpus without summaries."""
    return counted(
        partial(build_corpus, pdfs, folder, settings, summarize=lambda *_: None, workers=workers, progress=False)
    )


def counted(build: Callable[[], CorpusStore]) -> int:
    """Pages of the corpus that ``build`` makes, without reading them."""
    return sum(article.pages for article in build().articles)


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
