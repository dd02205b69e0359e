from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_pages import HashEncoder, made_pages

from medvrag_core.encoders.encode import SHARD_PAGES, encode_corpus
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MismatchError

COUNT = 2 * SHARD_PAGES + 5
STORAGES = ("float32", "float16", "int8")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, VectorStore]:
    home = tmp_path_factory.mktemp("stores")
    return {
        storage: encode_corpus(
            made_pages(COUNT), HashEncoder(), home / storage, corpus_fingerprint="c", storage=storage, progress=False
        )
        for storage in STORAGES
    }


@settings(max_examples=60, deadline=None)
@given(places=st.lists(st.integers(0, COUNT - 1), max_size=40), storage=st.sampled_from(STORAGES))
def test_rows_of_chosen_pages_in_the_order_given(
    stores: dict[str, VectorStore], places: list[int], storage: str
) -> None:
    store = stores[storage]
    vectors, offsets = store.rows(np.array(places, dtype=np.int64))
    wanted = [store.vectors[store.offsets[place] : store.offsets[place + 1]] for place in places]
    assert vectors.dtype == np.float32 and offsets.dtype == np.int64
    assert vectors.shape == (sum(map(len, wanted)), store.dim) and len(offsets) == len(places) + 1
    for k, rows in enumerate(wanted):
        assert np.array_equal(vectors[offsets[k] : offsets[k + 1]], rows)


@pytest.mark.parametrize("places", [[-1], [0, COUNT], [COUNT + 3, 1]])
def test_a_page_that_is_not_there_is_refused(stores: dict[str, VectorStore], places: list[int]) -> None:
    with pytest.raises(InputError, match=rf"float16: holds the pages 0 to {COUNT - 1}, not"):
        stores["float16"].rows(np.array(places))


def test_no_file_stays_open(stores: dict[str, VectorStore]) -> None:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("the system does not list open files")
    store = VectorStore.open(stores["int8"].folder)
    vectors, _ = store.rows(np.arange(COUNT))
    parts = list(store.each_shard())
    page = store.page(store.page_ids[0])
    left = [str(path.readlink()) for path in folder.iterdir() if path.is_symlink()]
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert len(vectors) and parts and len(page.vectors)
    assert not [path for path in left if str(store.folder) in path]
    assert str(store.folder) not in maps


def test_a_file_cut_short_after_opening_is_told(tmp_path: Path) -> None:
    store = encode_corpus(
        made_pages(70), HashEncoder(), tmp_path / "v", corpus_fingerprint="c", storage="int8", progress=False
    )
    path = tmp_path / "v" / "shard-00001" / "scales.npy"
    path.write_bytes(path.read_bytes()[:-4])
    assert len(store.rows(np.array([63]))[0])
    with pytest.raises(MismatchError, match=r"shard-00001/scales\.npy: .*delete .*v and index the pages again"):
        store.rows(np.array([64]))
