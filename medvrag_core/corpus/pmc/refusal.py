"""Why an article does not become part of a corpus; every refusal ends as an entry of the ledger."""

from __future__ import annotations

from medvrag_core.records import LedgerEntry
from medvrag_core.records.corpus import LedgerState


class RefusedError(Exception):
    """An article, or an id, that is left out: ``reason`` is the ledger's short code, ``detail`` says it in words."""

    def __init__(self, reason: str, detail: str, *, state: LedgerState = "dropped") -> None:
        super().__init__(detail)
        self.reason, self.detail, self.state = reason, detail, state

    def entry(self, file: str) -> LedgerEntry:
        """The entry of the ledger, under the name that the article or id has there."""
        return LedgerEntry(file=file, state=self.state, reason=self.reason, detail=self.detail)
