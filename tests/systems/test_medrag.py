"""MedRAG on the text chunks of a run: its rankings, its 32 snippets, its one question-only search."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.errors import MedvragError
from medvrag_core.index.fusion import reciprocal_rank_fusion
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all, answering_fingerprint, set_up
from medvrag_core.systems.base import catalog, find_system
from medvrag_core.systems.replay import replay
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import find_retriever

CHUNKS = {"text.chunk_tokens": 24, "text.overlap_tokens": 4}
"""Several chunks a page, seventeen in all."""
HERE = ("medrag", "medrag_bm25")
WEIGHTS = ("medrag_medcpt", "medrag_contriever", "medrag_specter", "medrag_rrf2", "medrag_rrf4")


@pytest.fixture(scope="module")
def text_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the vectors of the chunks, which are the same in all tests."""
    return tmp_path_factory.mktemp("text")


@pytest.fixture
def opened(made_run: Workspace, text_vectors: Path, tmp_path: Path) -> Callable[..., Resources]:
    """The finished run with a systems folder of its own, under overrides of the profile ``test``."""
    for name in ("corpus", "vectors", "index"):
        (tmp_path / name).symlink_to(getattr(made_run, name))
    (tmp_path / "text").symlink_to(text_vectors)
    return lambda **overrides: Resources(Workspace(tmp_path), load_profile("test", CHUNKS | overrides))


def test_the_arms_are_the_rankings_that_the_released_code_offers() -> None:
    assert {name for name in catalog() if name == "medrag" or name.startswith("medrag_")} == {*HERE, *WEIGHTS}
    texts = {name: find_system(name).settle(load_profile("a100")).text for name in (*HERE, *WEIGHTS)}
    assert {name for name, text in texts.items() if text.retriever == "fused"} == {
        "medrag", "medrag_rrf2", "medrag_rrf4",
    }  # fmt: skip
    assert {(text.rrf_constant, text.reranker) for text in texts.values()} == {(100, "none")}
    assert texts["medrag"].encoder == "bge", "the dense encoder of the profile"
    assert texts["medrag_rrf4"].fused_with == (("contriever", "facebook/contriever"), ("specter", "allenai/specter"))
    assert (
        texts["medrag_rrf4"].encoder == texts["medrag_rrf2"].encoder == "medcpt" and not texts["medrag_rrf2"].fused_with
    )
    assert load_profile("a100").medrag.snippets == 32


@pytest.mark.parametrize("name", HERE)
def test_the_best_chunks_for_the_question_alone_are_read_once(
    opened: Callable[..., Resources], made_questions: list[Question], name: str
) -> None:
    resources = opened(**{"medrag.snippets": 3})
    traces = answer_all(name, resources, made_questions, progress=False)
    assert all(trace.outcome == "answered" and trace.correct for trace in traces)
    for trace in traces:
        (only,) = trace.rounds
        assert only.query == trace.question.question
        assert only.shown == only.filter.kept == tuple(hit.page_id for hit in only.stage1[:3])
        assert not (only.filter.calls or only.summaries_shown or only.steps)
        assert Trace.from_json(trace.to_json(), source="trace") == trace
        other = trace.question.model_copy(update={"options": {"A": "ferritin", "B": "spirometry"}, "answer": None})
        (again,) = answer_all(name, resources, [other], progress=False)
        assert again.rounds[0].stage1 == only.stage1, "no option has a say in what is found"


def test_two_rankings_are_fused_as_the_released_code_does(opened: Callable[..., Resources]) -> None:
    resources, query = opened(**{"medrag.snippets": 3}), "How is oral candidiasis prevented in asthma?"
    own = resources.under(find_system("medrag").settle(resources.profile))
    parts = [
        resources.under(find_system(name).settle(resources.profile)).text_search.search(query, 100).hits
        for name in ("text_bm25", "text_dense")
    ]
    expected = reciprocal_rank_fusion([[hit.page_id for hit in hits] for hits in parts], 100, constant=100)
    question = Question(id="q", question=query, options={"A": "Iron", "B": "Rinsing"})
    (round_,) = find_system("medrag").compose(resources).answer(question)
    assert round_.stage1 == expected and len(expected) > 3
    pages = [page for hit in expected for page in (own.chunks[hit.page_id].page_id, *own.chunks[hit.page_id].also_on)]
    found = find_retriever("medrag")(resources, query, 100)
    assert [hit.page_id for hit in found] == sorted(set(pages), key=pages.index)


def test_rankings_are_as_deep_as_the_snippets_need(
    opened: Callable[..., Resources], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    for snippets in (32, 64):
        resources = opened(**{"medrag.snippets": snippets})
        own = resources.under(find_system("medrag").settle(resources.profile))
        search = own.text_search.search
        monkeypatch.setattr(own.text_search, "search", lambda text, k, s=search: (asked.append(k), s(text, k))[1])
        find_system("medrag").compose(resources).answer(
            Question(id="q", question="Gout?", options={"A": "x", "B": "y"})
        )
    assert asked == [100, 128]


def test_what_does_not_fit_the_context_is_left_out_from_the_end_and_the_trace_says_so(
    opened: Callable[..., Resources],
    made_questions: list[Question],
    model_settings: Callable[..., dict[str, Any]],
    chaos: Any,
) -> None:
    more = {"reader_model.tokenizer": "estimate", "reader_model.max_tokens": 64, "filter.ranker": "embedded"}
    rounds = []
    for tokens in (1_000, 16_000):
        resources = opened(**model_settings(chaos.url, **more, **{"reader_model.context_tokens": tokens}))
        resources = resources.under(find_system("medrag").settle(resources.profile))
        rounds += find_system("medrag").compose(resources).answer(made_questions[0])
        resources.close()
    narrow, wide = rounds
    assert "pages_dropped" in narrow.flags and "pages_dropped" not in wide.flags
    assert wide.shown == wide.filter.kept
    assert narrow.filter.kept == wide.filter.kept
    assert 0 < len(narrow.shown) == len(narrow.reply.seen) < len(wide.shown)
    assert narrow.shown == narrow.filter.kept[: len(narrow.shown)]


@pytest.mark.parametrize("name", HERE)
def test_a_replay_gives_the_same_bytes(
    opened: Callable[..., Resources], made_questions: list[Question], name: str
) -> None:
    resources = opened()
    traces = answer_all(name, resources, made_questions, progress=False)
    report = replay(resources.workspace, resources.profile, name, traces, progress=False)
    assert report.identical == 3 and report.digest == report.replayed


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
@pytest.mark.parametrize("name", WEIGHTS)
def test_arms_whose_encoder_is_not_here_say_what_to_install(
    opened: Callable[..., Resources], made_questions: list[Question], name: str
) -> None:
    with pytest.raises(MedvragError, match="install the extra 'gpu'"):
        answer_all(name, opened(), made_questions, progress=False)


def test_every_arm_has_a_fingerprint_of_its_own(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    resources = opened()
    names = (*HERE, *WEIGHTS, "text_fused", "text_rrf2")
    made = {answering_fingerprint(name, set_up(name, resources, made_questions)[0]) for name in names}
    assert len(made) == len(names)
