"""Counts of calls and differences of runs as text that cannot steer a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from medvrag_core.evaluation.diff import QuestionDiff, RunDiff
from medvrag_core.models.calls_status import CallsStatus, calls_status
from medvrag_core.models.store import CallStore, StoredCall, call_key
from medvrag_core.records import ReaderReply
from medvrag_core.views.calls_text import calls_text, diff_text

EVIL = "\x1b]0;title\x07\x1b[2J\r\n\u202e\x9b31m"


def one(number: int, **changes: object) -> QuestionDiff:
    values = {
        "question_id": f"q{number}",
        "first": "A",
        "second": "B",
        "first_correct": True,
        "second_correct": False,
        "where": "round 1, reply",
        "detail": "x -> y",
    }
    return QuestionDiff.model_validate(values | changes)


def many(*questions: QuestionDiff, **changes: object) -> RunDiff:
    values = {
        "first": "one",
        "second": "two",
        "both": 9,
        "identical": 9 - len(questions),
        "same_outcome": 4,
        "only_first": (),
        "only_second": (),
        "gained": 0,
        "lost": len(questions),
        "p_value": 0.125,
        "questions": questions,
    }
    return RunDiff.model_validate(values | changes)


def harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def test_all_that_differs_is_told() -> None:
    text = diff_text(many(one(1), one(2, second="A", second_correct=True)), ["loop.max_rounds: 3 -> 1"])
    assert text.splitlines() == [
        "9 questions in both: 7 identical in every detail, 4 same outcome",
        "  A one",
        "  B two",
        "  wrong -> right 0, right -> wrong 2, exact McNemar p = 0.125",
        "  setting loop.max_rounds: 3 -> 1",
        "q1: A -> B; round 1, reply: x -> y",
        "q2: A; round 1, reply: x -> y",
    ]


def test_what_is_missing_is_left_out_or_counted() -> None:
    text = diff_text(many(p_value=None, only_first=("a", "b"), only_second=("c",)))
    assert "McNemar" not in text and "2 questions only in A, 1 only in B" in text
    text = diff_text(many(*map(one, range(7))), [f"s{n}: 0 -> 1" for n in range(9)], show=5)
    assert "... and 2 more (--json shows all)" in text and "... and 4 more settings" in text
    assert "q4:" in text and "q5:" not in text


@pytest.mark.parametrize("field", ["question_id", "first", "second", "detail"])
def test_text_of_a_question_cannot_steer_the_terminal(field: str) -> None:
    text = diff_text(many(one(1, **{field: f"x{EVIL}y"})))
    assert harmless(text) and len(text.splitlines()) == 5


def test_names_and_settings_cannot_either() -> None:
    assert harmless(diff_text(many(first=EVIL, second=EVIL), [f"note: {EVIL} -> x"]))


def test_a_store_is_counted_and_shown_without_its_control_characters(tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        for number in range(3):
            request = f'{{"n": {number}}}'
            store.put(
                StoredCall(
                    key=call_key(request),
                    purpose="reader" if number else f"reader{EVIL}",
                    prompt_version=f"v1{EVIL}",
                    model="m",
                    revision="",
                    request=request,
                    outcome="complete" if number else "truncated",
                    reply=ReaderReply(text="", prompt_tokens=1_000, completion_tokens=number),
                )
            )
        status = calls_status(store)
    assert (status.calls, status.outcomes) == (3, {"complete": 2, "truncated": 1})
    assert (status.prompt_tokens, status.completion_tokens) == (3_000, 3)
    assert sum(group.calls for group in status.prompts) == sum(status.outcomes.values()) == status.calls
    assert harmless(calls_text(status)) and len(calls_text(status).splitlines()) == 4
    assert CallsStatus.from_json(status.to_json()) == status


def test_an_empty_store_has_none(tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        assert calls_text(calls_status(store)).splitlines()[0] == "0 calls (none)"
