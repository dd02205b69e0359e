"""How much there is to do in a run: pages, vectors, tokens, bytes, out of its settings; no time and no GPU yet."""

from __future__ import annotations

import math

from pydantic import Field

from medvrag_core.encoders.page_budget import NATIVE_WIDTH
from medvrag_core.encoders.storage import bytes_a_vector
from medvrag_core.evaluation.cost.unit_costs import UnitCosts
from medvrag_core.evaluation.stopping.rounds import PAPER_ROUNDS
from medvrag_core.models.checks.configured import FILTER_TEXT_TOKENS, READER_TEXT_TOKENS, TOKENS_PER_WORD
from medvrag_core.models.image_tokens import MARKS, TILE, image_tokens
from medvrag_core.records import Record
from medvrag_core.settings import ModelSettings, Profile

_LETTER_INCHES = (8.5, 11.0)
_PRODUCTS = 20.0
"""Dot products of the search for near-duplicates, by pages to the power 1.5."""
_TOKENS_PER_NUMBER = 6
_TOKENS_AROUND_A_SUMMARY = 6
_SINGLE_VECTOR_WIDTHS = {"visrag-ret": 2_304, "dse": 1_536}


class RunSize(Record):
    """What a run is asked to do.

    ``scanned`` is the share of pages without a text layer, which are read by OCR.
    """

    articles: int = Field(ge=1)
    pages: int = Field(ge=1)
    questions: int = Field(ge=0)
    scanned: float = Field(0.0, ge=0, le=1)


class PageSize(Record):
    """One average page: its image, the tokens that the encoder sees of it, and the vectors that are kept of it.

    ``stored_bytes`` are those of its vectors, boxes and the numbers that tie boxes to vectors.
    """

    width: int
    height: int
    tokens: int
    patches: float
    vectors: float
    vector_width: int
    stored_bytes: float

    @property
    def megapixels(self) -> float:
        """Of the stored image."""
        return self.width * self.height / 1e6


class CallTokens(Record):
    """Calls and tokens of one round; ``left_out`` counts page images that do not fit the reader's context."""

    calls: int
    prompt: int
    completion: int
    images: int = 0
    left_out: int = 0


def page_size(profile: Profile, costs: UnitCosts) -> PageSize:
    """A US Letter page under the settings of a profile."""
    width, height = image_size(profile)
    encoder = profile.encoder
    if encoder.name == "embedded":
        patches = costs["patches"].value
        vectors = min(costs["embedded_vectors"].value, float(encoder.vectors_per_page))
        wide, tokens = encoder.dim + encoder.lexical_dim, 0
    else:
        tokens = image_tokens(width, height, max_pixels=encoder.max_visual_tokens * TILE**2)
        if encoder.name in _SINGLE_VECTOR_WIDTHS:
            patches, vectors = 1.0, 1.0
            wide = encoder.nested_dim or _SINGLE_VECTOR_WIDTHS[encoder.name]
        else:
            patches, vectors = float(tokens), tokens / encoder.pool_factor
            wide = encoder.pca_dim or NATIVE_WIDTH
    return PageSize(
        width=width,
        height=height,
        tokens=tokens,
        patches=patches,
        vectors=vectors,
        vector_width=wide,
        stored_bytes=vectors * bytes_a_vector(wide, encoder.storage) + patches * costs["patch_bytes"].value,
    )


def image_size(profile: Profile) -> tuple[int, int]:
    """Pixels of a stored US Letter page.

    >>> image_size(Profile(name="x"))
    (2550, 3300)
    """
    wide, high = (round(side * profile.corpus.dpi) for side in _LETTER_INCHES)
    shrink = min(1.0, math.sqrt(profile.corpus.max_pixels / (wide * high)))
    return math.floor(wide * shrink), math.floor(high * shrink)


def summary_tokens(profile: Profile) -> float:
    """Estimated tokens of one summary with its number."""
    return profile.corpus.summary_tokens * TOKENS_PER_WORD + _TOKENS_AROUND_A_SUMMARY


def filter_tokens(profile: Profile, pages: int) -> CallTokens:
    """Map and reduce calls of one round over the summaries of ``pages`` pages at most (paper section 3.3).

    >>> from medvrag_core.profiles.load import load_profile
    >>> filter_tokens(load_profile("a100"), 350_000).calls
    9
    """
    settings, model = profile.filter, profile.filter_model
    candidates, each = min(profile.index.candidates, pages), summary_tokens(profile)
    room = model.context_tokens - FILTER_TEXT_TOKENS - _TOKENS_PER_NUMBER * settings.map_keep
    shard = max(1, min(settings.shard_size, int(room / each)))
    calls = math.ceil(candidates / shard)
    seen, written, survivors = float(candidates), 0, candidates
    if calls > 1:
        survivors = min(candidates, calls * settings.map_keep)
        seen, written, calls = seen + survivors, survivors, calls + 1
    written += min(settings.keep, survivors)
    return CallTokens(
        calls=calls,
        prompt=round(seen * each) + calls * FILTER_TEXT_TOKENS,
        completion=_TOKENS_PER_NUMBER * written,
    )


def reader_tokens(profile: Profile, costs: UnitCosts, *, pages: int | None = None) -> CallTokens:
    """One call of the reader with ``pages`` images, by default as many as the profile shows (paper section 3.4)."""
    wanted = profile.loop.pages_shown if pages is None else pages
    a_page = tokens_of_an_image(profile, profile.reader_model)
    text = READER_TEXT_TOKENS + round(profile.loop.summaries_shown * summary_tokens(profile))
    room = profile.reader_model.context_tokens - text - profile.reader_model.max_tokens
    shown = max(0, min(wanted, room // a_page))
    return CallTokens(
        calls=1,
        prompt=text + shown * a_page,
        completion=round(costs["reader_reply_tokens"].value),
        images=shown,
        left_out=wanted - shown,
    )


def tokens_of_an_image(profile: Profile, model: ModelSettings) -> int:
    """Tokens of a US Letter page as a model gets it, with its two marks."""
    width, height = image_size(profile)
    return image_tokens(width, height, max_pixels=model.max_pixels, min_pixels=model.min_pixels) + MARKS


def rounds_a_question(profile: Profile, costs: UnitCosts) -> float:
    """Expected rounds: for a reader model the paper's shares cut at ``max_rounds``, else as measured.

    >>> round(sum(share * n for n, (share, _) in PAPER_ROUNDS.items()), 3)
    1.524
    """
    loop = profile.loop
    if profile.reader.name == "vlm":
        return sum(share * min(max(n, loop.min_rounds), loop.max_rounds) for n, (share, _) in PAPER_ROUNDS.items())
    return min(max(costs["embedded_rounds"].value, loop.min_rounds), loop.max_rounds)


def duplicate_products(pages: int) -> float:
    """Dot products that the search for near-duplicates takes, at most those of all pages with all.

    The law is measured (``benchmarks/results/duplicates.json``, 20,000 to 350,000 pages).

    >>> round(350_000**2 / 2 / duplicate_products(350_000), 1)
    14.8
    """
    return min(pages**2 / 2, _PRODUCTS * pages * math.sqrt(pages))
