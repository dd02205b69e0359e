from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medvrag_core.index.maxsim import score_pages


def test_a_page_depends_on_the_seed_and_its_number_alone() -> None:
    from page_vectors import PageMaker

    maker = PageMaker(seed=3)
    whole, part = maker.block(0, 40), PageMaker(seed=3).block(17, 23)
    lengths = np.diff(whole.offsets)
    assert np.array_equal(np.diff(part.offsets), lengths[17:23])
    assert np.array_equal(part.rows, whole.rows[whole.offsets[17] : whole.offsets[23]])
    assert not np.array_equal(PageMaker(seed=4).block(0, 1).rows[:5], whole.rows[:5])
    blocks = list(maker.blocks(150))
    assert [len(block.offsets) - 1 for block in blocks] == [64, 64, 22]
    assert np.array_equal(blocks[0].rows[: whole.offsets[40]], whole.rows)


def test_pages_have_the_form_that_is_promised() -> None:
    from page_vectors import PageMaker

    blocks = list(PageMaker().blocks(640))
    rows, lengths = np.concatenate([b.rows for b in blocks]), np.concatenate([np.diff(b.offsets) for b in blocks])
    assert rows.dtype == np.float16 and rows.shape == (lengths.sum(), 128)
    assert np.abs(np.linalg.norm(rows.astype(np.float32), axis=1) - 1).max() < 2e-3
    assert lengths.min() >= 1 and lengths.max() <= 140 and abs(lengths.mean() - 103) < 4
    assert 0.005 < np.mean(lengths < 12) < 0.04


def test_patches_of_a_page_and_pages_of_an_article_are_alike() -> None:
    from page_vectors import ARTICLE_PAGES, PageMaker

    block = PageMaker().block(0, 320)
    means = np.add.reduceat(block.rows.astype(np.float32), block.offsets[:-1]) / np.diff(block.offsets)[:, None]
    alike = means @ means.T
    article = np.arange(320) // ARTICLE_PAGES
    same = (article[:, None] == article) & ~np.eye(320, dtype=bool)
    assert alike[same].mean() > alike[article[:, None] != article].mean() + 0.03
    page = block.rows[: block.offsets[1]].astype(np.float32)
    neighbors = (page[1:] * page[:-1]).sum(axis=1)
    assert neighbors.mean() > (page @ page.T).mean() + 0.1, "regions lie together"


def test_queries_find_their_page_but_not_always_first() -> None:
    from page_vectors import PageMaker

    maker, pages = PageMaker(), 1_000
    blocks = list(maker.blocks(pages))
    vectors = np.concatenate([block.rows for block in blocks]).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(block.offsets) for block in blocks]))])
    places = []
    for number in range(12):
        query = maker.query(number, pages)
        assert np.array_equal(maker.query(number, pages).rows, query.rows)
        assert 12 <= len(query.rows) <= 30 and query.rows.dtype == np.float32
        assert np.allclose(np.linalg.norm(query.rows, axis=1), 1, atol=1e-5)
        scores = score_pages(query.rows, vectors, offsets)
        places.append(int((scores > scores[query.target]).sum()))
        best = np.sort(scores)[::-1]
        assert best[9] - best[99] < 0.15, "scores lie close together"
    assert np.median(places) <= 2 and max(places) < 100
    assert max(places) > 0, "the answer would be trivial"


def test_the_store_holds_the_pages_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    from page_vectors import PageMaker, made_store, page_id, page_number

    maker = PageMaker(seed=1)
    store = made_store(maker, 70, tmp_path / "vectors")
    assert store.page_ids == tuple(sorted(store.page_ids)) == tuple(page_id(number) for number in range(70))
    assert [page_number(name) for name in store.page_ids] == list(range(70))
    wanted = [maker.block(0, 64), maker.block(64, 70)]
    assert np.array_equal(store.vectors, np.concatenate([block.rows for block in wanted]).astype(np.float32))
    one = store.page(page_id(3))
    assert len(one.boxes) == len(one.vectors) and np.array_equal(one.vector_of, np.arange(len(one.vectors)))
    assert store.manifest.storage == "float16" and store.manifest.encoder.more["seed"] == 1


def test_difficulty_counts_ranks_shares_and_short_pages() -> None:
    from page_vectors import difficulty

    both = np.array([[9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2], [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], dtype=np.float32)
    lengths = np.array([3, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 5])
    told = difficulty(-both, both, (0, 0), lengths)
    assert told["target_first"] == 0.5 and told["target_among_100"] == 1.0
    assert told["mean_score_at"] == {"1": 9.0, "10": 4.5} and told["two_way_top_100_in_one_way"] == 1.0
    assert told["pages_under_12_rows"] == pytest.approx(2 / 12, rel=1e-3)
    assert told["pages_under_12_rows_in_top_10"] == pytest.approx(1 / 20)


def test_the_difficulty_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import page_vectors
    from page_vectors import PageMaker

    monkeypatch.setattr("sys.argv", ["x", "--pages", "200", "--queries", "2", "--check"])
    page_vectors.main()
    assert "target among 100               1.0\n" in capsys.readouterr().out
    hard = page_vectors.made_difficulty(PageMaker(), 200, 3)
    assert 0 < hard["two_way_top_100_in_one_way"] < 1
    assert hard["mean_score_at"]["1"] > hard["mean_score_at"]["100"] > hard["median_score"] - 0.05
