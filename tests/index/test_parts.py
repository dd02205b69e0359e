"""An index in parts answers as the whole does, bit by bit, with ties, deletions and parts without a page."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_index import made_pages, made_store, page_ids, page_vectors

from medvrag_core.encoders.growth import add_pages
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MismatchError, SettingsError
from medvrag_core.index import build as index_build
from medvrag_core.index.base import PageIndex
from medvrag_core.index.build import delete_pages, open_index, usable_manifest, write_index
from medvrag_core.index.parts import DividedIndex, PartOfIndex, divided
from medvrag_core.settings import IndexSettings

PAGES = 200


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors and an index of four segments; every third page stands twice more, so that scores are equal."""
    folder = tmp_path_factory.mktemp("index")
    pages = made_pages(PAGES)
    pages = [pages[k - k % 3] if k % 3 else pages[k] for k in range(PAGES)]
    store = made_store(folder / "v", pages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_build, "SEGMENT_NUMBERS", 16)
        write_index(store, IndexSettings(), folder / "i", near_duplicate=2.0, progress=False)
    gone = [*store.page_ids[64:128], store.page_ids[3], store.page_ids[190]]
    delete_pages(store, folder / "i", gone)
    return folder


def in_parts(home: Path, wanted: IndexSettings, parts: int) -> tuple[DividedIndex, list[PartOfIndex]]:
    store = VectorStore.open(home / "v")
    made = divided(store, home / "i", usable_manifest(store, home / "i"), wanted, parts)
    opened = [part.open() for part in made]

    def ask(what: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(part, what)(*arguments) for part, arguments in zip(opened, given, strict=True)]

    return DividedIndex(store, made, ask), made


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from(["exact", "fast"]),
    parts=st.integers(1, 6),
    rescore=st.integers(1, 150),
    shortlist=st.integers(1, 150),
    k=st.integers(1, 150),
    backward=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 50),
)
def test_parts_answer_as_the_whole(
    home: Path, mode: Any, parts: int, rescore: int, shortlist: int, k: int, backward: float, seed: int
) -> None:
    wanted = IndexSettings(mode=mode, rescore=rescore, shortlist=shortlist, backward_weight=backward, threads=1)
    whole = open_index(VectorStore.open(home / "v"), wanted, home / "i")
    query = np.random.default_rng(seed).normal(size=(4, 16)).astype(np.float32)
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    found, alone = in_parts(home, wanted, parts)[0].search(query, k), whole.search(query, k)
    assert found.hits == alone.hits
    assert found.proved == alone.proved
    assert [time.step for time in found.times] == [time.step for time in alone.times]


def test_parts_cover_all_segments_once(home: Path) -> None:
    segments = len(usable_manifest(VectorStore.open(home / "v"), home / "i").segments)
    assert segments == 4
    for parts in (1, 2, 3, 4, 9):
        cuts = [part.segments for part in in_parts(home, IndexSettings(), parts)[1]]
        assert [n for first, end in cuts for n in range(first, end)] == list(range(segments))
        assert len(cuts) == {1: 1, 2: 2, 3: 3, 4: 3, 9: 3}[parts], "the last segment is small"


def test_mode_paper_is_refused(home: Path) -> None:
    with pytest.raises(SettingsError, match="not searched in parts"):
        in_parts(home, IndexSettings(mode="paper"), 2)


def test_a_damaged_segment_is_refused_where_it_is_opened(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "copy")
    _, parts = in_parts(tmp_path / "copy", IndexSettings(), 2)
    entry = parts[1].manifest.segments[-1]
    (tmp_path / "copy" / "i" / entry.folder / "codes.npy").write_bytes(b"")
    parts[0].open()
    with pytest.raises(MismatchError):
        parts[1].open()


def test_pages_that_are_not_told_of_count_for_the_proof(home: Path) -> None:
    wanted = IndexSettings(rescore=120, threads=1)
    index, made = in_parts(home, wanted, 2)
    opened, highest = [part.open() for part in made], -np.inf

    def ask(what: str, given: Sequence[tuple[Any, ...]]) -> list[Any]:
        told = [getattr(part, what)(*arguments) for part, arguments in zip(opened, given, strict=True)]
        return [told[0], replace(told[1], rest=highest)] if what == "scores" else told

    query = made_pages(PAGES)[0][:4]
    divided_index = DividedIndex(VectorStore.open(home / "v"), made, ask)
    assert index.search(query, 1).proved
    assert divided_index.search(query, 1).proved
    highest = 2.0
    assert not divided_index.search(query, 1).proved


def test_after_each_change_parts_answer_as_the_whole_and_old_ones_never_mix_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages come in small segments that are made anew as one, and are deleted; what is open stays what it was."""
    monkeypatch.setattr(index_build, "SEGMENT_NUMBERS", 2**26)
    monkeypatch.setattr(index_build, "MOST_SMALL", 3)
    pages, ids, wanted = made_pages(100), page_ids(100), IndexSettings(threads=1)
    store = made_store(tmp_path / "v", pages[:50])
    query = pages[7][:4]

    def hits(index: PageIndex) -> Any:
        return index.search(query, 40).hits

    def whole() -> Any:
        return hits(open_index(VectorStore.open(tmp_path / "v"), wanted, tmp_path / "i"))

    write_index(store, wanted, tmp_path / "i", near_duplicate=2.0, progress=False)
    first, parts = in_parts(tmp_path, wanted, 2)
    before = hits(first)
    folders = {entry.folder for entry in parts[0].manifest.segments}
    for k in range(50, 100, 10):
        more = [page_vectors(ids[n], pages[n]) for n in range(k, k + 10)]
        store = add_pages(tmp_path / "v", more, corpus_fingerprint=str(k))
        write_index(store, wanted, tmp_path / "i", near_duplicate=2.0, progress=False)
        assert hits(in_parts(tmp_path, wanted, 2)[0]) == whole()
    delete_pages(store, tmp_path / "i", [before[0].page_id, ids[95]])
    now, fresh = in_parts(tmp_path, wanted, 3)
    assert hits(now) == whole() != before
    assert before[0].page_id not in {hit.page_id for hit in hits(now)}
    assert hits(first) == before, "what is open answers from the state that it was opened with"
    assert folders - {entry.folder for entry in fresh[0].manifest.segments}, "small segments were made anew"
    with pytest.raises(MismatchError):  # As a server would that is started again after the change.
        [part.open() for part in parts]
