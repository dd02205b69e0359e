"""Near-duplicate pages: which are alike, which of them stays, and which are kept although they look alike.

The paper drops pages above a "ColQwen2.5 cosine similarity > 0.97" (section 3.1) without saying which single cosine
of two pages of a hundred vectors each is meant. Here it is the cosine of their mean vectors. It is one number a pair
that is the same in both directions, which MaxSim of one page in the other is not; it is a cosine, so that 0.97 means an
angle; and it can be searched among 350,000 pages without comparing all with all
(:mod:`~medvrag_core.index.close_pairs`). The mean forgets where on a page something stands and what a few patches say,
so it calls pages alike that differ in one dose. Texts do tell: pairs of the same words with other numbers, and pairs
without text, are told apart, and both pages kept unless ``corpus.numbers_differ`` or ``corpus.without_text`` says
otherwise.

Pages are taken in the order of article id and page number, whatever their order in the store. A page is left out when
it repeats a page that stays; a page left out drops no other. So of A~B~C, where A and C are not alike, A and C stay: no
page is lost that has no likeness in the index. The page that it repeats is the first of those that stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.vectors import ShardVectors, VectorStore
from medvrag_core.index.close_pairs import close_pairs, exact_cosines
from medvrag_core.index.page_alikeness import KINDS, PageAlikeness, PairKind
from medvrag_core.records import Record
from medvrag_core.settings import CorpusSettings

_NONE = np.iinfo(np.int64).max
_Rows = NDArray[np.int64]
_Pairs = Iterable[tuple[_Rows, _Rows]]


class DuplicatePair(Record):
    """``left_out`` is closer to ``kept`` than the threshold; of a pair of which both stay it is the later page."""

    kept: str
    left_out: str
    cosine: float
    kind: PairKind = Field("near", exclude_if=lambda kind: kind == "near")


class Duplicates(Record):
    """Pages to leave out, and pages that stay although they look like an earlier one that does.

    Each page stands once, with the first page that stays and that it is alike.
    """

    left_out: tuple[DuplicatePair, ...] = ()
    alike: tuple[DuplicatePair, ...] = ()


def near_duplicates(
    store: VectorStore,
    threshold: float,
    *,
    without: Collection[str] = (),
    corpus: CorpusStore | None = None,
    keep: Collection[PairKind] = (),
) -> Duplicates:
    """Find the pages that repeat others. A threshold of 1.0 or more finds none.

    Memory holds one mean vector a page, and what pairs there are between pages of which some repeat no page that stays.

    Parameters
    ----------
    store : page vectors
    threshold : cosine of mean vectors above which pages are alike
    without : pages that are passed over, as if they were not there
    corpus : texts and images of the pages, by which pairs are told apart; None: all are of kind ``near``
    keep : kinds of pairs of which both pages stay
    """
    if threshold >= 1.0:
        return Duplicates()
    passed_over = {*without}
    places = [place for place, page_id in enumerate(store.page_ids) if page_id not in passed_over]
    places.sort(key=lambda place: page_order(store.page_ids[place]))
    page_ids = tuple(store.page_ids[place] for place in places)
    means = np.concatenate([_means(shard) for shard in store.each_shard()])[places]
    alikeness = PageAlikeness(corpus, page_ids)
    dropping: list[PairKind] = [kind for kind in KINDS if kind not in keep]
    first, paired, other = _split(close_pairs(means, threshold), alikeness, dropping, len(places))
    original = _originals(means, threshold, first, paired, alikeness, dropping)
    like = _first_that_stays(means, threshold, other & (original == _NONE), alikeness, keep)

    def pairs(of: _Rows) -> tuple[DuplicatePair, ...]:
        rows = np.flatnonzero(of != _NONE)
        cosines = exact_cosines(means, of[rows], rows).tolist()
        return tuple(
            DuplicatePair(kept=page_ids[one], left_out=page_ids[row], cosine=cosine, kind=alikeness.kind(one, row))
            for row, one, cosine in zip(rows.tolist(), of[rows].tolist(), cosines, strict=True)
        )

    return Duplicates(left_out=pairs(original), alike=pairs(like))


def kinds_kept(settings: CorpusSettings) -> tuple[PairKind, ...]:
    """Kinds of pairs of which both pages stay.

    >>> kinds_kept(CorpusSettings()), kinds_kept(CorpusSettings(without_text="leave_out"))
    (('blank', 'no_text', 'numbers_differ'), ('numbers_differ',))
    """
    silent: tuple[PairKind, ...] = ("blank", "no_text") if settings.without_text == "keep" else ()
    return (*silent, "numbers_differ") if settings.numbers_differ == "keep" else silent


def page_order(page_id: str) -> tuple[str, int, str]:
    """Key that sorts page ids by article and number.

    >>> sorted(["b#p1", "a#p10", "a#p9"], key=page_order)
    ['a#p9', 'a#p10', 'b#p1']
    """
    article, sign, number = page_id.rpartition("#p")
    is_page = sign and number.isascii() and number.isdigit()
    return (article, int(number), page_id) if is_page else (page_id, 0, page_id)


def _means(shard: ShardVectors) -> NDArray[np.float32]:
    """Mean direction of each page, float32, shape (P, dim), unit rows."""
    return unit_rows(np.add.reduceat(shard.vectors, shard.offsets[:-1].astype(np.intp), axis=0))


def _split(
    pairs: _Pairs, alikeness: PageAlikeness, dropping: Collection[PairKind], count: int
) -> tuple[_Rows, NDArray[np.bool_], NDArray[np.bool_]]:
    """What all pairs say of each page.

    Returns
    -------
    first : the first earlier page that it would be dropped for, :data:`_NONE` for none
    paired : whether it has such a pair at all, as the earlier or the later one
    other : whether it has a pair that drops neither
    """
    first = np.full(count, _NONE, dtype=np.int64)
    paired, other = (np.zeros(count, dtype=np.bool_) for _ in range(2))
    for one, two in pairs:
        drops = alikeness.are(dropping, one, two)
        np.minimum.at(first, two[drops], one[drops])
        paired[one[drops]] = paired[two[drops]] = True
        other[one[~drops]] = other[two[~drops]] = True
    return first, paired, other


def _originals(
    means: NDArray[np.float32],
    threshold: float,
    first: _Rows,
    paired: NDArray[np.bool_],
    alikeness: PageAlikeness,
    dropping: Collection[PairKind],
) -> _Rows:
    """The page that stays for each one that does not, :data:`_NONE` for those that stay.

    For most pages the first one that they repeat decides. Only where that one is left out itself, or not decided, are
    all pairs looked at, among the pages that have any and are not left out yet.
    """
    original = np.full(len(first), _NONE, dtype=np.int64)
    open_ = np.zeros(len(first), dtype=np.bool_)
    for row in np.flatnonzero(first != _NONE).tolist():
        if original[first[row]] == _NONE and not open_[first[row]]:
            original[row] = first[row]
        else:
            open_[row] = True
    if not open_.any():
        return original
    earlier: dict[int, list[int]] = {}
    for one, two in _pairs_among(means, threshold, paired & (original == _NONE)):
        drops = alikeness.are(dropping, one, two) & open_[two]
        for a, b in zip(one[drops].tolist(), two[drops].tolist(), strict=True):
            earlier.setdefault(b, []).append(a)
    for row in np.flatnonzero(open_).tolist():
        staying = [a for a in earlier.get(row, ()) if original[a] == _NONE]
        if staying:
            original[row] = min(staying)
    return original


def _first_that_stays(
    means: NDArray[np.float32],
    threshold: float,
    stays: NDArray[np.bool_],
    alikeness: PageAlikeness,
    keep: Collection[PairKind],
) -> _Rows:
    """For each page that stays, the first other page that stays and is alike in a way that drops neither."""
    like = np.full(len(stays), _NONE, dtype=np.int64)
    for one, two in _pairs_among(means, threshold, stays):
        kept = alikeness.are(keep, one, two)
        np.minimum.at(like, two[kept], one[kept])
    return like


def _pairs_among(
    means: NDArray[np.float32], threshold: float, wanted: NDArray[np.bool_]
) -> Iterator[tuple[_Rows, _Rows]]:
    rows = np.flatnonzero(wanted)
    for one, two in close_pairs(means[rows], threshold):
        yield rows[one], rows[two]
