"""A report with and without the questions whose text stands in pages of the corpus."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from medvrag_core.corpus.contamination import text_digest
from medvrag_core.corpus.screening import Screening
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import NotBuiltError
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.report import RunReport, run_report
from medvrag_core.records import Record


class SuspectReport(Record):
    """The same answers, all of them and without the suspect questions.

    A question is suspect when its text stands in any page that is in the corpus, found for it or not. Questions are
    known by their text, so the question file may be another one than the corpus was checked against; questions that the
    check did not cover are counted, and stay in both reports.
    """

    suspect: tuple[str, ...] = Field(description="ids of the questions left out of `without`")
    unchecked: int = Field(description="questions whose text was not sought: in none of the files, or too short")
    all: RunReport
    without: RunReport | None = Field(description="null where no question is left")


def suspect_report(
    answers: Sequence[Answered], screening: Screening | None, store: CorpusStore, expected: int | None = None
) -> SuspectReport:
    """Report on one system twice.

    Parameters
    ----------
    answers, expected : as for :func:`~medvrag_core.evaluation.report.run_report`
    screening, store : what the corpus was checked against, and the corpus

    Raises
    ------
    NotBuiltError : the corpus was checked against no question
    """
    if screening is None or not (screening.sought or screening.too_short):
        raise NotBuiltError(
            f"{store.folder}: its pages were checked against no question",
            way_out="build it again with --set 'corpus.exclusion.questions=[questions.jsonl]'",
        )
    there = {page.page_id for page in store.pages}
    hit = {found.text for found in screening.hits if found.page_id in there}
    sought = {*screening.sought}
    digests = [text_digest(answered.question.question) for answered in answers]
    rest = [answered for answered, digest in zip(answers, digests, strict=True) if digest not in hit]
    gone = len(answers) - len(rest)
    return SuspectReport(
        suspect=tuple(answered.question.id for answered, digest in zip(answers, digests, strict=True) if digest in hit),
        unchecked=sum(digest not in sought for digest in digests),
        all=run_report(answers, expected),
        without=run_report(rest, None if expected is None else expected - gone) if rest else None,
    )
