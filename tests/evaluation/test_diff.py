"""Where two runs part, question by question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as reference

from medvrag_core.errors import InputError
from medvrag_core.evaluation.diff import RunDiff, diff_runs
from medvrag_core.records import FilterDecision, Hit, MemoryBank, ParsedReply, ReaderReply, ShardDecision, Trace

MakeTrace = Callable[..., Trace]
PAGES = ("a#p1", "b#p2", "c#p3")
NAMES = ("A", "B")


@pytest.fixture
def trace(make_trace: MakeTrace) -> Trace:
    """Two rounds; the second one answers."""
    made = make_trace("q1", "A", rounds=[(PAGES, PAGES[:2], PAGES[:1])] * 2)
    call = ShardDecision(phase="map", shown=PAGES, kept=PAGES[:2], call="k1")
    rounds = [
        round_.model_copy(
            update={
                "filter": FilterDecision(kept=PAGES[:2], calls=(call,)),
                "summaries_shown": PAGES[:2],
                "reply": ReaderReply(text="<answer>A</answer>", call="k2", prompt_tokens=9),
                "parsed": ParsedReply(label="A"),
                "refinement": ReaderReply(text="more"),
            }
        )
        for round_ in made.rounds
    ]
    return made.model_copy(update={"rounds": tuple(rounds)})


def in_round(trace: Trace, number: int, **changes: Any) -> Trace:
    rounds = list(trace.rounds)
    rounds[number - 1] = rounds[number - 1].model_copy(update=changes)
    return trace.model_copy(update={"rounds": tuple(rounds)})


def only(first: Trace, second: Trace) -> tuple[str, str]:
    found = diff_runs([first], [second], names=NAMES)
    if found.identical:
        assert found.questions == ()
        return "", ""
    return found.questions[0].where, found.questions[0].detail


def hits(*pages: str, score: float = 1.0) -> tuple[Hit, ...]:
    return tuple(Hit(page_id=p, score=score / r, rank=r) for r, p in enumerate(pages, start=1))


FALLBACK = ShardDecision(phase="map", shown=PAGES, kept=PAGES[:2], fallback=True, reason="timeout", call="k1")
CHANGES: list[tuple[str, Any, str]] = [
    ("query", "another query", "q -> another query"),
    ("bank_before", MemoryBank(iteration=1, key_findings=("x",)), "iteration: 0 -> 1 (and key_findings)"),
    ("stage1", hits(*PAGES, score=2.0), "same pages, other scores"),
    ("stage1", hits(*reversed(PAGES)), "same pages, other order"),
    ("stage1", hits("a#p1", "d#p4"), "2 pages gone, 1 new (-b#p2 -c#p3 +d#p4)"),
    ("filter", FilterDecision(kept=("b#p2", "a#p1")), "same pages, other order"),
    (
        "filter",
        FilterDecision(kept=PAGES[:2], calls=(FALLBACK,)),
        "same pages kept, other calls behind them (0 -> 1 fallbacks)",
    ),
    ("shown", ("b#p2",), "1 pages gone, 1 new (-a#p1 +b#p2)"),
    ("shown", (), "1 pages gone, 0 new (-a#p1)"),
    ("summaries_shown", (), "2 pages gone, 0 new (-a#p1 -b#p2)"),
    (
        "reply",
        ReaderReply(text="<answer>B</answer>", prompt_tokens=9),
        "text: <answer>A</answer> -> <answer>B</answer>",
    ),
    (
        "reply",
        ReaderReply(text="<answer>A</answer>", prompt_tokens=8, flags=("x",)),
        "prompt_tokens: 9 -> 8 (and flags)",
    ),
    ("refinement", ReaderReply(text="less"), "text: more -> less"),
    ("refinement", None, "None"),
    ("parsed", ParsedReply(label="B"), "label: A -> B"),
    ("flags", ("same_pages",), "[] -> ['same_pages']"),
]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(("field", "value", "told"), CHANGES)
def test_the_first_difference_is_named(trace: Trace, number: int, field: str, value: Any, told: str) -> None:
    where, detail = only(trace, in_round(trace, number, **{field: value}))
    assert where == f"round {number}, {field}"
    assert told in detail and len(detail) < 400


def test_the_earlier_difference_wins(trace: Trace) -> None:
    later = in_round(trace, 2, query="z")
    assert only(trace, in_round(later, 1, reply=ReaderReply(text="z")))[0] == "round 1, reply"
    both = in_round(trace, 1, shown=(), stage1=hits("z#p1"), reply=ReaderReply(text="z"))
    assert only(trace, both)[0] == "round 1, stage1"


def test_rounds_outcomes_and_questions(trace: Trace) -> None:
    shorter = trace.model_copy(update={"rounds": trace.rounds[:1]})
    failed = shorter.model_copy(update={"outcome": "error", "label": None, "reason": "server gone"})
    assert only(trace, shorter) == ("rounds", "2 (answered A) -> 1 (answered A)")
    assert only(trace, failed) == ("rounds", "2 (answered A) -> 1 (error server gone)")
    ended = trace.model_copy(update={"outcome": "unparsed", "label": None, "reason": "no_tag", "correct": False})
    assert only(trace, ended) == ("outcome", "answered A -> unparsed no_tag")
    other = trace.model_copy(update={"question": trace.question.model_copy(update={"question": "!"})})
    assert only(trace, other)[0] == "question"


def test_tries_keys_and_times_are_no_difference(trace: Trace) -> None:
    reply = trace.rounds[0].reply.model_copy(update={"attempts": 4, "call": "other"})
    call = trace.rounds[0].filter.calls[0].model_copy(update={"call": "other"})
    moved = in_round(trace, 1, reply=reply, times=(), filter=FilterDecision(kept=PAGES[:2], calls=(call,)))
    assert only(trace, moved.model_copy(update={"seconds": 99.0, "profile": "p", "fingerprint": "g"})) == ("", "")


def test_long_texts_are_shown_where_they_part(trace: Trace) -> None:
    one, two = "same " * 500 + "left", "same " * 500 + "right"
    _, detail = only(in_round(trace, 1, reply=ReaderReply(text=one)), in_round(trace, 1, reply=ReaderReply(text=two)))
    assert "left -> " in detail and "right" in detail and len(detail) < 260


def test_questions_of_one_run_alone_are_listed(make_trace: MakeTrace) -> None:
    first = [make_trace(i) for i in ("a", "b", "c")]
    second = [make_trace(i) for i in ("d", "c")]
    found = diff_runs(first, second, names=NAMES)
    assert (found.both, found.only_first, found.only_second) == (1, ("a", "b"), ("d",))
    with pytest.raises(InputError, match="A and B have no question in common"):
        diff_runs(first[:2], second[:1], names=NAMES)
    with pytest.raises(InputError, match="B: question 'd' stands twice"):
        diff_runs(first, [second[0], second[0]], names=NAMES)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_gained_lost_and_p_value_are_those_of_statsmodels(
    make_trace: MakeTrace, pairs: list[tuple[bool, bool]]
) -> None:
    first = [make_trace(f"q{n}", "A" if right else "B") for n, (right, _) in enumerate(pairs)]
    second = [make_trace(f"q{n}", "A" if right else "B") for n, (_, right) in enumerate(pairs)]
    found = diff_runs(first, second, names=NAMES)
    counts = {pair: pairs.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))}
    assert (found.gained, found.lost) == (counts[False, True], counts[True, False])
    table = [[counts[True, True], counts[True, False]], [counts[False, True], counts[False, False]]]
    expected = reference(table, exact=True).pvalue if found.gained + found.lost else 1.0
    assert found.p_value == pytest.approx(expected, abs=1e-12)
    assert found.same_outcome == counts[True, True] + counts[False, False]
    back = diff_runs(second, first, names=NAMES)
    assert (back.gained, back.lost, back.p_value) == (found.lost, found.gained, found.p_value)


def test_no_p_value_without_gold_answers_in_either_run(trace: Trace) -> None:
    unscored = trace.model_copy(update={"correct": None})
    assert diff_runs([trace], [unscored], names=NAMES).p_value is None
    assert diff_runs([unscored], [trace], names=NAMES).p_value is None


def test_a_report_reads_back(trace: Trace) -> None:
    found = diff_runs([trace], [in_round(trace, 1, query="x")], names=NAMES)
    assert RunDiff.from_json(found.to_json()) == found
