"""Settings to searches; arms do not overwrite each other's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_berts import make_berts
from tiny_models import need

from medvrag_core.corpus.chunks import TextChunk
from medvrag_core.encoders.text import TextEncoder
from medvrag_core.errors import MedvragError, SettingsError
from medvrag_core.index import text_factory
from medvrag_core.index.chunk_search import ChunkSearch
from medvrag_core.index.fusion import reciprocal_rank_fusion
from medvrag_core.index.text_factory import make_chunk_search, text_fingerprint
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import SearchResult
from medvrag_core.settings import EncoderSettings, TextSettings

TEXTS = {
    "gout#p1#c1": "Allopurinol lowers serum urate in gout.",
    "gout#p1#c2": "Colchicine treats the acute attack.",
    "asthma#p1#c1": "Inhaled steroids cause oral candidiasis, so patients rinse the mouth.",
}
CHUNKS = {name: TextChunk(chunk_id=name, page_id=name[:-3], text=text) for name, text in TEXTS.items()}


class Favors(TextEncoder):
    """Ranks the chunk that it is named for first, and the others by id, the last in front."""

    def __init__(self, name: str, chunk: str) -> None:
        self.name, self.chunk = name, chunk

    @property
    def fingerprint(self) -> str:
        return f"{self.name} {self.chunk}"

    def encode_passages(self, texts: Sequence[str], titles: Sequence[str] = ()) -> np.ndarray:
        order = {text: place for place, text in enumerate(sorted(TEXTS.values(), key=by_id), start=1)}
        return np.array(
            [[9.0 if text == TEXTS[self.chunk] else float(order[text])] for text in texts], dtype=np.float32
        )

    def encode_query(self, text: str) -> np.ndarray:
        return np.ones(1, dtype=np.float32)


def by_id(text: str) -> str:
    return next(name for name, known in TEXTS.items() if known == text)


def search(
    folder: Path, encoder: EncoderSettings | None = None, chunks: dict[str, TextChunk] = CHUNKS, **settings: Any
) -> ChunkSearch:
    page_encoder = encoder or load_profile("test").encoder
    return make_chunk_search(chunks, TextSettings(**settings), page_encoder, folder, corpus_fingerprint="c")


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"retriever": "bm25"}, ["bm25"]),
        ({"retriever": "dense"}, ["encode_query", "exact"]),
        ({"retriever": "fused"}, ["bm25", "encode_query", "exact", "fuse"]),
        ({"retriever": "bm25", "reranker": "embedded"}, ["bm25", "rerank"]),
        ({"retriever": "fused", "reranker": "embedded"}, ["bm25", "encode_query", "exact", "fuse", "rerank"]),
    ],
)
def test_every_search_finds_the_chunk_and_times_its_steps(
    tmp_path: Path, settings: dict[str, Any], steps: list[str]
) -> None:
    found = search(tmp_path, **settings).search("What prevents oral candidiasis from steroids?", 2)
    assert found.hits[0].page_id == "asthma#p1#c1"
    assert [time.step for time in found.times] == steps
    assert all(time.seconds >= 0 for time in found.times)
    assert search(tmp_path, **settings).search("What prevents oral candidiasis from steroids?", 2).hits == found.hits


def test_more_than_two_rankings_are_fused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As MedRAG's RRF-4 does, with stand-ins for the encoders: BM25 and each dense ranking have one vote."""
    monkeypatch.setattr(text_factory, "make_text_encoder", lambda own: Favors(own.encoder, own.model))
    ids = list(TEXTS)
    votes = {"model": ids[0], "fused_with": [["contriever", ids[1]], ["specter", ids[1]]]}
    found = search(tmp_path, retriever="fused", rrf_constant=100, **votes).search("gout", 3)
    assert [time.step for time in found.times] == ["bm25", *["encode_query", "exact"] * 3, "fuse"]
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"embedded", "contriever", "specter"}
    by_hand = dict.fromkeys(ids, 0.0)
    for ranking in ([0], [0, 1, 2], [1, 0, 2], [1, 0, 2]):
        for rank, chunk in enumerate(ranking, start=1):
            by_hand[ids[chunk]] += 1 / (100 + rank)
    assert {hit.page_id: hit.score for hit in found.hits} == pytest.approx(by_hand)
    alone = search(tmp_path / "alone", retriever="dense", **votes).search("gout", 3)
    assert [time.step for time in alone.times] == ["encode_query", "exact"], "they take part in a fusion alone"


@pytest.mark.gpu_path
def test_rrf_4_on_the_real_classes_is_the_fusion_of_its_four_rankings(tmp_path: Path) -> None:
    need("transformers")
    berts = make_berts(tmp_path / "berts")
    medcpt = {"encoder": "medcpt", "model": berts["query"], "passage_model": berts["article"]}
    pairs = [("contriever", berts["query"]), ("specter", berts["article"])]
    alone = [{"retriever": "bm25"}, {"retriever": "dense", **medcpt}]
    alone += [{"retriever": "dense", "encoder": name, "model": weights} for name, weights in pairs]

    def ranking(**settings: Any) -> SearchResult:
        text, pages = TextSettings(**settings), load_profile("test").encoder
        return make_chunk_search(CHUNKS, text, pages, tmp_path / "text", corpus_fingerprint="c").search("gout", 3)

    lists = [[hit.page_id for hit in ranking(**settings).hits] for settings in alone]
    assert [len(ids) for ids in lists] == [1, 3, 3, 3]
    found = ranking(retriever="fused", rrf_constant=100, fused_with=pairs, **medcpt)
    assert found.hits == reciprocal_rank_fusion(lists, 3, constant=100)
    kinds = {path.name.partition("-")[0] for path in (tmp_path / "text").iterdir()}
    assert kinds == {"medcpt", "contriever", "specter"}


def test_the_depth_of_the_reranker_is_the_length_of_the_list(tmp_path: Path) -> None:
    found = search(tmp_path, reranker="embedded", rerank_depth=2).search("urate", 3)
    first = search(tmp_path).search("urate", 2)
    assert {hit.page_id for hit in found.hits} == {hit.page_id for hit in first.hits}


def test_arms_with_other_vectors_lie_side_by_side(tmp_path: Path) -> None:
    search(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    search(tmp_path, chunks={"gout#p1#c1": CHUNKS["gout#p1#c1"].model_copy(update={"text": "Allopurinol  lowers"})})
    search(tmp_path, reranker="embedded")
    search(tmp_path, retriever="fused")
    assert len({path.parent for path in tmp_path.rglob("manifest.json")}) == 3
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_bm25_makes_no_vectors(tmp_path: Path) -> None:
    search(tmp_path, retriever="bm25")
    assert list(tmp_path.iterdir()) == []


def test_the_embedded_reranker_needs_the_embedded_page_encoder(tmp_path: Path) -> None:
    colqwen = EncoderSettings(name="colqwen2.5", model="vidore/colqwen2.5-v0.2")
    with pytest.raises(SettingsError, match=r"has 'colqwen2\.5'; set text\.reranker to cross_encoder"):
        search(tmp_path, colqwen, reranker="embedded")
    assert list(tmp_path.iterdir()) == [], "refused before anything is made"


def test_a_cross_encoder_without_weights_is_refused(tmp_path: Path) -> None:
    made = search(tmp_path, retriever="bm25", reranker="cross_encoder")
    with pytest.raises(MedvragError, match=r"text\.rerank_model: names no weights"):
        made.search("gout", 2)


def test_the_fingerprint_tells_what_is_in_use() -> None:
    bge = {"encoder": "bge", "model": "b"}
    assert "Represent this sentence" in text_fingerprint(TextSettings(**bge))
    assert text_fingerprint(TextSettings(retriever="bm25", **bge)) == ""
    reranked = TextSettings(reranker="cross_encoder", rerank_model="m", **bge)
    assert text_fingerprint(reranked).startswith(text_fingerprint(TextSettings(**bge)))
    fused = {"retriever": "fused", "fused_with": [["specter", "s"]], **bge}
    assert "specter" in text_fingerprint(TextSettings(**fused)) and "specter" not in text_fingerprint(
        TextSettings(**bge)
    )
    assert text_fingerprint(TextSettings(**fused)) != text_fingerprint(TextSettings(**fused | {"fused_with": []}))
    assert text_fingerprint(reranked) != text_fingerprint(reranked.model_copy(update={"rerank_model": "n"}))
