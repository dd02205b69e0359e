from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from made_pages import HashEncoder, SizedEncoder, made_page, made_pages, sized

from medvrag_core.encoders import encode
from medvrag_core.encoders.base import PageInput, PageInputs
from medvrag_core.encoders.copies import Copies
from medvrag_core.encoders.encode import SHARD_PAGES, encode_corpus, read_throughput
from medvrag_core.encoders.throughput import Throughput, told
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MedvragError, MismatchError, NotBuiltError
from medvrag_core.index import build as index_build
from medvrag_core.index.build import write_index
from medvrag_core.index.duplicates import near_duplicates
from medvrag_core.records import PageVectors
from medvrag_core.runs import verified
from medvrag_core.runs.verified import digests
from medvrag_core.settings import IndexSettings, Storage

COUNT = 3 * SHARD_PAGES + 5


def build(
    folder: Path,
    encoder: HashEncoder,
    count: int = COUNT,
    *,
    corpus: str = "c",
    storage: Storage = "float16",
    copies: Copies | None = None,
) -> VectorStore:
    return encode_corpus(
        PageInputs(count, made_page),
        encoder,
        folder,
        corpus_fingerprint=corpus,
        storage=storage,
        copies=copies,
        progress=False,
    )


def files(folder: Path) -> dict[str, dict[str, str]]:
    return {part.name: digests(part) for part in sorted(folder.iterdir()) if part.is_dir()}


def test_bc32_a_stopped_build_goes_on_after_its_last_whole_shard(tmp_path: Path) -> None:
    with pytest.raises(MedvragError, match=r"^page a0138#p138: RuntimeError: no such luck$"):
        build(tmp_path / "v", HashEncoder(fail_at=2 * SHARD_PAGES + 10))
    with pytest.raises(NotBuiltError, match="no finished page vectors"):
        VectorStore.open(tmp_path / "v")
    again = HashEncoder()
    resumed = build(tmp_path / "v", again)
    assert again.encoded == SHARD_PAGES + 5
    fresh = build(tmp_path / "w", HashEncoder())
    assert resumed.manifest == fresh.manifest
    assert files(tmp_path / "v") == files(tmp_path / "w")
    assert read_throughput(tmp_path / "v").pages == SHARD_PAGES + 5  # type: ignore[union-attr]


def test_only_shards_that_are_missing_are_encoded(tmp_path: Path) -> None:
    whole = build(tmp_path / "v", HashEncoder())
    (tmp_path / "v" / "manifest.json").unlink()
    (tmp_path / "v" / "shard-00001").rename(tmp_path / "gone")
    encoder = HashEncoder()
    assert build(tmp_path / "v", encoder).manifest == whole.manifest
    assert encoder.encoded == SHARD_PAGES


def test_a_finished_build_is_opened_not_made_again(tmp_path: Path) -> None:
    build(tmp_path / "v", HashEncoder())
    encoder = HashEncoder()
    build(tmp_path / "v", encoder)
    assert encoder.encoded == 0
    assert encoder.learned == COUNT


@pytest.mark.parametrize(
    ("name", "corpus", "storage"),
    [("other", "c", "float16"), ("hash", "other corpus", "float16"), ("hash", "c", "int8")],
)
def test_another_encoder_corpus_or_storage_starts_anew(
    tmp_path: Path, name: str, corpus: str, storage: Storage
) -> None:
    build(tmp_path / "v", HashEncoder(), count=5)
    encoder = HashEncoder(name)
    store = build(tmp_path / "v", encoder, count=5, corpus=corpus, storage=storage)
    assert encoder.encoded == 5
    assert (store.manifest.encoder.encoder, store.manifest.corpus, store.manifest.storage) == (name, corpus, storage)


def test_work_of_another_version_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "building.json").write_text('{"corpus": "c", "settings": "hash", "pages": 5}')
    (tmp_path / "v" / "shard-00000.npz").write_bytes(b"old")
    build(tmp_path / "v", HashEncoder(), count=5)
    assert not (tmp_path / "v" / "shard-00000.npz").exists()


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ledger\.jsonl"):
        build(tmp_path / "v", HashEncoder(), count=0)


@pytest.mark.parametrize(
    ("fault", "said"), [("none", "has no vector"), ("nan", "not finite"), ("wide", "16 wide, not 8")]
)
def test_vectors_that_no_index_can_hold_name_their_page(tmp_path: Path, fault: str, said: str) -> None:
    class Faulty(HashEncoder):
        def encode_pages(self, pages):  # type: ignore[no-untyped-def]
            for page in super().encode_pages(pages):
                rows = page.vectors.copy()
                if page.page_id == "a0003#p3":
                    rows = {"none": rows[:0], "nan": rows * np.nan, "wide": np.repeat(rows, 2, axis=1)}[fault]
                yield PageVectors(page.page_id, rows, page.boxes, page.vector_of)

    with pytest.raises(MismatchError, match=rf"^page a0003#p3: .*{said}"):
        build(tmp_path / "v", Faulty())


def test_an_encoder_that_stops_early_is_told(tmp_path: Path) -> None:
    class Lazy(HashEncoder):
        def encode_pages(self, pages):  # type: ignore[no-untyped-def]
            yield from list(super().encode_pages(pages))[:70]

    with pytest.raises(MedvragError, match="vectors for 70 of 197 pages"):
        build(tmp_path / "v", Lazy())


def test_throughput_counts_what_was_encoded(tmp_path: Path) -> None:
    store = build(tmp_path / "v", HashEncoder())
    throughput = read_throughput(tmp_path / "v")
    assert throughput is not None and throughput.seconds > 0
    assert (throughput.pages, throughput.vectors, throughput.processes) == (COUNT, store.offsets[-1], 1)
    assert throughput.patches == sum(len(store.page(page_id).boxes) for page_id in store.page_ids)
    assert throughput.waiting_s is None
    assert read_throughput(tmp_path) is None


def test_an_encoder_is_fitted_on_pages_that_are_made_when_asked_for(tmp_path: Path) -> None:
    alive: weakref.WeakSet[Thing] = weakref.WeakSet()
    most = 0

    class Thing(type(made_page(0))):  # type: ignore[misc]
        """A page input that can be watched."""

    class Reader(HashEncoder):
        def fit(self, pages: Iterable[PageInput]) -> None:
            nonlocal most
            assert isinstance(pages, Sequence)
            for _ in pages:
                most = max(most, len(alive))
            super().fit(pages)

    def make(place: int) -> PageInput:
        given = made_page(place)
        thing = Thing(given.page, given.layout, given.image)
        alive.add(thing)
        return thing

    encode_corpus(PageInputs(50, make), Reader(), tmp_path / "v", corpus_fingerprint="c", progress=False)
    assert most <= 2


def test_what_batches_cost_stands_beside_the_throughput(tmp_path: Path) -> None:
    encoder = SizedEncoder(batch_size=4, read_ahead=2)
    for name in ("v", "w"):  # The second call counts anew.
        encode_corpus(sized(range(1, 21)), encoder, tmp_path / name, corpus_fingerprint="c", progress=False)
        throughput = read_throughput(tmp_path / name)
        assert throughput is not None and throughput.padding_share == encoder.tally.padding_share > 0
        assert throughput.waiting_s is not None and throughput.model_s is not None
        assert throughput.waiting_s + throughput.model_s <= throughput.seconds
        assert encoder.tally.batches == 5
    shown = told(throughput)
    assert shown.keys() == {"patches/s", "waiting", "padding"}


def test_a_bar_without_batches_shows_patches_alone() -> None:
    assert told(Throughput(pages=1, vectors=1, patches=30, seconds=10.0, processes=1)) == {"patches/s": "3"}


def test_copies_in_other_processes_give_the_same_store(tmp_path: Path) -> None:
    alone = build(tmp_path / "v", HashEncoder())
    parent = HashEncoder()
    side_by_side = build(tmp_path / "w", parent, copies=Copies(HashEncoder, processes=2))
    assert parent.encoded == 0
    assert side_by_side.manifest == alone.manifest
    assert read_throughput(tmp_path / "w").processes == 2  # type: ignore[union-attr]


def test_few_pages_are_encoded_here(tmp_path: Path) -> None:
    parent = HashEncoder()
    build(tmp_path / "v", parent, count=2 * SHARD_PAGES - 1, copies=Copies(HashEncoder, processes=8))
    assert parent.encoded == 2 * SHARD_PAGES - 1


def test_a_copy_that_fails_names_its_page_and_whole_shards_stay(tmp_path: Path) -> None:
    with pytest.raises(MedvragError, match=r"^page a0150#p150: RuntimeError: no such luck$"):
        build(tmp_path / "v", HashEncoder(), copies=Copies(partial(HashEncoder, fail_at=150), processes=2))
    again = HashEncoder()
    assert build(tmp_path / "v", again).manifest == build(tmp_path / "w", HashEncoder()).manifest
    assert again.encoded == SHARD_PAGES + 5


def test_a_copy_that_is_killed_ends_the_build_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(MedvragError, match="came to an end; set workers to 1"):
        build(tmp_path / "v", HashEncoder(), copies=Copies(partial(HashEncoder, end_at=100), processes=2))


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "SHARD_PAGES", 4)
    monkeypatch.setattr(index_build, "SEGMENT_NUMBERS", 1)
    monkeypatch.setattr(verified, "THREADS", 1)  # How many files are in memory at once must not depend on the clock.

    def peak(work: Callable[[], object]) -> int:
        """Most bytes held meanwhile, in excess of what was held before."""
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before

    def peaks(pages: int) -> dict[str, int]:
        folder = tmp_path / str(pages)
        return {
            "encode": peak(lambda: build(folder, HashEncoder(rows=400, dim=64), pages)),
            "duplicates": peak(lambda: near_duplicates(VectorStore.open(folder), 0.97)),
            "index": peak(lambda: write_index(VectorStore.open(folder), settings, folder / "i", near_duplicate=1.0)),
            "pages": peak(lambda: every_page(VectorStore.open(folder))),
            "vectors": peak(lambda: VectorStore.open(folder).vectors),
        }

    def every_page(store: VectorStore) -> None:
        for page_id in store.page_ids:
            store.page(page_id)

    settings = IndexSettings(centroids=1)
    tracemalloc.start()
    try:
        peaks(4)  # What is imported and cached on first use is no part of it.
        small, large = peaks(8), peaks(32)
    finally:
        tracemalloc.stop()
    grown = {name: large[name] - small[name] for name in small}
    all_more = grown.pop("vectors")
    assert all_more > 500_000  # What the other steps would take if they had all vectors in memory.
    # The centroids of a page take the products of all its vectors, so the index takes what its largest page asks for.
    assert grown.pop("index") < 0.4 * all_more
    assert max(grown.values()) < 0.1 * all_more, grown


def test_inputs_are_made_when_they_are_needed(tmp_path: Path) -> None:
    made: list[int] = []

    def make(place: int):  # type: ignore[no-untyped-def]
        made.append(place)
        return made_page(place)

    encoder = HashEncoder(fail_at=SHARD_PAGES + 3)
    encoder.fit = lambda pages: None  # type: ignore[method-assign]
    with pytest.raises(MedvragError):
        encode_corpus(PageInputs(1_000, make), encoder, tmp_path / "v", corpus_fingerprint="c", progress=False)
    assert len(made) <= SHARD_PAGES + 5
    assert [page.page.number for page in PageInputs(10, made_page)[2:8:3]] == [2, 5]
    assert len(made_pages(3)) == 3
