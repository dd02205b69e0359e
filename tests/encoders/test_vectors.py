from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_pages import HashEncoder, made_pages

from medvrag_core.encoders.encode import SHARD_PAGES, encode_corpus
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.runs.sealed import write_sealed
from medvrag_core.settings import Storage

COUNT = 2 * SHARD_PAGES + 5


def build(folder: Path, count: int = COUNT, storage: Storage = "float32", name: str = "hash") -> VectorStore:
    return encode_corpus(
        made_pages(count), HashEncoder(name), folder, corpus_fingerprint="c", storage=storage, progress=False
    )


def reference(count: int = COUNT) -> HashEncoder:
    encoder = HashEncoder()
    encoder.fit(made_pages(count))
    return encoder


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_vectors_round_trip_in_page_order(tmp_path: Path, storage: Storage) -> None:
    store = build(tmp_path / "v", storage=storage)
    direct = list(reference().encode_pages(made_pages(COUNT)))
    off = {"float32": 0.0, "float16": 2**-11, "int8": 1 / 254}[storage]
    assert store.page_ids == tuple(page.page_id for page in direct)
    assert np.array_equal(np.diff(store.offsets), [len(page.vectors) for page in direct])
    every = np.concatenate([page.vectors for page in direct])
    assert store.vectors.dtype == np.float32 and np.abs(store.vectors - every).max() <= off
    assert np.array_equal(np.concatenate([part.vectors for part in store.each_shard()]), store.vectors)
    for place in (0, SHARD_PAGES - 1, SHARD_PAGES, COUNT - 1):
        read = store.page(direct[place].page_id)
        assert np.array_equal(read.vectors, store.vectors[store.offsets[place] : store.offsets[place + 1]])
        assert np.array_equal(read.vector_of, direct[place].vector_of)
        assert np.allclose(read.boxes, direct[place].boxes, atol=1e-3)
    with pytest.raises(InputError, match="'zzz#p1'"):
        store.page("zzz#p1")


def test_int8_is_the_smallest(tmp_path: Path) -> None:
    sizes = [build(tmp_path / storage, storage=storage).bytes for storage in ("int8", "float16", "float32")]  # type: ignore[arg-type]
    assert sizes == sorted(sizes) and len(set(sizes)) == 3
    assert sizes[0] == sum(file.stat().st_size for file in (tmp_path / "int8").glob("shard-*/*"))


def test_shards_know_their_place(tmp_path: Path) -> None:
    parts = list(build(tmp_path / "v").each_shard())
    assert [part.first for part in parts] == [0, SHARD_PAGES, 2 * SHARD_PAGES]
    assert [len(part.offsets) - 1 for part in parts] == [SHARD_PAGES, SHARD_PAGES, 5]
    assert all(part.offsets[-1] == len(part.vectors) for part in parts)


@pytest.mark.parametrize("file", ["vectors.npy", "scales.npy", "pages.npz"])
def test_p7_a_flipped_bit_is_found_before_use(tmp_path: Path, file: str) -> None:
    build(tmp_path / "v", count=5, storage="int8")
    path = tmp_path / "v" / "shard-00000" / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(MismatchError, match=rf"shard-00000/{file}: is damaged"):
        VectorStore.open(tmp_path / "v")


def test_a_missing_shard_and_an_added_file_are_found(tmp_path: Path) -> None:
    build(tmp_path / "v", count=5)
    extra = tmp_path / "v" / "shard-00000" / "scales.npy"
    np.save(extra, np.ones(5, dtype=np.float32))
    with pytest.raises(MismatchError, match=r"scales\.npy: is a file that the manifest does not know"):
        VectorStore.open(tmp_path / "v")
    extra.parent.rename(tmp_path / "elsewhere")
    with pytest.raises(MismatchError, match="shard-00000"):
        VectorStore.open(tmp_path / "v")


@pytest.mark.parametrize(
    "text", ['{"encoder":"embedded-2-abc","corpus":"c","dim":8,"shards":[]}', '{"no": "manifest"}', "[]", ""]
)
def test_a_manifest_of_another_version_is_refused_with_the_way_out(tmp_path: Path, text: str) -> None:
    build(tmp_path / "v", count=5)
    (tmp_path / "v" / "manifest.json").write_text(text)
    with pytest.raises(MismatchError, match="index the pages again"):
        VectorStore.open(tmp_path / "v")


def test_another_format_is_refused_by_number(tmp_path: Path) -> None:
    store = build(tmp_path / "v", count=5)
    write_sealed(tmp_path / "v" / "manifest.json", store.manifest.model_copy(update={"format": 99}))
    with pytest.raises(MismatchError, match="format 99"):
        VectorStore.open(tmp_path / "v")


def test_no_build_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match="no finished page vectors"):
        VectorStore.open(tmp_path)


def test_queries_of_another_encoder_are_refused_and_each_field_is_named(tmp_path: Path) -> None:
    store = build(tmp_path / "v", count=5)
    same = HashEncoder()
    store.load_encoder(same)
    assert same.learned == 5
    with pytest.raises(MismatchError, match=r"v: .*dim: 8 -> 16; encoder: 'hash' -> 'other'\); use the profile"):
        store.load_encoder(HashEncoder("other", dim=16))


def test_a_damaged_state_of_the_encoder_is_found(tmp_path: Path) -> None:
    store = build(tmp_path / "v", count=5)
    np.save(tmp_path / "v" / "encoder" / "learned.npy", np.array([6]))
    with pytest.raises(MismatchError, match=r"encoder/learned\.npy: is damaged"):
        store.load_encoder(HashEncoder())
