from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems import answering
from medvrag_core.systems.answering import answer_all, answer_and_store, answer_one, each_trace, read_traces, trace_path
from medvrag_core.systems.arms import CONTROLLED_SEQUENCE, run_arms
from medvrag_core.systems.base import System, catalog, find_system
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import RETRIEVERS, find_retriever


@pytest.fixture
def resources(made_run: Workspace, tmp_path: Path) -> Resources:
    """The finished run, with a systems folder of its own for each test."""
    for name in ("corpus", "vectors", "index"):
        (tmp_path / name).symlink_to(getattr(made_run, name))
    return Resources(Workspace(tmp_path), load_profile("test"))


def test_all_five_arms_of_the_paper_answer_every_question(resources: Resources, made_questions: list[Question]) -> None:
    arms = run_arms(resources, made_questions, progress=False)
    assert tuple(arms) == CONTROLLED_SEQUENCE
    for traces in arms.values():
        assert [t.question.id for t in traces] == [q.id for q in made_questions]
        assert all(t.outcome == "answered" for t in traces)
    assert all(t.correct for t in arms["medvrag"])
    assert all(len(t.rounds) == 1 for t in arms["page_single"])
    assert all(t.rounds[0].shown == () for t in arms["no_rag"])


def test_p2_finished_questions_are_not_asked_again(
    resources: Resources, made_questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = answer_all("medvrag", resources, made_questions[:2], progress=False)
    asked: list[str] = []
    read = type(resources.reader).read

    def counting(self: object, given: object) -> object:
        asked.append(given.question.id)
        return read(self, given)

    monkeypatch.setattr(type(resources.reader), "read", counting)
    second = answer_all("medvrag", resources, made_questions, progress=False)
    assert set(asked) == {made_questions[2].id}
    assert second[:2] == first


def test_a_changed_question_is_asked_again(resources: Resources, made_questions: list[Question]) -> None:
    answer_all("medvrag", resources, made_questions[:1], progress=False)
    changed = made_questions[0].model_copy(update={"question": "What is the starting dose of allopurinol?"})
    assert answer_all("medvrag", resources, [changed], progress=False)[0].question == changed


def test_p5_other_settings_are_refused(resources: Resources, made_questions: list[Question]) -> None:
    answer_all("medvrag", resources, made_questions[:1], progress=False)
    other = Resources(resources.workspace, load_profile("test", {"loop.pages_shown": 2}))
    with pytest.raises(MismatchError, match=r"loop\.pages_shown: 10 -> 2"):
        answer_all("medvrag", other, made_questions, progress=False)


def test_bc26_another_encoder_is_refused(resources: Resources) -> None:
    other = Resources(resources.workspace, load_profile("test", {"encoder.vectors_per_page": 17}))
    with pytest.raises(MismatchError, match=r"pages were encoded by .*\(pooling: '.*' -> '.* 17'\)"):
        _ = other.encoder


def test_traces_read_back_and_round_trip(resources: Resources, made_questions: list[Question]) -> None:
    with pytest.raises(NotBuiltError, match="no trace of system 'medvrag'"):
        read_traces(resources.workspace, "medvrag", made_by="notebook 04_reasoning_loop first")
    made = answer_all("medvrag", resources, made_questions, progress=False)
    assert read_traces(resources.workspace, "medvrag", made_by="x") == sorted(made, key=lambda t: t.question.id)
    assert Trace.from_json(made[0].to_json()) == made[0]


def test_traces_come_one_after_another_in_the_order_asked_for(
    resources: Resources, made_questions: list[Question]
) -> None:
    made = answer_all("medvrag", resources, made_questions, progress=False)
    ids = [question.id for question in reversed(made_questions)]
    coming = each_trace(resources.workspace, "medvrag", [*ids, "unknown"])
    # Nothing is read before it is asked for.
    assert [next(coming).question.id for _ in ids] == ids
    with pytest.raises(InputError, match=r"unknown\.json: no such trace; run `medvrag run --system medvrag` again"):
        next(coming)
    copy = trace_path(resources.workspace, "medvrag", "copy")
    copy.write_text(made[0].to_json(), encoding="utf-8")
    with pytest.raises(InputError, match=r"copy\.json: holds the trace of question"):
        list(each_trace(resources.workspace, "medvrag"))


@pytest.mark.parametrize("question_id", ["../../etc/passwd", "a/b", "x" * 500, "..", "ü?*"])
def test_no_question_id_leaves_the_folder_of_traces(question_id: str, tmp_path: Path) -> None:
    path = trace_path(Workspace(tmp_path), "medvrag", question_id)
    assert path.resolve().parent == (tmp_path / "systems/medvrag/traces").resolve()
    assert len(path.name) < 200


def test_every_system_says_what_it_is() -> None:
    assert set(CONTROLLED_SEQUENCE) <= set(catalog())
    assert all(entry.summary for entry in catalog().values())
    with pytest.raises(InputError, match=r"choose one of .*medvrag"):
        find_system("medragg")


def test_systems_are_systems(resources: Resources) -> None:
    assert all(isinstance(entry.compose(resources), System) for entry in catalog().values())


@pytest.mark.parametrize("name", sorted(RETRIEVERS))
def test_every_retriever_finds_the_page_that_says_it(resources: Resources, name: str) -> None:
    hits = find_retriever(name)(resources, "allopurinol started daily dose", 3)
    assert hits[0].page_id == "gout#p1"
    assert [h.rank for h in hits] == list(range(1, len(hits) + 1))


def test_no_trace_of_a_run_is_kept_in_memory(
    resources: Resources, made_questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full benchmark is larger than the memory, so only questions under way may have a trace there."""
    many = [q.model_copy(update={"id": f"{q.id}-{i}"}) for i in range(6) for q in made_questions]
    made: list[weakref.ref[Trace]] = []
    alive: list[int] = []

    def counting(*arguments: Any, **more: Any) -> Trace:
        alive.append(sum(ref() is not None for ref in made))
        trace = answer_one(*arguments, **more)
        made.append(weakref.ref(trace))
        return trace

    monkeypatch.setattr(answering, "answer_one", counting)
    asked = answer_and_store("no_rag", resources, many, progress=False)
    assert [q.id for q in asked] == [q.id for q in many] and len(made) == 18
    assert max(alive) <= resources.profile.calls.questions_at_once
