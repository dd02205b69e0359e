"""Grounding: which pages an answer cites, whether it was sent them, and whether they are gold.

The paper reports 85.3% of right answers as supported by the cited page's summary, judged by a model of the filter's
family (section 4.5). Here a citation counts only when the page was really sent to the reader, and it supports when the
page is a gold page of the question; no judge enters. That a page is cited does not show that the answer rests on it:
see :mod:`medvrag_core.evaluation.errors.removal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from medvrag_core.evaluation.errors.taxonomy import gold_of
from medvrag_core.evaluation.scoring import require_one_arm, score
from medvrag_core.evaluation.statistics.shares import Ratio, Share, ratio_of, share_of
from medvrag_core.reasoning.citations import citations
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Record, Trace
from medvrag_core.settings import EvaluationSettings

Group = Literal["all", "right", "wrong"]


@dataclass(frozen=True)
class AnswerCitations:
    """Pages that the last reply of a question names, each once.

    Attributes
    ----------
    sent : pages that some round of the question really sent to the reader, as image, text or summary
    foreign : pages that no round sent, in lower case
    """

    sent: tuple[str, ...]
    foreign: tuple[str, ...]


class GroundingRow(Record):
    """The answers of one group. Shares are of ``answers``, those about gold pages of ``labeled``."""

    group: Group
    answers: int = Field(description="questions answered with an option")
    citing: Share = Field(description="answers that name at least one page, sent or not")
    only_sent: Share = Field(description="answers that name pages, all of which were sent")
    foreign: Share = Field(description="answers that name a page that was never sent")
    labeled: int = Field(description="answers to questions whose relevant pages are known, none among them")
    supported: Share = Field(description="of these, answers that cite a gold page that was sent")
    precision: Ratio = Field(
        description="gold pages among all pages named by labeled answers that cite, foreign ones too"
    )
    recall: Ratio = Field(description="cited pages among the gold pages of labeled answers")


class GroundingReport(Record):
    """Citations of one system's answers, for all of them, the right ones and the wrong ones."""

    system: str
    profile: str
    n: int = Field(description="questions")
    unanswered: int = Field(description="questions without an answer, which can cite nothing")
    rows: tuple[GroundingRow, ...]


def answer_citations(trace: Trace) -> AnswerCitations:
    """What the last reply of a question cites; pages of earlier rounds count as sent, since findings carry them on."""
    if not trace.rounds:
        return AnswerCitations((), ())
    found = citations(trace.rounds[-1])
    sent = {page.casefold(): page for r in trace.rounds for page in map(page_of, (*r.shown, *r.summaries_shown))}
    named = dict.fromkeys(page.casefold() for page in (*found.shown, *found.remembered, *found.foreign))
    return AnswerCitations(
        sent=tuple(sent[page] for page in named if page in sent),
        foreign=tuple(page for page in named if page not in sent),
    )


def grounding_report(
    traces: Sequence[Trace],
    relevant: Mapping[str, AbstractSet[str]] | None = None,
    settings: EvaluationSettings | None = None,
) -> GroundingReport:
    """Citations of one system's answers.

    Parameters
    ----------
    traces : one a question, all of one system and settings
    relevant : question id to gold pages; without it the gold pages of the questions are used
    settings : confidence of all intervals; samples and seed of the bootstrap behind those of precision and recall

    Raises
    ------
    InputError : no trace, a question twice, several systems, or a question without gold answer
    """
    require_one_arm(traces)
    answers = [_Answer(score(t), answer_citations(t), gold_of(t, relevant)) for t in traces if t.outcome == "answered"]
    groups: dict[Group, list[_Answer]] = {
        "all": answers,
        "right": [a for a in answers if a.right],
        "wrong": [a for a in answers if not a.right],
    }
    return GroundingReport(
        system=traces[0].system,
        profile=traces[0].profile,
        n=len(traces),
        unanswered=len(traces) - len(answers),
        rows=tuple(_row(name, members, settings or EvaluationSettings()) for name, members in groups.items()),
    )


@dataclass(frozen=True)
class _Answer:
    right: bool
    cited: AnswerCitations
    gold: AbstractSet[str] | None

    @property
    def hits(self) -> int:
        return sum(page in (self.gold or ()) for page in self.cited.sent)

    @property
    def named(self) -> int:
        return len(self.cited.sent) + len(self.cited.foreign)


def _row(group: Group, answers: Sequence[_Answer], settings: EvaluationSettings) -> GroundingRow:
    labeled = [a for a in answers if a.gold is not None]
    with_gold = [a for a in labeled if a.gold]
    citing = [a for a in labeled if a.named]

    def share(count: int, n: int) -> Share:
        return share_of(count, n, confidence=settings.confidence)

    return GroundingRow(
        group=group,
        answers=len(answers),
        citing=share(sum(a.named > 0 for a in answers), len(answers)),
        only_sent=share(sum(a.named > 0 and not a.cited.foreign for a in answers), len(answers)),
        foreign=share(sum(bool(a.cited.foreign) for a in answers), len(answers)),
        labeled=len(labeled),
        supported=share(sum(a.hits > 0 for a in labeled), len(labeled)),
        precision=ratio_of([a.hits for a in citing], [a.named for a in citing], settings),
        recall=ratio_of([a.hits for a in with_gold], [len(a.gold or ()) for a in with_gold], settings),
    )
