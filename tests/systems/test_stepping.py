from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning.loop import RoundError
from medvrag_core.records import Question, Round, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all, systems_with_traces
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.stepping import PAGES_BY_HAND, QUERY_BY_HAND, UNFINISHED, Stepper, explored

ARMS = ["medvrag", "page_single", "text_iterative", "plain_history", "no_rag"]
MORE_ROUNDS = {"reader.margin": 2.0}
"""No option leads by that much, so that the embedded reader asks until it must answer."""


@pytest.fixture
def resources(made_run: Workspace, tmp_path: Path) -> Resources:
    shutil.copytree(made_run.root, tmp_path / "run")
    return Resources(Workspace(tmp_path / "run"), load_profile("test", MORE_ROUNDS))


def told(rounds: tuple[Round, ...]) -> list[Round]:
    """Rounds without what a clock says."""
    return [round_.model_copy(update={"times": ()}) for round_ in rounds]


def walked(stepper: Stepper) -> Stepper:
    while not stepper.ended:
        stepper.step()
    return stepper


def arms_there() -> list[str]:
    from medvrag_core.systems.base import catalog

    return [arm for arm in ARMS if arm in catalog()]


@pytest.mark.parametrize("arm", arms_there())
def test_without_a_hand_the_steps_are_the_rounds_of_the_arm(
    resources: Resources, made_questions: list[Question], arm: str
) -> None:
    for trace in answer_all(arm, resources, made_questions, progress=False):
        stepper = walked(Stepper(arm, resources, trace.question))
        assert told(stepper.rounds) == told(trace.rounds)
        mine = stepper.trace()
        assert (mine.outcome, mine.label, mine.reason, mine.correct) == (
            trace.outcome, trace.label, trace.reason, trace.correct,
        )  # fmt: skip
        assert (len(trace.rounds) == 1) == (arm in ("page_single", "no_rag"))


def test_what_would_be_shown_is_what_is_shown(resources: Resources, made_questions: list[Question]) -> None:
    stepper = Stepper("medvrag", resources, made_questions[0])
    while not stepper.ended:
        expected = stepper.found()
        assert stepper.step().shown == expected
    other = Stepper("medvrag", resources, made_questions[0])
    for_query = other.found("candidiasis mouth")
    assert other.step(query="candidiasis mouth").shown == for_query
    assert for_query != expected
    assert Stepper("no_rag", resources, made_questions[0]).found() == ()


def test_another_query_is_searched_with_and_flagged(resources: Resources, made_questions: list[Question]) -> None:
    stepper = Stepper("medvrag", resources, made_questions[0])
    first = stepper.step()
    assert QUERY_BY_HAND not in first.flags
    assert stepper.query == first.parsed.query_update
    second = stepper.step(query="  oral candidiasis ")
    assert second.query == "oral candidiasis"
    assert QUERY_BY_HAND in second.flags
    assert second.stage1[0].page_id == "asthma#p2"
    assert second.bank_before.iteration == 1, "the bank goes on"
    same = Stepper("medvrag", resources, made_questions[0])
    assert QUERY_BY_HAND not in same.step(query=made_questions[0].question).flags


def test_other_pages_are_all_that_the_reader_gets(resources: Resources, made_questions: list[Question]) -> None:
    stepper = Stepper("medvrag", resources, made_questions[0])
    done = stepper.step(pages=["anemia#p1", "asthma#p1"])
    assert done.shown == ("anemia#p1", "asthma#p1")
    assert PAGES_BY_HAND in done.flags
    assert done.stage1, "what was found is still told"
    assert stepper.step().shown != done.shown, "the next round is the system's again"
    nothing = Stepper("medvrag", resources, made_questions[0]).step(pages=[])
    assert nothing.shown == ()
    chunks = Stepper("text_iterative", resources, made_questions[0])
    second = chunks.found()[1:2]
    assert chunks.step(pages=second).shown == second


def test_a_round_can_be_taken_back_and_run_in_another_way(resources: Resources, made_questions: list[Question]) -> None:
    stepper = walked(Stepper("medvrag", resources, made_questions[0]))
    before, took = stepper.rounds, stepper.trace().seconds
    assert took > 0
    with pytest.raises(InputError, match="go a round back"):
        stepper.step()
    stepper.back()
    assert stepper.rounds == before[:-1]
    assert stepper.query == before[-1].query
    assert stepper.trace().seconds < took
    assert told((stepper.step(),)) == told(before[-1:])
    for _ in range(9):
        stepper.back()
    assert (stepper.rounds, stepper.query) == ((), made_questions[0].question)


def test_a_trace_by_hand_is_kept_where_no_report_looks(resources: Resources, made_questions: list[Question]) -> None:
    stepper = Stepper("medvrag", resources, made_questions[0])
    stepper.step()
    unfinished = stepper.trace()
    assert (unfinished.outcome, unfinished.label, unfinished.reason) == ("unparsed", None, UNFINISHED)
    assert unfinished.correct is False
    path = stepper.save()
    assert Trace.from_json(path.read_bytes()) == unfinished
    assert (unfinished.system, unfinished.fingerprint) == ("medvrag_by_hand", "")
    assert systems_with_traces(resources.workspace) == []
    assert systems_with_traces(explored(resources.workspace)) == ["medvrag_by_hand"]
    finished = walked(stepper)
    assert finished.save() == path
    assert Trace.from_json(path.read_bytes()).outcome == "answered"
    unknown = made_questions[0].model_copy(update={"answer": None})
    assert walked(Stepper("medvrag", resources, unknown)).trace().correct is None


@pytest.mark.parametrize(
    ("arm", "pages", "message"),
    [
        ("medvrag", ["nowhere#p1"], "page 'nowhere#p1' is not in this corpus"),
        ("text_iterative", ["nowhere#p1#c1"], "there is no 'nowhere#p1#c1' to show"),
        ("no_rag", ["gout#p1"], "system 'no_rag' has no pages to choose"),
    ],
)
def test_pages_that_cannot_be_shown_are_refused_and_nothing_is_run(
    resources: Resources, made_questions: list[Question], arm: str, pages: list[str], message: str
) -> None:
    stepper = Stepper(arm, resources, made_questions[0])
    with pytest.raises(InputError, match=message):
        stepper.step(pages=pages)
    assert stepper.rounds == ()


def test_a_model_that_fails_leaves_the_rounds_before(
    resources: Resources, made_questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    from medvrag_core.errors import ModelError

    stepper = Stepper("medvrag", resources, made_questions[0])
    done = stepper.step()

    def broken(_: object) -> None:
        raise ModelError("the server is gone")

    monkeypatch.setattr(resources.reader, "read", broken)
    with pytest.raises(RoundError, match="the server is gone") as raised:
        stepper.step()
    assert raised.value.rounds == (done,)
    assert stepper.rounds == (done,)
    monkeypatch.undo()
    assert stepper.step().number == 2
