from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa

from medvrag_core.errors import InputError
from medvrag_core.evaluation.errors.by_hand import (
    ErrorLabel,
    SuspectGold,
    human_check,
    read_error_labels,
    suspect_questions,
)
from medvrag_core.evaluation.errors.taxonomy import ERROR_CLASSES
from medvrag_core.evaluation.statistics.proportions import wilson
from medvrag_core.records import Question
from medvrag_core.settings import EvaluationSettings

FEW = EvaluationSettings(bootstrap_samples=300)
few_classes = st.sampled_from(["retrieval_miss", "misread", "suspect_gold"])


def _labels(classes: list[str]) -> list[ErrorLabel]:
    return [ErrorLabel(id=f"q{i}", error_class=name, rater="ana") for i, name in enumerate(classes)]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(few_classes, few_classes), min_size=1, max_size=30), st.integers(0, 3))
def test_the_check_agrees_with_counting_and_with_statsmodels(pairs: list, more: int) -> None:
    classes = {f"q{i}": ours for i, (ours, _) in enumerate(pairs)} | {f"other{i}": "misread" for i in range(more)}
    found = human_check(classes, _labels([theirs for _, theirs in pairs]), FEW)
    n = len(pairs)
    assert (found.rater, found.n, found.not_labeled) == ("ana", n, more)
    counted = {(a, b): pairs.count((a, b)) for a, b in pairs}
    assert {(a, b): k for a, row in found.confusion.items() for b, k in row.items()} == counted
    assert found.agree.count == sum(a == b for a, b in pairs)
    for side, shares in ((0, found.computed), (1, found.by_hand)):
        assert {name: share.count for name, share in shares.items()} == {
            name: sum(pair[side] == name for pair in pairs) for name in {pair[side] for pair in pairs}
        }
        assert all((share.low, share.high) == wilson(share.count, n) for share in shares.values())
    names = sorted({name for pair in pairs for name in pair})
    if len(names) == 1:
        assert found.kappa is None
    else:
        table = np.array([[pairs.count((a, b)) for b in names] for a in names])
        assert found.kappa is not None
        assert found.kappa.value == pytest.approx(cohens_kappa(table, return_results=False))
        assert -1 <= found.kappa.low <= found.kappa.value <= found.kappa.high <= 1


def test_the_interval_of_kappa_is_near_the_large_sample_one() -> None:
    rng = np.random.default_rng(0)
    ours = rng.choice(4, size=400)
    theirs = np.where(rng.random(400) < 0.7, ours, rng.choice(4, size=400))
    classes = {f"q{i}": ERROR_CLASSES[k] for i, k in enumerate(ours)}
    found = human_check(classes, _labels([ERROR_CLASSES[k] for k in theirs])).kappa
    table = np.array([[((ours == a) & (theirs == b)).sum() for b in range(4)] for a in range(4)])
    expected = cohens_kappa(table)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.kappa_low, expected.kappa_upp), abs=0.01)


def test_labels_must_speak_of_wrong_answers() -> None:
    with pytest.raises(InputError, match="'q1' is no wrong answer of this system"):
        human_check({"q0": "misread"}, _labels(["misread", "misread"]))
    with pytest.raises(InputError, match="there is no label"):
        human_check({"q0": "misread"}, [])


def test_labels_are_read_from_a_file_of_one_or_several_raters(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    lines = [ErrorLabel(id="q1", error_class="misread", rater=rater).to_json() for rater in ("ana", "bo")]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert [label.rater for label in read_error_labels(file, rater="bo")] == ["bo"]
    with pytest.raises(InputError, match="labels of ana, bo"):
        read_error_labels(file)
    with pytest.raises(InputError, match="no label of 'eve'"):
        read_error_labels(file, rater="eve")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"id": "q1", "error_class": "retrieval", "rater": "ana"}', "line 2: field 'error_class'"),
        ('{"id": "q1", "error_class": "misread"}', "line 2: field 'rater' is missing"),
        ('{"id": "q0", "error_class": "misread", "rater": "ana"}', "line 2: question 'q0' stands in line 1 already"),
        ('{"id": "q1", "error_class": "misread", "rater": "ana", "note": 1}', "line 2: unknown field 'note'"),
        ("q1, misread", "line 2"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(_labels(["misread"])[0].to_json() + "\n" + line, encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        read_error_labels(file)


def test_doubt_comes_from_the_data_and_from_a_file(tmp_path: Path) -> None:
    twice = Question(id="twice", question="Dose?", options={"A": "5 mg", "B": "5 mg"}, answer="B")
    plain = Question(id="plain", question="Route?", options={"A": "oral", "B": "nasal"}, answer="B")
    assert list(suspect_questions([twice, plain])) == ["twice"]
    file = tmp_path / "doubts.jsonl"
    lines = [("plain", "relabeled: A"), ("twice", "x"), ("elsewhere", "y")]
    file.write_text("\n".join(SuspectGold(id=i, reason=reason).to_json() for i, reason in lines), encoding="utf-8")
    found = suspect_questions([twice, plain], file)
    assert found["plain"] == "relabeled: A"
    assert found["twice"].startswith("another option has the text of the gold answer:")
    with pytest.raises(InputError, match="no such file"):
        suspect_questions([plain], tmp_path / "missing.jsonl")
