"""What each part of the embedded page encoder is worth: one thing changed at a time, on queries made for choosing.

    python benchmarks/encoder_levers.py --run runs/articles --data DIR --set "known items, even"
    python benchmarks/encoder_levers.py --run runs/scifact --data DIR --split train

``--run`` holds the corpus (any encoder), ``--data`` the queries (``retrieval_sets.py`` says which files). Token vectors
are computed once and kept under ``--work``. Each row stands beside the settings of the profile on the same queries:
paired difference in nDCG@10 with its interval and p-value. Nothing here is corrected for the number of rows: it is how
settings were chosen, not a result; results are those of other queries (``encoder_quality.py``, ``rendered_text.py``).
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrieval_sets import QuerySet, query_sets

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.base import PageInput
from medvrag_core.encoders.embedded import EmbeddedEncoder, page_tokens
from medvrag_core.encoders.minilm import Tokens, unit_rows
from medvrag_core.encoders.pooling import pool_vectors
from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.retrieval.metrics import question_scores, report_of
from medvrag_core.evaluation.retrieval.paired import paired_retrieval
from medvrag_core.index.lexical import Bm25Index
from medvrag_core.index.maxsim import row_weights, score_pages
from medvrag_core.index.ranking import ranked_hits
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Hit, PageLayout
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EncoderSettings, Profile
from medvrag_core.systems.prepare import CorpusPages

_KS = (1, 10)
Floats = NDArray[np.float32]


class TokenCache:
    """Token vectors of pages on disk, one file a page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, layout: PageLayout) -> Tokens:
        """Read or make them."""
        told = " ".join(word.text for word in layout.words).encode("utf-8", "surrogatepass")
        file = self._folder / f"{hashlib.sha256(told).hexdigest()[:24]}.npz"
        if not file.is_file():
            made = page_tokens(layout)
            np.savez(file, vectors=made.vectors.astype(np.float16), word_of=made.word_of)
        with np.load(file, allow_pickle=False) as stored:
            return Tokens(unit_rows(stored["vectors"].astype(np.float32)), stored["word_of"])


@dataclass(frozen=True)
class Encoded:
    """All pages of a corpus in one encoder's vectors."""

    encoder: EmbeddedEncoder
    page_ids: NDArray[np.str_]
    vectors: Floats
    offsets: NDArray[np.int64]


Scores = Callable[[str], NDArray[np.floating]]


class Bench:
    """Encodes the corpus of a run in many ways and ranks it."""

    def __init__(self, pages: Sequence[PageInput], texts: list[str], chosen: QuerySet, profile: Profile, work: Path):
        self.pages, self.chosen, self.profile = pages, chosen, profile
        self.tokens = TokenCache(work)
        self.ids = np.array([page.page.page_id for page in pages])
        self.articles = np.unique([page.page.article_id for page in pages], return_inverse=True)[1]
        self.bm25 = Bm25Index(self.ids.tolist(), texts)
        self.base = self.encode()

    def encode(
        self,
        *,
        layout: Callable[[PageLayout], PageLayout] = lambda layout: layout,
        centered: bool = True,
        pooled: int = 0,
        **changes: Any,
    ) -> Encoded:
        """The corpus under changed settings, of layouts that were changed, or with vectors pooled by likeness."""
        settings = EncoderSettings.model_validate({**self.profile.encoder.model_dump(), **changes})
        encoder = (EmbeddedEncoder if centered else Uncentered)(settings, tokens_of=self.tokens)
        pages = [PageInput(page.page, layout(page.layout), page.image) for page in self.pages]
        encoder.fit(pages)
        parts = [page.vectors for page in encoder.encode_pages(pages)]
        if pooled:
            parts = [pool_vectors(part, pooled).vectors for part in parts]
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return Encoded(encoder, self.ids, np.concatenate(parts), offsets)

    def late_interaction(
        self, of: Encoded, *, backward: float | None = None, rows: Callable[[Floats], Floats] = lambda rows: rows
    ) -> Scores:
        """Scores by S under the profile; ``rows`` changes the encoded query."""
        weight = self.profile.index.backward_weight if backward is None else backward
        return lambda text: score_pages(rows(of.encoder.encode_query(text)), of.vectors, of.offsets, backward=weight)

    def rank(self, scores: Scores) -> dict[str, tuple[Hit, ...]]:
        """Ten best pages of every query."""
        return {
            query.id: ranked_hits(self.ids, np.asarray(scores(query.text), dtype=np.float32), max(_KS))
            for query in self.chosen.queries
        }


class Uncentered(EmbeddedEncoder):
    """Without the mean of the corpus taken away."""

    def fit(self, pages: Any) -> None:
        """See the parent; then forgets the mean."""
        super().fit(pages)
        self._mean = np.zeros_like(self._mean)


def levers(bench: Bench) -> Iterator[tuple[str, Scores]]:
    """Every change with its name, the profile's settings first."""
    base, scored = bench.base, bench.late_interaction
    yield "as in the profile", scored(base)
    yield "BM25 on page text", bench.bm25.scores
    yield "equal runs, no layout", scored(bench.encode(layout=lambda told: told.model_copy(update={"regions": ()})))
    yield (
        "equal runs, 103 short ones",
        scored(
            bench.encode(
                layout=lambda told: told.model_copy(update={"regions": ()}), words_per_patch=8, vectors_per_page=103
            )
        ),
    )
    for words in (20, 30, 60, 100):
        yield f"patches of {words} words", scored(bench.encode(words_per_patch=words))
    for count in (12, 16, 48, 103):
        yield f"at most {count} vectors", scored(bench.encode(vectors_per_page=count))
    yield "8 words, pooled by likeness", scored(bench.encode(words_per_patch=8, vectors_per_page=200, pooled=24))
    yield "without words in figures", scored(bench.encode(layout=without_figures))
    yield "context of its block", scored(with_context(bench, 0.3))
    yield "not centered", scored(bench.encode(centered=False))
    for share in (0.0, 0.25, 0.5, 0.9, 1.0):
        yield f"lexical share {share}", scored(bench.encode(lexical_weight=float(np.sqrt(share))))
    for balance in (0.01, 1.0, 2.0, 4.0, 8.0):
        yield f"half lexical at {balance} words", scored(bench.encode(balance_words=balance))
    for weight in (0.0, 0.35, 0.7, 1.0):
        yield f"pairs weigh {weight}", scored(bench.encode(pair_weight=weight))
    for dense, lexical in ((128, 512), (128, 896), (384, 2048)):
        yield f"{dense} + {lexical} wide", scored(bench.encode(dim=dense, lexical_dim=lexical))
    for share in (0.0, 0.25, 0.75, 1.0):
        yield f"whole query {share}", scored(base, rows=lambda rows, share=share: reweighted(rows, share))  # type: ignore[misc]
    yield "words not weighted by rarity", scored(base, rows=evenly)
    for weight in (0.1, 0.25, 0.5, 1.0):
        yield f"backward half {weight}", scored(base, backward=weight)
    yield "article, then page", article_then_page(bench)
    yield "feedback of 3 pages", with_feedback(bench)
    for weight in (0.25, 0.5):
        yield f"fused with BM25, {weight}", fused(bench, weight)


def without_figures(layout: PageLayout) -> PageLayout:
    """The page without the words whose middle lies in a figure."""
    figures = [region.box for region in layout.regions if region.kind == "figure"]
    words = tuple(
        word
        for word in layout.words
        if not any(
            box[0] <= (word.box[0] + word.box[2]) / 2 <= box[2] and box[1] <= (word.box[1] + word.box[3]) / 2 <= box[3]
            for box in figures
        )
    )
    return layout.model_copy(update={"words": words})


def with_context(bench: Bench, share: float) -> Encoded:
    """Each patch carries some of the patch before it: a caption into its table, a heading into its paragraph."""
    base = bench.base
    vectors = base.vectors.copy()
    inner = np.ones(len(vectors), dtype=bool)
    inner[base.offsets[:-1]] = False
    vectors[inner] += share * base.vectors[np.flatnonzero(inner) - 1]
    return Encoded(base.encoder, base.page_ids, unit_rows(vectors), base.offsets)


def reweighted(rows: Floats, whole: float) -> Floats:
    """Another share for the whole query, which is the last row."""
    lengths = row_weights(rows)
    shares = np.append((1 - whole) * lengths[:-1] / max(float(lengths[:-1].sum()), 1e-12), whole)
    out: Floats = (rows / lengths[:, None] * (len(rows) * shares)[:, None]).astype(np.float32)
    return out


def evenly(rows: Floats) -> Floats:
    """The words of a query with one weight, the whole as it was."""
    lengths = row_weights(rows)
    lengths[:-1] /= lengths[:-1].mean() if len(rows) > 1 else 1
    out = rows / lengths[:, None]
    out[:-1] *= row_weights(rows)[:-1].mean() if len(rows) > 1 else 1
    out[-1] = rows[-1]
    return out


def article_then_page(bench: Bench, share: float = 0.2) -> Scores:
    """A page gets some of the score of the best page of its article."""
    search = bench.late_interaction(bench.base)

    def scores(text: str) -> NDArray[np.floating]:
        own = search(text)
        best = np.full(bench.articles.max() + 1, -np.inf)
        np.maximum.at(best, bench.articles, own)
        return np.asarray(own + share * best[bench.articles])

    return scores


def with_feedback(bench: Bench, pages: int = 3, share: float = 0.3) -> Scores:
    """The whole query moves toward the best patch of each of the first pages (pseudo-relevance feedback)."""
    base = bench.base

    def scores(text: str) -> NDArray[np.floating]:
        rows = base.encoder.encode_query(text)
        whole = rows[-1] / max(float(np.linalg.norm(rows[-1])), 1e-12)
        first = np.argsort(-score_pages(rows, base.vectors, base.offsets, backward=0.0))[:pages]
        best = []
        for page in first:
            own = base.vectors[base.offsets[page] : base.offsets[page + 1]]
            best.append(own[(own @ whole).argmax()])
        moved = unit_rows((whole + share * np.mean(best, axis=0))[None])[0]
        rows = np.concatenate([rows[:-1], (moved * np.linalg.norm(rows[-1]))[None]]).astype(np.float32)
        return np.asarray(score_pages(rows, base.vectors, base.offsets, backward=0.0))

    return scores


def fused(bench: Bench, weight: float) -> Scores:
    """Late interaction and BM25, both as z-scores over all pages."""
    search = bench.late_interaction(bench.base)

    def z(values: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))

    return lambda text: (1 - weight) * z(search(text)) + weight * z(bench.bm25.scores(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="run folder with a corpus")
    parser.add_argument("--data", type=Path, required=True, help="folder of the retrieval set")
    parser.add_argument("--split", default="dev", help="of a set in BEIR layout; never the one that is reported")
    parser.add_argument("--set", default="", help="one of the sets of pages, such as 'known items, even'")
    parser.add_argument("--limit", type=int, help="first queries only")
    parser.add_argument("--work", type=Path, default=Path("runs/encoder-levers"), help="keeps token vectors")
    options = parser.parse_args()
    try:
        profile = load_profile("cpu")
        sets = query_sets(options.data, options.split)
        chosen = next((found for found in sets if found.name == options.set), sets[0]).first(options.limit)
        store = CorpusStore.open(Workspace(options.run).corpus)
        pages = CorpusPages(store)
        bench = Bench(list(pages), [page.text for page in store.pages], chosen, profile, options.work)
        print(f"{chosen.name}: {len(chosen.queries)} queries over {len(pages)} pages")
        print(f"{'':30s} nDCG@10  first  difference  interval          p")
        reference = None
        for name, scores in levers(bench):
            found = question_scores(bench.rank(scores), chosen.gold, ks=_KS)
            reference = reference or found
            report = report_of(found, _KS)
            told = f"{name:30s} {report.ndcg_at_10:7.3f} {report.any_gold[1]:6.2f}"
            if found is not reference:
                (row,) = paired_retrieval(
                    {"profile": reference, "changed": found}, "profile", profile.evaluation, metrics=("nDCG@10",)
                )
                told += f"  {row.difference:+10.3f}  [{row.low:+.3f}, {row.high:+.3f}]  {row.p_value:.4f}"
            print(told, flush=True)
    except MedvragError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
