"""Groups of questions, and comparisons within them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.difficulty.groups import GROUPS, composition, group_contrasts
from medvrag_core.records import Question, Trace
from medvrag_core.settings import EvaluationSettings

QUICK = EvaluationSettings(bootstrap_samples=200)
OPTIONS = {"A": "x", "B": "y"}


def question(name: str, gold: tuple[str, ...], evidence: str = "text") -> Question:
    return Question(id=name, question="?", options=OPTIONS, answer="A", gold_pages=gold, evidence=evidence)


ONE = question("one", ("a#p1",))
SAME = question("same", ("a#p1", "a#p2"), "table")
TWO = question("two", ("a#p1", "b#p1"), "figure")


def test_groups_go_by_pages_articles_and_evidence() -> None:
    members = {name: [q.id for q in (ONE, SAME, TWO) if belongs(q)] for name, belongs in GROUPS.items()}
    assert members == {
        "all": ["one", "same", "two"],
        "one page": ["one"],
        "pages of two articles": ["two"],
        "text or table": ["one", "same"],
        "figure or layout": ["two"],
    }


def test_composition_counts_every_question_once_a_property() -> None:
    rows = composition([ONE, SAME, TWO, TWO.model_copy(update={"id": "q", "gold_pages": ()})])
    assert {r.property: sum(o.count for o in rows if o.property == r.property) for r in rows} == {
        "evidence": 4,
        "pages": 4,
        "difficulty": 4,
    }
    assert {r.value for r in rows if r.property == "pages"} == {
        *("none", "one", "two, of one article", "two, of different articles")
    }


def answers(make_trace: Callable[..., Trace], system: str, right: str) -> list[Trace]:
    return [
        make_trace(
            f"q{n}",
            "A" if letter == "r" else "B",
            gold_pages=("a#p1", "b#p1") if n % 2 else ("a#p1",),
            system=system,
        )
        for n, letter in enumerate(right)
    ]


def test_a_comparison_in_a_group_sees_the_questions_of_the_group_alone(make_trace: Callable[..., Trace]) -> None:
    arms = {"a": answers(make_trace, "a", "rw" * 6), "b": answers(make_trace, "b", "rr" * 6)}
    found = group_contrasts(arms, {("a", "b"): ["all", "pages of two articles", "one page"]}, QUICK, family="f")
    told = {row.group: (row.contrast.n, row.contrast.estimates[-1].difference) for row in found}
    assert told == {"all": (12, 50.0), "pages of two articles": (6, 100.0), "one page": (6, 0.0)}
    assert {row.contrast.family_size for row in found} == {3}, "adjusted over all of them"


def test_unknown_groups_and_empty_ones_are_refused(make_trace: Callable[..., Trace]) -> None:
    arms = {name: answers(make_trace, name, "rr") for name in "ab"}
    with pytest.raises(InputError, match="no group 'hard'"):
        group_contrasts(arms, {("a", "b"): ["hard"]}, QUICK, family="f")
    with pytest.raises(InputError, match="no question of the group 'figure or layout'"):
        group_contrasts(arms, {("a", "b"): ["figure or layout"]}, QUICK, family="f")
    with pytest.raises(InputError, match="no traces of arm 'c'"):
        group_contrasts(arms, {("a", "c"): ["all"]}, QUICK, family="f")
