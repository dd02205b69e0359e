"""What the systems of other papers have that MedVRAG has not; the defaults are those papers'."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from medvrag_core.settings.base import StageSettings


class HelperSettings(StageSettings):
    """Who does the tasks beside the reader's; ``llm`` asks ``helper_model``, and ``generator_model`` for documents."""

    name: Literal["embedded", "llm"] = Field(
        "embedded", description="summaries of documents, missing knowledge, selection, follow-up queries"
    )
    generator: Literal["embedded", "llm"] = Field(
        "embedded", description="background documents; embedded: sentences of the corpus, nothing that it does not say"
    )


class MedRagSettings(StageSettings):
    """MedRAG (arXiv 2402.13178)."""

    snippets: int = Field(32, ge=1, description="best chunks that the reader gets")


class IMedRagSettings(StageSettings):
    """i-MedRAG (arXiv 2408.00727), as its released code has it."""

    rounds: int = Field(4, ge=1, le=10, description="of follow-up queries, before the answer")
    queries: int = Field(3, ge=1, le=10, description="follow-up queries a round")
    snippets: int = Field(32, ge=1, description="best chunks that answer a follow-up query")
    sees_options: bool = Field(
        True,
        description="queries are written with the options in sight, as in the released code; none is searched with",
    )


class VisRagSettings(StageSettings):
    """VisRAG (arXiv 2410.10594)."""

    pages: int = Field(3, ge=1, description="best pages that an answer is made from")
    generation: Literal["several_images", "joined_pages", "weighted_selection"] = Field(
        "several_images",
        description="joined_pages: all pages side by side in one image; weighted_selection: an answer from each page, "
        "the one of the highest probability times retrieval weight wins",
    )


class MedRgagSettings(StageSettings):
    """MedRGAG (arXiv 2510.18297), as its released code has it; each stage can be left out, as in its ablation."""

    per_source: int = Field(
        32, ge=1, description="chunks that are fetched from each source, a top folder of the corpus, before reranking"
    )
    retrieved: int = Field(5, ge=1, description="chunks that are left after reranking")
    gaps: int = Field(3, ge=1, description="most knowledge points that the explorer names as missing")
    generated: int = Field(5, ge=1, description="documents that are written, where gaps are too few for the question")
    selected: int = Field(5, ge=1, description="most documents that the reader gets")
    retrieval: bool = Field(True, description="false: written documents alone")
    generation: bool = Field(True, description="false: retrieved documents alone")
    completion: bool = Field(True, description="false: documents are written for the question, whatever is missing")
    selection: bool = Field(True, description="false: the reader gets all documents")

    @model_validator(mode="after")
    def _something_to_read(self) -> Self:
        if not (self.retrieval or self.generation):
            raise ValueError("retrieval and generation are both off, so there is nothing to read: that is no_rag")
        return self
