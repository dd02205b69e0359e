"""The numbers of the book's page on benchmarks, computed anew from the real files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from medvrag_core.evaluation.benchmarks.faults import (
    MEANING,
    SUSPECT,
    QuestionFaults,
    check_questions,
    suspect_gold,
    without_faults,
)
from medvrag_core.evaluation.benchmarks.load import BENCHMARK_SETS, MAIN_SETS
from medvrag_core.records import Question


@pytest.fixture(scope="module")
def page() -> str:
    return (Path(__file__).resolve().parents[3] / "book" / "benchmarks.md").read_text(encoding="utf-8")


def rows(page: str, head: str) -> list[str]:
    """The lines of the table whose head begins so."""
    lines = page.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(head)) + 2
    return lines[start : lines.index("", start)]


def test_the_table_of_sets(page: str, found: QuestionFaults) -> None:
    assert rows(page, "| set |") == [
        f"| `{f.dataset}` | {f.questions:,} | {', '.join(f.option_kinds)} "
        f"| {', '.join(f'{label} {count:,}' for label, count in f.gold.items())} | {f.always_one_label:.1%} |"
        for f in found.sets
    ]


def test_the_table_of_faults(page: str, found: QuestionFaults) -> None:
    count = Counter((fault.kind, *fault.datasets) for fault in found.faults)
    kinds = [kind for kind in MEANING if found.of(kind)]
    assert rows(page, "| fault |") == [
        f"| `{kind}`: {MEANING[kind]} | {' | '.join(str(count[kind, name]) for name in BENCHMARK_SETS)} |"
        for kind in kinds
    ]
    across = [fault for fault in found.faults if fault.across_sets]
    assert [(fault.kind, fault.datasets, fault.detail) for fault in across] == [
        ("same_words", ("medmcqa", "mmlu"), "Which of the following is true?")
    ]
    assert "*Which of the following is true?*) is shared by `medmcqa` and `mmlu`" in page


def test_the_table_of_doubtful_gold(page: str, asked: list[Question], found: QuestionFaults) -> None:
    expected = [
        f"| `{name}` | {fault.detail.replace('|', chr(92) + '|')} |"
        for fault in found.of(*SUSPECT)
        for name in fault.ids
    ]
    assert sorted(rows(page, "| question |")) == sorted(expected)
    assert len(expected) == len(suspect_gold(asked)) == 6 and "Six gold answers of MedMCQA" in page


def test_the_sentences(page: str, asked: list[Question], found: QuestionFaults) -> None:
    twice = [fault for fault in found.of("repeated_question") if fault.datasets == ("mmlu",)]
    assert {tuple(name.partition("-")[0] for name in fault.ids) for fault in twice} == {
        ("clinical_knowledge", "college_medicine")
    }
    mmlu = sum(question.dataset == "mmlu" for question in asked)
    assert f"MMLU counts {len(twice)} questions twice" in page
    assert f"1,089 questions are {mmlu - len(twice):,} different ones" in page
    main = [question for question in asked if question.dataset in MAIN_SETS]
    kept = without_faults(main, check_questions(main))
    assert f"{len(kept):,} of the {len(main):,}" in page
