"""Hostile files and builds that are killed: every file has one story, and the bytes are those of a quiet build."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Literal

import pymupdf
import pytest

from medvrag_core.corpus.build import build_corpus
from medvrag_core.settings import CorpusSettings

KILLS = 50


def store_files(folder: Path) -> dict[str, bytes]:
    """Every file of a corpus, without what a killed build was just writing."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    inside = ((path.relative_to(folder), path) for path in paths)
    return {str(name): path.read_bytes() for name, path in inside if not any(x.endswith(".part") for x in name.parts)}


def finished(corpus: Path) -> int:
    """How many files of a corpus have their story."""
    return len(list(corpus.glob("articles/[!.]*/outcome.json")))


@pytest.mark.slow
@pytest.mark.parametrize("renderer", ["pymupdf", "pypdfium2"])
def test_p8_every_odd_file_has_one_story_and_harms_no_neighbor(
    shared_data: Path, made_pdfs: Path, tmp_path: Path, renderer: Literal["pymupdf", "pypdfium2"]
) -> None:
    settings = CorpusSettings(dpi=72, ocr="off", seconds_per_page=10, memory_mb=2_048, renderer=renderer)
    odd = sorted((shared_data / "odd_pdfs").glob("*.pdf"))
    assert len(odd) == 67
    for path in [*odd, *made_pdfs.glob("*.pdf")]:
        (tmp_path / "p").mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / "p")
    begun = time.monotonic()
    store = build_corpus(tmp_path / "p", tmp_path / "c", settings, workers=2, progress=False)
    took = time.monotonic() - begun
    clean = build_corpus(made_pdfs, tmp_path / "clean", settings, workers=1, progress=False)

    told = [entry for entry in store.ledger if entry.state != "changed"]
    assert {entry.file for entry in told} == {path.name for path in (tmp_path / "p").glob("*.pdf")}
    of_page = Counter(entry.page_id for entry in told if entry.page_id and entry.reason != "duplicate_page")
    assert set(of_page.values()) == {1}, "a page is kept, dropped or quarantined, and only once"
    refused = Counter(entry.file for entry in told if not entry.page_id and entry.reason != "no_usable_page")
    assert set(refused.values()) <= {1}
    kept = {page.article_id for page in store.pages}
    for path in odd:
        assert path.stem in kept or any(e.file == path.name and e.state in ("dropped", "quarantined") for e in told)
    reasons = {path.name: {e.reason for e in told if e.file == path.name} for path in odd}
    assert reasons["made_html_instead_of_pdf.pdf"] == reasons["made_empty.pdf"] == {"not_a_pdf"}
    assert reasons["libreoffice-writer-password.pdf"] == {"encrypted"}

    neighbors = {path.stem for path in made_pdfs.glob("*.pdf")}
    assert [p for p in store.pages if p.article_id in neighbors] == list(clean.pages)
    assert all(page.image_width * page.image_height <= settings.max_pixels for page in store.pages)
    # Bounds that follow from the settings: no child above its limit, no file longer than its watchdog allows.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= settings.memory_mb << 10
    assert took < (len(told) + 5 * len(odd)) * settings.seconds_per_page


@pytest.mark.slow
def test_p1_a_build_killed_at_fifty_random_moments_ends_byte_for_byte_the_same(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for number in range(24):
        with pymupdf.open() as document:
            for page in range(6):
                text = f"Patient {number} took {page + 1} tablets of 75 mg"
                document.new_page(width=300, height=400).insert_text((30, 50), text)
            document.save(tmp_path / "p" / f"a{number:02d}.pdf")
    (tmp_path / "p" / "html.pdf").write_text("<html></html>")
    settings = CorpusSettings(dpi=72, ocr="off")
    build_corpus(tmp_path / "p", tmp_path / "quiet", settings, workers=2, progress=False)
    quiet = store_files(tmp_path / "quiet")

    script = (
        "import sys; from pathlib import Path; from medvrag_core.corpus.build import build_corpus\n"
        "from medvrag_core.settings import CorpusSettings\n"
        "print('go', flush=True)\n"
        f"build_corpus(Path({str(tmp_path / 'p')!r}), Path(sys.argv[1]),\n"
        "    CorpusSettings(dpi=72, ocr='off'), workers=2, progress=False)\n"
    )
    chance = random.Random(0)
    kills, number, halfway = 0, 0, 0
    while kills < KILLS:
        corpus = tmp_path / f"killed{number}"
        child = subprocess.Popen([sys.executable, "-c", script, str(corpus)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        target = finished(corpus) + chance.randint(0, 6)  # moments of a build at work, not of one that starts
        while child.poll() is None and finished(corpus) < target:
            time.sleep(0.005)
        try:
            child.wait(timeout=chance.uniform(0.0, 0.2))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            kills += 1
            halfway += 0 < finished(corpus) < 25
        child.stdout.close()
        if child.returncode == 0:
            assert store_files(corpus) == quiet
            number += 1
    build_corpus(tmp_path / "p", corpus, settings, workers=2, progress=False)
    assert store_files(corpus) == quiet
    assert not list(corpus.rglob("*.part")), "what killed builds left is swept away"
    assert halfway > KILLS // 2, "most kills hit a build at work"
