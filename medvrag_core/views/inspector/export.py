"""Cases as files beside a page that is opened from the disk: scripts that are loaded on demand, and images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from medvrag_core.records import Record
from medvrag_core.runs.publish import whole_folder
from medvrag_core.views.inspector.source import CATALOG, CaseSource, case_address, fetch, rows_address

REPORT = "report.json"
"""File of an export that says what was written."""
DATA = "medvragInspectorData"
"""The function of the page that a data file hands its text to."""


class ExportReport(Record):
    """What was written; ``bytes`` of all files together, ``largest`` of the largest.

    ``restricted`` counts pages that a published book may not show: an export for a reader's own eyes has them.
    """

    arms: int
    cases: int
    pages: int
    restricted: int
    files: int
    bytes: int
    largest: int

    @property
    def told(self) -> str:
        """As a sentence."""
        return (
            f"Written: {self.cases:,} cases of {self.arms} arms and {self.pages:,} pages, {self.files:,} files of "
            f"{self.bytes / 1e6:.1f} MB together; the largest has {self.largest / 1e3:.0f} kB. A browser loads what is "
            "looked at."
        )


def export_cases(source: CaseSource, folder: Path) -> ExportReport:
    """Write everything that the inspector can ask a source for, in place of what ``folder`` held.

    A browser refuses to fetch from ``file://`` but loads scripts from there. So a record becomes a script that hands
    over its JSON as a string, which is parsed and never run.

    Raises
    ------
    MedvragError : a trace, a page or a call store is damaged; then nothing changes
    """
    catalog = source.catalog()
    cases, pages, restricted = 0, set(), set()
    with whole_folder(folder) as target:
        _write(target, source, CATALOG)
        wanted: set[str] = set()
        for arm, entry in enumerate(catalog.arms):
            _write(target, source, rows_address(arm))
            for number in range(entry.cases):
                case = source.case(arm, number)
                _write_record(target, case_address(arm, number), case)
                wanted.update(filter(None, (*case.maps, case.filters)))
                for card in case.cards:
                    wanted.update(filter(None, (card.thumbnail, card.image, card.sheet)))
                    pages.add(card.image)
                    restricted.update([card.image] if card.restricted else [])
                cases += 1
        for address in sorted(wanted):
            _write(target, source, address)
        sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
        report = ExportReport(
            arms=len(catalog.arms),
            cases=cases,
            pages=len(pages - {""}),
            restricted=len(restricted),
            files=len(sizes),
            bytes=sum(sizes),
            largest=max(sizes),
        )
        (target / REPORT).write_text(report.to_json(), encoding="utf-8")
    return report


def evenly(ids: Sequence[str], most: int, *, keep: Sequence[str] = ()) -> list[str]:
    """At most ``most`` of the ids (0: all), evenly over their order, whatever became of them, and those to keep.

    >>> evenly(["a", "b", "c", "d"], 2, keep=["d"])
    ['a', 'c', 'd']
    """
    ordered = sorted(ids)
    if not 0 < most < len(ordered):
        return ordered
    chosen = {ordered[place * len(ordered) // most] for place in range(most)}
    return [one for one in ordered if one in chosen or one in keep]


def _write(folder: Path, source: CaseSource, address: str) -> None:
    found = fetch(source, address)
    if isinstance(found, bytes):
        path = folder / address
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(found)
    else:
        _write_record(folder, address, found)


def _write_record(folder: Path, address: str, record: Record) -> None:
    path = folder / f"{address}.js"
    path.parent.mkdir(exist_ok=True)
    # ASCII alone: a page that is read as another encoding shows the same text.
    path.write_text(f"{DATA}({json.dumps(record.to_json())});\n", encoding="ascii")
