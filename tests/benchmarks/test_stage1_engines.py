"""Engines of the benchmark against plain loops; peers that are not installed skip, saying so."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def collection(pages: int = 60) -> tuple[Any, Any, Any]:
    from page_vectors import PageMaker

    maker = PageMaker(seed=5)
    block = maker.block(0, pages)
    return block.rows, block.offsets, maker.query(0, pages).rows


def slow_score(query: Any, page: Any, ways: int) -> float:
    forward = [max(float(np.dot(q, v)) for v in page) for q in query]
    backward = [max(float(np.dot(q, v)) for q in query) for v in page]
    return float(np.mean(forward) + (np.mean(backward) if ways == 2 else 0))


def engines() -> list[Any]:
    from stage1_engines import ENGINES
    from stage1_paper import PaperInFaiss
    from stage1_stores import STORES

    return [PaperInFaiss, *ENGINES, *STORES]


def test_the_reference_is_the_formula() -> None:
    from stage1_engines import both_halves

    rows, offsets, query = collection(12)
    forward, backward = both_halves(query, rows, offsets)
    for page in range(12):
        some = rows[offsets[page] : offsets[page + 1]].astype(np.float32)
        assert forward[page] == pytest.approx(slow_score(query, some, 1), abs=1e-5)
        assert forward[page] + backward[page] == pytest.approx(slow_score(query, some, 2), abs=1e-5)


def test_blocks_hold_whole_pages_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import stage1_engines

    rows, offsets, query = collection(40)
    whole = stage1_engines.both_halves(query, rows, offsets)
    monkeypatch.setattr(stage1_engines, "ROWS_AT_ONCE", 250)
    blocks = list(stage1_engines.row_blocks(offsets))
    assert len(blocks) > 10 and blocks[0][0] == 0 and blocks[-1][1] == 40
    assert all(a[1] == b[0] for a, b in pairwise(blocks))
    for half, other in zip(whole, stage1_engines.both_halves(query, rows, offsets), strict=True):
        assert np.allclose(half, other, atol=1e-6)
    pages = list(stage1_engines.page_arrays(rows, offsets))
    assert np.array_equal(np.concatenate(pages), rows.astype(np.float32))
    assert [len(page) for page in pages] == np.diff(offsets).tolist()


def test_ties_are_in_order_of_number() -> None:
    from stage1_engines import best

    scores = np.random.default_rng(0).integers(4, size=50).astype(np.float32)
    wanted = sorted(range(50), key=lambda page: (-scores[page], page))
    for k in (1, 7, 49, 50, 80):
        assert best(scores, k).tolist() == wanted[:k]


def test_the_papers_design_ranks_what_it_found_by_means_and_then_exactly(tmp_path: Path) -> None:
    from stage1_engines import both_halves
    from stage1_paper import PaperInFaiss

    class Small(PaperInFaiss):
        neighbors, shortlist = 120, 15

    rows, offsets, query = collection()
    engine = Small(tmp_path, 1)
    engine.build(rows, offsets)
    engine._index.nprobe = engine._index.nlist
    means = engine._index.reconstruct_n(0, engine._index.ntotal) if engine._index.make_direct_map() is None else None
    near = query @ means.T
    page_of = np.repeat(np.arange(60), np.minimum(np.diff(offsets), 8))
    coarse = np.full((len(query), 60), -np.inf)
    for row, similarities in enumerate(near):
        found = np.argsort(-similarities)[:120]
        coarse[row] = similarities[found].min()
        for mean in found:
            coarse[row, page_of[mean]] = max(coarse[row, page_of[mean]], similarities[mean])
    wanted = np.argsort(-coarse.mean(axis=0), kind="stable")[:15]
    forward, backward = both_halves(query, rows, offsets)
    assert engine.search(query, 30).tolist() == sorted(wanted, key=lambda page: -(forward + backward)[page])


@pytest.mark.parametrize("kind", engines(), ids=lambda kind: kind.name)
def test_an_engine_finds_what_exact_search_of_its_kind_finds(kind: Any, tmp_path: Path) -> None:
    from stage1_engines import both_halves, emptied

    if importlib.util.find_spec(kind.module.partition(".")[0]) is None:
        pytest.skip(f"{kind.package} is not installed here")
    rows, offsets, query = collection()
    forward, backward = both_halves(query, rows, offsets)
    exact = forward + backward if kind.ways == 2 else forward
    engine = kind(emptied(tmp_path / "engine"), 1)
    engine.build(rows, offsets)
    found = engine.search(query, 10)
    assert found.dtype == np.int64 and len(set(found.tolist())) == len(found) == 10
    share = len(set(found.tolist()) & set(np.argsort(-exact)[:10].tolist())) / 10
    assert share >= 0.8
    assert engine.bytes > len(rows) * 64 and 0 <= engine.must_read(len(query)) <= engine.bytes
    assert engine.must_read(len(query)) > 0 or kind.package in ("fast-plaid", "xtr-warp-rs")
    if kind.kept:
        again = kind(engine.folder, 1)
        again.open(rows, offsets)
        assert again.search(query, 10).tolist() == found.tolist()
