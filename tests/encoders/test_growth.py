from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_pages import HashEncoder, made_pages

from medvrag_core.encoders import growth
from medvrag_core.encoders.encode import SHARD_PAGES, encode_corpus
from medvrag_core.encoders.growth import add_pages, grow_vectors
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MedvragError, MismatchError, NotBuiltError
from medvrag_core.records import PageVectors
from medvrag_core.settings import Storage

SOME, ALL = SHARD_PAGES + 6, 2 * SHARD_PAGES + 40
STORAGES = ("float32", "float16", "int8")


class Unfitted(HashEncoder):
    """Gives a page the same vectors in whatever corpus it is."""

    def fit(self, pages: object) -> None:
        pass


def build(folder: Path, count: int, storage: Storage = "float16", corpus: str = "c") -> VectorStore:
    return encode_corpus(
        made_pages(count), Unfitted(), folder, corpus_fingerprint=corpus, storage=storage, progress=False
    )


def vectors_of(first: int, end: int) -> list[PageVectors]:
    return list(Unfitted().encode_pages(made_pages(end)[first:]))


def require_equal(store: VectorStore, other: VectorStore) -> None:
    assert store.page_ids == other.page_ids and len(store) == store.manifest.pages
    assert np.array_equal(store.offsets, other.offsets)
    assert np.array_equal(store.vectors, other.vectors)
    for page_id in store.page_ids[:: SHARD_PAGES // 2]:
        one, two = store.page(page_id), other.page(page_id)
        assert np.array_equal(one.vectors, two.vectors)
        assert np.array_equal(one.boxes, two.boxes) and np.array_equal(one.vector_of, two.vector_of)


@settings(max_examples=6, deadline=None)
@given(
    steps=st.lists(st.integers(1, ALL - 1), min_size=1, max_size=3, unique=True),
    storage=st.sampled_from(STORAGES),
)
def test_a_store_that_grew_equals_one_written_at_once(
    steps: list[int], storage: Storage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("growth")
    ends = [*sorted(steps), ALL]
    build(home / "v", ends[0], storage)
    for first, end in pairwise(ends):
        grown = add_pages(home / "v", iter(vectors_of(first, end)), corpus_fingerprint=f"c{end}")
    require_equal(grown, build(home / "w", ALL, storage))
    assert grown.manifest.corpus == f"c{ALL}"


def test_shards_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    before = build(tmp_path / "v", SOME)
    kept = {path: path.stat() for path in (tmp_path / "v").glob("shard-*/*")}
    grown = add_pages(tmp_path / "v", vectors_of(SOME, ALL), corpus_fingerprint="d")
    assert grown.manifest.shards[: len(before.manifest.shards)] == before.manifest.shards
    assert {path: path.stat() for path in kept} == kept
    assert [shard.folder for shard in grown.manifest.shards] == [f"shard-0000{k}" for k in range(4)]
    assert grown.manifest.encoder == before.manifest.encoder
    grown.load_encoder(Unfitted())


class CrashError(Exception):
    """Ends a call as the end of its process would."""


@pytest.mark.parametrize("where", ["second shard", "contents", "manifest"])
def test_bc32_a_crash_before_the_manifest_leaves_the_old_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    before = build(tmp_path / "v", SOME)

    def crash(*_: object, **__: object) -> None:
        raise CrashError

    def torn() -> Iterator[PageVectors]:
        yield from vectors_of(SOME, SOME + SHARD_PAGES + 1)
        raise CrashError

    with monkeypatch.context() as patch, pytest.raises(CrashError):
        if where != "second shard":
            module = "medvrag_core.encoders.manifest."
            patch.setattr(module + {"contents": "write_contents", "manifest": "write_sealed"}[where], crash)
        pages = torn() if where == "second shard" else vectors_of(SOME, ALL)
        add_pages(tmp_path / "v", pages, corpus_fingerprint="d")
    assert (tmp_path / "v" / "shard-00002").is_dir()
    after = VectorStore.open(tmp_path / "v", full=True)
    assert after.manifest == before.manifest
    require_equal(after, before)
    # The next call makes good what the failed one left: here it adds fewer pages.
    grown = add_pages(tmp_path / "v", vectors_of(SOME, SOME + 3), corpus_fingerprint="d")
    require_equal(grown, build(tmp_path / "w", SOME + 3))
    assert len(list((tmp_path / "v").glob("shard-*"))) == 3


def test_what_a_killed_call_left_is_removed_by_the_next(tmp_path: Path) -> None:
    build(tmp_path / "v", SOME)
    before = {path.name for path in (tmp_path / "v").iterdir()}
    for name in (".shard-00002.99.part", ".contents-90.99.part", "shard-00002"):
        (tmp_path / "v" / name).mkdir()
        (tmp_path / "v" / name / "vectors.npy").write_bytes(b"torn")
    grown = add_pages(tmp_path / "v", vectors_of(SOME, SOME + 3), corpus_fingerprint="d")
    require_equal(grown, build(tmp_path / "w", SOME + 3))
    assert {path.name for path in (tmp_path / "v").iterdir()} - before == {"shard-00002", f"contents-{SOME + 3}"}
    grown.load_encoder(Unfitted())


def test_what_was_published_before_is_there_for_whoever_is_just_opening_it(tmp_path: Path) -> None:
    before = build(tmp_path / "v", SOME)
    add_pages(tmp_path / "v", vectors_of(SOME, SOME + 2), corpus_fingerprint="d")
    require_equal(VectorStore(tmp_path / "v", before.manifest), before)
    add_pages(tmp_path / "v", vectors_of(SOME + 2, SOME + 3), corpus_fingerprint="e")
    names = sorted(path.name for path in (tmp_path / "v").glob("contents-*"))
    assert names == [f"contents-{SOME + 2}", f"contents-{SOME + 3}"]


def changed(fault: str) -> PageVectors:
    page = vectors_of(SOME + 2, SOME + 3)[0]
    rows = {"no row": page.vectors[:0], "width": np.repeat(page.vectors, 2, axis=1)}.get(fault, page.vectors.copy())
    if fault == "not finite":
        rows[-1, -1] = np.inf
    page_id = {"there": "a0003#p3", "twice": f"a{SOME:04d}#p{SOME}"}.get(fault, page.page_id)
    return PageVectors(page_id, rows, page.boxes, page.vector_of)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("there", r"a0003#p3': has vectors in .*v already; leave it out"),
        ("twice", rf"a{SOME:04d}#p{SOME}': has vectors in .*v already"),
        ("no row", rf"#p{SOME + 2}': it has no vector; encode it as"),
        ("width", rf"#p{SOME + 2}': its vectors are 16 wide, not 8"),
        ("not finite", rf"#p{SOME + 2}': a vector of it is not finite"),
    ],
)
def test_a_page_that_does_not_fit_is_named_and_the_store_stays(tmp_path: Path, fault: str, said: str) -> None:
    before = build(tmp_path / "v", SOME)
    with pytest.raises(InputError, match=said):
        add_pages(tmp_path / "v", [*vectors_of(SOME, SOME + 2), changed(fault)], corpus_fingerprint="d")
    assert VectorStore.open(tmp_path / "v").manifest == before.manifest


def test_nothing_to_add_and_no_store_are_told(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match="no finished page vectors"):
        add_pages(tmp_path / "v", [], corpus_fingerprint="d")
    build(tmp_path / "v", 3)
    with pytest.raises(InputError, match="v: there is no page to add"):
        add_pages(tmp_path / "v", [], corpus_fingerprint="d")


def test_one_shard_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "v", 3)
    monkeypatch.setattr(growth, "SHARD_PAGES", 4)
    asked: list[str] = []

    def watched() -> Iterator[PageVectors]:
        for page in vectors_of(3, 15):
            asked.append(page.page_id)
            assert len(list((tmp_path / "v").glob("shard-*"))) == 1 + (len(asked) - 1) // 4
            yield page

    assert len(add_pages(tmp_path / "v", watched(), corpus_fingerprint="d")) == 15


def test_a_grown_store_is_the_finished_build_of_its_corpus_and_no_other(tmp_path: Path) -> None:
    build(tmp_path / "v", SOME)
    grown = add_pages(tmp_path / "v", vectors_of(SOME, ALL), corpus_fingerprint="d")
    again = Unfitted()
    opened = encode_corpus(made_pages(ALL), again, tmp_path / "v", corpus_fingerprint="d", progress=False)
    assert again.encoded == 0 and opened.manifest == grown.manifest
    require_equal(build(tmp_path / "v", SOME), build(tmp_path / "w", SOME))


def test_a_damaged_manifest_of_a_grown_store_is_no_reason_to_encode_all_anew(tmp_path: Path) -> None:
    build(tmp_path / "v", SOME)
    add_pages(tmp_path / "v", vectors_of(SOME, SOME + 1), corpus_fingerprint="d")
    path = tmp_path / "v" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b"a", b"b"))
    with pytest.raises(MismatchError, match=r"manifest\.json: is damaged"):
        build(tmp_path / "v", SOME + 1, corpus="d")
    assert len(list((tmp_path / "v").glob("shard-*"))) == 3


def grown(folder: Path, encoder: Unfitted, places: list[int]) -> VectorStore:
    pages = made_pages(ALL)
    VectorStore.open(folder).load_encoder(encoder)
    return grow_vectors(pages, places, encoder, folder, corpus_fingerprint="d", progress=False)


def test_a_store_grows_by_the_pages_it_lacks_and_a_stopped_call_goes_on(tmp_path: Path) -> None:
    build(tmp_path / "v", SOME)
    places, pages = list(range(SOME, ALL)), made_pages(ALL)
    with pytest.raises(MedvragError, match="no such luck"):
        grown(tmp_path / "v", Unfitted(fail_at=pages[SOME + SHARD_PAGES + 5].page.number), places)
    assert VectorStore.open(tmp_path / "v").manifest.corpus == "c", "till then the store is the old one"
    again = Unfitted()
    store = grown(tmp_path / "v", again, places)
    assert again.encoded == len(places) - SHARD_PAGES, "a whole shard is not made again"
    assert (store.manifest.corpus, store.manifest.first_corpus) == ("d", "c")
    build(tmp_path / "other", SOME)
    require_equal(store, add_pages(tmp_path / "other", vectors_of(SOME, ALL), corpus_fingerprint="d"))
    assert not (tmp_path / "v" / "growing.json").exists()


def test_shards_of_another_corpus_are_not_taken_up(tmp_path: Path) -> None:
    build(tmp_path / "v", SOME)
    places, pages = list(range(SOME, ALL)), made_pages(ALL)
    with pytest.raises(MedvragError):
        grown(tmp_path / "v", Unfitted(fail_at=pages[SOME + SHARD_PAGES + 5].page.number), places)
    again = Unfitted()
    VectorStore.open(tmp_path / "v").load_encoder(again)
    store = grow_vectors(pages, places[3:], again, tmp_path / "v", corpus_fingerprint="e", progress=False)
    assert again.encoded == len(places) - 3
    assert store.page_ids[SOME:] == tuple(pages[place].page.page_id for place in places[3:])
