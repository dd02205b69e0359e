"""i-MedRAG as a system: embedded and with a model server, resumed, replayed, measured and costed as any other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.evaluation.cost.bill import cost_report
from medvrag_core.evaluation.retrieval.report import stage_report
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning.helper_calls import helper_versions
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all, answering_fingerprint, set_up
from medvrag_core.systems.base import find_system
from medvrag_core.systems.replay import replay
from medvrag_core.systems.resources import Resources
from medvrag_core.views.trace_text import plain, trace_text
from medvrag_core.views.trace_view import TraceView

HERE = ("i_medrag", "i_medrag_bm25", "i_medrag_option_blind")


@pytest.fixture(scope="module")
def text_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the vectors of the chunks, which are the same in all tests."""
    return tmp_path_factory.mktemp("text")


@pytest.fixture
def opened(made_run: Workspace, text_vectors: Path, tmp_path: Path) -> Callable[..., Resources]:
    """The finished run with a systems folder of its own, under overrides of the profile ``test``; a few snippets."""
    few = {"text.chunk_tokens": 24, "text.overlap_tokens": 4, "i_medrag.snippets": 2, "i_medrag.rounds": 2}
    for name in ("corpus", "vectors", "index"):
        (tmp_path / name).symlink_to(getattr(made_run, name))
    (tmp_path / "text").symlink_to(text_vectors)
    return lambda **overrides: Resources(Workspace(tmp_path), load_profile("test", few | overrides))


@pytest.mark.parametrize("name", HERE)
def test_it_runs_without_a_model_and_again_to_the_same_bytes(
    opened: Callable[..., Resources], made_questions: list[Question], name: str
) -> None:
    resources = opened()
    traces = answer_all(name, resources, made_questions, progress=False)
    assert [trace.outcome for trace in traces] == ["answered"] * 3 and all(trace.correct for trace in traces)
    for trace in traces:
        *asking, last = trace.rounds
        assert 1 <= len(asking) <= 2 and trace.question.question in asking[0].query
        for round_ in asking:
            ask, *answered = round_.steps
            assert ask.kind == "ask" and [step.about for step in answered] == list(ask.names)
            assert all(len(step.names) <= 2 for step in answered)
        assert last.history and last.shown and not (last.stage1 or last.filter.kept)
        assert Trace.from_json(trace.to_json(), source="trace") == trace
        assert all(round_.query in TraceView(trace).html for round_ in asking)
        told = trace_text(trace)
        assert "Round 2" in told and f"asks for: {plain(asking[0].query)[:60]}" in told
        assert plain(asking[0].steps[1].text)[:60] in told, "an answer, not what it was made from"
    report = replay(resources.workspace, resources.profile, name, traces, progress=False)
    assert report.identical == 3 and report.digest == report.replayed


def test_the_options_reach_the_queries_of_the_released_form_alone(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    def queries(name: str) -> str:
        (trace,) = answer_all(name, opened(), made_questions[:1], progress=False)
        return " ".join(round_.query for round_ in trace.rounds).casefold()

    assert "25 mg" in queries("i_medrag") and "25 mg" not in queries("i_medrag_option_blind")


def test_retrieval_and_cost_are_measured_as_of_any_system(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    resources = opened()
    traces = answer_all("i_medrag", resources, made_questions, progress=False)
    report = stage_report(traces, resources.profile, rounds="any")
    assert report.recall.chunks and report.recall.questions == 3
    recalls = {row.stage: row.recall.value for row in report.recall.rows}
    assert recalls["candidates"] == recalls["kept"] == recalls["shown"] == 1.0
    assert report.filter_loss is not None
    cost = cost_report(traces)
    assert cost.row("helper", "seconds") is not None and cost.row("search", "seconds") is not None
    assert cost.row("total", "calls") is None, "no model was asked"


def test_with_a_model_every_call_is_charged_once_and_a_replay_needs_no_server(
    opened: Callable[..., Resources],
    made_questions: list[Question],
    model_settings: Callable[..., dict[str, Any]],
    chaos_server: type,
) -> None:
    """The server knows no JSON but rankings, so the writer's reply cannot be read and the asking ends."""
    server = chaos_server()
    helper = {"helper.name": "llm", "helper_model.model": "m", "helper_model.base_url": server.url}
    resources = opened(**model_settings(server.url, **helper))
    try:
        traces = answer_all("i_medrag", resources, made_questions, progress=False)
        calls = resources.tally()
        resources.close()
    finally:
        server.close()
    for trace in traces:
        asking, last = trace.rounds
        assert asking.steps[0].call and asking.steps[0].reason == asking.parsed.reason == "unreadable"
        assert not asking.reply.call and last.reply.call and last.history == ""
    cost = cost_report(traces)
    per_stage = {stage: cost.row(stage, "calls") for stage in ("helper", "read")}
    assert {stage: row and row.total for stage, row in per_stage.items()} == {"helper": 3, "read": 3}
    assert sum(calls.values()) == 6
    report = replay(resources.workspace, resources.profile, "i_medrag", traces, progress=False)
    assert report.identical == 3


def test_a_served_model_asks_and_answers_and_the_run_replays_without_it(
    opened: Callable[..., Resources], made_questions: list[Question], httpserver: HTTPServer
) -> None:
    bodies: list[dict[str, Any]] = []

    def reply(request: Request) -> Response:
        bodies.append(json.loads(request.data))
        prompt = bodies[-1]["messages"][-1]["content"]
        text = "Allopurinol is started at 100 mg daily (page gout#p1)."
        if "response_format" in bodies[-1]:
            queries = ["How is allopurinol started?", f"Which urate is low {prompt.count('Query of round')}?"]
            text = json.dumps({"analysis": "?", "queries": queries})
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 90, "completion_tokens": 9, "total_tokens": 99}
        told = {"id": "1", "model": "helps", "choices": [choice], "usage": usage}
        return Response(json.dumps(told), content_type="application/json")

    httpserver.expect_request(re.compile(".*")).respond_with_handler(reply)
    model = {"model": "helps", "base_url": httpserver.url_for("/v1"), "tokenizer": "estimate"}
    resources = opened(**{"helper.name": "llm"}, **{f"helper_model.{key}": value for key, value in model.items()})
    (trace,) = answer_all("i_medrag", resources, made_questions[:1], progress=False)
    resources.close()
    first, second, last = trace.rounds
    assert first.query == "How is allopurinol started? | Which urate is low 0?"
    assert second.query == "Which urate is low 2?" and second.flags == ("query_stalled",)
    assert [step.kind for step in first.steps] == ["ask", "follow_up", "follow_up"]
    assert all(step.call and step.made_by == "helps" and step.prompt_tokens == 90 for step in first.steps)
    assert last.history.count("- Allopurinol is started at 100 mg daily (page gout#p1).") == 3
    assert trace.label == "B" and trace.correct
    answering = [body["messages"][-1]["content"] for body in bodies if "response_format" not in body]
    assert len(bodies) == 5 and len(answering) == 3
    assert not any("600 mg" in prompt for prompt in answering), "who answers a follow-up query sees no option"
    cost = cost_report([trace])
    calls, tokens = cost.row("helper", "calls"), cost.row("helper", "prompt_tokens")
    assert calls is not None and calls.total == 5 and tokens is not None and tokens.total == 450
    report = replay(resources.workspace, resources.profile, "i_medrag", [trace], progress=False)
    assert (report.identical, len(bodies)) == (1, 5)


def test_the_fingerprint_knows_settings_and_prompts(
    opened: Callable[..., Resources], made_questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(name: str = "i_medrag", **overrides: Any) -> str:
        return answering_fingerprint(name, set_up(name, opened(**overrides), made_questions)[0])

    assert len({fingerprint(name) for name in (*HERE, "i_medrag_rrf4", "medrag")}) == 5
    assert len({fingerprint(), fingerprint(**{"i_medrag.queries": 2}), fingerprint(**{"i_medrag.rounds": 3})}) == 3
    llm = {"helper.name": "llm", "helper_model.model": "m"}
    entry = find_system("i_medrag")
    assert entry.prompts(load_profile("test", llm)) == helper_versions("ask", "follow_up")
    assert entry.prompts(load_profile("test")) == {}
    before = fingerprint(**llm)
    monkeypatch.setattr("medvrag_core.reasoning.follow_up_tasks.VERSION", "other")
    assert fingerprint(**llm) != before


def test_the_composition_tells_both_parts(opened: Callable[..., Resources]) -> None:
    told = find_system("i_medrag").compose(opened()).composition
    assert told == "Ask > FollowUp, 2 rounds at most; then PresentNothing > Read"
    released = load_profile("a100").i_medrag
    assert (released.rounds, released.queries, released.snippets, released.sees_options) == (4, 3, 32, True)
