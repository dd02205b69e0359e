from __future__ import annotations

import numpy as np

from medvrag_core.evaluation.statistics.folds import folds_of


def test_a_fold_depends_on_the_id_alone_and_folds_are_about_equal() -> None:
    ids = [f"medqa:{number:04d}" for number in range(4_000)]
    fold = folds_of(ids, 5)
    assert (folds_of(ids[::-1], 5)[::-1] == fold).all()
    counts = np.bincount(fold, minlength=5)
    assert len(counts) == 5 and counts.min() > 700 and counts.max() < 900
