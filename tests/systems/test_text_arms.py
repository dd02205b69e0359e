"""Text arms: lines of arms.yaml that answer, rank pages, and carry their encoder in their fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medvrag_core.encoders import transformer
from medvrag_core.encoders.minilm import load_minilm
from medvrag_core.errors import InputError, MedvragError, MismatchError, SettingsError
from medvrag_core.models.outcomes import RunStopped
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all, answering_fingerprint, set_up
from medvrag_core.systems.base import find_system
from medvrag_core.systems.replay import replay
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import find_retriever, reads_text_alone, text_arms
from medvrag_core.systems.text_rag import ChunkEvidence

HERE = ("text_rag", "text_bm25", "text_dense", "text_adjacent", "text_layout", "text_fused", "text_reranked")
WEIGHTS = ("text_bge", "text_medcpt", "text_rrf2", "text_cross_encoder")
QUERY = "How is oral candidiasis from inhaled steroids prevented?"


@pytest.fixture
def resources(made_run: Workspace, tmp_path: Path) -> Resources:
    """The finished run, with folders of its own for traces and chunk vectors; short chunks, several a page."""
    for name in ("corpus", "vectors", "index"):
        (tmp_path / name).symlink_to(getattr(made_run, name))
    return Resources(Workspace(tmp_path), load_profile("test", {"text.chunk_tokens": 24, "text.overlap_tokens": 4}))


def test_the_issue_names_these_arms() -> None:
    medrag = {name for name in text_arms() if name.startswith("medrag")}
    assert {*HERE, *WEIGHTS, "text_iterative", "text_captions"} == set(text_arms()) - medrag


@pytest.mark.parametrize("name", HERE)
def test_text_arms_answer_from_chunks_in_one_round(
    resources: Resources, made_questions: list[Question], name: str
) -> None:
    traces = answer_all(name, resources, made_questions, progress=False)
    assert [t.outcome for t in traces] == ["answered"] * 3
    assert all(t.correct for t in traces)
    for trace in traces:
        (only,) = trace.rounds
        assert all("#c" in evidence for evidence in only.shown)
        assert only.shown[0].startswith(trace.question.gold_pages[0])
        assert not only.summaries_shown and not only.reply.seen
    again = answer_all(name, Resources(resources.workspace, resources.profile), made_questions, progress=False)
    assert again == traces


def test_each_policy_of_text_cuts_the_same_words_into_other_chunks(resources: Resources) -> None:
    names = ("text_adjacent", "text_layout")
    made = {name: resources.under(find_system(name).settle(resources.profile)) for name in names}
    plain = [chunk.text for chunk in resources.chunks.values()]
    for own in made.values():
        texts = [chunk.text for chunk in own.chunks.values()]
        assert texts != plain
        assert {word for text in texts for word in text.split()} == {word for text in plain for word in text.split()}
        count = load_minilm().count_tokens
        assert max(sum(count(text.split())) for text in texts) == 22, "24 with [CLS] and [SEP]"
    shown = made["text_layout"].chunks
    assert any("\n" in chunk.text for chunk in shown.values())
    source = ChunkEvidence(made["text_layout"])
    assert all(source.evidence(name).text == chunk.text for name, chunk in shown.items()), "blanks reach the reader"


def test_a_question_without_a_known_word_is_answered_without_chunks(
    resources: Resources, made_questions: list[Question]
) -> None:
    strange = made_questions[0].model_copy(update={"question": "Xyzzy plugh?"})
    (trace,) = answer_all("text_bm25", resources, [strange], progress=False)
    assert trace.outcome == "answered" and trace.rounds[0].shown == ()
    assert find_retriever("text_bm25")(resources, strange.question, 5) == ()


def test_the_iterative_text_arm_has_the_loop_of_the_profile(
    resources: Resources, made_questions: list[Question]
) -> None:
    forced = Resources(resources.workspace, load_profile("test", {"loop.min_rounds": 2}))
    traces = answer_all("text_iterative", forced, made_questions, progress=False)
    assert all(len(t.rounds) >= 2 for t in traces)
    assert all(len(t.rounds) == 1 for t in answer_all("text_rag", resources, made_questions, progress=False))
    assert all("#c" in evidence for t in traces for r in t.rounds for evidence in r.shown)


def test_arms_share_the_vectors_that_they_can_share(resources: Resources, made_questions: list[Question]) -> None:
    for name in HERE:
        answer_all(name, resources, made_questions[:1], progress=False)
    kinds = sorted(path.name.partition("-")[0] for path in resources.workspace.text.iterdir())
    assert kinds == 3 * ["embedded"] + ["late"], "chunks of each policy of text have their own"


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
@pytest.mark.parametrize("name", WEIGHTS)
def test_arms_whose_encoder_is_not_here_say_what_to_install(
    resources: Resources, made_questions: list[Question], name: str
) -> None:
    with pytest.raises(MedvragError, match="install the extra 'gpu'"):
        answer_all(name, resources, made_questions, progress=False)
    assert not list(resources.workspace.traces(name).glob("*"))


def test_the_lines_name_the_weights_of_both_sides() -> None:
    profile = load_profile("a100")
    medcpt, bge = find_system("text_medcpt").settle(profile).text, find_system("text_bge").settle(profile).text
    assert (medcpt.model, medcpt.passage_model) == ("ncbi/MedCPT-Query-Encoder", "ncbi/MedCPT-Article-Encoder")
    assert (bge.encoder, bge.model, bge.device) == ("bge", "BAAI/bge-large-en-v1.5", "cuda:0")
    assert find_system("text_dense").settle(profile).text == profile.text, "the paper's baseline is BGE"


def test_the_late_interaction_arm_needs_the_embedded_page_encoder(
    resources: Resources, made_questions: list[Question]
) -> None:
    view = resources.under(resources.profile.model_copy(update={"encoder": load_profile("a100").encoder}))
    with pytest.raises(SettingsError, match=r"has 'colqwen2\.5'; set text\.reranker to cross_encoder"):
        answer_all("text_reranked", view, made_questions[:1], progress=False)


def test_bc28_the_prefix_is_part_of_the_arms_fingerprint(
    resources: Resources, made_questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(name: str, resources: Resources) -> str:
        return answering_fingerprint(name, set_up(name, resources, made_questions)[0])

    before = {name: fingerprint(name, resources) for name in ("text_bge", "text_bm25", "page_single", "medvrag")}
    changed = transformer.Recipe("Query: ", 512, "none", "cosine")
    monkeypatch.setitem(transformer.RECIPES, "bge", changed)
    after = {name: fingerprint(name, resources) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"text_bge"}
    names = (*HERE, *WEIGHTS)
    assert len({fingerprint(name, resources) for name in names}) == len(names)


def test_an_arm_under_another_retriever_is_refused(resources: Resources, made_questions: list[Question]) -> None:
    answer_all("text_rag", resources, made_questions[:1], progress=False)
    other = Resources(
        resources.workspace,
        resources.profile.model_copy(update={"text": find_system("text_bm25").settle(resources.profile).text}),
    )
    with pytest.raises(MismatchError, match=r"text\.retriever: dense -> bm25"):
        answer_all("text_rag", other, made_questions[:1], progress=False)


@pytest.mark.parametrize("name", HERE)
def test_pages_stand_where_their_best_chunk_does(resources: Resources, name: str) -> None:
    own = resources.under(find_system(name).settle(resources.profile))
    chunks = [own.chunks[hit.page_id] for hit in own.text_search.search(QUERY, 2_000).hits]
    pages = [page for chunk in chunks for page in (chunk.page_id, *chunk.also_on)]
    assert len(set(pages)) < len(chunks), "pages have several chunks"
    assert any(chunk.also_on for chunk in chunks), "and some run over the end of a page"
    hits = find_retriever(name)(resources, QUERY, 100)
    assert [hit.page_id for hit in hits] == sorted(set(pages), key=pages.index)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert hits[0].page_id == "asthma#p2"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert find_retriever(name)(resources, QUERY, 2) == hits[:2]


def test_pages_without_a_word_of_the_query_have_no_rank_by_words(resources: Resources) -> None:
    by_vectors = find_retriever("stage1")(resources, "spirometry", 5)
    assert [h.page_id for h in find_retriever("hybrid")(resources, "spirometry", 5)] == [h.page_id for h in by_vectors]


def test_a_strange_retriever_is_told_of_all_there_are() -> None:
    with pytest.raises(InputError, match=r"choose one of stage1, .*filtered, .*text_reranked"):
        find_retriever("text_bm26")
    assert [reads_text_alone(name) for name in ("bm25", "text_fused", "stage1", "hybrid")] == [True, True, False, False]


def test_text_retrievers_need_no_index(
    made_run: Workspace, tmp_path: Path, medvrag: Callable[..., SimpleNamespace]
) -> None:
    queries, run, out = tmp_path / "queries.jsonl", tmp_path / "run", tmp_path / "out.trec"
    queries.write_text('{"id": "q", "text": "allopurinol daily dose"}\n')
    run.mkdir()
    (run / "corpus").symlink_to(made_run.corpus)
    done = medvrag(
        "retrieve", "--queries", queries, "--out", out, "--run", run, "--profile", "test", "--retriever", "text_bm25"
    )
    assert done.code == 0, done.err
    assert out.read_text().split()[2].startswith("gout#")
    assert not (run / "index").exists() and not (run / "vectors").exists()


# --- captions -----------------------------------------------------------------------------------


def test_without_a_model_captions_are_headings_tables_and_captions(
    resources: Resources, made_questions: list[Question]
) -> None:
    """These pages have headings and prose, so that their captions name subjects and hold no answers."""
    traces = answer_all("text_captions", resources, made_questions, progress=False)
    assert {t.outcome for t in traces} == {"answered"} and all(t.rounds[0].shown for t in traces)
    own = resources.under(find_system("text_captions").settle(resources.profile))
    text = " ".join(chunk.text for chunk in own.chunks.values())
    assert "Gout and its treatment" in text and "Allopurinol is started" not in text
    assert own.captions["gout#p1"].made_by == "regions-1"
    kinds = sorted(path.name.partition("-")[0] for path in resources.workspace.text.iterdir())
    assert kinds == ["captions", "embedded"]
    ranked = find_retriever("text_captions")(resources, "Gout treatment", 5)
    assert ranked[0].page_id.startswith("gout#")


def captioned(resources: Resources, url: str, **more: Any) -> Resources:
    settings = {"serve.summary_model.model": "m", "serve.summary_model.base_url": url, "calls.pause_s": 0.0} | more
    return Resources(resources.workspace, load_profile("test", settings))


def test_captions_of_a_model_are_what_chunks_are_cut_from(
    resources: Resources, chaos: Any, made_questions: list[Question]
) -> None:
    opened = captioned(resources, chaos.url)
    own = opened.under(find_system("text_captions").settle(opened.profile))
    traces = answer_all("text_captions", opened, made_questions, progress=False)
    assert {t.outcome for t in traces} == {"answered"}
    captions = {page: caption.text for page, caption in own.captions.items()}
    assert all(text.startswith("<answer>") for text in captions.values()), "this server says nothing else"
    assert {word for chunk in own.chunks.values() for word in chunk.text.split()} == set(captions.values())
    paid = {group.purpose: group.calls for group in opened.calls.prompts()}
    assert paid == {"caption": len(captions)}
    assert own.prompt_versions.keys() == {"caption"} and opened.prompt_versions == {}
    chaos.close()
    assert answer_all("text_captions", captioned(resources, chaos.url), made_questions, progress=False) == traces
    again = replay(opened.workspace, opened.profile, "text_captions", traces, progress=False)
    assert again.identical == len(traces)


def test_who_captions_is_in_the_fingerprint_of_answers_from_captions_alone(
    resources: Resources, made_questions: list[Question]
) -> None:
    def key(name: str, opened: Resources) -> str:
        return answering_fingerprint(name, set_up(name, opened, made_questions)[0])

    model, other = (
        captioned(resources, "http://127.0.0.1:1/v1"),
        captioned(resources, "http://127.0.0.1:1/v1", **{"serve.summary_model.model": "n"}),
    )
    elsewhere = captioned(resources, "http://127.0.0.1:2/v1")
    assert len({key("text_captions", one) for one in (resources, model, other)}) == 3
    assert key("text_captions", elsewhere) == key("text_captions", model), "where a model runs changes no caption"
    assert key("text_dense", model) == key("text_dense", captioned(resources, "http://x/v1"))


def test_a_captioner_that_is_not_there_stops_the_run_and_not_the_questions(
    resources: Resources, made_questions: list[Question]
) -> None:
    opened = captioned(resources, "http://127.0.0.1:1/v1", **{"calls.attempts": 1})
    with pytest.raises(RunStopped, match=r"page '\w+#p1' has no caption|cannot be reached"):
        answer_all("text_captions", opened, made_questions, progress=False)
    assert not list(opened.workspace.traces("text_captions").glob("*"))
