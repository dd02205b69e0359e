"""The plan of a run: sums that can be made by hand, and what must follow when a setting changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.cost.helper_calls import helper_calls
from medvrag_core.evaluation.cost.plan import plan_run
from medvrag_core.evaluation.cost.run_plan import PlanLine, RunPlan
from medvrag_core.evaluation.cost.run_size import (
    RunSize,
    duplicate_products,
    filter_tokens,
    page_size,
    reader_tokens,
    rounds_a_question,
)
from medvrag_core.evaluation.cost.unit_costs import UnitCost, shipped_costs
from medvrag_core.filter.llm_ranker import LlmRanker
from medvrag_core.models.serving.plan import page_tokens
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import StepKind
from medvrag_core.settings import Profile
from medvrag_core.systems.base import catalog

SHIPPED = shipped_costs()
ONE = {name: cost.model_copy(update={"value": 1.0}) for name, cost in SHIPPED.items()}
"""Every unit costs 1, so that a line is its amount."""
PAPER = RunSize(articles=18_000, pages=350_000, questions=7_045)


def planned(profile: Profile | str, size: RunSize, costs: dict[str, UnitCost] = ONE, **changes: Any) -> RunPlan:
    if isinstance(profile, str):
        profile = load_profile(profile, {name.replace("__", "."): value for name, value in changes.items()})
    return plan_run(profile, size, costs)


def line(plan: RunPlan, stage: str, what: str = "") -> PlanLine:
    (found,) = [made for made in plan.lines if made.stage == stage and what in made.what]
    return found


# --- the CPU profile, by hand -----------------------------------------------------------


def test_stages_of_the_cpu_profile_by_hand() -> None:
    plan = planned("cpu", RunSize(articles=2, pages=100, questions=10), workers=4)
    rendering = line(plan, "corpus")
    assert (rendering.core_s, rendering.wall_s) == (100, 25), "four processes render"
    assert rendering.bytes == pytest.approx(100 * (2_550 * 3_300 / 1e6 + 1))
    assert (line(plan, "summaries").core_s, line(plan, "summaries").wall_s) == (100, 100)
    assert line(plan, "embedding").wall_s == 25
    assert line(plan, "reader").core_s == 10, "a round a question"
    assert line(plan, "filter").core_s == 10 * 100, "all pages are candidates"
    assert line(plan, "traces").bytes == 10 * 100
    assert plan.gpu_hours == 0
    assert {made.kind for made in plan.lines} <= {"measured", "computed"}
    assert not plan.does_not_fit


def test_vectors_on_the_disk_by_hand() -> None:
    costs = ONE | {name: ONE[name].model_copy(update={"value": 90.0}) for name in ("embedded_vectors", "patches")}
    changes = {"encoder.dim": 64, "encoder.lexical_dim": 0, "encoder.vectors_per_page": 50}
    sizes = {
        storage: page_size(load_profile("cpu", changes | {"encoder.storage": storage}), costs).stored_bytes
        for storage in ("float32", "float16", "int8")
    }
    assert sizes == {"float32": 50 * 256 + 90, "float16": 50 * 128 + 90, "int8": 50 * (64 + 4) + 90}


def test_scanned_pages_are_read_by_ocr() -> None:
    costs = ONE | {"ocr_s": ONE["ocr_s"].model_copy(update={"value": 10.0})}
    size = RunSize(articles=1, pages=100, questions=0, scanned=0.25)
    rows = [made for made in planned("cpu", size, costs).lines if made.stage == "corpus"]
    assert [(made.amount, made.core_s) for made in rows] == [(75, 75), (25, 250)]
    always = planned("cpu", size, costs, corpus__ocr="always")
    assert [(made.amount, made.core_s) for made in always.lines if made.stage == "corpus"] == [(100, 1_000)]


def test_without_questions_nothing_is_asked() -> None:
    plan = planned("a100", PAPER.model_copy(update={"questions": 0}))
    assert {made.stage for made in plan.lines} == {"corpus", "summaries", "embedding", "index"}


def test_summaries_by_a_model_take_its_operations() -> None:
    plan = planned("a100", PAPER.model_copy(update={"questions": 0}), SHIPPED)
    made = line(plan, "summaries")
    assert (made.core_s, made.amount, made.kind) == (0, PAPER.pages, "assumed")
    # 7.6 billion numbers meet each of some 1,300 tokens read and 110 written; the image part is small beside them.
    read, written = made.prompt_tokens / 0.4, made.completion_tokens / 0.1
    assert made.gpu_s == pytest.approx(2 * 7.6e9 * (read + written) / 3.12e14, rel=0.3)
    assert made.wall_s == pytest.approx(made.gpu_s / 4), "each of four GPUs holds the whole model"
    assert made.prompt_tokens > 1_000 * PAPER.pages, "a page image at 1,003,520 pixels has over 1,200 tokens"
    assert made.completion_tokens == pytest.approx(PAPER.pages * 110, rel=0.1), "about 70 words"
    unknown = line(planned("a100", PAPER, SHIPPED, serve__summary_model__model="someone/else"), "summaries")
    assert (unknown.wall_s, unknown.gpu_s) == (None, 0.0), "nothing is known of its size"
    assert not any("sentences of the page" in note for note in plan.notes)
    extracts = planned("a100", PAPER, SHIPPED, corpus__summarizer="extractive")
    assert any("sentences of the page" in note for note in extracts.notes)


# --- the paper's node -------------------------------------------------------------------


def test_the_papers_run_takes_the_papers_time_for_its_models() -> None:
    """12.1 s for each round of the reader, and 3.8 s for the filter's 240,000 tokens, over 1.524 rounds."""
    plan = planned("a100", PAPER, SHIPPED)
    reader, filter_ = line(plan, "reader"), line(plan, "filter")
    rounds = 7_045 * (0.614 + 2 * 0.248 + 3 * 0.138)
    assert reader.amount == pytest.approx(rounds)
    assert reader.wall_s == pytest.approx(12.1 * rounds)
    assert reader.gpu_s == pytest.approx(2 * 12.1 * rounds), "the reader has two GPUs"
    assert filter_.wall_s == pytest.approx(3.8 * rounds * filter_tokens(load_profile("a100"), 350_000).prompt / 240_000)
    assert filter_.wall_s == pytest.approx(3.8 * rounds, rel=0.15), "the profile's summaries are near the paper's"
    assert (reader.kind, filter_.kind, line(plan, "embedding").kind) == ("paper", "paper", "assumed")
    assert any("nothing of this project has run on a GPU" in note for note in plan.notes)


def test_the_papers_pages_have_the_papers_vectors() -> None:
    page = page_size(load_profile("a100"), SHIPPED)
    assert (page.tokens, page.vector_width) == (744, 128)
    assert page.vectors == pytest.approx(103, rel=0.05)
    every = page_size(load_profile("a100", {"encoder.pool_factor": 1}), SHIPPED)
    assert every.vectors == 744
    assert page_size(load_profile("a100", {"corpus.dpi": 150}), SHIPPED).vectors == page.vectors, "whatever the dpi"


def test_another_model_is_timed_by_its_size_and_said_to_be() -> None:
    there = planned("a100", PAPER, SHIPPED)
    small = planned("a100", PAPER, SHIPPED, reader_model__model="Qwen/Qwen2.5-VL-7B-Instruct")
    ratio = (line(small, "reader").wall_s or 0) / (line(there, "reader").wall_s or 1)
    assert 0.2 < ratio < 0.3, "8.3 of 33.5 billion numbers"
    assert line(small, "reader").kind == "assumed"
    unknown = planned("a100", PAPER, SHIPPED, reader_model__model="somebody/else")
    assert line(unknown, "reader").wall_s is None
    assert any("no unit cost is known for 'somebody/else" in note for note in unknown.notes)
    assert unknown.wall_hours < there.wall_hours


def test_models_of_a_service_have_tokens_and_no_time() -> None:
    plan = planned("hosted", PAPER, SHIPPED, reader_model__model="m", filter_model__model="m")
    for stage in ("filter", "reader"):
        made = line(plan, stage)
        assert (made.wall_s, made.gpu_s) == (None, 0)
        assert made.prompt_tokens > made.completion_tokens > 0


def test_what_does_not_fit_is_told() -> None:
    assert planned("a100", PAPER, SHIPPED).does_not_fit == ()
    squeezed = planned("a100", PAPER, SHIPPED, serve__reader_share=0.3)
    assert any("leave room for" in fault and "'reader_model'" in fault for fault in squeezed.does_not_fit)
    crowded = planned("a100", PAPER, SHIPPED, reader_model__context_tokens=16_384)
    assert [fault.partition(" in ")[0] for fault in crowded.does_not_fit] == ["2 of 10 page images have no room"]


def test_memory_of_each_place() -> None:
    plan = planned("a100", PAPER, SHIPPED, index__device="cuda:1", index__mode="paper")
    held = {(m.where, m.what.split()[0]): m.gib for m in plan.memory}
    vectors, pages = 744 / 7, 350_000
    a_page = (7 * 16 + 8) * 128
    assert held["main memory", "the"] == pytest.approx(pages * a_page / 2**30)
    assert held["'index.device' cuda:1", "the"] == pytest.approx(pages * 8 * 128 * 4 / 2**30)
    assert held["'encoder.device' cuda:0", "weights"] == pytest.approx(2 * 3.755e9 / 2**30, rel=0.01)
    readers = [m for m in plan.memory if "(reader)" in m.what]
    assert [(m.where, m.of_gib) for m in readers] == [("GPU 2, 3, each", 79)]
    on_gpu = planned("a100", PAPER, SHIPPED, index__device="cuda:1")
    assert {m.where: m.gib for m in on_gpu.memory}["'index.device' cuda:1"] == pytest.approx(
        pages * vectors * 128 * 2 / 2**30
    )


def test_the_modes_of_the_index_by_hand() -> None:
    """Products of one query with the vectors that each mode meets, in billions; laws where they were measured."""
    costs = SHIPPED
    vectors, pages = 744 / 7, 350_000
    anew = 256 * vectors * costs["maxsim_s"].value
    wanted = {
        "exact": costs["exact_fixed_s"].value + pages * costs["exact_page_s"].value * vectors / 103,
        "fast": costs["fast_fixed_s"].value + pages * costs["fast_page_s"].value,
        "paper": costs["query_vectors"].value * 128 / 1e9 * (4_000 * vectors * costs["scan_s"].value + anew),
    }
    for mode, of_a_query in wanted.items():
        plan = planned("a100", PAPER, SHIPPED, index__mode=mode, index__device="cpu")
        rounds = line(plan, "search", "stage 1").amount
        assert line(plan, "search", "stage 1").core_s == pytest.approx(rounds * of_a_query)
        assert any(entry.what == "ANN (hnsw)" for entry in plan.lines) == (mode == "paper")
    flat = planned("a100", PAPER, SHIPPED, index__mode="paper", index__device="cuda:0")
    assert not any("ANN" in entry.what for entry in flat.lines), "a GPU needs no HNSW, and a flat one is quickly made"
    assert line(planned("a100", PAPER, SHIPPED, index__device="cuda:0"), "search", "stage 1").wall_s is None


def test_the_embedded_encoder_is_searched_by_products() -> None:
    """Its vectors are few and wide, unlike those that the laws were measured with."""
    plan, page = planned("cpu", PAPER, SHIPPED), page_size(load_profile("cpu"), SHIPPED)
    products = PAPER.pages * page.vectors * SHIPPED["scan_s"].value + 256 * page.vectors * SHIPPED["maxsim_s"].value
    found = line(plan, "search", "stage 1")
    of_a_query = SHIPPED["query_vectors"].value * page.vector_width / 1e9 * products
    assert found.core_s == pytest.approx(found.amount * of_a_query)


# --- tokens -----------------------------------------------------------------------------


def test_the_papers_filter_by_hand() -> None:
    """Eight map calls rank 2,000 summaries of 70 words and keep 25 each; one reduce call ranks these and keeps 100."""
    tokens = filter_tokens(load_profile("a100"), 350_000)
    each = 70 * 1.5 + 6
    assert (tokens.calls, tokens.prompt) == (9, 2_200 * each + 9 * 500)
    assert tokens.completion == 6 * (200 + 100)


def test_tokens_of_calls_agree_with_those_who_make_them() -> None:
    profile = load_profile("a100")
    page = page_tokens(profile.reader_model) + 2
    shown, none = reader_tokens(profile, SHIPPED), reader_tokens(profile, SHIPPED, pages=0)
    assert shown.prompt - none.prompt == 10 * page
    ranker = LlmRanker.__new__(LlmRanker)
    ranker.model = type("Door", (), {"settings": profile.filter_model})()
    one, two = (filter_tokens(load_profile("a100", {"filter.keep": n}), 100).completion for n in (10, 11))
    assert two - one == ranker.reply_tokens(11) - ranker.reply_tokens(10)


@given(pages=st.integers(1, 5_000), shard=st.integers(2, 400), context=st.integers(4_096, 40_000))
def test_every_candidate_is_ranked_and_no_call_is_too_long(pages: int, shard: int, context: int) -> None:
    profile = load_profile("a100", {"filter.shard_size": shard, "filter_model.context_tokens": context})
    tokens = filter_tokens(profile, pages)
    candidates = min(pages, 2_000)
    maps = tokens.calls - 1 if tokens.calls > 1 else 1
    assert maps * shard >= candidates or maps * context >= candidates * 100
    assert tokens.prompt / tokens.calls <= context + 500 + profile.filter.map_keep * maps * 120
    assert tokens.calls > 1 or candidates <= shard


def test_rounds_follow_the_loop() -> None:
    assert rounds_a_question(load_profile("a100", {"loop.max_rounds": 1}), SHIPPED) == pytest.approx(1)
    assert rounds_a_question(load_profile("a100", {"loop.max_rounds": 2}), SHIPPED) == pytest.approx(1.386)
    forced = {"loop.min_rounds": 2, "loop.max_rounds": 2}
    assert rounds_a_question(load_profile("a100", forced), SHIPPED) == pytest.approx(2)
    assert rounds_a_question(load_profile("cpu", forced), SHIPPED) == 2


# --- what must hold for all -------------------------------------------------------------


@pytest.mark.parametrize("name", ["cpu", "a100", "gpu1", "hosted", "cpu-llm", "test"])
def test_totals_are_the_sums_of_lines_and_sources_are_given(name: str) -> None:
    plan = planned(name, PAPER, SHIPPED)
    assert plan.wall_hours * 3600 == pytest.approx(sum(made.wall_s or 0 for made in plan.lines))
    assert plan.gigabytes * 1e9 == pytest.approx(sum(made.bytes for made in plan.lines))
    assert plan.gpu_hours * 3600 == pytest.approx(sum(made.gpu_s for made in plan.lines))
    assert plan.unit_costs.keys() == {cost for made in plan.lines for cost in made.costs}
    assert RunPlan.from_json(plan.to_json(), source="x") == plan
    for made in plan.lines:
        kinds = [SHIPPED[cost].kind for cost in made.costs]
        assert made.kind == "assumed" or all(kind in {"measured", made.kind} for kind in kinds)


@settings(deadline=None)
@given(pages=st.integers(1, 10_000), more=st.integers(2, 5), name=st.sampled_from(["cpu", "a100"]))
def test_more_pages_take_more_of_everything(pages: int, more: int, name: str) -> None:
    few, many = (
        planned(name, RunSize(articles=1, pages=n, questions=10), SHIPPED, index__device="cpu", index__ann="flat")
        for n in (pages, more * pages)
    )
    for a, b in zip(few.lines, many.lines, strict=True):
        assert b.core_s >= a.core_s
        assert b.bytes >= a.bytes
        if a.stage in {"corpus", "embedding"}:
            assert b.bytes == pytest.approx(more * a.bytes)
            assert b.wall_s == pytest.approx(more * (a.wall_s or 0))


# --- near-duplicates, and tasks beside filter and reader ----------------------------------


def test_near_duplicates_follow_the_measured_law() -> None:
    results = Path(__file__).parents[3] / "benchmarks" / "results" / "duplicates.json"
    for row in json.loads(results.read_text(encoding="utf-8"))["rows"]:
        assert duplicate_products(row["pages"]) == pytest.approx(row["dot_products"], rel=0.1), row["kind"]
    assert duplicate_products(100) == 5_000, "a few pages are compared all with all"
    plan = planned("cpu", RunSize(articles=1, pages=40_000, questions=0), workers=1)
    width = page_size(load_profile("cpu"), ONE).vector_width
    assert line(plan, "index", "near-duplicates").core_s == pytest.approx(20 * 40_000**1.5 * width / 1e9)


def test_calls_of_helper_and_generator_by_hand() -> None:
    size, profile = RunSize(articles=2, pages=1_000, questions=10), load_profile("a100")
    assert not [made for made in planned(profile, size).lines if made.stage == "helper"]

    def asked(system: str) -> dict[str, float]:
        lines = [made for made in plan_run(profile, size, SHIPPED, system).lines if made.stage == "helper"]
        assert all(made.wall_s is None for made in lines), "nobody has timed them"
        return {made.what.split(": ")[1].partition(",")[0]: made.amount for made in lines}

    assert asked("i_medrag") == {"ask": 10 * 4, "follow_up": 10 * 4 * 3}
    assert asked("medrgag") == {"summarize": 10 * 5, "explore": 10, "generate": 10 * 5, "select": 10}
    rounds = rounds_a_question(profile, SHIPPED)
    told = max(profile.loop.pages_shown, profile.loop.summaries_shown)
    assert asked("medrgag_pages") == pytest.approx(
        {"summarize": 10 * rounds * told, "explore": 10 * rounds, "generate": 10 * rounds * 5, "select": 10 * rounds}
    )
    plan = plan_run(profile, size, SHIPPED, "i_medrag")
    assert line(plan, "helper", "follow_up").prompt_tokens == 120 * (500 + 32 * profile.text.chunk_tokens)
    assert any("follow_up" in note for note in plan.notes)
    assert not [
        made for made in plan_run(load_profile("cpu"), size, SHIPPED, "medrgag").lines if made.stage == "helper"
    ]


def test_every_task_of_every_system_is_counted() -> None:
    profile = load_profile("a100")
    for name, entry in catalog().items():
        # The reader itself observes and weighs (EVisRAG, VisRAG): those are its calls.
        purposes = set(entry.prompts(entry.settle(profile))) & (set(get_args(StepKind)) - {"observe", "weigh"})
        assert {task.task for task in helper_calls(name, profile, SHIPPED)} == purposes
