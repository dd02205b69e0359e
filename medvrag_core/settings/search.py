"""How pages and chunks of text are found and filtered."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medvrag_core.settings.base import StageSettings


class IndexSettings(StageSettings):
    """Stage 1 (paper section 3.2). The modes are three ways to the pages that are scored with all their vectors."""

    mode: Literal["exact", "fast", "paper"] = Field(
        "exact", description="exact: every page; fast: the best by their centroids; paper: ANN over centroids before"
    )
    rescore: int = Field(256, ge=0, description="best pages by int8 codes that are scored anew by their vectors")
    threads: int = Field(0, ge=0, description="that score pages side by side; 0: one a core")
    centroids: int = Field(8, ge=1, description="fast, paper: C, spherical k-means centroids a page")
    ann: Literal["auto", "flat", "hnsw", "ivf"] = Field(
        "auto", description="paper: auto is flat below 50,000 centroids and on a GPU, else hnsw"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        description="exact: where all pages are scored, paper: where the ANN searches; auto: a GPU where there is one",
    )
    ann_neighbors: int = Field(1_000, ge=1, description="paper: centroids fetched for each query vector")
    ann_effort: int = Field(
        0, ge=0, description="paper: ef of hnsw, cells searched of ivf; 0: ann_neighbors, a sixteenth of the cells"
    )
    shortlist: int = Field(4_000, ge=1, description="fast, paper: R, pages scored by the codes of all their vectors")
    candidates: int = Field(2_000, ge=1, description="N1, pages handed to the filter")
    backward_weight: float = Field(
        1.0, ge=0, description="of the half of S that asks how well the page is covered by the query (paper: 1)"
    )
    seed: int = Field(42, description="paper: of the training of ivf")


MACHINE_FIELDS = ("device", "threads")
"""Fields of :class:`IndexSettings` that tell where a search runs."""


class FilterSettings(StageSettings):
    """Stage 2, sharded map and reduce over page summaries (paper section 3.3)."""

    ranker: Literal["embedded", "llm"] = "embedded"
    stage1_weight: float = Field(0.7, ge=0, le=1, description="say of the Stage-1 score in the embedded ranker")
    shard_size: int = Field(256, ge=2, description="B, summaries in one map call")
    map_keep: int = Field(25, ge=1)
    keep: int = Field(100, ge=1, description="N2, pages left after the reduce call")


PlainEncoder = Literal["bge", "contriever", "specter"]
"""Text encoders that are one set of weights, for queries and passages alike."""
LayoutPolicy = Literal["reading_order", "adjacent_merging", "layout_preserving"]
PageTextPolicy = LayoutPolicy | Literal["captions"]


class TextSettings(StageSettings):
    """The text-chunk arms: what ranks the chunks, and how many of them a reader gets."""

    retriever: Literal["dense", "bm25", "fused"] = Field(
        "dense", description="fused: reciprocal rank fusion of bm25, dense and `fused_with`"
    )
    fused_with: tuple[tuple[PlainEncoder, str], ...] = Field(
        (), exclude_if=lambda pairs: not pairs, description="fused: further dense encoders, each with its weights"
    )
    rrf_constant: int = Field(60, ge=0, description="of the fusion: sum of 1 / (constant + rank); MedRAG has 100")
    bm25_stemming: bool = Field(True, description="bm25 cuts English endings, in chunks and queries")
    encoder: Literal["embedded", "medcpt"] | PlainEncoder = Field("embedded", description="of the dense retriever")
    model: str = Field("all-MiniLM-L6-v2", description="its weights: hub id, id@revision or folder; embedded: its own")
    passage_model: str = Field("", description="weights of medcpt's article encoder; `model` encodes its queries")
    reranker: Literal["none", "embedded", "cross_encoder"] = Field(
        "none", description="embedded: late interaction of query and chunk in the vectors of the embedded page encoder"
    )
    rerank_model: str = Field("", description="weights of the cross_encoder, a hub id or a folder")
    rerank_depth: int = Field(
        100, ge=1, description="best chunks of the retriever that are ranked anew; no other stays"
    )
    device: str = Field("cpu", description="of all encoders but embedded, and of the cross_encoder")
    page_text: PageTextPolicy = Field(
        "reading_order",
        description="what chunks are cut from; the next two are VisRAG's policies for OCR. captions: what "
        "serve.summary_model writes down of the page image; captions, tables and headings where there is no such model",
    )
    chunk_tokens: int = Field(512, ge=8, description="word pieces of BERT a chunk, with [CLS] and [SEP]")
    overlap_tokens: int = 64
    chunks_shown: int = 10
