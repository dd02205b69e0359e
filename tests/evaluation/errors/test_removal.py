from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from medvrag_core.errors import InputError
from medvrag_core.evaluation.errors.removal import FLIPS, TO_WRONG, removal_report
from medvrag_core.evaluation.statistics.contrasts import Rules
from medvrag_core.records import ReaderReply, Trace

MakeTrace = Callable[..., Trace]
FEW = Rules(resamples=200, permutations=200)
SENT = ["g#p1", "h#p1", "x#p1"]


def reference(make_trace: MakeTrace, id: str, label: str | None, *, cites: int = 1, sent: int = 3) -> Trace:
    pages = SENT[:sent]
    trace = make_trace(id, label, rounds=[(pages, pages, pages)], gold_pages=["g#p1"])
    reply = ReaderReply(text="as said by " + " ".join(pages[:cites]))
    return trace.model_copy(update={"rounds": (trace.rounds[0].model_copy(update={"reply": reply}),)})


def arms(make_trace: MakeTrace, triples: list) -> tuple[list[Trace], list[Trace], list[Trace]]:
    first = [reference(make_trace, f"q{i}", before) for i, (before, _, _) in enumerate(triples)]
    cited, uncited = (
        [make_trace(f"q{i}", triple[k], system=name) for i, triple in enumerate(triples)]
        for k, name in ((1, "cited_removed"), (2, "uncited_removed"))
    )
    return first, cited, uncited


labels = st.sampled_from(["A", "B", "C", None])


@settings(deadline=None, max_examples=12)
@given(st.lists(st.tuples(st.sampled_from(["A", "B"]), labels, labels), min_size=1, max_size=25))
def test_flips_are_counted_and_tested_question_by_question(make_trace: MakeTrace, triples: list) -> None:
    report = removal_report(*arms(make_trace, triples), FEW)
    assert report.n == len(triples)
    for row, k in zip(report.rows, (1, 2), strict=True):
        assert row.flipped.count == sum(t[k] != t[0] for t in triples)
        assert (row.flipped.n, row.unanswered) == (len(triples), sum(t[k] is None for t in triples))
        assert (row.to_wrong.count, row.to_wrong.n) == (
            sum(t[0] == "A" and t[k] != "A" for t in triples), sum(t[0] == "A" for t in triples)
        )  # fmt: skip
        assert (row.to_right.count, row.to_right.n) == (
            sum(t[0] != "A" and t[k] == "A" for t in triples), sum(t[0] != "A" for t in triples)
        )  # fmt: skip
    effects = {e.name: e for e in report.effects}
    right = [t for t in triples if t[0] == "A"]
    assert list(effects) == ([FLIPS, TO_WRONG] if right else [FLIPS])
    adjusted = multipletests([e.p_value for e in report.effects], method="holm")[1]
    for (name, effect), p_adjusted in zip(effects.items(), adjusted, strict=True):
        chosen = triples if name == FLIPS else right
        won = sum(t[1] != t[0] and t[2] == t[0] for t in chosen)
        lost = sum(t[1] == t[0] and t[2] != t[0] for t in chosen)
        assert (effect.n, effect.won, effect.lost) == (len(chosen), won, lost)
        assert effect.difference == pytest.approx(100 * (won - lost) / len(chosen))
        assert effect.p_value == pytest.approx(mcnemar([[0, won], [lost, 0]], exact=True).pvalue if won + lost else 1.0)
        assert effect.p_adjusted == pytest.approx(p_adjusted)
        assert effect.low <= effect.difference <= effect.high


def test_questions_that_cannot_be_compared_are_left_out_and_told(make_trace: MakeTrace) -> None:
    first = [
        reference(make_trace, "fair", "A"),
        reference(make_trace, "silent", "A", cites=0),
        reference(make_trace, "all", "A", cites=2),  # one uncited page cannot stand against two cited ones
        reference(make_trace, "cut", None),
    ]
    other = [make_trace(i, "B", system="arm") for i in ("fair", "silent", "all", "cut")]
    report = removal_report(first, other, other, FEW)
    assert report.n == 1
    assert report.left_out == {"fewer pages uncited than cited": 1, "no answer": 1, "no page cited": 1}
    assert report.rows[0].flipped.count == 1
    silent = removal_report(first[1:2], other, other)
    assert (silent.n, silent.left_out, silent.rows, silent.effects) == (0, {"no page cited": 1}, (), ())


def test_all_arms_must_have_answered_the_questions(make_trace: MakeTrace) -> None:
    first, cited, uncited = arms(make_trace, [("A", "A", "A"), ("A", "B", "A")])
    with pytest.raises(InputError, match=r"'uncited_removed' has not answered question 'q1' \(1 missing\)"):
        removal_report(first, cited, uncited[:1])
    with pytest.raises(InputError, match="without traces has not answered question 'q0'"):
        removal_report(first, [], uncited)
