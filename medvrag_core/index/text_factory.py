"""From the text settings of a profile to a search over chunks; vectors are made where they are missing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from medvrag_core.corpus.chunks import TextChunk, chunks_digest
from medvrag_core.encoders.factory import make_page_encoder, make_text_encoder
from medvrag_core.errors import SettingsError
from medvrag_core.index.chunk_search import Bm25Chunks, ChunkSearch, FusedChunks
from medvrag_core.index.rerank import ChunkScorer, CrossEncoded, RerankedChunks, ensure_late_interaction
from medvrag_core.index.text_index import ensure_text_index
from medvrag_core.settings import EncoderSettings, TextSettings

if TYPE_CHECKING:
    from medvrag_core.encoders.transformer import CrossEncoder


def make_chunk_search(
    chunks: Mapping[str, TextChunk],
    text: TextSettings,
    page_encoder: EncoderSettings,
    folder: Path,
    *,
    corpus_fingerprint: str,
    backward: float = 1.0,
) -> ChunkSearch:
    """The search that ``text`` describes.

    Parameters
    ----------
    chunks : those of the corpus, by id
    text : retriever, encoder, reranker
    page_encoder : the page encoder, whose vectors the embedded reranker compares
    folder : takes a folder for every encoder and every set of chunks, so that arms do not overwrite each other
    corpus_fingerprint : of the pages that the chunks were cut from
    backward : weight of the second half of S in the embedded reranker

    Raises
    ------
    SettingsError
        The embedded reranker is asked for, and the page encoder is another one.
    MedvragError
        A package or the weights are missing.
    """
    every = list(chunks.values())

    def place(kind: str, encoder: str) -> Path:
        told = repr((encoder, chunks_digest(every)))
        return folder / f"{kind}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"

    def by_vectors(own: TextSettings) -> ChunkSearch:
        encoder = make_text_encoder(own)
        there = place(own.encoder, encoder.fingerprint)
        return ensure_text_index(every, encoder, there, corpus_fingerprint=corpus_fingerprint)

    def scorer() -> ChunkScorer:
        if text.reranker == "cross_encoder":
            return CrossEncoded(_cross_encoder(text), chunks)
        encoder = make_page_encoder(page_encoder)
        there = place("late", encoder.fingerprint)
        return ensure_late_interaction(every, encoder, there, corpus_fingerprint=corpus_fingerprint, backward=backward)

    if text.reranker == "embedded" and page_encoder.name != "embedded":
        raise SettingsError(
            f"text.reranker: 'embedded' compares vectors of the embedded page encoder, this profile has "
            f"'{page_encoder.name}'",
            way_out="set text.reranker to cross_encoder and text.rerank_model to its weights",
        )
    parts: list[ChunkSearch] = []
    if text.retriever in ("bm25", "fused"):
        parts.append(Bm25Chunks(every, stemming=text.bm25_stemming))
    parts += map(by_vectors, _dense(text))
    first = parts[0] if len(parts) == 1 else FusedChunks(parts, text.rrf_constant)
    return first if text.reranker == "none" else RerankedChunks(first, scorer(), text.rerank_depth)


def text_fingerprint(text: TextSettings) -> str:
    """What beside the settings shapes a ranking of chunks: the encoders in use and how they want their texts.

    The embedded reranker is told by the page encoder of the run.

    >>> text_fingerprint(TextSettings(retriever="bm25"))
    ''
    """
    told = [make_text_encoder(own).fingerprint for own in _dense(text)]
    if text.reranker == "cross_encoder":
        told.append(_cross_encoder(text).fingerprint)
    return " ".join(told)


def _dense(text: TextSettings) -> list[TextSettings]:
    """The settings of every dense encoder that takes part, each as if it were the only one."""
    if text.retriever == "bm25":
        return []
    others = text.fused_with if text.retriever == "fused" else ()
    return [text, *(text.model_copy(update={"encoder": name, "model": weights}) for name, weights in others)]


def _cross_encoder(text: TextSettings) -> CrossEncoder:
    from medvrag_core.encoders.transformer import CrossEncoder

    return CrossEncoder(text)
