from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.errors.grounding import GroundingRow, answer_citations, grounding_report
from medvrag_core.records import ReaderReply, Trace

MakeTrace = Callable[..., Trace]
PAGES = ["g#p1", "g#p12", "h#p1", "x#p2"]
G, G12, H, X = PAGES


def saying(trace: Trace, text: str) -> Trace:
    """The trace with another text in its last reply."""
    last = trace.rounds[-1].model_copy(update={"reply": ReaderReply(text=text)})
    return trace.model_copy(update={"rounds": (*trace.rounds[:-1], last)})


def showing(*pages: str) -> tuple[list[str], list[str], list[str]]:
    return list(pages), list(pages), list(pages)


@pytest.mark.parametrize(
    ("text", "sent", "foreign"),
    [
        ("nothing", (), ()),
        (f"as {G} says", (G,), ()),
        (f"as {G.upper()} says, and {G} again", (G,), ()),
        (f"as {G12} says", (), (G12,)),  # page 1 was sent, page 12 was not
        (f"{H}, found in round 1", (H,), ()),
        (f"{G} and {X}", (G,), (X,)),
        (f"<think>{X}</think> {G}", (G,), ()),
    ],
)
def test_a_citation_counts_as_sent_when_a_round_of_the_question_sent_the_page(
    make_trace: MakeTrace, text: str, sent: tuple, foreign: tuple
) -> None:
    cited = answer_citations(saying(make_trace(rounds=[showing(H), showing(G)]), text))
    assert (cited.sent, cited.foreign) == (sent, foreign)


def test_chunks_and_summaries_count_as_their_page(make_trace: MakeTrace) -> None:
    trace = make_trace(rounds=[showing("g#p1#c3")])
    last = trace.rounds[0].model_copy(update={"summaries_shown": (H,)})
    assert answer_citations(saying(trace.model_copy(update={"rounds": (last,)}), f"{G}, {H}")).sent == (G, H)


answers = st.tuples(
    st.sampled_from(["A", "A", "B", None]),
    st.lists(st.lists(st.sampled_from(PAGES), unique=True, max_size=3), min_size=1, max_size=2),
    st.lists(st.sampled_from(PAGES), max_size=4),
    st.lists(st.sampled_from(PAGES), unique=True, max_size=2),
)


def _expected(traces: list[Trace]) -> dict[str, object]:
    """The report's counts once more, from texts and sets alone."""
    told = []
    for trace in traces:
        named = set(re.findall(r"[gxh]#p\d+", trace.rounds[-1].reply.text))
        sent = {page for r in trace.rounds for page in r.shown}
        told.append((named & sent, named - sent, set(trace.question.gold_pages)))
    labeled = [(valid, odd, gold) for valid, odd, gold in told if gold]
    return {
        "answers": len(told),
        "citing": sum(bool(valid | odd) for valid, odd, _ in told),
        "only_sent": sum(bool(valid) and not odd for valid, odd, _ in told),
        "foreign": sum(bool(odd) for _, odd, _ in told),
        "labeled": len(labeled),
        "supported": sum(bool(valid & gold) for valid, _, gold in labeled),
        "precision": (
            sum(len(valid & gold) for valid, _, gold in labeled),
            sum(len(valid | odd) for valid, odd, _ in labeled),
        ),
        "recall": (
            sum(len(valid & gold) for valid, _, gold in labeled),
            sum(len(gold) for _, _, gold in labeled),
        ),
    }


def _counts(row: GroundingRow) -> dict[str, object]:
    shares = {name: getattr(row, name) for name in ("citing", "only_sent", "foreign", "supported")}
    assert all(share.n == (row.labeled if name == "supported" else row.answers) for name, share in shares.items())
    return {
        "answers": row.answers,
        "labeled": row.labeled,
        **{name: share.count for name, share in shares.items()},
        **{name: (getattr(row, name).hits, getattr(row, name).total) for name in ("precision", "recall")},
    }


@settings(deadline=None)
@given(st.lists(answers, min_size=1, max_size=8))
def test_the_report_agrees_with_sets_of_pages(make_trace: MakeTrace, drawn: list) -> None:
    traces = [
        saying(make_trace(f"q{i}", label, rounds=[showing(*r) for r in rounds], gold_pages=gold), " ".join(named))
        for i, (label, rounds, named, gold) in enumerate(drawn)
    ]
    report = grounding_report(traces)
    answered = [t for t in traces if t.label is not None]
    assert report.unanswered == len(traces) - len(answered)
    rows = {row.group: _counts(row) for row in report.rows}
    assert rows["all"] == _expected(answered)
    assert rows["right"] == _expected([t for t in answered if t.correct])
    assert rows["wrong"] == _expected([t for t in answered if not t.correct])


def test_a_foreign_page_that_is_gold_supports_nothing(make_trace: MakeTrace) -> None:
    guessed = saying(make_trace(rounds=[showing(X)], gold_pages=[G]), f"{G} must say so")
    row = grounding_report([guessed]).rows[0]
    assert (row.supported.count, row.precision.hits, row.foreign.count) == (0, 0, 1)


def test_without_a_relevant_page_nothing_supports_and_nothing_can_be_recalled(make_trace: MakeTrace) -> None:
    traces = [saying(make_trace("q1", rounds=[showing(X)]), X), saying(make_trace("q2", rounds=[showing(X)]), X)]
    row = grounding_report(traces, {"q1": frozenset()}).rows[0]
    assert (row.answers, row.labeled, row.supported.n, row.supported.count) == (2, 1, 1, 0)
    assert (row.precision.total, row.recall.total) == (1, 0)


def test_questions_that_ended_without_a_round_cite_nothing(make_trace: MakeTrace) -> None:
    failed = make_trace("q1", None, outcome="error", rounds=[])
    assert answer_citations(failed).sent == ()
    report = grounding_report([failed])
    assert (report.unanswered, report.rows[0].answers, report.rows[0].precision.high) == (1, 0, 1.0)
