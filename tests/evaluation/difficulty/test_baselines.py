"""Rules that read no page: what they choose, and that they learn from other questions only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.difficulty.baselines import (
    baselines,
    central_option,
    longest_option,
    shortest_option,
)
from medvrag_core.records import Question
from medvrag_core.settings import EvaluationSettings

SETTINGS = EvaluationSettings()


def question(name: str, answer: str | None = "A", **options: str) -> Question:
    return Question(id=name, question="?", options=options or {"A": "x", "B": "y"}, answer=answer)


def test_the_letter_is_learned_from_other_questions() -> None:
    seen = [question(f"s{n}", "B") for n in range(3)] + [question("s9", "A")]
    tried = [question(f"q{n}", "A") for n in range(4)]
    letter = baselines(tried, SETTINGS, seen=seen)[0]
    assert "always B" in letter.rule
    assert letter.right.count == 0 and letter.right.n == 4
    assert letter.chance == 0.5
    assert letter.p_value == pytest.approx(2 * 0.5**4)


def test_a_giveaway_is_found() -> None:
    tried = [question(f"q{n}", "B", A="no", B="yes, but only with care", C="yes", D="yes or no") for n in range(20)]
    assert {central_option(asked) for asked in tried} == {"D"}, "it has words of all others"
    found = {b.name: b for b in baselines(tried, SETTINGS, seen=[question("s", "A", A="a", B="b", C="c")])}
    assert found["longest option"].right.share == 1.0 and found["longest option"].p_value < 1e-6
    assert found["shortest option"].right.share == 0.0
    assert found["most like the others"].right.share == 0.0


@given(st.dictionaries(st.sampled_from("ABCDE"), st.text("ab 1", max_size=6), min_size=2))
def test_a_rule_always_names_an_option_of_the_extreme_length(options: dict[str, str]) -> None:
    asked = question("q", None, **options)
    lengths = [len(text) for text in options.values()]
    assert len(options[longest_option(asked)]) == max(lengths)
    assert len(options[shortest_option(asked)]) == min(lengths)
    assert central_option(asked) in options


def test_what_was_learned_from_is_not_tried_on() -> None:
    with pytest.raises(InputError, match="'q' would be learned from and tried on"):
        baselines([question("q")], SETTINGS, seen=[question("q"), question("r")])
    with pytest.raises(InputError, match="questions with answers"):
        baselines([question("q", None)], SETTINGS, seen=[question("r")])
    with pytest.raises(InputError, match="questions with answers"):
        baselines([question("q")], SETTINGS, seen=[])
