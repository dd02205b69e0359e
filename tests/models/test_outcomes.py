from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from medvrag_core.models.outcomes import FINAL, PASSING, STOPPING
from medvrag_core.records import CallOutcome
from medvrag_core.settings import CallSettings

PAGE = Path(__file__).resolve().parents[2] / "book" / "model_calls.md"


def test_every_way_to_end_has_at_most_one_consequence_and_stands_in_the_book() -> None:
    known = set(get_args(CallOutcome))
    assert known >= FINAL | PASSING | STOPPING
    assert len(FINAL) + len(PASSING) + len(STOPPING) == len(FINAL | PASSING | STOPPING)
    table = PAGE.read_text(encoding="utf-8").partition("| state |")[2].partition("\n\n")[0]
    told = {
        name
        for row in table.splitlines()
        for name in re.findall(r"`([a-z_]+)`", row.split("|")[1] if "|" in row else "")
    }
    assert told == known


def test_the_book_names_every_policy() -> None:
    policies = get_args(CallSettings.model_fields["policy"].annotation)
    assert all(f"| `{policy}` |" in PAGE.read_text(encoding="utf-8") for policy in policies)
