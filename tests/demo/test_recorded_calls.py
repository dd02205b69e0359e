"""The recorded model calls of the demo, which chapters 03 and 04 replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from medvrag_core.filter import llm_ranker
from medvrag_core.models.store import CallStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning.prompts import prompt_versions
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.archive import archived_traces, import_calls

RECORDED = Path(__file__).resolve().parents[2] / "data" / "demo" / "recorded"
ARCHIVE = RECORDED / "calls.jsonl.xz"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> CallStore:
    run = Workspace(tmp_path_factory.mktemp("recorded"))
    import_calls(ARCHIVE, run)
    return CallStore(run.calls)


def test_they_were_made_with_the_prompts_in_force(store: CallStore) -> None:
    ranking = llm_ranker.prompt_version()
    current = {"filter_map": ranking, "filter_reduce": ranking} | prompt_versions()
    stale = {g.purpose: g.prompt_version for g in store.prompts() if g.prompt_version != current[g.purpose]}
    assert not stale, "a prompt changed: record the calls anew with data/demo/record_calls.py"


def test_they_hold_both_arms_and_a_trace_for_every_call(store: CallStore) -> None:
    traces = archived_traces(ARCHIVE)
    assert {trace.system for trace in traces} == {"medvrag", "medvrag_option_blind"}
    used = {call.call for t in traces for r in t.rounds for call in r.filter.calls}
    used |= {reply.call for t in traces for r in t.rounds for reply in (r.reply, r.refinement) if reply is not None}
    assert used == {call.key for call in store.calls()}
    assert all(trace.outcome != "error" for trace in traces)


def test_their_profile_names_the_model_that_answered(store: CallStore) -> None:
    profile = load_profile(str(RECORDED / "recorded.yaml"))
    models = {profile.filter_model.model, profile.reader_model.model}
    assert {call.model for call in store.calls()} == models
    assert all(trace.profile == profile.name for trace in archived_traces(ARCHIVE))
