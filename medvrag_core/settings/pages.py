"""How pages are made and encoded."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from medvrag_core.settings.base import StageSettings
from medvrag_core.settings.exclusion import ExclusionSettings
from medvrag_core.settings.pmc import PmcSettings

PairPolicy = Literal["keep", "leave_out"]


class CorpusSettings(StageSettings):
    """Rendering and text of pages (paper section 3.1)."""

    renderer: Literal["pymupdf", "pypdfium2"] = Field(
        "pymupdf",
        exclude_if=lambda name: name == "pymupdf",
        description="pypdfium2 is free of PyMuPDF's AGPL; its paragraphs are guessed from where lines stand",
    )
    dpi: int = Field(300, ge=36, le=600, description="resolution of stored page images")
    image_format: Literal["jpeg", "png", "webp"] = "jpeg"
    jpeg_quality: int = Field(85, ge=30, le=100, description="of JPEG and WebP")
    max_pixels: int = Field(20_000_000, description="cap on one page image; larger pages get a lower dpi")
    ocr: Literal["auto", "off", "always"] = Field(
        "auto", description="auto: read pages that have no text layer; always: read every page from its image alone"
    )
    ocr_engine: Literal["rapidocr", "tesseract"] = "rapidocr"
    ocr_figures: bool = Field(True, description="read the text inside large figures that have no text layer")
    ocr_dpi: int = Field(150, ge=72, le=300)
    hidden_text: Literal["leave_out", "keep"] = Field(
        "leave_out",
        exclude_if=lambda choice: choice == "leave_out",
        description="words of the text layer that nobody sees on the page; the ledger counts them either way",
    )
    blank_pages: PairPolicy = Field(
        "keep",
        exclude_if=lambda policy: policy == "keep",
        description="what becomes of pages on which nothing is printed; the ledger names them either way",
    )
    max_pages: int = Field(2_000, description="most pages taken from one file")
    seconds_per_page: float = Field(20.0, description="wall-clock limit for one page in the child process")
    memory_mb: int = Field(3_072, description="address space of the child process")
    near_duplicate: float = Field(0.97, ge=0, description="cosine of page means above which the later page is left out")
    numbers_differ: PairPolicy = Field(
        "keep",
        exclude_if=lambda policy: policy == "keep",
        description="what becomes of the later of two such pages whose texts differ in numbers alone (a dose)",
    )
    without_text: PairPolicy = Field(
        "keep",
        exclude_if=lambda policy: policy == "keep",
        description="what becomes of the later of two such pages without text, blank or pictures alone",
    )
    exclusion: ExclusionSettings = Field(
        ExclusionSettings(),
        exclude_if=lambda settings: settings == ExclusionSettings(),
        description="sources and question texts of benchmarks",
    )
    licence: str = Field(
        "", exclude_if=lambda text: not text, description="of articles that state none, such as CC BY; empty: unknown"
    )
    summarizer: Literal["extractive", "model"] = Field(
        "extractive",
        exclude_if=lambda name: name == "extractive",
        description="model: `serve.summary_model` looks at each page image",
    )
    summary_tokens: int = Field(120, description="words and numbers in one page summary")
    pmc: PmcSettings = Field(
        PmcSettings(),
        exclude_if=lambda settings: settings == PmcSettings(),
        description="articles of PubMed Central; takes no part unless `--source` names them",
    )

    @field_validator("ocr", mode="before")
    @classmethod
    def _off_is_a_word(cls, value: Any) -> Any:
        """In YAML a bare ``off`` means false."""
        return "off" if value is False else value


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
    balance_words: float = Field(
        3.0, gt=0, description="a query of so many words asks half by exact terms, a longer one more; embedded only"
    )
    pair_weight: float = Field(
        0.0, ge=0, description="of two terms side by side, beside one alone, in the lexical part; embedded only"
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


LOADER_FIELDS = ("loaders", "read_ahead", "self_check")
"""Fields of :class:`EncoderSettings` that cannot change a vector."""
