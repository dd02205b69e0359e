"""The ledger in numbers: how many files and pages each rule kept, dropped or quarantined, as a funnel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medvrag_core.corpus.ledger_table import LedgerRow
from medvrag_core.corpus.licences import parsed_licence, why_hidden
from medvrag_core.records import Record


class RuleCount(Record):
    """How often one rule was applied; ``level`` is ``file`` or ``page``."""

    level: str
    status: str
    reason: str
    count: int


class LicenceCount(Record):
    """Articles under one licence; ``hidden`` says why a published book may not show their pages, empty where it may."""

    licence: str
    use: str
    hidden: str
    articles: int


class FunnelStep(Record):
    """What is left at one step of a corpus; the unit changes from files to pages on the way."""

    name: str
    unit: str
    count: int


class LedgerReport(Record):
    """A ledger in numbers.

    Attributes
    ----------
    files : seen
    articles : files with pages in the corpus
    pages_seen, pages_kept : of all files
    pages_indexed : pages that an index over the corpus holds; None where there is none
    near_duplicates : pages that the index left out as near-duplicates
    rules : counts by level, status and reason, the most frequent first
    changes : kept files and pages with something to know about them, by what it is
    licences : the most frequent first
    """

    files: int
    articles: int
    pages_seen: int
    pages_kept: int
    pages_indexed: int | None = None
    near_duplicates: int = 0
    rules: tuple[RuleCount, ...]
    changes: dict[str, int]
    licences: tuple[LicenceCount, ...]

    @property
    def funnel(self) -> tuple[FunnelStep, ...]:
        """Files, articles, pages, kept pages, and where there is an index the pages in it."""
        steps = [
            FunnelStep(name="files seen", unit="files", count=self.files),
            FunnelStep(name="articles kept", unit="files", count=self.articles),
            FunnelStep(name="pages seen", unit="pages", count=self.pages_seen),
            FunnelStep(name="pages kept", unit="pages", count=self.pages_kept),
        ]
        if self.pages_indexed is not None:
            steps.append(FunnelStep(name="pages indexed", unit="pages", count=self.pages_indexed))
        return tuple(steps)


def ledger_report(rows: Sequence[LedgerRow]) -> LedgerReport:
    """Count the rows of a ledger."""
    files = [row for row in rows if row.page is None]
    pages = [row for row in rows if row.page is not None]
    rules = Counter(("file" if row.page is None else "page", row.status, row.reason) for row in rows)
    changes = Counter(change for row in rows for change in row.changes if row.status == "kept")
    licences = Counter(row.licence for row in files if row.status == "kept")
    return LedgerReport(
        files=len(files),
        articles=sum(row.status == "kept" for row in files),
        pages_seen=len(pages),
        pages_kept=sum(row.status == "kept" for row in pages),
        rules=tuple(
            RuleCount(level=level, status=status, reason=reason, count=count)
            for (level, status, reason), count in sorted(
                rules.items(), key=lambda rule: (rule[0][0], -rule[1], rule[0])
            )
        ),
        changes=dict(sorted(changes.items())),
        licences=tuple(
            LicenceCount(licence=label, use=of.use, hidden=why_hidden(of), articles=count)
            for label, count in sorted(licences.items(), key=lambda item: (-item[1], item[0]))
            for of in (parsed_licence(label),)
        ),
    )


def left_out(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """What is not in the corpus, each told once.

    A file whose pages are all left out for one reason is told with the words of its first page; a page has a row of its
    own where it says something else than its file.
    """
    files = {row.file: row for row in rows if row.page is None}
    words: dict[tuple[str, str], str] = {}
    for row in rows:
        if row.page is not None and row.status != "kept":
            words.setdefault((row.file, row.reason), row.detail)
    told = []
    for row in rows:
        if row.status == "kept" or (row.page is not None and files[row.file].reason == row.reason):
            continue
        detail = words.get((row.file, row.reason), row.detail)
        told.append(row.model_copy(update={"detail": detail}))
    return told
