from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.vectors import SHARD_PAGES, VectorStore, encode_corpus
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.index.build import build_index, is_current, open_index
from medvrag_core.index.duplicates import near_duplicates
from medvrag_core.records import Page, PageLayout, PageVectors
from medvrag_core.settings import IndexSettings


class HashEncoder(PageEncoder):
    """Vectors drawn from the page id; counts what it encodes and can be told to die."""

    dim = 8

    def __init__(self, name: str = "hash", die_at: int | None = None) -> None:
        self.name, self.die_at, self.encoded = name, die_at, 0

    @property
    def fingerprint(self) -> str:
        return self.name

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        for given in pages:
            if self.encoded == self.die_at:
                raise RuntimeError("killed")
            self.encoded += 1
            rng = np.random.default_rng(sum(given.page.page_id.encode()))
            rows = rng.normal(size=(int(rng.integers(1, 6)), 8)).astype(np.float32)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            yield PageVectors(
                given.page.page_id, rows, np.zeros((len(rows), 4), dtype=np.float32), np.arange(len(rows))
            )

    def encode_query(self, text: str) -> np.ndarray:
        return np.eye(8, dtype=np.float32)[:1]


def pages(count: int) -> list[PageInput]:
    made = []
    for n in range(count):
        page = Page(
            page_id=f"a{n:04d}#p1", article_id=f"a{n:04d}", number=1, width_pt=1, height_pt=1, image="x",
            image_width=1, image_height=1, dpi=72, text_source="pdf", text="",
        )  # fmt: skip
        made.append(PageInput(page, PageLayout(page_id=page.page_id, words=(), regions=()), Path("x")))
    return made


def build(folder: Path, encoder: HashEncoder, count: int = 3 * SHARD_PAGES + 5, corpus: str = "c") -> VectorStore:
    return encode_corpus(pages(count), encoder, folder, corpus_fingerprint=corpus, progress=False)


def test_vectors_round_trip_in_page_order(tmp_path: Path) -> None:
    store = build(tmp_path / "v", HashEncoder())
    direct = list(HashEncoder().encode_pages(pages(len(store))))
    assert store.page_ids == tuple(p.page_id for p in direct)
    for page in (direct[0], direct[70], direct[-1]):
        assert np.allclose(store.page(page.page_id).vectors, page.vectors, atol=1e-3)
    with pytest.raises(InputError, match="'zzz#p1'"):
        store.page("zzz#p1")


def test_bc32_a_stopped_build_goes_on_after_its_last_whole_shard(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        build(tmp_path / "v", HashEncoder(die_at=2 * SHARD_PAGES + 10))
    with pytest.raises(NotBuiltError, match="no finished page vectors"):
        VectorStore.open(tmp_path / "v")
    again = HashEncoder()
    resumed = build(tmp_path / "v", again)
    assert again.encoded == SHARD_PAGES + 5
    fresh = build(tmp_path / "w", HashEncoder())
    assert np.array_equal(resumed.vectors, fresh.vectors)
    assert resumed.manifest == fresh.manifest


def test_a_finished_build_is_opened_not_made_again(tmp_path: Path) -> None:
    build(tmp_path / "v", HashEncoder())
    encoder = HashEncoder()
    build(tmp_path / "v", encoder)
    assert encoder.encoded == 0


@pytest.mark.parametrize(("name", "corpus"), [("other", "c"), ("hash", "other corpus")])
def test_another_encoder_or_corpus_starts_anew(tmp_path: Path, name: str, corpus: str) -> None:
    build(tmp_path / "v", HashEncoder(), count=5)
    encoder = HashEncoder(name)
    store = build(tmp_path / "v", encoder, count=5, corpus=corpus)
    assert encoder.encoded == 5
    assert store.manifest.encoder == name


def test_p7_a_flipped_bit_is_found_before_use(tmp_path: Path) -> None:
    build(tmp_path / "v", HashEncoder(), count=5)
    shard = tmp_path / "v" / "shard-00000.npz"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(MismatchError, match=r"shard-00000\.npz: is missing or damaged"):
        VectorStore.open(tmp_path / "v")


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ledger\.jsonl"):
        build(tmp_path / "v", HashEncoder(), count=0)


def test_bc25_a_reopened_index_ranks_the_same(tmp_path: Path) -> None:
    store = build(tmp_path / "v", HashEncoder(), count=40)
    settings = IndexSettings(mode="paper")
    first = build_index(store, settings, tmp_path / "i", near_duplicate=1.0)
    query = store.page("a0007#p1").vectors
    again = open_index(VectorStore.open(tmp_path / "v"), settings, tmp_path / "i")
    assert again.search(query, 10).hits == first.search(query, 10).hits
    assert again.search(query, 1).hits[0].page_id == "a0007#p1"


def test_an_index_of_other_vectors_is_refused_by_name(tmp_path: Path) -> None:
    store = build(tmp_path / "v", HashEncoder(), count=10)
    build_index(store, IndexSettings(), tmp_path / "i", near_duplicate=1.0)
    other = build(tmp_path / "w", HashEncoder(), count=11)
    with pytest.raises(MismatchError, match="built from vectors"):
        open_index(other, IndexSettings(), tmp_path / "i")
    assert not is_current(other, IndexSettings(), tmp_path / "i", near_duplicate=1.0)


def test_near_duplicates_keep_the_earlier_page(tmp_path: Path) -> None:
    store = build(tmp_path / "v", HashEncoder(), count=6)
    twin = store.vectors.copy()
    rows = slice(int(store.offsets[1]), int(store.offsets[2]))
    store.offsets = np.array([0, 3, 6], dtype=np.int64)
    store.page_ids = ("a#p1", "a#p2")
    store.vectors = np.concatenate([twin[rows][:1]] * 6)
    pairs = near_duplicates(store, 0.97)
    assert [(p.kept, p.left_out) for p in pairs] == [("a#p1", "a#p2")]
    assert near_duplicates(store, 1.0) == []
