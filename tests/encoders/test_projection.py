from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medvrag_core.encoders.projection import Projection
from medvrag_core.errors import InputError, NotBuiltError


def made_rows(count: int, width: int, rank: int, seed: int = 0) -> np.ndarray:
    """Unit rows that lie in ``rank`` dimensions."""
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((count, rank)) @ draw.standard_normal((rank, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("rank", [5, 16])
def test_scores_survive_a_projection_to_as_many_dimensions_as_there_are(rank: int) -> None:
    rows = made_rows(60, 16, rank)
    projected = Projection.fit(rows, rank)(rows)
    assert projected.shape == (60, rank)
    assert np.allclose(projected @ projected.T, rows @ rows.T, atol=1e-4)


def test_no_directions_of_that_width_hold_more_of_the_sample() -> None:
    rows = made_rows(80, 12, 12)
    directions = Projection.fit(rows, 4).directions
    assert np.allclose(directions.T @ directions, np.eye(4), atol=1e-5)
    best = (np.linalg.svd(rows, compute_uv=False)[:4] ** 2).sum()
    assert ((rows @ directions) ** 2).sum() == pytest.approx(best, rel=1e-4)


def test_rows_keep_unit_length_and_a_fit_can_be_repeated() -> None:
    rows = made_rows(40, 8, 8)
    first, again = Projection.fit(rows, 3), Projection.fit(rows.copy(), 3)
    assert np.array_equal(first.directions, again.directions)
    assert np.allclose(np.linalg.norm(first(rows), axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(("count", "width"), [(2, 3), (40, 9)])
def test_what_cannot_be_told_apart_is_refused(count: int, width: int) -> None:
    with pytest.raises(InputError, match=r"cannot be projected to \d; set encoder.pca_dim"):
        Projection.fit(made_rows(count, 8, 8), width)


def test_it_is_the_same_after_saving_and_nothing_else_is_taken_for_it(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match="no projection"):
        Projection.load(tmp_path, shape=(8, 3))
    made = Projection.fit(made_rows(40, 8, 8), 3)
    made.save(tmp_path)
    assert np.array_equal(Projection.load(tmp_path, shape=(8, 3)).directions, made.directions)
    with pytest.raises(InputError, match=r"is no projection of shape \(8, 4\)"):
        Projection.load(tmp_path, shape=(8, 4))
    np.save(tmp_path / "projection.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="is damaged"):
        Projection.load(tmp_path, shape=(8, 3))
