"""What a run will take, before it starts: hours, GPU hours, gigabytes and memory, out of settings and unit costs.

Everything is an expectation for average pages (US Letter) and one question after another. No line on a GPU was ever
compared with one; ``kind`` says of each line how firm its weakest unit cost is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from medvrag_core.errors import SettingsError
from medvrag_core.evaluation.cost.helper_calls import helper_calls
from medvrag_core.evaluation.cost.run_plan import Memory, PlanLine, RunPlan, Stage
from medvrag_core.evaluation.cost.run_size import (
    CallTokens,
    PageSize,
    RunSize,
    duplicate_products,
    filter_tokens,
    page_size,
    reader_tokens,
    rounds_a_question,
    summary_tokens,
    tokens_of_an_image,
)
from medvrag_core.evaluation.cost.unit_costs import UnitCosts, weakest
from medvrag_core.evaluation.scale.laws import core_seconds
from medvrag_core.evaluation.scale.outlook import numbers_read
from medvrag_core.index.coarse_to_fine import FLAT_BELOW, HNSW_LINKS
from medvrag_core.index.segments import segment_bytes
from medvrag_core.models.serving.memory import (
    ARCHITECTURES,
    GIB,
    parameters,
    text_parameters,
    vision_parameters,
    weight_bytes,
)
from medvrag_core.models.serving.plan import serving_plan
from medvrag_core.settings import ModelSettings, Profile

_GIGA = 1e9
_HOUR = 3600.0
_LINK_BYTES = 4
_PAPER_FILTER_TOKENS = 240_000
_PAPER_PAGES = 10
_SUMMARY_PROMPT_TOKENS = 250
"""Of the prompt of page summaries with a title in it, an upper estimate."""
_PAPER_MODELS = {"filter": "Qwen/Qwen3-30B-A3B", "reader": "Qwen/Qwen2.5-VL-32B-Instruct"}
_PATCHES_PER_TOKEN = 4
"""Image patches that a model of the Qwen family merges into one token."""


def plan_run(profile: Profile, size: RunSize, costs: UnitCosts, system: str = "medvrag") -> RunPlan:
    """Everything that `medvrag run` does with a profile, from the PDFs to the answers of one system.

    Search, filter and reader are those of MedVRAG whatever the ``system``; of others, calls of the helper and the
    generator are added.

    What cannot be computed, since a model is not known here or runs elsewhere, is told in ``notes``; what cannot work
    is told in ``does_not_fit``.
    """
    work = _Work(profile, size, costs, page_size(profile, costs), system)
    parts = (_corpus, _embedding, _index, _search, _filter, _helper, _reader, _traces)
    lines = tuple(line for part in parts for line in part(work))
    used = sorted({name for line in lines for name in line.costs})
    return RunPlan(
        profile=profile.name,
        size=size,
        lines=lines,
        wall_hours=sum(line.wall_s or 0.0 for line in lines) / _HOUR,
        core_hours=sum(line.core_s for line in lines) / _HOUR,
        gpu_hours=sum(line.gpu_s for line in lines) / _HOUR,
        gigabytes=sum(line.bytes for line in lines) / _GIGA,
        memory=tuple(_memory(work)),
        does_not_fit=tuple(_faults(work)),
        notes=tuple(_notes(work, lines)),
        unit_costs={name: costs[name] for name in used},
    )


def corpus_plan(profile: Profile, pages: int, costs: UnitCosts) -> RunPlan:
    """From PDFs to an index of so many pages in articles of average length, and no question."""
    articles = max(1, round(pages / costs["pages_per_article"].value))
    return plan_run(profile, RunSize(articles=articles, pages=pages, questions=0), costs)


@dataclass(frozen=True)
class _Work:
    """What all parts of a plan look at."""

    profile: Profile
    size: RunSize
    costs: UnitCosts
    page: PageSize
    system: str

    @property
    def vectors(self) -> float:
        return self.size.pages * self.page.vectors

    @property
    def centroids(self) -> float:
        return self.size.pages * min(float(self.profile.index.centroids), self.page.vectors)

    @property
    def rounds(self) -> float:
        return self.size.questions * rounds_a_question(self.profile, self.costs)

    @property
    def candidates(self) -> int:
        return min(self.profile.index.candidates, self.size.pages)

    def value(self, name: str) -> float:
        return self.costs[name].value

    def line(self, stage: Stage, what: str, amount: float, unit: str, *names: str, **more: float | None) -> PlanLine:
        """A line whose kind follows from the unit costs that it names."""
        kind = weakest(self.costs, names) if names else "computed"
        return PlanLine.model_validate(
            {"stage": stage, "what": what, "amount": amount, "unit": unit, "costs": names, "kind": kind, **more}
        )


def _corpus(work: _Work) -> Iterator[PlanLine]:
    pages, corpus = work.size.pages, work.profile.corpus
    read = round(pages * work.size.scanned) if corpus.ocr != "always" else pages
    for what, amount, cost in (("render pages", pages - read, "render_s"), ("render and read by OCR", read, "ocr_s")):
        if amount:
            core = amount * work.value(cost)
            size = amount * (work.page.megapixels * work.value("image_bytes") + work.value("text_bytes"))
            names = (cost, "image_bytes", "text_bytes")
            wall = core / work.profile.processes
            yield work.line("corpus", what, amount, "pages", *names, core_s=core, wall_s=wall, bytes=size)
    size = pages * work.value("summary_bytes")
    if corpus.summarizer == "model":
        yield _model_summaries(work, size)
        return
    core = pages * work.value("summary_s")
    yield work.line(
        "summaries", "extract summaries", pages, "pages", "summary_s", "summary_bytes", core_s=core, wall_s=core,
        bytes=size,
    )  # fmt: skip


def _model_summaries(work: _Work, size: float) -> PlanLine:
    """A call a page with its image: operations by those of a GPU, where the sizes of the model are known."""
    model, pages, serve = work.profile.serve.summary_model, work.size.pages, work.profile.serve
    image, written = tokens_of_an_image(work.profile, model), summary_tokens(work.profile)
    sizes, gpu = ARCHITECTURES.get(model.model), None
    names: tuple[str, ...] = ("summary_bytes",)
    if sizes is not None and model.server == "vllm":
        text = text_parameters(sizes)
        read = (image + _SUMMARY_PROMPT_TOKENS) * text + image * _PATCHES_PER_TOKEN * vision_parameters(sizes)
        shares = read / work.value("gpu_utilization") + written * text / work.value("gpu_write_utilization")
        gpu = pages * 2 * shares / work.value("gpu_operations")
        names = (*names, "gpu_operations", "gpu_utilization", "gpu_write_utilization")
    return work.line(
        "summaries", f"{model.model or 'a model'}: one call a page", pages, "pages", *names,
        wall_s=None if gpu is None else gpu / len(serve.summary_gpus), gpu_s=gpu or 0.0,
        prompt_tokens=pages * (image + _SUMMARY_PROMPT_TOKENS), completion_tokens=pages * written, bytes=size,
    )  # fmt: skip


def _embedding(work: _Work) -> Iterator[PlanLine]:
    encoder, pages = work.profile.encoder, work.size.pages
    size = pages * work.page.stored_bytes
    if encoder.name == "embedded":
        core = pages * work.value("embedded_encode_s")
        yield work.line(
            "embedding", "encode pages", pages, "pages",
            *("embedded_encode_s", "embedded_vectors", "patches", "patch_bytes"),
            core_s=core, wall_s=core / work.profile.processes, bytes=size,
        )  # fmt: skip
        return
    sizes, seconds = ARCHITECTURES.get(encoder.model), None
    if sizes is not None:
        numbers = text_parameters(sizes) + _PATCHES_PER_TOKEN * vision_parameters(sizes)
        operations = 2 * work.page.tokens * numbers
        seconds = pages * operations / (work.value("gpu_operations") * work.value("gpu_utilization"))
    yield work.line(
        "embedding", f"encode pages on '{encoder.device}'", pages, "pages",
        *("gpu_operations", "gpu_utilization", "patch_bytes"), wall_s=seconds, gpu_s=seconds or 0.0, bytes=size,
    )  # fmt: skip


def _index(work: _Work) -> Iterator[PlanLine]:
    width, index = work.page.vector_width, work.profile.index
    core = work.vectors * width / _GIGA * work.value("index_s")
    yield work.line(
        "index", "codes and centroids", work.size.pages, "pages", "index_s", core_s=core, wall_s=core,
        bytes=work.size.pages * segment_bytes(work.page.vectors, width, index.centroids),
    )  # fmt: skip
    pairs = duplicate_products(work.size.pages) * width / _GIGA * work.value("maxsim_s")
    yield work.line("index", "near-duplicates", work.size.pages, "pages", "maxsim_s", core_s=pairs, wall_s=pairs)
    kind = _kind_of_ann(work.profile, work.centroids)
    if index.mode != "paper" or kind == "flat":  # A flat one is made whenever the index is opened.
        return
    names = ("hnsw_s",) if kind == "hnsw" else ()
    core = work.centroids * work.value("hnsw_s") if names else 0.0
    a_centroid = width * 4 + (2 * HNSW_LINKS * _LINK_BYTES if names else 0)
    yield work.line(
        "index", f"ANN ({kind})", work.centroids, "centroids", *names, core_s=core, wall_s=core,
        bytes=work.centroids * a_centroid,
    )  # fmt: skip


def _helper(work: _Work) -> Iterator[PlanLine]:
    """Calls beside filter and reader; nothing here has timed them, so their time stays open."""
    for task in helper_calls(work.system, work.profile, work.costs) if work.size.questions else ():
        model = work.profile.generator_model if task.role == "generator" else work.profile.helper_model
        calls = work.size.questions * task.calls
        yield work.line(
            "helper", f"{model.model or 'a model'}: {task.task}, replies of the longest", calls, "calls", wall_s=None,
            prompt_tokens=calls * task.prompt, completion_tokens=calls * task.completion,
        )  # fmt: skip


def _search(work: _Work) -> Iterator[PlanLine]:
    rounds, width = work.rounds, work.page.vector_width
    if not rounds:
        return
    embedded = work.profile.encoder.name == "embedded"
    cost = "embedded_query_s" if embedded else "gpu_query_s"
    seconds = rounds * work.value(cost)
    yield work.line(
        "search", "encode queries", rounds, "rounds", cost, wall_s=seconds,
        **({"core_s": seconds} if embedded else {"gpu_s": seconds}),
    )  # fmt: skip
    index, pages = work.profile.index, work.size.pages
    if index.mode == "exact" and index.device.startswith("cuda"):
        yield work.line("search", f"stage 1 on '{index.device}'", rounds, "rounds", wall_s=None)
        return
    if index.mode != "paper" and not embedded:  # The laws are those of pages as a model of this kind makes them.
        core = rounds * core_seconds(work.costs, index.mode, pages, numbers_read(index.mode, work.page, work.profile))
        names = [f"{index.mode}_fixed_s", f"{index.mode}_page_s"]
        yield work.line("search", f"stage 1, mode {index.mode}", rounds, "rounds", *names, core_s=core, wall_s=core)
        return
    a_query = work.value("query_vectors") * width / _GIGA
    rescored = min(index.rescore, pages) * work.page.vectors
    by_codes, names = pages * work.page.vectors, ["query_vectors", "scan_s", "maxsim_s"]
    ann = 0.0
    if index.mode == "fast":
        by_codes = pages * index.centroids + min(index.shortlist, pages) * work.page.vectors
    elif index.mode == "paper":
        by_codes = min(index.shortlist, pages) * work.page.vectors
        if _kind_of_ann(work.profile, work.centroids) == "flat":
            ann, names = work.centroids * work.value("ann_s"), [*names, "ann_s"]
    core = rounds * a_query * (ann + by_codes * work.value("scan_s") + rescored * work.value("maxsim_s"))
    yield work.line("search", f"stage 1, mode {index.mode}", rounds, "rounds", *names, core_s=core, wall_s=core)


def _filter(work: _Work) -> Iterator[PlanLine]:
    rounds, profile = work.rounds, work.profile
    if not rounds:
        return
    if profile.filter.ranker == "embedded":
        core = rounds * work.candidates * work.value("embedded_filter_s")
        yield work.line("filter", "rank summaries", rounds, "rounds", "embedded_filter_s", core_s=core, wall_s=core)
        return
    tokens = filter_tokens(profile, work.size.pages)
    seconds = rounds * work.value("filter_s") * tokens.prompt / _PAPER_FILTER_TOKENS
    yield _model_line(work, "filter", f"{tokens.calls} calls a round", tokens, seconds, "filter_s")


def _reader(work: _Work) -> Iterator[PlanLine]:
    rounds, profile = work.rounds, work.profile
    if not rounds:
        return
    if profile.reader.name == "evidence":
        core = rounds * work.value("embedded_read_s")
        yield work.line("reader", "read pages", rounds, "rounds", "embedded_read_s", core_s=core, wall_s=core)
        return
    if profile.reader.name == "likelihood":
        yield work.line("reader", f"{profile.reader_model.model} scores options", rounds, "rounds", wall_s=None)
        return
    tokens = reader_tokens(profile, work.costs)
    of_the_paper = reader_tokens(profile, work.costs, pages=_PAPER_PAGES)
    seconds = rounds * work.value("reader_s") * tokens.prompt / of_the_paper.prompt
    yield _model_line(work, "reader", f"{tokens.images} pages a round", tokens, seconds, "reader_s")


def _model_line(
    work: _Work, stage: Literal["filter", "reader"], what: str, tokens: CallTokens, seconds: float, *names: str
) -> PlanLine:
    """Calls of a model behind a server: the paper's time where it runs on GPUs of our own, by size of the model."""
    model = work.profile.filter_model if stage == "filter" else work.profile.reader_model
    gpus = len(work.profile.serve.filter_gpus if stage == "filter" else work.profile.serve.reader_gpus)
    share = _size_beside_the_papers(model, stage)
    wall = seconds * share if model.server == "vllm" and share is not None else None
    made = work.line(
        stage, f"{model.model or 'a model'}: {what}", work.rounds, "rounds", *names, wall_s=wall,
        gpu_s=gpus * (wall or 0.0), prompt_tokens=work.rounds * tokens.prompt,
        completion_tokens=work.rounds * tokens.completion,
    )  # fmt: skip
    # The paper timed its own model; any other one is taken to need time in proportion to its numbers.
    return made if model.model == _PAPER_MODELS[stage] else made.model_copy(update={"kind": "assumed"})


def _size_beside_the_papers(model: ModelSettings, stage: Literal["filter", "reader"]) -> float | None:
    """Numbers that one token meets in a model, beside those of the paper's model; None where sizes are not known."""
    sizes = ARCHITECTURES.get(model.model)
    if sizes is None:
        return None
    paper = ARCHITECTURES[_PAPER_MODELS[stage]]
    active = [parameters(s.model_copy(update={"experts": min(s.experts, _EXPERTS_AT_WORK)})) for s in (sizes, paper)]
    return active[0] / active[1]


_EXPERTS_AT_WORK = 8
"""Of the experts of Qwen3-30B-A3B, those that one token meets."""


def _traces(work: _Work) -> Iterator[PlanLine]:
    if work.rounds:
        size = work.rounds * work.candidates * work.value("trace_bytes")
        yield work.line("traces", "write traces", work.rounds, "rounds", "trace_bytes", bytes=size)


def _kind_of_ann(profile: Profile, centroids: float) -> str:
    """As the index is made where the plan is read: ``auto`` is flat for few centroids or a GPU that is asked for."""
    if profile.index.ann != "auto":
        return profile.index.ann
    return "flat" if centroids < FLAT_BELOW or profile.index.device.startswith("cuda") else "hnsw"


def _memory(work: _Work) -> Iterator[Memory]:
    width = work.page.vector_width
    encoder, index = work.profile.encoder, work.profile.index
    on_gpu = index.device.startswith("cuda")
    if index.mode == "exact" and on_gpu:
        vectors = work.vectors * width * 2 / GIB
        yield Memory(where=f"'index.device' {index.device}", what="page vectors as float16", gib=vectors)
    else:
        size = work.size.pages * segment_bytes(work.page.vectors, width, index.centroids) / GIB
        yield Memory(where="main memory", what="the index, mapped; less room only makes it slow", gib=size)
    if index.mode == "paper":
        ann = work.centroids * width * 4 / GIB
        yield Memory(where="main memory", what="centroids, and the ANN over them", gib=2 * ann)
        if on_gpu:
            yield Memory(where=f"'index.device' {index.device}", what="the ANN; FAISS takes room beside it", gib=ann)
    sizes = ARCHITECTURES.get(encoder.model)
    if encoder.device.startswith("cuda") and sizes is not None:
        what = f"weights of {encoder.model}; batches take room beside them"
        yield Memory(where=f"'encoder.device' {encoder.device}", what=what, gib=weight_bytes(sizes, 1) / GIB)
    try:
        serving = serving_plan(work.profile)
    except SettingsError:
        return  # told among the faults
    gib = work.profile.serve.gpu_gib
    for server in serving.servers:
        if server.room is not None:
            where = f"GPU {', '.join(map(str, server.gpus))}, each"
            what = f"{server.model} ({server.role}): {server.room.weights_gib:.1f} GiB of weights, the rest its cache"
            yield Memory(where=where, what=what, gib=server.room.share_gib, of_gib=gib)


def _faults(work: _Work) -> Iterator[str]:
    try:
        serving_plan(work.profile)
    except SettingsError as error:
        yield f"{error.problem}; {error.way_out}"
    if work.profile.reader.name == "vlm":
        tokens = reader_tokens(work.profile, work.costs)
        if tokens.left_out:
            yield (
                f"{tokens.left_out} of {work.profile.loop.pages_shown} page images have no room in "
                f"'reader_model.context_tokens'; raise it, or lower reader_model.max_pixels or loop.pages_shown"
            )


def _notes(work: _Work, lines: tuple[PlanLine, ...]) -> Iterator[str]:
    profile = work.profile
    for line in lines:
        if line.wall_s is None:
            yield f"no unit cost is known for '{line.what}', so the totals leave its time out"
    at_once = profile.calls.questions_at_once
    if at_once > 1 and any(line.gpu_s for line in lines if line.stage in {"filter", "reader"}):
        yield f"{at_once} questions at a time take less than one after another; by how much, nothing here has measured"
    if profile.serve.summary_model.model and profile.corpus.summarizer == "extractive":
        yield (
            f"{profile.serve.summary_model.model} writes captions for text.page_text: captions alone, summaries are "
            "sentences of the page; its time is not planned"
        )
    if profile.encoder.device.startswith("cuda") or any(line.gpu_s for line in lines):
        yield "times on GPUs are the paper's or arithmetic; nothing of this project has run on a GPU yet"
    if math.isclose(work.size.scanned, 0.0) and profile.corpus.ocr == "auto":
        yield "all pages are taken to have a text layer; --scanned SHARE says how many do not"
