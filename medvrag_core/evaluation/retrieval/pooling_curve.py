"""What fewer vectors a page cost: retrieval and heatmaps, pooled to several sizes in two ways, beside unpooled pages.

Every page is encoded once without pooling. Its patches are then merged by *similarity* (Ward's method, as ColQwen2.5's)
or by *position* (runs of neighbors in reading order), each group to its mean direction, so that the two ways differ in
what is merged and in nothing else. Pages are ranked by exact search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.pooling import Pooled, pool_vectors
from medvrag_core.encoders.storage import bytes_a_vector
from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.metrics import QuestionScores, question_scores
from medvrag_core.evaluation.retrieval.paired import PairedRetrieval, paired_family
from medvrag_core.evaluation.statistics.means import Estimate, interval_around, mean_of, resampled_means
from medvrag_core.index.exact import ExactIndex
from medvrag_core.index.similarity_maps import Floats, score_parts
from medvrag_core.records import Hit, PageVectors, Query, Record
from medvrag_core.settings import EncoderSettings, EvaluationSettings
from medvrag_core.systems.prepare import CorpusPages
from medvrag_core.systems.resources import Resources

Way = Literal["unpooled", "stored", "similarity", "position"]
Merging = Literal["similarity", "position"]
WAYS: tuple[Merging, ...] = ("similarity", "position")
LEVELS = (103, 50, 25, 12)
"""Most vectors a page; the first is the paper's."""
_RETRIEVAL, _MAPS = "nDCG@10", "agreement of maps"
_NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class PooledMap:
    """How well each patch of a page answers a query, after pooling.

    Attributes
    ----------
    name : such as ``similarity 50``
    vectors : that are left
    score : S(q, p) by these vectors
    values : shape (p,), best similarity of each patch's vector to any query row
    agreement : rank correlation with the map without pooling
    """

    name: str
    vectors: int
    score: float
    values: Floats
    agreement: float


class PoolingRow(Record):
    """Pages with some number of vectors."""

    name: str
    way: Way
    vectors_per_page: float
    bytes_per_page: float = Field(description="of the vectors, stored as the settings say")
    ndcg_at_10: Estimate
    agreement: Estimate | None = Field(description="rank correlation of a gold page's map with the one without pooling")
    patches_behind_best: float | None = Field(description="patches that share the best vector of a query row; mean")


class PoolingCurve(Record):
    """All of them on the same pages and questions; tests of retrieval are one family, and tests of maps another."""

    pages: int
    of_pages: int = Field(description="pages of the corpus")
    questions: int
    rows: tuple[PoolingRow, ...]
    paired: tuple[PairedRetrieval, ...] = Field(description="every size against unpooled, and the ways at each size")
    paired_maps: tuple[PairedRetrieval, ...] = Field(description="the ways at each size, by the agreement of maps")


def unpooled(settings: EncoderSettings) -> EncoderSettings:
    """The same encoder, with a vector for every patch."""
    return settings.model_copy(update={"vectors_per_page": _NO_LIMIT, "words_per_patch": 1, "pool_factor": 1})


def unpooled_pages(resources: Resources, page_ids: Sequence[str]) -> list[PageVectors]:
    """Encode some pages of a run anew, in the fitted state of the run, with a vector for every patch."""
    encoder = make_page_encoder(unpooled(resources.profile.encoder))
    encoder.load(resources.workspace.vectors / "encoder")
    pages = CorpusPages(resources.store)
    place = {page.page_id: number for number, page in enumerate(resources.store.pages)}
    return list(encoder.encode_pages(pages[place[page_id]] for page_id in page_ids))


def pooled(page: PageVectors, way: Merging, at_most: int) -> PageVectors:
    """A page without pooling, merged to ``at_most`` vectors or fewer.

    >>> page = PageVectors("a#p1", np.eye(4, dtype=np.float32), np.zeros((4, 4), np.float32), np.arange(4))
    >>> pooled(page, "position", 3).vector_of.tolist()
    [0, 0, 1, 2]
    """
    made = pool_vectors(page.vectors, at_most) if way == "similarity" else _by_position(page.vectors, at_most)
    return PageVectors(page.page_id, made.vectors, page.boxes, made.vector_of[page.vector_of])


def pooled_maps(
    query: NDArray[np.float32], page: PageVectors, levels: Sequence[int] = LEVELS, *, backward: float = 1.0
) -> tuple[PooledMap, ...]:
    """The map of a query on a page without pooling, and on the same page merged to fewer vectors in both ways.

    ``backward`` is the weight of the second half of S, as in the settings of the index.
    """
    made = [("unpooled", page)]
    for way in WAYS:
        made += [(f"{way} {level}", pooled(page, way, level)) for level in levels]
    parts = [score_parts(query, found, backward_weight=backward) for _, found in made]
    return tuple(
        PooledMap(
            name=name,
            vectors=len(found.vectors),
            score=part.score,
            values=part.page_map,
            agreement=_rank_correlation(parts[0].page_map, part.page_map),
        )
        for (name, found), part in zip(made, parts, strict=True)
    )


def pooling_curve(
    resources: Resources,
    queries: Sequence[Query],
    gold: Mapping[str, Mapping[str, int]],
    levels: Sequence[int] = LEVELS,
    *,
    most_pages: int = 150,
) -> PoolingCurve:
    """Rank pages by each number of vectors and each way of pooling, on the questions that have gold pages.

    Parameters
    ----------
    resources : a run with page vectors
    queries : what to search
    gold : by question id, relevance of page ids (0: judged not relevant)
    levels : most vectors a page
    most_pages : a larger corpus is cut to the gold pages and to others spread over it, since every page is encoded
        anew; questions with gold pages beyond that are left out

    Raises
    ------
    InputError : no question is left
    """
    relevant = {q: {page: level for page, level in pages.items() if level > 0} for q, pages in gold.items()}
    chosen = _chosen(resources.vectors.page_ids, {page for pages in relevant.values() for page in pages}, most_pages)
    asked = [q for q in queries if relevant.get(q.id) and relevant[q.id].keys() <= {*chosen}]
    if not asked:
        raise InputError("no query has a gold page in this run", way_out="add gold_pages to the question file")
    rows = {q.id: resources.encoder.encode_query(q.text) for q in asked}
    relevant = {query: relevant[query] for query in rows}
    before = unpooled_pages(resources, chosen)
    sizes: list[tuple[str, Way, list[PageVectors]]] = [
        ("unpooled", "unpooled", before),
        ("as stored", "stored", [resources.vectors.page(page.page_id) for page in before]),
    ]
    for way in WAYS:
        sizes += [(f"{way} {level}", way, [pooled(page, way, level) for page in before]) for level in levels]
    settings = resources.profile
    weight = settings.index.backward_weight
    made: list[PoolingRow] = []
    scores: dict[str, QuestionScores] = {}
    maps = _GoldMaps(before, rows, relevant)
    for name, kind, pages in sizes:
        found = question_scores(exact_rankings(pages, rows, backward=weight), relevant, ks=(10,))
        # What is stored may stand for other patches than those before pooling, so that its maps cannot be compared.
        agreement, behind = (None, None) if kind == "stored" else maps.compared(pages, found.ids)
        scores[name] = found if agreement is None else replace(found, values={**found.values, _MAPS: agreement})
        vectors = float(np.mean([len(page.vectors) for page in pages]))
        made.append(
            PoolingRow(
                name=name,
                way=kind,
                vectors_per_page=vectors,
                bytes_per_page=vectors * bytes_a_vector(pages[0].vectors.shape[1], settings.encoder.storage),
                ndcg_at_10=mean_of(found.values[_RETRIEVAL], settings.evaluation),
                agreement=None if agreement is None else _mean_correlation(agreement, settings.evaluation),
                patches_behind_best=behind,
            )
        )
    ways = [(f"position {level}", f"similarity {level}") for level in levels]
    pairs = [*(("unpooled", name) for name in scores if name != "unpooled"), *ways]
    return PoolingCurve(
        pages=len(chosen),
        of_pages=len(resources.vectors),
        questions=len(rows),
        rows=tuple(made),
        paired=paired_family(scores, pairs, settings.evaluation, metrics=(_RETRIEVAL,)),
        paired_maps=paired_family(scores, ways, settings.evaluation, metrics=(_MAPS,)),
    )


def exact_rankings(
    pages: Sequence[PageVectors], rows: Mapping[str, NDArray[np.float32]], *, backward: float
) -> dict[str, tuple[Hit, ...]]:
    """The ten best pages for the rows of every query, every page scored; ``backward`` weighs the second half of S."""
    offsets = np.concatenate([[0], np.cumsum([len(page.vectors) for page in pages])]).astype(np.int64)
    vectors = np.concatenate([page.vectors for page in pages])
    index = ExactIndex([page.page_id for page in pages], vectors, offsets, backward=backward)
    return {q: index.search(query, 10).hits for q, query in rows.items()}


def _by_position(vectors: NDArray[np.float32], at_most: int) -> Pooled:
    """Runs of neighbors of about equal length, each to its mean direction."""
    count = min(len(vectors), at_most)
    vector_of = np.arange(len(vectors)) * count // len(vectors)
    sums = np.zeros((count, vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, vector_of, vectors)
    return Pooled(unit_rows(sums), vector_of)


def _rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's; a map without any contrast agrees with nothing, unless both have none."""
    from scipy.stats import rankdata

    ranks = [rankdata(side) for side in (a, b)]
    flat = [bool(np.ptp(side) == 0) for side in ranks]
    if any(flat):
        return float(all(flat))
    return float(np.corrcoef(*ranks)[0, 1])


def _chosen(page_ids: Sequence[str], wanted: Set[str], most: int) -> list[str]:
    """Up to ``most`` pages: those wanted first, then others spread over the corpus; in corpus order."""
    first = [page for page in page_ids if page in wanted][:most]
    taken = {*first}
    others = [page for page in page_ids if page not in taken]
    room = min(most - len(first), len(others))
    taken |= {others[k * len(others) // room] for k in range(room)}
    return [page for page in page_ids if page in taken]


class _GoldMaps:
    """Maps of every question on its gold pages, before pooling and after."""

    def __init__(
        self,
        before: Sequence[PageVectors],
        rows: Mapping[str, NDArray[np.float32]],
        gold: Mapping[str, Mapping[str, int]],
    ) -> None:
        place = {page.page_id: number for number, page in enumerate(before)}
        self._rows = rows
        self._places = {q: [place[page_id] for page_id in gold[q]] for q in rows}
        self._before = {
            q: [score_parts(rows[q], before[at]).page_map for at in places] for q, places in self._places.items()
        }

    def compared(self, pages: Sequence[PageVectors], ids: Sequence[str]) -> tuple[Floats, float]:
        """What pooling made of the maps, means over the gold pages of a question.

        Returns
        -------
        agreement : rank correlation with the map before pooling, shape (questions,), in the order of ``ids``
        behind : patches that share the vector which answers a query row best, mean over rows and questions
        """
        agreement, behind = [], []
        for q in ids:
            parts = [score_parts(self._rows[q], pages[at]) for at in self._places[q]]
            agreement.append(
                np.mean([_rank_correlation(old, new.page_map) for old, new in zip(self._before[q], parts, strict=True)])
            )
            behind.append(np.mean([np.bincount(part.vector_of)[part.best_vectors].mean() for part in parts]))
        return np.array(agreement), float(np.mean(behind))


def _mean_correlation(values: Floats, settings: EvaluationSettings) -> Estimate:
    draws = resampled_means(values[:, None], samples=settings.bootstrap_samples, seed=settings.seed)[:, 0]
    return interval_around(float(values.mean()), draws, len(values), settings, lowest=-1.0)
