"""A changed prompt is refused before anything is spent, and costs only its own calls once it is accepted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from medvrag_core.errors import MismatchError
from medvrag_core.filter import llm_ranker
from medvrag_core.models.store import CallStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning import prompts
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.answering import answer_all, read_traces
from medvrag_core.systems.changed_prompts import calls_of, changed_prompts
from medvrag_core.systems.replay import replay
from medvrag_core.systems.resources import Resources

Change = Callable[[str], None]


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Change:
    """Adds a sentence to one template of the package."""
    reader, ranking = prompts.template, llm_ranker._template

    def make(name: str) -> None:
        if name == "filter":
            monkeypatch.setattr(llm_ranker, "_template", lambda: ranking() + "\nThink of the dose.\n")
        else:
            more = "\nThink of the dose.\n"
            monkeypatch.setattr(prompts, "template", lambda asked: reader(asked) + (more if asked == name else ""))

    return make


def profile_for(run: Workspace, chaos: Any, **more: Any) -> Profile:
    urls = {"filter_model.base_url": chaos.url, "reader_model.base_url": chaos.url}
    return load_profile(str(run.profile), urls | more)


def answered(run: Workspace, profile: Profile, questions: list[Question]) -> list[Trace]:
    resources = Resources(run, profile)
    try:
        return answer_all("medvrag", resources, questions, progress=False)
    finally:
        resources.close()


def identities(run: Workspace, *purposes: str) -> dict[str, str]:
    """Purpose of every stored call, by the name that the server gives its request."""
    found = {}
    with CallStore(run.calls) as store:
        for call in store.calls():
            told = [[m["role"], m["text"], len(m["images"])] for m in json.loads(call.request)["messages"]]
            found[hashlib.sha256(json.dumps(told).encode()).hexdigest()] = call.purpose
    return {key: purpose for key, purpose in found.items() if not purposes or purpose in purposes}


CASES = [("reader_system", ("reader",)), ("reader_round", ("reader",)), ("filter", ("filter_map", "filter_reduce"))]


@pytest.mark.parametrize(("name", "purposes"), CASES)
def test_it_is_refused_before_any_request_and_says_what_it_would_cost(
    paid_copy: Workspace,
    made_questions: list[Question],
    chaos: Any,
    change: Change,
    name: str,
    purposes: tuple[str, ...],
) -> None:
    profile = profile_for(paid_copy, chaos)
    with CallStore(paid_copy.calls) as store:
        stored = {g.purpose: (g.prompt_version, g.calls) for g in store.prompts()}
    before = read_traces(paid_copy, "medvrag", made_by="the run")
    change(name)
    current = Resources(paid_copy, profile).prompt_versions
    with pytest.raises(MismatchError) as caught:
        answered(paid_copy, profile, made_questions)
    told = str(caught.value)
    for purpose, (version, calls) in stored.items():
        expected = f"prompt of '{purpose}' {version} -> {current[purpose]}: {calls} stored calls behind questions "
        assert (expected + "anemia-1, asthma-1, gout-1" in told) == (purpose in purposes), told
    assert "calls.accept_changed_prompts=true" in told
    assert chaos.log()["started"] == {}
    assert read_traces(paid_copy, "medvrag", made_by="the run") == before


@pytest.mark.parametrize(("name", "purposes"), CASES)
def test_once_accepted_only_its_own_calls_are_paid_for(
    paid_copy: Workspace,
    made_questions: list[Question],
    chaos: Any,
    change: Change,
    name: str,
    purposes: tuple[str, ...],
) -> None:
    old = identities(paid_copy)
    with CallStore(paid_copy.calls) as store:
        kept = {call.key: call for call in store.calls()}
    change(name)
    accepted = profile_for(paid_copy, chaos, **{"calls.accept_changed_prompts": True, "loop.max_rounds": 3})
    traces = answered(paid_copy, accepted, made_questions)
    asked = chaos.log()["started"]
    assert asked and max(asked.values()) == 1
    assert not asked.keys() & old.keys(), "a stored call was paid for again"
    assert {identities(paid_copy)[key] for key in asked} >= set(purposes)
    with CallStore(paid_copy.calls) as store:
        new = {call.key: call for call in store.calls() if call.key not in kept}
        assert {key: store.get(key) for key in kept} == kept, "what was paid for stays"
    assert set().union(*map(calls_of, traces)) & {k for k, c in kept.items() if c.purpose in purposes} == set()
    assert new and len(new) == len(asked)
    first_calls = {c.call for t in traces for c in t.rounds[0].filter.calls}
    if "reader" in purposes:
        assert first_calls <= kept.keys(), "the filter of round 1 does not depend on the reader"
    # The change is known now: no refusal without the setting, and nothing more to pay.
    again = answered(paid_copy, profile_for(paid_copy, chaos), made_questions)
    assert again == traces
    assert chaos.log()["started"] == asked


def test_a_prompt_that_is_restored_finds_its_calls_again(
    paid_copy: Workspace, made_questions: list[Question], chaos: Any, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_traces(paid_copy, "medvrag", made_by="the run")
    with monkeypatch.context():
        change("filter")
        answered(paid_copy, profile_for(paid_copy, chaos, **{"calls.accept_changed_prompts": True}), made_questions)
    monkeypatch.undo()
    asked = chaos.log()["started"]
    answered(paid_copy, profile_for(paid_copy, chaos), made_questions)
    assert chaos.log()["started"] == asked
    after = read_traces(paid_copy, "medvrag", made_by="the run")
    assert [t.rounds[-1].reply.call for t in after] == [t.rounds[-1].reply.call for t in before]


@pytest.mark.parametrize("name", ["reader_refine", "reader_refine_system"])
def test_a_prompt_that_was_never_used_costs_nothing(
    paid_copy: Workspace, made_questions: list[Question], chaos: Any, change: Change, name: str
) -> None:
    change(name)
    answered(paid_copy, profile_for(paid_copy, chaos), made_questions)
    assert chaos.log()["started"] == {}


def test_a_replay_refuses_too(paid_copy: Workspace, change: Change) -> None:
    change("reader_final")
    stored = read_traces(paid_copy, "medvrag", made_by="the run")
    with pytest.raises(
        MismatchError, match=r"prompt of 'reader' .* anemia-1, asthma-1, gout-1.*; replay with the version"
    ):
        replay(paid_copy, load_profile(str(paid_copy.profile)), "medvrag", stored, progress=False)


def test_more_questions_than_five_are_counted(paid_run: Workspace) -> None:
    trace = read_traces(paid_run, "medvrag", made_by="the run")[0]
    many = [trace.model_copy(update={"question": trace.question.model_copy(update={"id": f"q{n}"})}) for n in range(9)]
    with CallStore(paid_run.calls) as store:
        found = changed_prompts(store, {"reader": "new"}, many)
        assert [len(one.questions) for one in found] == [9]
        assert changed_prompts(store, {}, many) == changed_prompts(store, {"summary": "x"}, many) == ()


def test_calls_of_a_trace_are_all_in_the_store(paid_run: Workspace) -> None:
    keys = set().union(*map(calls_of, read_traces(paid_run, "medvrag", made_by="the run")))
    with CallStore(paid_run.calls) as store:
        assert keys == {call.key for call in store.calls()}
