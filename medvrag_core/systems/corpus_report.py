"""The ledger of a corpus in numbers, whether it lies by itself or in a run, and what an index over it left out."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.corpus.ledger_report import LedgerReport, ledger_report
from medvrag_core.corpus.ledger_table import NAME, LedgerRow, ledger_rows, read_ledger_table
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import NotBuiltError
from medvrag_core.index.manifest import read_manifest
from medvrag_core.runs.workspace import Workspace


def report_of(place: Path) -> LedgerReport:
    """Counts for a corpus folder or a run; of a run with a finished index also the pages in it.

    Raises
    ------
    NotBuiltError : neither is there
    InputError : the ledger is damaged
    """
    workspace = Workspace(place)
    in_run = not (place / NAME).is_file() and workspace.corpus.is_dir()
    report = ledger_report(rows_of(workspace.corpus if in_run else place))
    if not (in_run and (workspace.index / "manifest.json").is_file()):
        return report
    index = read_manifest(workspace.index)
    if not index.finished:
        return report
    return report.model_copy(update={"pages_indexed": index.pages, "near_duplicates": len(index.left_out)})


def rows_of(folder: Path) -> list[LedgerRow]:
    """The ledger of a corpus; made from what it holds where it is older than the table."""
    if (folder / NAME).is_file():
        return read_ledger_table(folder)
    if not (folder / "ledger.jsonl").is_file():
        raise NotBuiltError(f"{folder}: no corpus and no run with one", way_out="build it with `medvrag corpus build`")
    store = CorpusStore.open(folder)
    return ledger_rows(store.articles, store.pages, store.ledger)
