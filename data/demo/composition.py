"""What the corpus is made of, counted: the table of the datasheet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from typeset.markup import lift_notes
from typeset.parse import Paragraph, Source, TableBlock
from typeset.questions import QuestionSource

from medvrag_core.records import Record


class Contents(Record):
    """What one article holds."""

    form: str
    paper: str
    columns: int
    scanned: bool
    words: int
    footnotes: int
    references: int
    tables: int
    turned: int
    breaking: int
    figures: tuple[str, ...]
    raster: int


def contents_of(source: Source) -> Contents:
    """Count what an article holds; ``words`` are those of its running text."""
    prose = [block for block in source.blocks if isinstance(block, Paragraph)]
    tables = [block for block in source.blocks if isinstance(block, TableBlock)]
    figures = [block for block in source.blocks if not isinstance(block, Paragraph | TableBlock)]
    return Contents(
        form=source.head.form,
        paper=source.head.paper,
        columns=source.head.columns,
        scanned=source.head.scanned,
        words=sum(len(block.text.split()) for block in prose),
        footnotes=sum(len(lift_notes(block.text, 1)[1]) for block in prose),
        references=len(source.head.references),
        tables=len(tables),
        turned=sum(table.rotate for table in tables),
        breaking=sum(table.breaks for table in tables),
        figures=tuple(figure.kind for figure in figures),
        raster=sum(figure.raster for figure in figures),
    )


def composition(articles: Sequence[tuple[int, Contents]], questions: Sequence[QuestionSource]) -> str:
    """A Markdown table of the corpus; ``articles`` are pairs of pages and contents."""
    held = [contents for _, contents in articles]
    scans = [pages for pages, contents in articles if contents.scanned]
    asked = [question for question in questions if not question.unanswerable]
    several = [question for question in asked if (question.hops or 0) > 1]
    chained = [question for question in several if len({gold.partition("#")[0] for gold in question.gold}) > 1]
    rows = {
        "articles": str(len(articles)),
        "pages": f"{sum(pages for pages, _ in articles)}, of which {sum(scans)} in {len(scans)} articles are scans",
        "words of running text": f"about {round(sum(contents.words for contents in held), -3):,}",
        "forms": _counts(contents.form for contents in held),
        "paper": _counts(contents.paper for contents in held),
        "columns": _counts(f"{contents.columns}" for contents in held),
        "tables": f"{_sum(held, 'tables')}, of which {_sum(held, 'turned')} turned and {_sum(held, 'breaking')} that "
        "may break over pages",
        "figures": f"{sum(len(contents.figures) for contents in held)}, of which {_sum(held, 'raster')} only as images",
        "kinds of figure": _counts(kind for contents in held for kind in contents.figures),
        "footnotes, references": f"{_sum(held, 'footnotes')}, {_sum(held, 'references')}",
        "questions with an answer": str(len(asked)),
        "questions without one": _share(len(questions) - len(asked), len(questions)),
        "need two or more pages": _share(len(several), len(questions)),
        "need pages of two articles": _share(len(chained), len(questions)),
        "with a tempting wrong page": _share(sum(bool(question.tempting) for question in asked), len(questions))
        + ", those without an answer not counted",
        "evidence": _counts(question.evidence or "" for question in asked),
        "difficulty": _counts(question.difficulty or "not said" for question in questions),
        "split": _counts(question.split or "dev" for question in questions),
        "right answers": _counts(question.answer for question in asked),
    }
    lines = ["| what | how many |", "| --- | --- |", *(f"| {what} | {number} |" for what, number in rows.items())]
    return "\n".join(lines) + "\n"


def _counts(values: Iterable[str]) -> str:
    return ", ".join(f"{value} {count}" for value, count in sorted(Counter(values).items()))


def _sum(held: Sequence[Contents], name: str) -> int:
    return sum(int(getattr(contents, name)) for contents in held)


def _share(count: int, of: int) -> str:
    return f"{count} ({count / of:.0%} of all)" if of else "0"
