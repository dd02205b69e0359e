"""How questions end, one after another fault of the server, and what the report makes of it (promises P10, P11)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.report import run_report
from medvrag_core.models.outcomes import RunStopped
from medvrag_core.models.store import CallStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.answering import answer_all, read_asked, read_traces, trace_path
from medvrag_core.systems.canonical import canonical_trace
from medvrag_core.systems.resources import Resources

MakeProfile = Callable[..., Profile]
NAMES = ("correct", "wrong", "unparsed", "truncated", "refused", "errors", "missing")


@pytest.fixture
def run(made_run: Workspace, tmp_path: Path) -> Workspace:
    return Workspace(shutil.copytree(made_run.root, tmp_path / "run"))


@pytest.fixture
def profile(model_settings: Callable[..., dict[str, Any]], chaos: Any) -> MakeProfile:
    """The embedded filter, so that every request is a reader's and faults hit the questions in order."""

    def make(**more: Any) -> Profile:
        calm = {"filter.ranker": "embedded", "loop.max_rounds": 1, "calls.attempts": 1}
        return load_profile("test", model_settings(chaos.url, **(calm | more)))

    return make


def answered(run: Workspace, profile: Profile, questions: list[Question]) -> list[Trace]:
    resources = Resources(run, profile)
    try:
        return answer_all("medvrag", resources, questions, progress=False)
    finally:
        resources.close()


def requests(chaos: Any) -> int:
    return sum(chaos.log()["started"].values())


ENDS = [
    ("length", "truncated", "truncated", True),
    ("content_filter", "refused", "refused", True),
    ("refusal", "refused", "refused", True),
    ("null", "unparsed", "empty", True),
    ("blank", "unparsed", "empty", True),
    ("unparsed", "unparsed", "no_tag", True),
    ("400", "error", "[rejected]", False),
    ("503", "error", "[unavailable]", False),
    ("cut", "error", "[malformed]", False),
    ("abort", "error", "[aborted]", False),
    ("no_usage", "error", "[malformed]", False),
    ("close", "error", "[transport]", False),
    ("error200", "error", "[malformed]", False),
]


@pytest.mark.parametrize(("fault", "outcome", "reason", "stands"), ENDS)
def test_each_fault_has_its_outcome_and_only_faults_are_asked_again(
    run: Workspace,
    made_questions: list[Question],
    chaos: Any,
    profile: MakeProfile,
    fault: str,
    outcome: str,
    reason: str,
    stands: bool,
) -> None:
    chaos.control(faults=["", fault])
    traces = answered(run, profile(), made_questions)
    hit, others = traces[1], [traces[0], traces[2]]
    assert hit.outcome == outcome and hit.label is None and hit.correct is False
    assert reason in hit.reason and (outcome == "error" or hit.reason == reason)
    assert all(t.outcome == "answered" and t.reason == "" for t in others)
    report = run_report(traces, expected=3)
    assert sum(report.outcomes.values()) == report.expected == report.n == 3
    assert tuple(report.outcomes) == NAMES
    state = "errors" if outcome == "error" else outcome
    assert report.outcomes[state] == 1 and report.complete == stands
    assert report.accuracy == report.outcomes["correct"] / 3
    assert requests(chaos) == 3
    again = answered(run, profile(), made_questions)
    assert requests(chaos) == (3 if stands else 4), "what the model did stands, a fault is asked again"
    assert again == traces if stands else again[1].outcome == "answered"
    assert [again[0], again[2]] == others


def test_tokens_of_a_reply_that_was_cut_are_charged(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile
) -> None:
    chaos.control(faults=["length"])
    trace = answered(run, profile(), made_questions[:1])[0]
    assert trace.rounds[0].reply.prompt_tokens == 5_000 and trace.rounds[0].reply.completion_tokens > 0
    assert trace.rounds[0].reply.call and trace.rounds[0].parsed.reason == "truncated"


def test_an_unparsed_reply_in_an_early_round_ends_the_question(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile
) -> None:
    chaos.control(faults=["unparsed"])
    trace = answered(run, profile(**{"loop.max_rounds": 3}), made_questions[:1])[0]
    assert (trace.outcome, trace.reason, len(trace.rounds)) == ("unparsed", "no_tag", 1)
    assert requests(chaos) == 1


def test_a_passing_fault_within_the_tries_leaves_no_mark(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile
) -> None:
    chaos.control(faults=["503", "cut", ""])
    traces = answered(run, profile(**{"calls.attempts": 3}), made_questions)
    assert all(t.outcome == "answered" for t in traces)
    assert [t.rounds[0].reply.attempts for t in traces] == [3, 1, 1]


def test_a_filter_call_that_a_fault_ended_is_asked_again_with_its_question(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile
) -> None:
    chaos.control(faults=["503"])
    traces = answered(run, profile(**{"filter.ranker": "llm"}), made_questions)
    assert [t.outcome for t in traces] == ["answered"] * 3
    assert "filter_fallback" in traces[0].rounds[0].flags
    report = run_report(traces, expected=3)
    assert report.filter_fallbacks == {"unavailable": 1} and not report.complete
    again = answered(run, profile(**{"filter.ranker": "llm"}), made_questions)
    assert run_report(again, expected=3).complete
    assert not any(call.fallback for t in again for r in t.rounds for call in r.filter.calls)
    assert again[1:] == traces[1:]


def test_a_filter_call_that_the_model_ended_stands(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile
) -> None:
    chaos.control(faults=["length", "content_filter"])
    traces = answered(run, profile(**{"filter.ranker": "llm"}), made_questions)
    asked = requests(chaos)
    assert answered(run, profile(**{"filter.ranker": "llm"}), made_questions) == traces
    assert requests(chaos) == asked


def test_a_server_that_is_gone_stops_the_run_and_every_question_counts(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile, chaos_server: Any
) -> None:
    traces = answered(run, profile(), made_questions[:1])
    port = chaos.port
    chaos.close()
    with pytest.raises(RunStopped, match="2 model calls failed one after another") as stopped:
        answered(run, profile(**{"calls.give_up_after": 2}), made_questions)
    assert "start the server" in str(stopped.value) and stopped.value.exit_code == 3
    kept = read_traces(run, "medvrag", made_by="the run")
    assert [t.outcome for t in kept if t.question.id == "gout-1"] == ["answered"]
    report = run_report(kept, expected=len(read_asked(run, "medvrag")))
    assert report.expected == 3 and sum(report.outcomes.values()) == 3
    assert report.outcomes["errors"] + report.outcomes["missing"] == 2 and not report.complete
    back = chaos_server("--port", str(port))
    finished = answered(run, profile(), made_questions)
    assert requests(back) == 2
    back.close()
    assert finished[0] == traces[0] and run_report(finished, expected=3).complete


def test_with_patience_a_server_that_is_gone_makes_every_question_an_error(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile
) -> None:
    chaos.close()
    traces = answered(run, profile(**{"calls.give_up_after": 99}), made_questions)
    assert {t.outcome for t in traces} == {"error"}
    assert all("[transport]" in t.reason and "start the server" in t.reason for t in traces)
    report = run_report(traces, expected=3)
    assert report.outcomes["errors"] == 3 and not report.complete and report.accuracy == 0.0


@pytest.mark.parametrize(("fault", "kind"), [("401", "denied"), ("404", "denied"), ("wrong_model", "wrong_model")])
def test_what_every_call_would_meet_stops_the_run_at_once(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile, fault: str, kind: str
) -> None:
    chaos.control(faults=["", fault])
    with pytest.raises(RunStopped, match=rf"\[{kind}\]"):
        answered(run, profile(), made_questions)
    assert requests(chaos) == 2
    assert len(read_traces(run, "medvrag", made_by="the run")) == 1
    assert len(answered(run, profile(), made_questions)) == 3
    with CallStore(run.calls) as store:
        assert store.outcomes() == {"complete": 3}


def test_a_trace_that_is_gone_is_missing_and_a_second_one_refused(
    run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile
) -> None:
    answered(run, profile(), made_questions)
    path = trace_path(run, "medvrag", "asthma-1")
    text = path.read_text()
    path.unlink()
    kept = read_traces(run, "medvrag", made_by="the run")
    report = run_report(kept, expected=len(read_asked(run, "medvrag")))
    assert report.outcomes["missing"] == 1 and report.n == 2 and not report.complete
    assert sum(report.outcomes.values()) == 3
    asked = requests(chaos)
    assert len(answered(run, profile(), made_questions)) == 3
    assert requests(chaos) == asked, "its call is still in the store"
    assert canonical_trace(Trace.from_json(path.read_text())) == canonical_trace(Trace.from_json(text))
    with pytest.raises(InputError, match="more than one trace"):
        run_report([*kept, kept[0]], expected=4)
    path.with_name("asthma-1 (copy).json").write_text(text)
    with pytest.raises(InputError, match=r"copy\)\.json: holds the trace of question 'asthma-1'"):
        read_traces(run, "medvrag", made_by="the run")


def test_bc12_ten_replies(run: Workspace, made_questions: list[Question], chaos: Any, profile: MakeProfile) -> None:
    """Seven replies parse, five of those right, two server errors, one empty."""
    base = made_questions[0]
    plan = ["", "", "", "", "", "", "", "503", "close", "blank"]
    questions = [base.model_copy(update={"id": f"q{n}", "question": f"{base.question} ({n})"}) for n in range(10)]
    chaos.control(faults=list(plan))
    traces = answered(run, profile(), questions)
    assert [t.outcome for t in traces] == ["answered"] * 7 + ["error"] * 2 + ["unparsed"]
    # Which option the server names follows from the request; the gold answers are set after it.
    scored = []
    for n, t in enumerate(traces):
        gold = t.label if n < 5 else next(o for o in "ABCD" if o != t.label)
        question = t.question.model_copy(update={"answer": gold})
        scored.append(t.model_copy(update={"question": question, "correct": t.label == gold}))
    report = run_report(scored, expected=10)
    assert (report.accuracy, report.unparsed_rate, report.error_rate) == (0.5, 0.1, 0.2)
    assert not report.complete
    assert report.outcomes == {
        "correct": 5,
        "wrong": 2,
        "unparsed": 1,
        "truncated": 0,
        "refused": 0,
        "errors": 2,
        "missing": 0,
    }
