"""Controls against their references: on the same questions, by the text of options, as one family."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.contrasts import contrast, rules_of
from medvrag_core.evaluation.statistics.controls import CONTROLS, Control, arms_of, control_results, find_controls
from medvrag_core.evaluation.statistics.estimands import arm_of
from medvrag_core.evaluation.statistics.proportions import holm
from medvrag_core.records import Trace
from medvrag_core.settings import EvaluationSettings
from medvrag_core.systems.base import catalog
from medvrag_core.systems.question_controls import shuffled

SETTINGS = EvaluationSettings(bootstrap_samples=300)
MakeTrace = Callable[..., Trace]


def pair(arm: str, reference: str = "medvrag") -> Control:
    return Control(arm=arm, reference=reference, asks="?", if_equal="=")


def answers(make_trace: MakeTrace, system: str, labels: str, first: int = 0) -> list[Trace]:
    """One question a letter, gold A; ids count from ``first``."""
    return [make_trace(f"q{n}", label, system=system) for n, label in enumerate(labels, first)]


def test_every_comparison_is_of_systems_that_there_are_and_asks_something() -> None:
    known = catalog()
    assert {name for c in CONTROLS for name in (c.arm, c.reference)} <= known.keys()
    assert all(c.asks.endswith("?") and c.if_equal for c in CONTROLS)
    assert len({(c.arm, c.reference) for c in CONTROLS}) == len(CONTROLS)


def test_arms_are_chosen_by_name() -> None:
    assert find_controls() == CONTROLS
    assert {c.arm for c in find_controls(" blank_pages, plain_history ")} == {"blank_pages", "plain_history"}
    with pytest.raises(InputError, match=r"'medrag' is no control arm; choose among summaries_only"):
        find_controls("medrag")
    rest = find_controls(leave_out="single_on_iterated, blank_pages")
    assert {c.arm for c in CONTROLS} - {c.arm for c in rest} == {"single_on_iterated", "blank_pages"}
    with pytest.raises(InputError, match="'single' is no control arm"):
        find_controls(leave_out="single")
    needed = arms_of(find_controls("cited_removed"))
    assert needed[0] == "medvrag" and set(needed) == {"medvrag", "cited_removed", "uncited_removed"}


def test_a_control_is_compared_on_its_own_questions(make_trace: MakeTrace) -> None:
    arms = {
        "medvrag": answers(make_trace, "medvrag", "AAABBBCC"),
        "single_on_iterated": answers(make_trace, "single_on_iterated", "AABA", first=2),
    }
    (result,) = control_results(arms, [pair("single_on_iterated")], SETTINGS)
    found = result.contrast
    assert (found.n, found.estimates[1].won, found.estimates[1].lost) == (4, 2, 0)
    assert (result.changed.count, result.changed.n) == (2, 4)


def test_the_family_is_all_comparisons(make_trace: MakeTrace) -> None:
    arms = {
        "medvrag": answers(make_trace, "medvrag", "A" * 9 + "B" * 9),
        "blank_pages": answers(make_trace, "blank_pages", "B" * 9 + "B" * 9),
        "random_pages": answers(make_trace, "random_pages", "A" * 8 + "B" * 10),
    }
    results = control_results(arms, [pair("blank_pages"), pair("random_pages")], SETTINGS)
    alone = [
        contrast(arm_of([arms["medvrag"]]), arm_of([arms[name]]), rules_of(SETTINGS)).estimates[1].p_value
        for name in ("blank_pages", "random_pages")
    ]
    assert [r.contrast.estimates[1].p_value for r in results] == pytest.approx(alone)
    assert [r.contrast.estimates[1].p_adjusted for r in results] == pytest.approx(holm(alone))
    assert alone[0] < 0.05 < holm(alone)[1]


def test_the_same_option_under_another_label_is_no_other_answer(make_trace: MakeTrace) -> None:
    plain = answers(make_trace, "medvrag", "ABCDABCD" * 3)
    moved = []
    for trace in plain:
        question = shuffled(trace.question, 1)
        text = trace.question.options[trace.label or ""]
        label = next(label for label, other in question.options.items() if other == text)
        changes = {"question": question, "label": label, "system": "shuffled_options"}
        moved.append(trace.model_copy(update=changes))
    assert any(a.label != b.label for a, b in zip(plain, moved, strict=True))
    (result,) = control_results({"medvrag": plain, "shuffled_options": moved}, [pair("shuffled_options")], SETTINGS)
    assert result.changed.count == 0
    assert result.contrast.estimates[1].won == result.contrast.estimates[1].lost == 0


def test_a_missing_arm_is_named(make_trace: MakeTrace) -> None:
    arms = {"medvrag": answers(make_trace, "medvrag", "AB")}
    with pytest.raises(InputError, match=r"no answers of arm 'blank_pages'.*--system blank_pages"):
        control_results(arms, [pair("blank_pages")], SETTINGS)
