from __future__ import annotations

from collections.abc import Callable

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.calibration.confidence import stated_confidences, tells_shares, voted_confidences
from medvrag_core.evaluation.outcomes import ending_of
from medvrag_core.records import Trace

MakeTrace = Callable[..., Trace]


def telling(trace: Trace, **shares: float) -> Trace:
    """The trace with shares in its last reply."""
    *earlier, last = trace.rounds
    reply = last.reply.model_copy(update={"option_scores": shares})
    return trace.model_copy(update={"rounds": (*earlier, last.model_copy(update={"reply": reply}))})


def test_the_share_of_the_answer_in_the_last_round_counts(make_trace: MakeTrace) -> None:
    rounds = [((), (), ())] * 2
    traces = [
        telling(make_trace("q2", "A", rounds=rounds), A=0.25, B=0.75),
        telling(make_trace("q1", "B", rounds=rounds), A=0.4, B=0.6),
        make_trace("q3", None),
    ]
    found = stated_confidences(traces)
    assert found.ids == ("q1", "q2") and found.confidence.tolist() == [0.6, 0.25]
    assert found.right.tolist() == [False, True] and (found.n, found.unanswered) == (2, 1)
    assert (found.system, found.source) == ("medvrag", "option_scores")
    in_short = stated_confidences([ending_of(trace) for trace in traces])
    assert in_short.confidence.tolist() == [0.6, 0.25] and in_short.unanswered == 1


def test_a_reply_without_shares_is_refused_with_a_way_out(make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match=r"'q1' \(medvrag\): the reply tells no share.*votes"):
        stated_confidences([make_trace("q1", "A")])
    assert not tells_shares([make_trace("q1", "A")])
    assert tells_shares([make_trace("q1", "A"), telling(make_trace("q2", "A"), A=1.0)])
    for bad in ({"B": 1.0}, {"A": 1.5}, {"A": float("nan")}):
        with pytest.raises(InputError, match="'option_scores'"):
            stated_confidences([telling(make_trace("q1", "A"), **bad)])
    with pytest.raises(InputError, match=r"'medvrag' answered none of its questions .* `medvrag score"):
        stated_confidences([make_trace("q1", None)])


def test_votes_count_runs_and_ties_go_to_the_first_option(make_trace: MakeTrace) -> None:
    labels = {"q1": "AAB", "q2": "BA-", "q3": "---", "q4": "CCC"}
    runs = [[make_trace(i, None if said[run] == "-" else said[run]) for i, said in labels.items()] for run in range(3)]
    found = voted_confidences(runs)
    assert found.ids == ("q1", "q2", "q4") and found.unanswered == 1 and found.source == "vote_share"
    assert found.confidence.tolist() == pytest.approx([2 / 3, 1 / 3, 1.0])
    assert found.right.tolist() == [True, True, False]
    assert voted_confidences(runs[::-1]).confidence.tolist() == found.confidence.tolist()


def test_votes_need_the_same_questions_of_one_system(make_trace: MakeTrace) -> None:
    one = [make_trace("q1"), make_trace("q2")]
    with pytest.raises(InputError, match="one run has no votes"):
        voted_confidences([one])
    for other in ([make_trace("q1")], [*one, make_trace("q3")]):
        with pytest.raises(InputError, match="question"):
            voted_confidences([one, other])
    with pytest.raises(InputError, match="different systems"):
        voted_confidences([one, [make_trace("q1", system="x"), make_trace("q2", system="x")]])
    with pytest.raises(InputError, match="'q2' is not the same"):
        voted_confidences([one, [make_trace("q1"), make_trace("q2", options=5)]])
