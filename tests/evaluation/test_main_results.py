"""The list of the main results: every system is there, runs everywhere, and is told of in README and chapter 09."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.main_results import (
    MAIN_RESULTS,
    REFERENCE,
    compositions,
    find_compared,
    names_of,
    over_reference,
    with_documents,
)
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import EvidenceItem, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.arm_lines import shipped_arms
from medvrag_core.systems.base import catalog
from medvrag_core.systems.resources import Resources

REPO = Path(__file__).resolve().parents[2]
NAMES = [compared.system for compared in MAIN_RESULTS]
ELSEWHERE = {"text_iterative"}
"""Bases that another chapter is about."""


def test_every_base_has_its_row_and_every_row_runs_without_weights(embedded_systems: list[str]) -> None:
    here = {name for name, entry in catalog().items() if entry.make.__module__.startswith("medvrag_core.")}
    assert here - shipped_arms().keys() - ELSEWHERE <= set(NAMES)
    assert set(NAMES) <= set(embedded_systems)
    assert len(set(NAMES)) == len(NAMES)


def test_systems_are_found_by_name_in_the_order_of_the_list() -> None:
    assert find_compared() == MAIN_RESULTS
    assert [c.system for c in find_compared("page_single, no_rag")] == ["no_rag", "page_single", REFERENCE]
    assert [c.system for c in find_compared(leave_out="no_rag,medvrag")] == [n for n in NAMES if n != "no_rag"]
    with pytest.raises(InputError, match=r"'nothing' is not in the main results.*no_rag, text_rag"):
        find_compared("nothing")
    with pytest.raises(InputError, match="'nothing'"):
        find_compared(leave_out="nothing")


def test_the_reference_comes_first_and_is_compared_with_nothing() -> None:
    names = names_of(MAIN_RESULTS)
    assert names[0] == REFERENCE and sorted(names) == sorted(NAMES)
    pairs = over_reference(names)
    assert [b for _, b in pairs.values()] == names[1:]
    assert {a for a, _ in pairs.values()} == {REFERENCE}


def test_each_tells_its_own_stages(made_run: Workspace) -> None:
    resources = Resources(made_run, load_profile("test"))
    told = compositions(resources, names_of(MAIN_RESULTS))
    assert list(told) == names_of(MAIN_RESULTS)
    assert told["no_rag"] == "PresentNothing > Read, 1 round at most"
    assert told["medvrag"] == "Retrieve > Filter > Present > Read, 3 rounds at most"
    resources.close()


def test_an_example_has_a_written_document_where_there_is_one(make_trace: Callable[..., Trace]) -> None:
    plain, last = (make_trace(id, rounds=[((), (), ("a#p1",))]) for id in ("q1", "q3"))
    item = EvidenceItem(evidence_id="w", page_id="w", text="t", written_by="m")
    written = plain.model_copy(
        update={"rounds": (*plain.rounds, plain.rounds[0].model_copy(update={"written": (item,)}))}
    )
    assert with_documents(iter([plain, written, last])) is written
    assert with_documents([plain, last]) is plain
    with pytest.raises(InputError, match="no trace to show"):
        with_documents([])


def test_the_table_of_the_readme_is_this_list() -> None:
    text = (REPO / "README.md").read_text(encoding="utf-8")
    table = re.search(r"^\| system \| what it is \|.*?(?=\n\n)", text, flags=re.MULTILINE | re.DOTALL)
    assert table is not None
    assert re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.group().splitlines())) == NAMES
