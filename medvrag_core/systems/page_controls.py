"""Controls that act between the filter and the reader: gold or placebo pages, and pages left out.

A placebo stands in the place of the pages that a reader would get, as many of them, and is put in after retrieval and
filter, so that everything up to there is as in the arm it is a control of. ``Round.shown`` names what was really
shown, and a flag of the round says which placebo it was.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image

from medvrag_core.errors import InputError
from medvrag_core.filter.base import PageFilter
from medvrag_core.index.manifest import read_manifest
from medvrag_core.reasoning.exhibit import Exhibit, Show, as_found
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.reasoning.source import EvidenceSource, retrieve
from medvrag_core.reasoning.support import article_of
from medvrag_core.records import EvidenceItem, Question, Summary
from medvrag_core.runs.publish import whole_file
from medvrag_core.systems.draws import drawn_order
from medvrag_core.systems.precedent import Precedent
from medvrag_core.systems.resources import Resources


def page_control(resources: Resources, source: EvidenceSource, page_filter: PageFilter) -> Show:
    """What the settings in ``control.pages`` do to the pages of a round."""
    control = resources.profile.control
    if control.pages == "found":
        return as_found
    if control.pages == "gold":
        return GoldPages(source)
    if control.pages == "blank":
        return BlankPages(resources.workspace.root / "placebo")
    if control.pages == "random":
        # A page that was left out of the index as a near-duplicate may be the copy of a gold page.
        copies = {pair.left_out for pair in read_manifest(resources.workspace.index).left_out}
        pages = [page.page_id for page in resources.store.pages if page.page_id not in copies]
        return RandomPages(source, pages, control.seed)
    if control.pages == "other_question":
        return OtherQuestionPages(source, page_filter, resources.asked, control.seed)
    return PagesLeftOut(resources.precedents, control.seed, cited=control.pages == "cited_removed")


class GoldPages:
    """The gold pages of the question in the place of those found: what the reader makes of a perfect search."""

    def __init__(self, source: EvidenceSource) -> None:
        self.source = source

    def __call__(self, question: Question, number: int, exhibit: Exhibit) -> Exhibit:
        """See :data:`Show`; summaries of the same pages are given where the arm shows summaries at all.

        Raises InputError for a question without gold pages.
        """
        if not question.gold_pages:
            raise InputError(
                f"question '{question.id}' names no gold page", way_out="ask questions with gold_pages, or another arm"
            )
        return Exhibit(
            evidence=tuple(map(self.source.evidence, question.gold_pages)),
            summaries=tuple(map(self.source.summary, question.gold_pages if exhibit.summaries else ())),
            flags=("gold_pages",),
        )


class BlankPages:
    """White pages of the size of those found, without text; their summaries are empty too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writing = threading.Lock()

    def __call__(self, question: Question, number: int, exhibit: Exhibit) -> Exhibit:
        """See :data:`Show`; blank pages are named ``blank#p1``, ``blank#p2``, ..."""
        evidence = [
            EvidenceItem(
                evidence_id=f"blank#p{place}",
                page_id=f"blank#p{place}",
                text="",
                image=self._white(item.image) if item.image else "",
            )
            for place, item in enumerate(exhibit.evidence, 1)
        ]
        summaries = [
            Summary(page_id=f"blank#p{place}", text="", method="blank")
            for place in range(1, len(exhibit.summaries) + 1)
        ]
        return Exhibit(evidence=tuple(evidence), summaries=tuple(summaries), flags=("placebo_blank",))

    def _white(self, image: str) -> str:
        with Image.open(image) as found:
            size = found.size
        path = self.folder / f"white-{size[0]}x{size[1]}.png"
        with self._writing:
            if not path.is_file():
                with whole_file(path) as temporary:
                    Image.new("RGB", size, "white").save(temporary, format="PNG")
        return str(path)


class StandIns(ABC):
    """Other pages of the corpus in the place of those found, never a gold page and never one of those they replace."""

    def __init__(self, source: EvidenceSource) -> None:
        self.source = source

    @abstractmethod
    def candidates(self, question: Question, number: int) -> Iterator[tuple[str, str]]:
        """Evidence ids in the order they are taken, each with the flag that tells where it is from."""

    def __call__(self, question: Question, number: int, exhibit: Exhibit) -> Exhibit:
        """See :data:`Show`.

        Raises InputError when the corpus has too few other pages: fewer pages would be another control.
        """
        needed = max(len(exhibit.evidence), len(exhibit.summaries))
        barred = {item.page_id for item in exhibit.evidence} | {page_of(s.page_id) for s in exhibit.summaries}
        barred |= set(question.gold_pages)
        chosen: dict[str, str] = {}
        for evidence_id, flag in self.candidates(question, number):
            if len(chosen) == needed:
                break
            if page_of(evidence_id) not in barred:
                chosen.setdefault(evidence_id, flag)
        if len(chosen) < needed:
            raise InputError(
                f"question '{question.id}', round {number}: {needed} placebo pages are needed, and only {len(chosen)} "
                "are neither shown already nor gold",
                way_out="lower 'loop.pages_shown' and 'loop.summaries_shown', or use a larger corpus",
            )
        ids = list(chosen)
        return Exhibit(
            evidence=tuple(map(self.source.evidence, ids[: len(exhibit.evidence)])),
            summaries=tuple(map(self.source.summary, ids[: len(exhibit.summaries)])),
            flags=tuple(dict.fromkeys(chosen.values())),
        )


class RandomPages(StandIns):
    """Pages drawn from the whole corpus, anew in every round."""

    def __init__(self, source: EvidenceSource, pages: Sequence[str], seed: int) -> None:
        super().__init__(source)
        self.pages = pages
        self.seed = seed

    def candidates(self, question: Question, number: int) -> Iterator[tuple[str, str]]:
        """All pages in an order drawn for question and round."""
        for page_id in drawn_order(self.pages, self.seed, question.id, number):
            yield page_id, "placebo_random"


class OtherQuestionPages(StandIns):
    """The pages that another question finds in its first round.

    The other question is drawn from those asked together; one whose gold pages lie in other articles goes first, as
    far as gold pages are known. Where its filter calls a model, the calls are stored and belong to no round.
    """

    def __init__(self, source: EvidenceSource, page_filter: PageFilter, asked: Sequence[Question], seed: int) -> None:
        super().__init__(source)
        self.page_filter = page_filter
        self.asked = {question.id: question for question in asked}
        self.seed = seed
        self._kept: dict[str, tuple[str, ...]] = {}

    def partners(self, question: Question) -> list[Question]:
        """Other questions, in the order in which their pages are taken until there are enough.

        Raises InputError when there is no other question.
        """
        others = [i for i in self.asked if i != question.id]
        if not others:
            raise InputError(
                f"question '{question.id}' was asked alone: there is no other question whose pages could be shown",
                way_out="ask at least two questions",
            )
        own = _articles(question)
        order = [self.asked[i] for i in drawn_order(others, self.seed, question.id)]
        return sorted(order, key=lambda other: not own.isdisjoint(_articles(other)))

    def candidates(self, question: Question, number: int) -> Iterator[tuple[str, str]]:
        """What each partner finds with its own words, best first."""
        for partner in self.partners(question):
            if partner.id not in self._kept:
                self._kept[partner.id] = retrieve(self.source, self.page_filter, partner.question)[1].kept
            for evidence_id in self._kept[partner.id]:
                yield evidence_id, f"placebo_other_question:{partner.id}"


class PagesLeftOut:
    """The pages found without those that an arm's answer cited; or, as its control, without as many uncited ones.

    Nothing moves up into the gap, so that both arms show the same number of pages. A page that was cited in any round
    is left out of every round.

    Parameters
    ----------
    precedents : answers of the arm whose citations count, by question id
    cited : leave out cited pages; else uncited ones, drawn from those that the arm was sent
    """

    def __init__(self, precedents: Mapping[str, Precedent], seed: int, *, cited: bool) -> None:
        self.precedents = precedents
        self.seed = seed
        self.cited = cited

    def left_out(self, question: Question) -> frozenset[str]:
        """The pages that no round of the question shows."""
        known = self.precedents[question.id]
        if self.cited:
            return known.cited
        return frozenset(drawn_order(known.sent - known.cited, self.seed, question.id)[: len(known.cited)])

    def __call__(self, question: Question, number: int, exhibit: Exhibit) -> Exhibit:
        """See :data:`Show`; the flag is set only where a page was really left out."""
        gone = self.left_out(question)
        evidence = tuple(item for item in exhibit.evidence if item.page_id not in gone)
        summaries = tuple(s for s in exhibit.summaries if page_of(s.page_id) not in gone)
        changed = len(evidence) < len(exhibit.evidence) or len(summaries) < len(exhibit.summaries)
        flag = "cited_removed" if self.cited else "uncited_removed"
        return Exhibit(evidence=evidence, summaries=summaries, flags=(flag,) if changed else ())


def _articles(question: Question) -> frozenset[str]:
    return frozenset(map(article_of, question.gold_pages))
