"""A corpus checked against benchmarks: without their source articles, and with word of the pages that quote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from medvrag_core.corpus.contamination import QuestionHit, find_questions, is_sought, text_digest
from medvrag_core.corpus.exclusion import excluded_articles, listed_ids, source_ids
from medvrag_core.corpus.job import StoredPage
from medvrag_core.corpus.known_questions import read_known_questions
from medvrag_core.errors import MismatchError
from medvrag_core.records import Article, LedgerEntry, Record
from medvrag_core.runs.publish import write_text
from medvrag_core.settings import ExclusionSettings

_NAME = "screening.json"


class Screening(Record):
    """What a corpus was checked against, and what was found.

    Attributes
    ----------
    settings : in force
    sought : digests of the questions whose text was sought, see :func:`~.contamination.text_digest`, sorted
    too_short : questions that say too little to be sought
    excluded : article id to why it was left out
    hits : question text in pages, also in those that were left out for it
    """

    settings: ExclusionSettings
    sought: tuple[str, ...] = ()
    too_short: int = 0
    excluded: dict[str, str] = Field({})
    hits: tuple[QuestionHit, ...] = Field((), description="in the order of the pages")


def screen_pages(
    articles: Sequence[Article], pages: Iterable[StoredPage], settings: ExclusionSettings
) -> tuple[list[LedgerEntry], Screening]:
    """Entries of a corpus's ledger for what was found, and the record of it; pages told as dropped have to leave it.

    ``pages`` are gone through more than once, and not at all where nothing is asked for.

    Raises
    ------
    InputError : a file that the settings name is unusable
    """
    if settings == ExclusionSettings():
        return [], Screening(settings=settings)
    files = {article.article_id: article.file for article in articles}
    questions = [question for name in settings.questions for question in read_known_questions(Path(name))]
    ids = listed_ids([Path(name) for name in settings.ids])
    # What a list names is told by the list; a question is named where no list does.
    excluded = excluded_articles(articles, source_ids(questions) | ids)
    entries = [_excluded(files[article_id], "", why) for article_id, why in sorted(excluded.items())]
    entries += [
        _excluded(files[page.page.article_id], page.page.page_id, excluded[page.page.article_id])
        for page in pages
        if page.page.article_id in excluded
    ]
    stay = (page.page for page in pages if page.page.article_id not in excluded)
    hits = tuple(find_questions(stay, questions, settings.near))
    told = _told(hits)
    gone = told.keys() if settings.suspect_pages == "leave_out" else set()
    entries += [
        LedgerEntry(
            file=files[page.page.article_id],
            page_id=page.page.page_id,
            state="dropped" if page.page.page_id in gone else "changed",
            reason="question_text",
            detail=told[page.page.page_id],
        )
        for page in pages
        if page.page.page_id in told
    ]
    sought = {text_digest(question.text) for question in questions if is_sought(question.text)}
    record = Screening(
        settings=settings,
        sought=tuple(sorted(sought)),
        too_short=sum(not is_sought(question.text) for question in questions),
        excluded=excluded,
        hits=hits,
    )
    return entries, record


def write_screening(folder: Path, screening: Screening) -> None:
    """Keep the record in the corpus, or remove an earlier one where nothing was asked for."""
    if screening.settings == ExclusionSettings():
        (folder / _NAME).unlink(missing_ok=True)
    else:
        write_text(folder / _NAME, screening.model_dump_json(indent=1) + "\n")


def read_screening(folder: Path) -> Screening | None:
    """The record of a corpus; None for one that was checked against nothing."""
    path = folder / _NAME
    return Screening.from_json(path.read_bytes(), source=str(path)) if path.is_file() else None


def require_screened(folder: Path, settings: ExclusionSettings) -> None:
    """Raises MismatchError for a finished corpus that was not checked as the settings ask; without any, all will do."""
    found = read_screening(folder)
    if settings != ExclusionSettings() and (found is None or found.settings != settings):
        raise MismatchError(
            f"{folder}: was not checked against `corpus.exclusion` as it is set now",
            way_out="build the corpus again with --source; finished articles are kept",
        )


def _excluded(file: str, page_id: str, why: str) -> LedgerEntry:
    return LedgerEntry(file=file, page_id=page_id, state="dropped", reason="benchmark_source", detail=why)


def _told(hits: Sequence[QuestionHit]) -> Mapping[str, str]:
    """What is said of each page: the questions, and how much of each it holds."""
    told: dict[str, str] = {}
    for hit in hits:
        how = "word for word" if hit.how == "verbatim" else f"{hit.share:.0%} of its runs of eight words"
        told[hit.page_id] = "; ".join(filter(None, (told.get(hit.page_id), f"question {hit.question}, {how}")))
    return told
