"""Copies of an encoder in real processes: the embedded encoder in two of them, and what is left after a stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from made_pages import HashEncoder, ThreadsEncoder, made_page, made_pages

from medvrag_core.encoders.base import PageInput, PageInputs
from medvrag_core.encoders.copies import Copies, encode_in_copies
from medvrag_core.encoders.embedded import EmbeddedEncoder
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.records import PageLayout, Word
from medvrag_core.settings import EncoderSettings

SETTINGS = EncoderSettings(dim=64, lexical_dim=64, lexical_weight=0.6)
TEXT = "Metformin 500 mg is taken twice a day and the dose of insulin is raised by 2 units every third day"


def page_with_words(number: int) -> PageInput:
    given = made_page(number)
    words = [*TEXT.split()[number % 7 :], str(number)]
    boxes = [(0.1, k / 40, 0.2, (k + 1) / 40) for k in range(len(words))]
    layout = PageLayout(
        page_id=given.page.page_id,
        words=tuple(Word(text=text, box=box) for text, box in zip(words, boxes, strict=True)),
        regions=(),
    )
    return PageInput(given.page, layout, given.image)


def test_the_embedded_encoder_gives_the_same_vectors_in_two_processes(tmp_path: Path) -> None:
    pages = [page_with_words(number) for number in range(11)]
    encoder = EmbeddedEncoder(SETTINGS)
    encoder.fit(pages)
    encoder.save(tmp_path)
    alone = list(encoder.encode_pages(pages))
    copies = Copies(partial(make_page_encoder, SETTINGS), 2)
    for page, copied in zip(alone, encode_in_copies(copies, 2, tmp_path, pages), strict=True):
        assert copied.page_id == page.page_id
        assert np.abs(copied.vectors - page.vectors).max() < 1e-6
        assert np.array_equal(copied.boxes, page.boxes) and np.array_equal(copied.vector_of, page.vector_of)


def test_pages_are_not_asked_for_far_ahead(tmp_path: Path) -> None:
    encoder, asked = HashEncoder(), 0
    encoder.save(tmp_path)

    def make(place: int) -> PageInput:
        nonlocal asked
        asked = max(asked, place)
        return made_page(place)

    coming = encode_in_copies(Copies(HashEncoder, 2), 2, tmp_path, PageInputs(1_000, make))
    for _ in range(3):
        next(coming)
    coming.close()
    assert asked < 5 * 4


def test_each_process_computes_in_one_thread_and_the_parent_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HashEncoder().save(tmp_path)
    for before in (None, "7"):
        if before is None:
            monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        else:
            monkeypatch.setenv("OMP_NUM_THREADS", before)
        copies = Copies(ThreadsEncoder, 1)
        [page] = encode_in_copies(copies, 1, tmp_path, made_pages(1))
        assert page.page_id == "threads 1"
        assert os.environ.get("OMP_NUM_THREADS") == before


STOPPED = """
import sys
from pathlib import Path
from made_pages import SlowEncoder, made_page
from medvrag_core.encoders.base import PageInputs
from medvrag_core.encoders.copies import Copies
from medvrag_core.encoders.encode import encode_corpus

if __name__ == "__main__":
    pages = PageInputs(600, made_page)
    encode_corpus(pages, SlowEncoder(), Path(sys.argv[1]), corpus_fingerprint="c", copies=Copies(SlowEncoder, 2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_build_leaves_whole_shards_and_no_process(tmp_path: Path, how: signal.Signals) -> None:
    script, folder = tmp_path / "stopped.py", tmp_path / "v"
    script.write_text(STOPPED)
    path = os.pathsep.join(sys.path)
    started = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 120
    while not (folder / "shard-00001").is_dir() and started.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    if how == signal.SIGINT:
        os.killpg(started.pid, how)  # As a terminal does it.
    else:
        started.kill()
    _, told = started.communicate(timeout=60)
    while _alive(started.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _alive(started.pid)
    whole = sorted(home.name for home in folder.glob("shard-*"))
    assert whole[:2] == ["shard-00000", "shard-00001"] and len(whole) < 10
    assert all((home / "pages.npz").is_file() for home in folder.glob("shard-*"))
    if how == signal.SIGINT:
        assert told.decode().strip().splitlines()[-1] == "KeyboardInterrupt"
        assert b"SpawnProcess" not in told


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
