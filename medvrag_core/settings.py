"""Configuration as data: one settings record a stage, unknown keys refused; :mod:`.profiles.load` reads YAML profiles.

A profile file lists only what differs from the defaults below (or from the profile it
``extends``). The resolved settings are saved beside every artefact and compared field by
field before stored work is used again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_KEY = re.compile(r"(?<![A-Za-z0-9])(?:sk|pk|rk|hf|gsk|xai|key|ghp|AIza)[-_A-Za-z0-9]{20,}")


def looks_like_a_key(text: str) -> bool:
    """Whether a text holds what looks like an API key; such a text must never enter a file of a run.

    >>> looks_like_a_key("sk-proj-0123456789abcdefghij"), looks_like_a_key("Qwen/Qwen2.5-VL-32B-Instruct")
    (True, False)
    >>> looks_like_a_key("data/task-2026-with-a-long-name.jsonl")
    False
    """
    return any(any(c.isdigit() for c in found.group()) for found in _KEY.finditer(text))


def cores() -> int:
    """Cores that this process may use; a scheduler may give it fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class StageSettings(BaseModel):
    """Base of the settings of one stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _no_key_in_a_text(self) -> Self:
        """Settings are saved in every run and shown in the book."""
        for name in type(self).model_fields:
            if isinstance(value := getattr(self, name), str) and looks_like_a_key(value):
                raise ValueError(f"{name} looks like a key; keys come from the environment alone")
        return self


class CorpusSettings(StageSettings):
    """Rendering and text of pages (paper section 3.1)."""

    dpi: int = Field(300, ge=36, le=600, description="resolution of stored page images")
    image_format: Literal["jpeg", "png"] = "jpeg"
    jpeg_quality: int = Field(85, ge=30, le=100)
    max_pixels: int = Field(20_000_000, description="cap on one page image; larger pages get a lower dpi")
    ocr: Literal["auto", "off", "always"] = Field(
        "auto", description="auto: read pages that have no text layer; always: read every page from its image alone"
    )
    ocr_engine: Literal["rapidocr", "tesseract"] = "rapidocr"
    ocr_figures: bool = Field(True, description="read the text inside large figures that have no text layer")
    ocr_dpi: int = Field(150, ge=72, le=300)
    max_pages: int = Field(2_000, description="most pages taken from one file")
    seconds_per_page: float = Field(20.0, description="wall-clock limit for one page in the child process")
    memory_mb: int = Field(3_072, description="address space of the child process")
    near_duplicate: float = Field(0.97, description="cosine of page means above which the later page is left out")
    summary_tokens: int = Field(120, description="words and numbers in one page summary")


Storage = Literal["float32", "float16", "int8"]


class EncoderSettings(StageSettings):
    """Page and query encoder."""

    name: Literal[
        "embedded", "colpali", "colqwen2", "colqwen2.5", "colqwen3", "colqwen3.5", "colsmol", "colmodernvbert",
        "visrag-ret", "dse",
    ] = "embedded"  # fmt: skip
    model: str = Field("all-MiniLM-L6-v2", description="weights; of all others than embedded, a hub id or a folder")
    revision: str = Field("", description="commit of a hub id; empty: its main branch, whose commit is recorded")
    base_revision: str = Field("", description="commit of the base of an adapter; empty: what the adapter says")
    dim: int = Field(128, description="width of one vector; for the embedded encoder, of its dense part")
    lexical_dim: int = Field(0, ge=0, multiple_of=4, description="width of the lexical part, embedded encoder only")
    lexical_weight: float = Field(0.0, ge=0, le=1, description="length of the lexical part of a unit vector")
    vectors_per_page: int = Field(103, ge=1, description="most vectors kept a page (paper: ~103); embedded only")
    words_per_patch: int = Field(40, ge=1, description="longest run of words in one patch, embedded encoder only")
    whole_query: float = Field(
        0.5, ge=0, le=1, description="weight of the vector of the whole query beside those of its words; embedded only"
    )
    pool_factor: int = Field(7, ge=1, description="col…: patches a vector on average; 7: the paper's ~103, 1: keep all")
    pca_dim: int = Field(0, ge=0, description="col…: width after a PCA fitted on the corpus; 0: none (native: 128)")
    nested_dim: int = Field(0, ge=0, description="first numbers kept of a vector trained for that (dse); 0: all")
    query_prefix: str = Field("", description="before every query; most families of colpali-engine need 'Query: '")
    augmentation_tokens: int = Field(10, ge=0, description="col…: tokens behind every query")
    max_visual_tokens: int = Field(768, ge=4, description="cap on the image tokens of one page")
    self_check: bool = Field(True, description="col…: when opened, see that a page's vectors ignore its batch")
    device: str = "cpu"
    batch_size: int = Field(8, ge=1, description="pages the model takes at once")
    loaders: int = Field(4, ge=1, description="threads that make page images ready while the model runs")
    read_ahead: int = Field(4, ge=1, description="batches whose pages are sorted by size, and as many made ready ahead")
    storage: Storage = Field("float16", description="how vectors are kept; int8 has one scale a vector")


class IndexSettings(StageSettings):
    """Stage 1, coarse to fine (paper section 3.2)."""

    mode: Literal["paper", "exact"] = "paper"
    centroids: int = Field(8, ge=1, description="C, spherical k-means centroids a page")
    ann: Literal["auto", "flat", "hnsw", "ivf"] = Field(
        "auto", description="auto: flat below 50,000 centroids and on a GPU, else hnsw"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="where the ANN searches; auto: the first GPU of FAISS where it has one",
    )
    ann_neighbors: int = Field(1_000, ge=1, description="centroids fetched for each query vector")
    shortlist: int = Field(4_000, ge=1, description="R, pages scored exactly")
    candidates: int = Field(2_000, ge=1, description="N1, pages handed to the filter")
    backward_weight: float = Field(
        1.0, ge=0, description="of the half of S that asks how well the page is covered by the query (paper: 1)"
    )
    seed: int = 42


class FilterSettings(StageSettings):
    """Stage 2, sharded map and reduce over page summaries (paper section 3.3)."""

    ranker: Literal["embedded", "llm"] = "embedded"
    stage1_weight: float = Field(0.7, ge=0, le=1, description="say of the Stage-1 score in the embedded ranker")
    shard_size: int = Field(256, ge=2, description="B, summaries in one map call")
    map_keep: int = Field(25, ge=1)
    keep: int = Field(100, ge=1, description="N2, pages left after the reduce call")


class ModelSettings(StageSettings):
    """One language model behind an OpenAI-compatible server.

    Where it runs (:data:`WHERE_FIELDS`) is no part of what it replies: a run goes on when only those fields change.
    """

    base_url: str = Field("", description="empty: a server started by the profile on loopback")
    server: Literal["vllm", "llama.cpp", "hosted"] = Field(
        "vllm", description="hosted: sends only fields that every OpenAI-compatible service takes"
    )
    model: str = ""
    revision: str = Field("", description="commit of the weights; servers cannot tell it, `medvrag serve` pins it")
    reported_as: str = Field("", description="model name in the server's replies, where it is not `model`")
    key_env: str = Field("OPENAI_API_KEY", description="environment variable that holds the key; never the key itself")
    temperature: float = 0.1
    top_p: float = 0.001
    repetition_penalty: float = Field(1.0, gt=0, description="vLLM and llama.cpp only; 1.0 is not sent")
    max_tokens: int = Field(2_048, ge=1, description="longest reply")
    seed: int = 42
    context_tokens: int = Field(32_768, ge=256, description="prompt and reply together, images included")
    tokenizer: str = Field(
        "auto",
        description="who counts tokens: server (its /tokenize), estimate (from characters), auto (the server, or the "
        "estimate where it counts none), or the path of a tokenizer.json",
    )
    max_images: int = Field(10, ge=0, description="images the server takes in one message")
    min_pixels: int = Field(3_136, ge=784, description="smaller images are enlarged by the model's processor")
    max_pixels: int = Field(1_003_520, ge=784, description="cap on one page image sent to the model")
    thinking: bool = False
    json_schema: bool = Field(True, description="ask for replies under a JSON schema where a reply is JSON")
    usage: bool = Field(True, description="refuse replies without token counts")
    timeout_s: float = Field(300.0, gt=0, description="longest silence of the server, also before the first token")
    wall_s: float = Field(900.0, gt=0, description="time budget of one call with all its tries and pauses")

    @field_validator("base_url")
    @classmethod
    def _no_secret_in_the_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.username or parts.password or parts.query:
            raise ValueError("an address must not hold a user, a password or a query; keys come from the environment")
        return value

    @field_validator("key_env")
    @classmethod
    def _a_name_and_no_key(cls, value: str) -> str:
        if not value.isidentifier() or looks_like_a_key(value):
            raise ValueError("names an environment variable, it does not hold the key")
        return value


LOADER_FIELDS = ("loaders", "read_ahead", "self_check")
"""Fields of :class:`EncoderSettings` that cannot change a vector."""

WHERE_FIELDS = ("base_url", "key_env", "timeout_s", "wall_s")
"""Fields of :class:`ModelSettings` that cannot change a reply."""


class CallSettings(StageSettings):
    """How model calls are made and kept; nothing here can change a reply."""

    policy: Literal["always", "never", "only-missing", "only-cache"] = Field(
        "only-missing",
        description="always: ask anew; never: whatever is stored stands, even a failure of the server; "
        "only-missing: ask what has no reply yet; only-cache: ask nothing",
    )
    questions_at_once: int = Field(1, ge=1, le=1_024, description="questions answered side by side")
    in_flight: int = Field(16, ge=1, le=1_024, description="calls at the servers at one time")
    image_mb: int = Field(512, ge=1, description="page images in flight, counted at 3 bytes a pixel")
    attempts: int = Field(4, ge=1, description="tries of one call; only passing faults are tried again")
    pause_s: float = Field(1.0, ge=0, description="first pause between tries, doubled each time, with jitter")
    give_up_after: int = Field(8, ge=1, description="calls that fail one after another before the run stops")
    drain_s: float = Field(30.0, ge=0, description="after Ctrl-C, time for calls in flight to finish")
    accept_changed_prompts: bool = Field(False, description="pay again for calls that a changed prompt made worthless")


class ServeSettings(StageSettings):
    """Which GPUs `medvrag serve` gives to which model; but for ``summary_model`` nothing here can change a reply."""

    gpu_gib: float = Field(79.0, gt=0, description="memory of one GPU as its driver reports it")
    workspace_gib: float = Field(4.0, ge=0, description="kept free of weights and cache on each GPU; an estimate")
    filter_gpus: tuple[int, ...] = Field((0,), min_length=1, description="the model is split over them")
    reader_gpus: tuple[int, ...] = Field((0,), min_length=1, description="the model is split over them")
    summary_gpus: tuple[int, ...] = Field((0,), min_length=1, description="each holds the whole model")
    filter_share: float = Field(0.85, gt=0, lt=1, description="part of a GPU's memory that this server takes")
    reader_share: float = Field(0.9, gt=0, lt=1)
    summary_share: float = Field(0.9, gt=0, lt=1)
    summary_model: ModelSettings = Field(ModelSettings(), description="writes page summaries offline; empty: none")


class ReaderSettings(StageSettings):
    """Who answers."""

    name: Literal["evidence", "likelihood", "vlm"] = "evidence"
    pages: Literal["images", "text"] = Field(
        "images", description="what a reader model gets of a page; text lets a model without eyes read the same pages"
    )
    margin: float = Field(0.15, description="lead the best option needs before an embedded reader answers early")


class LoopSettings(StageSettings):
    """The iterative loop (paper sections 3.4 and 3.5)."""

    max_rounds: int = Field(3, ge=1, le=10)
    min_rounds: int = Field(1, ge=1, le=10, description="rounds before this one must ask, even where they could answer")
    pages_shown: int = Field(10, ge=0, description="0: the reader gets summaries alone")
    summaries_shown: int = Field(20, ge=0)
    memory: Literal["bank", "history", "none"] = Field(
        "bank",
        description="what a round is told of earlier ones: findings and notes; the plain text of queries and replies, "
        "cut to the length of the bank; or nothing",
    )
    refinement: Literal["with_options", "option_blind"] = Field(
        "with_options", description="option_blind: queries and notes are written without seeing the options"
    )
    overflow: Literal["drop_pages", "scale_pages", "refuse"] = Field(
        "drop_pages",
        description="when images do not fit the context: leave out the lowest-ranked, make all smaller, or fail",
    )

    @field_validator("memory", mode="before")
    @classmethod
    def _as_runs_of_old_wrote_it(cls, value: Any) -> Any:
        return ("bank" if value else "none") if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _rounds_in_order(self) -> Self:
        if self.min_rounds > self.max_rounds:
            raise ValueError(f"min_rounds ({self.min_rounds}) is above max_rounds ({self.max_rounds})")
        return self


class ControlSettings(StageSettings):
    """What a control arm changes between the stages; the defaults change nothing.

    ``iterated_in`` and ``cited_in`` name an arm of the same run, whose stored answers say which questions are asked
    and which pages are left out.
    """

    iterated_in: str = Field("", description="ask only the questions on which this arm took more than one round")
    options: Literal["given", "shuffled"] = Field("given", description="shuffled: the option texts change labels")
    pages: Literal["found", "blank", "random", "other_question", "cited_removed", "uncited_removed"] = Field(
        "found", description="what stands in the place of the pages that a reader would get, or is left out of them"
    )
    cited_in: str = Field("", description="arm whose answers cite the pages that cited_removed leaves out")
    seed: int = Field(42, description="of the shuffle and of every draw of pages")

    @model_validator(mode="after")
    def _removal_has_its_arm(self) -> Self:
        if self.pages.endswith("_removed") != bool(self.cited_in):
            raise ValueError("cited_in goes with pages: cited_removed or uncited_removed, and only with them")
        if self.iterated_in and self.cited_in and self.iterated_in != self.cited_in:
            raise ValueError("iterated_in and cited_in must name the same arm")
        return self

    @property
    def reference(self) -> str:
        """The arm whose stored answers this control leans on; empty for none."""
        return self.iterated_in or self.cited_in


PageTextPolicy = Literal["reading_order", "adjacent_merging", "layout_preserving"]


class TextSettings(StageSettings):
    """The text-chunk arms: what ranks the chunks, and how many of them a reader gets."""

    retriever: Literal["dense", "bm25", "fused"] = Field(
        "dense", description="fused: reciprocal rank fusion of bm25 and dense"
    )
    rrf_constant: int = Field(60, ge=0, description="of the fusion: sum of 1 / (constant + rank); MedRAG has 100")
    bm25_stemming: bool = Field(True, description="bm25 cuts English endings, in chunks and queries")
    encoder: Literal["embedded", "bge", "medcpt"] = Field("embedded", description="of the dense retriever")
    model: str = Field("all-MiniLM-L6-v2", description="its weights; bge, medcpt: hub id, id@revision or folder")
    passage_model: str = Field("", description="weights of medcpt's article encoder; `model` encodes its queries")
    reranker: Literal["none", "embedded", "cross_encoder"] = Field(
        "none", description="embedded: late interaction of query and chunk in the vectors of the embedded page encoder"
    )
    rerank_model: str = Field("", description="weights of the cross_encoder, a hub id or a folder")
    rerank_depth: int = Field(
        100, ge=1, description="best chunks of the retriever that are ranked anew; no other stays"
    )
    device: str = Field("cpu", description="of bge, medcpt and the cross_encoder")
    page_text: PageTextPolicy = Field(
        "reading_order", description="what chunks are cut from; the other two are VisRAG's policies for OCR"
    )
    chunk_tokens: int = Field(512, ge=8, description="word pieces of BERT a chunk, with [CLS] and [SEP]")
    overlap_tokens: int = 64
    chunks_shown: int = 10


class EvaluationSettings(StageSettings):
    """Scoring and statistics."""

    bootstrap_samples: int = 10_000
    confidence: float = 0.95
    seed: int = 42


class Profile(StageSettings):
    """All stages together; what a YAML file under ``medvrag_core/profiles`` describes."""

    name: str
    note: str = ""
    seed: int = 42
    workers: int = Field(0, ge=0, description="processes for CPU work; 0: one a core")
    corpus: CorpusSettings = CorpusSettings()
    encoder: EncoderSettings = EncoderSettings()
    index: IndexSettings = IndexSettings()
    filter: FilterSettings = FilterSettings()
    filter_model: ModelSettings = ModelSettings()
    reader: ReaderSettings = ReaderSettings()
    reader_model: ModelSettings = ModelSettings()
    judge_model: ModelSettings = Field(
        ModelSettings(),
        # Left out while it is empty: runs made before there was a judge go on under their old fingerprints.
        exclude_if=lambda model: not model.model,
        description="labels pages as relevant for `medvrag judge`; no part of any answer",
    )
    loop: LoopSettings = LoopSettings()
    control: ControlSettings = ControlSettings()
    calls: CallSettings = CallSettings()
    serve: ServeSettings = ServeSettings()
    text: TextSettings = TextSettings()
    evaluation: EvaluationSettings = EvaluationSettings()

    @property
    def processes(self) -> int:
        """How many processes do CPU work side by side on this machine."""
        return self.workers or cores()


RESULT_BLIND = ("name", "note", "workers", "evaluation", "calls", "serve", "judge_model")
"""Fields of a profile that cannot change an answer."""


def answering_settings(profile: Profile) -> Profile:
    """The profile with the default in every field that cannot change an answer, for comparison and fingerprints.

    >>> here = Profile(name="a", reader_model=ModelSettings(base_url="http://127.0.0.1:1/v1"))
    >>> there = Profile(name="b", calls=CallSettings(in_flight=99))
    >>> answering_settings(here) == answering_settings(there)
    True
    """
    values: dict[str, Any] = {
        name: "" if name == "name" else Profile.model_fields[name].get_default()
        for name in RESULT_BLIND
        if name in Profile.model_fields
    }
    where: dict[str, Any] = {name: ModelSettings.model_fields[name].default for name in WHERE_FIELDS}
    for name in ("filter_model", "reader_model"):
        values[name] = getattr(profile, name).model_copy(update=where)
    loading: dict[str, Any] = {name: EncoderSettings.model_fields[name].default for name in LOADER_FIELDS}
    values["encoder"] = profile.encoder.model_copy(update=loading)
    values["index"] = profile.index.model_copy(update={"device": IndexSettings.model_fields["device"].default})
    return profile.model_copy(update=values)


def fingerprint(settings: BaseModel) -> str:
    """Sixteen hex digits that change when any field changes.

    >>> fingerprint(LoopSettings()) == fingerprint(LoopSettings(max_rounds=2))
    False
    """
    text = json.dumps(settings.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(stored: dict[str, Any], current: dict[str, Any], prefix: str = "") -> list[str]:
    """Fields that differ between two resolved settings, each as ``field: stored -> current``.

    >>> differences({"loop": {"max_rounds": 3}}, {"loop": {"max_rounds": 2}})
    ['loop.max_rounds: 3 -> 2']
    """
    found: list[str] = []
    for key in sorted(stored.keys() | current.keys()):
        path, a, b = prefix + key, stored.get(key), current.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, path + ".")
        elif a != b:
            found.append(f"{path}: {a} -> {b}")
    return found
