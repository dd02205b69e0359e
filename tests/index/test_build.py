"""The life of an index on disk: built, stopped, taken up, grown, thinned, damaged."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_index import made_pages, made_store, page_ids, page_vectors

from medvrag_core.encoders.growth import add_pages
from medvrag_core.encoders.manifest import SHARD_PAGES
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MedvragError, MismatchError, NotBuiltError
from medvrag_core.index import build
from medvrag_core.index.build import build_index, delete_pages, open_index, write_index
from medvrag_core.index.duplicates import page_order
from medvrag_core.index.manifest import read_manifest, write_manifest
from medvrag_core.settings import IndexSettings

MODES = ("exact", "fast", "paper")
NARROW: dict[str, Any] = {"rescore": 5, "shortlist": 40, "ann_neighbors": 60}


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment of one shard of 64 pages, so that an index of 150 pages has three."""
    monkeypatch.setattr(build, "SEGMENT_NUMBERS", 1)


def settings(mode: str = "exact", **changed: Any) -> IndexSettings:
    return IndexSettings(mode=mode, threads=1, **NARROW | changed)


def made(store: VectorStore, folder: Path, mode: str = "exact", **changed: Any) -> None:
    write_index(store, settings(mode, **changed), folder, near_duplicate=1.0, progress=False)


def answers(store: VectorStore, folder: Path, *, modes: tuple[str, ...] = MODES, k: int = 100) -> list[Any]:
    """What every mode finds for some queries, with scores."""
    queries = [made_pages(1, seed=seed)[0][:6] for seed in (90, 91, 92)]
    return [open_index(store, settings(mode), folder).search(query, k).hits for mode in modes for query in queries]


def test_bc25_an_index_answers_the_same_after_it_was_closed(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(150))
    first = build_index(store, settings(), tmp_path / "i", near_duplicate=1.0, progress=False)
    query = made_pages(1, seed=90)[0][:6]
    again = open_index(VectorStore.open(tmp_path / "v"), settings(), tmp_path / "i")
    assert first.search(query, 50).hits == again.search(query, 50).hits
    assert len(read_manifest(tmp_path / "i").segments) == 3


def test_an_index_that_is_up_to_date_is_not_touched(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(100))
    made(store, tmp_path / "i")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "i").rglob("*") if p.name != ".verified.json"}
    made(store, tmp_path / "i")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "i").rglob("*") if p.name != ".verified.json"} == before


def test_bc32_a_stopped_build_is_refused_opened_when_asked_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made_store(tmp_path / "v", made_pages(190))
    whole = tmp_path / "whole"
    made(store, whole)
    real, calls = build.write_segment, []

    def stops_at_the_third(folder: Path, *rest: Any) -> None:
        calls.append(folder)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(folder, *rest)

    monkeypatch.setattr(build, "write_segment", stops_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        made(store, tmp_path / "i")
    with pytest.raises(NotBuiltError, match="2 of 3 segments"):
        open_index(store, settings(), tmp_path / "i")
    found = open_index(store, settings(), tmp_path / "i", partial=True).search(made_pages(1)[0], 500).hits
    assert {hit.page_id for hit in found} == set(page_ids(128))
    made(store, tmp_path / "i")
    assert len(calls) == 4, "the first two segments were kept"
    assert read_manifest(tmp_path / "i") == read_manifest(whole)
    assert answers(store, tmp_path / "i") == answers(store, whole)


def test_a_build_that_is_stopped_before_near_duplicates_are_sought_is_not_taken_as_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = made_pages(70)
    pages[69] = pages[2]
    store, ids = made_store(tmp_path / "v", pages), page_ids(70)
    real = build.near_duplicates

    def stops(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "near_duplicates", stops)
    with pytest.raises(KeyboardInterrupt):
        write_index(store, settings(), tmp_path / "i", near_duplicate=0.99, progress=False)
    with pytest.raises(NotBuiltError, match="2 of 2 segments are there"):
        open_index(store, settings(), tmp_path / "i")
    monkeypatch.setattr(build, "near_duplicates", real)
    write_index(store, settings(), tmp_path / "i", near_duplicate=0.99, progress=False)
    assert [pair.left_out for pair in read_manifest(tmp_path / "i").left_out] == [max(ids[2], ids[69], key=page_order)]


def test_added_pages_cost_a_segment_and_answer_as_an_index_made_at_once(tmp_path: Path) -> None:
    pages = made_pages(130)
    at_once = made_store(tmp_path / "all", pages)
    made(at_once, tmp_path / "i_all")
    made_store(tmp_path / "v", pages[:70])
    made(VectorStore.open(tmp_path / "v"), tmp_path / "i")
    old = read_manifest(tmp_path / "i").segments
    fresh = [page_vectors(i, page) for i, page in zip(page_ids(60, 70), pages[70:], strict=True)]
    grown = add_pages(tmp_path / "v", fresh, corpus_fingerprint="more")
    with pytest.raises(MismatchError, match="60 pages were added"):
        open_index(grown, settings(), tmp_path / "i")
    made(grown, tmp_path / "i")
    assert read_manifest(tmp_path / "i").segments[: len(old)] == old
    assert answers(grown, tmp_path / "i") == answers(at_once, tmp_path / "i_all")


def test_pages_added_one_by_one_are_made_one_segment_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SEGMENT_NUMBERS", 2**26)
    monkeypatch.setattr(build, "MOST_SMALL", 3)
    pages, ids = made_pages(12), page_ids(12)
    store = made_store(tmp_path / "v", pages[:4])
    made(store, tmp_path / "i")
    counts = []
    for k in range(4, 12):
        store = add_pages(tmp_path / "v", [page_vectors(ids[k], pages[k])], corpus_fingerprint=str(k))
        made(store, tmp_path / "i")
        counts.append(len(read_manifest(tmp_path / "i").segments))
    assert counts == [2, 3, 4, 1, 2, 3, 4, 1]
    at_once = made_store(tmp_path / "all", pages)
    made(at_once, tmp_path / "i_all")
    assert answers(store, tmp_path / "i") == answers(at_once, tmp_path / "i_all")


def test_an_index_without_some_pages_answers_as_one_that_never_had_them(tmp_path: Path) -> None:
    pages, gone = made_pages(130), {3, 64, 65, 129}
    store = made_store(tmp_path / "v", pages)
    made(store, tmp_path / "i")
    segments = {p: p.stat().st_mtime_ns for p in (tmp_path / "i").glob("segment-*/*")}
    delete_pages(store, tmp_path / "i", [page_ids(130)[k] for k in gone])
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "i").glob("segment-*/*")} == segments
    left = [k for k in range(130) if k not in gone]
    without = made_store(tmp_path / "w", [pages[k] for k in left], ids=[page_ids(130)[k] for k in left])
    made(without, tmp_path / "iw")
    # An ANN counts neighbors among deleted centroids too.
    modes = ("exact", "fast")
    assert answers(store, tmp_path / "i", modes=modes) == answers(without, tmp_path / "iw", modes=modes)
    assert read_manifest(tmp_path / "i").pages == read_manifest(tmp_path / "iw").pages == 126
    made(store, tmp_path / "i")
    assert read_manifest(tmp_path / "i").pages == 126, "deleted pages stay deleted"
    for k in gone:
        assert page_ids(130)[k] not in {h.page_id for hits in answers(store, tmp_path / "i", k=500) for h in hits}


def test_a_page_comes_back_when_the_one_that_it_repeats_is_deleted(tmp_path: Path) -> None:
    pages = made_pages(70)
    pages[40] = pages[66] = pages[10]
    store, ids = made_store(tmp_path / "v", pages), page_ids(70)
    first, second, third = sorted((ids[10], ids[40], ids[66]), key=page_order)
    write_index(store, settings(), tmp_path / "i", near_duplicate=0.999, progress=False)
    left_out = [(p.kept, p.left_out) for p in read_manifest(tmp_path / "i").left_out]
    assert left_out == [(first, second), (first, third)]
    assert [(p.kept, p.left_out) for p in delete_pages(store, tmp_path / "i", [first]).left_out] == [(second, third)]
    assert read_manifest(tmp_path / "i").pages == 68
    found = [h.page_id for h in open_index(store, settings(), tmp_path / "i").search(pages[10], 70).hits]
    assert found[0] == second
    assert not {first, third} & {*found}


def test_a_page_that_is_not_there_cannot_be_deleted(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(5))
    made(store, tmp_path / "i")
    first = page_ids(5)[0]
    delete_pages(store, tmp_path / "i", [first])
    for wrong in (first, "nobody#p1"):
        with pytest.raises(InputError, match=f"page '{wrong}' is not in the index"):
            delete_pages(store, tmp_path / "i", [wrong])


def test_an_index_that_was_emptied_is_refused_by_name(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(3))
    made(store, tmp_path / "i")
    delete_pages(store, tmp_path / "i", page_ids(3))
    with pytest.raises(InputError, match=r"/i: the index is empty"):
        open_index(store, settings(), tmp_path / "i")


def test_bc26_another_encoder_of_the_same_width_is_refused_with_both_names(tmp_path: Path) -> None:
    made(made_store(tmp_path / "v", made_pages(10)), tmp_path / "i")
    other = made_store(tmp_path / "w", made_pages(10), name="other")
    with pytest.raises(MismatchError, match=r"encoder.*given.*other"):
        open_index(other, settings(), tmp_path / "i")


def test_vectors_that_changed_are_refused_and_coded_anew(tmp_path: Path) -> None:
    made(made_store(tmp_path / "v", made_pages(70)), tmp_path / "i")
    pages = made_pages(70)
    pages[68] = pages[68][::-1] * np.float32(0.5)
    other = made_store(tmp_path / "w", pages)
    with pytest.raises(MismatchError, match="built from vectors"):
        open_index(other, settings(), tmp_path / "i")
    first = read_manifest(tmp_path / "i").segments[0]
    made(other, tmp_path / "i")
    assert read_manifest(tmp_path / "i").segments[0] == first
    assert len([*(tmp_path / "i").glob("segment-*")]) == 2, "what is not needed any more is removed"


def test_200_flipped_bits_give_200_typed_errors(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(100))
    made(store, tmp_path / "i", "paper", ann="hnsw")
    open_index(store, settings("paper", ann="hnsw"), tmp_path / "i")
    files = [p for p in sorted((tmp_path / "i").rglob("*")) if p.is_file() and p.name != ".verified.json"]
    assert {p.name for p in files} == {*("manifest.json", "ann.faiss", "codes.npy", "centroids.npy", "pages.npz")}
    rng = random.Random(1)
    for _ in range(200):
        path = rng.choice(files)
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        whole = path.read_bytes()
        path.write_bytes(data)
        with pytest.raises(MedvragError) as refused:
            open_index(store, settings("paper", ann="hnsw"), tmp_path / "i")
        assert str(tmp_path / "i") in str(refused.value)
        path.write_bytes(whole)
    open_index(store, settings("paper", ann="hnsw"), tmp_path / "i")


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(70))
    made(store, tmp_path / "i")
    wanted = answers(store, tmp_path / "i")
    for name in ("codes.npy", "pages.npz"):
        next((tmp_path / "i").glob(f"segment-*/{name}")).write_bytes(b"gone")
        made(store, tmp_path / "i")
        assert answers(store, tmp_path / "i") == wanted
    (tmp_path / "i" / "manifest.json").write_text("{}")
    made(store, tmp_path / "i")
    assert answers(store, tmp_path / "i") == wanted


def test_an_index_of_another_version_is_refused_and_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = made_store(tmp_path / "v", made_pages(20))
    made(store, tmp_path / "i")
    now = read_manifest(tmp_path / "i")
    write_manifest(tmp_path / "i", now.model_copy(update={"format": 1}))
    with pytest.raises(MismatchError, match="an index of format 1, this version reads 3"):
        open_index(store, settings(), tmp_path / "i")
    made(store, tmp_path / "i")
    assert read_manifest(tmp_path / "i") == now


def test_a_folder_that_was_moved_opens(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(70))
    made(store, tmp_path / "i")
    wanted = answers(store, tmp_path / "i")
    shutil.copytree(tmp_path / "i", tmp_path / "copy")
    assert answers(store, tmp_path / "copy") == wanted


def test_a_large_ann_is_kept_and_a_missing_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = made_store(tmp_path / "v", made_pages(70))
    made(store, tmp_path / "i")
    monkeypatch.setattr("medvrag_core.index.coarse_to_fine.FLAT_BELOW", 100)
    with pytest.raises(NotBuiltError, match=r"no ANN of kind 'hnsw'.*index.mode=paper"):
        open_index(store, settings("paper"), tmp_path / "i")
    made(store, tmp_path / "i", "paper")
    made(store, tmp_path / "i", "exact")
    assert read_manifest(tmp_path / "i").ann is not None, "another mode does not throw it away"
    open_index(store, settings("paper"), tmp_path / "i")
    with pytest.raises(NotBuiltError, match="'ivf'"):
        open_index(store, settings("paper", ann="ivf"), tmp_path / "i")


def test_settings_are_kept_beside_the_index_and_another_c_makes_it_anew(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(30))
    made(store, tmp_path / "i")
    assert read_manifest(tmp_path / "i").settings == settings()
    made(store, tmp_path / "i", centroids=3)
    with np.load(next((tmp_path / "i").glob("segment-*/pages.npz"))) as pages:
        assert pages["counts"].max() == 3


@pytest.mark.parametrize(("numbers", "pages"), [(1, [64, 64, 64, 8]), (10**9, [200]), (45_000, [128, 72])])
def test_a_segment_takes_as_many_shards_as_memory_is_meant_to_hold(
    numbers: int, pages: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "SEGMENT_NUMBERS", numbers)
    made_ = made_pages(200)
    assert 40_000 < 16 * sum(map(len, made_[:128])) < 45_000 < 16 * sum(map(len, made_[:192]))
    made(made_store(tmp_path / "v", made_), tmp_path / "i")
    assert [segment.pages for segment in read_manifest(tmp_path / "i").segments] == pages


def test_storages_agree_on_what_is_stored(tmp_path: Path) -> None:
    """The index rescores what the store gives, so hits carry the scores of the stored vectors."""
    pages = made_pages(40)
    for storage in ("float16", "int8"):
        store = made_store(tmp_path / storage, pages, storage=storage)
        made(store, tmp_path / f"i{storage}", rescore=100)
        hit = open_index(store, settings(rescore=100), tmp_path / f"i{storage}").search(pages[7], 1).hits[0]
        own = store.page(page_ids(40)[7]).vectors
        assert hit.page_id == page_ids(40)[7]
        assert hit.score == pytest.approx(
            float((pages[7] @ own.T).max(axis=1).mean() + (pages[7] @ own.T).max(axis=0).mean()), abs=1e-5
        )


OPENS_TWICE = """
import resource, sys
from pathlib import Path
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.index.build import open_index
from medvrag_core.settings import IndexSettings

def opened():
    return open_index(VectorStore.open(Path(sys.argv[1])), IndexSettings(), Path(sys.argv[2]))

opened()  # Whatever else needs files has had them.
resource.setrlimit(resource.RLIMIT_NOFILE, (70, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
index = opened()
print(len(list(Path("/proc/self/fd").iterdir())))
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not list open files")
def test_an_index_has_more_segments_than_a_process_may_first_open_files(tmp_path: Path) -> None:
    store = made_store(tmp_path / "v", made_pages(40 * SHARD_PAGES))
    made(store, tmp_path / "i")
    command = [sys.executable, "-c", OPENS_TWICE, str(tmp_path / "v"), str(tmp_path / "i")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 80
