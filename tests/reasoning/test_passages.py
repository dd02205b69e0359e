"""Passages of page text, table rows with their heads, and support of options."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.reasoning.passages import bank_passages, evidence_passages, split_text, tokenize
from medvrag_core.reasoning.support import PassageIndex, best_passages, option_support
from medvrag_core.reasoning.table_rows import with_heads
from medvrag_core.records import (
    EvidenceItem,
    MemoryBank,
    Question,
    ReaderInput,
    Summary,
)

TABLE = [
    ["Drug", "Dose", "Screening"],
    ["Hydroxychloroquine", "5 mg/kg", "annual"],
    ["Amiodarone", "200 mg", "6-monthly"],
]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("4·88", "4.88"),
        ("5,3%", "5.3 %"),
        ("189 816 patients", "189,816 patient"),
        ("fifteen", "15"),
        ("IL-6", "il 6"),
        ("diseases", "disease"),
        ("reduced", "reducing"),
        ("Ribeirão", "RIBEIRAO"),
        ("eﬃcacy", "efficacy"),
    ],
)
def test_tokens_agree_across_spellings(one: str, other: str) -> None:
    assert tokenize(one) == tokenize(other)


@pytest.mark.parametrize(("one", "other"), [("8", "8.0"), ("0.26", "0.62"), ("10 mg", "10 g"), ("1.5", "15")])
def test_numbers_and_units_are_exact(one: str, other: str) -> None:
    assert tokenize(one) != tokenize(other)


@given(st.text(max_size=400))
def test_any_text_splits_and_order_counts_up(text: str) -> None:
    found = split_text(text, "P#p1")
    assert [p.order for p in found] == list(range(len(found)))
    assert all(p.tokens and p.text and "\n" not in p.text for p in found)


def test_sentences_captions_rows_and_references_are_told_apart() -> None:
    text = (
        "Retinal toxicity is rare. Fig. 2 shows it, e.g. after 5 years.\n\n"
        "Table 1. Doses and monitoring.\n\nDrug | Dose\nHydroxychloroquine | 5 mg/kg\n\n"
        "12. Smith J, Doe A. Retinopathy. Lancet 2004;19(1):3-14."
    )
    kinds = [(p.kind, p.text.split()[0], p.context) for p in split_text(text, "P#p1")]
    assert kinds[0] == ("sentence", "Retinal", "")
    assert kinds[1] == ("sentence", "Fig.", "")
    assert ("row", "Hydroxychloroquine", "Table 1. Doses and monitoring.") in kinds
    assert kinds[-1][0] == "reference"


def test_a_column_named_references_is_no_list_of_references() -> None:
    assert all(p.kind != "reference" for p in split_text("Plant\nSolvent\nYield\nReferences\nTulsi\nWater", "P#p1"))


def test_hyphenated_lines_and_control_characters() -> None:
    (passage,) = split_text("The dif-\nference was\x15 large.", "P#p1")
    assert passage.text == "The difference was large."


def test_heads_stand_before_their_cells() -> None:
    assert with_heads(TABLE)[1] == "Hydroxychloroquine Dose 5 mg/kg Screening annual"
    spanning = [["Region", "Tea", "Coffee"], ["", "n", "RR", "n", "RR"], ["Asia", "2", "0.64", "3", "0.22"]]
    assert with_heads(spanning)[2] == "Asia Tea n 2 Tea RR 0.64 Coffee n 3 Coffee RR 0.22"


@given(st.lists(st.lists(st.text(alphabet="ab1 ", max_size=4), min_size=1, max_size=5), max_size=6))
def test_every_cell_of_any_table_survives(rows: list[list[str]]) -> None:
    read = with_heads(rows)
    assert len(read) == len(rows)
    for row, line in zip(rows, read, strict=True):
        assert all(cell in line for cell in row)


def test_a_table_row_keeps_the_caption_above_and_the_heads_of_its_columns() -> None:
    text = "\n\n".join(["Table 1. Doses.", "\n".join(" | ".join(row) for row in TABLE), "After the table."])
    row = next(p for p in split_text(text, "P#p1") if p.text.startswith("Amiodarone"))
    assert row.context == "Table 1. Doses."
    assert list(row.tokens) == tokenize("Amiodarone Dose 200 mg Screening 6-monthly")


def test_all_that_a_round_shows_is_used_once() -> None:
    given_ = ReaderInput(
        question=Question(id="q", question="x", options={"A": "a"}),
        round=2,
        must_answer=False,
        evidence=(EvidenceItem(evidence_id="P1#p1", page_id="P1#p1", text="Page text."),),
        summaries=(
            Summary(page_id="P1#p1", text="Summary of a page shown.", method="m"),
            Summary(page_id="P2#p1", text="Summary of another.", method="m"),
        ),
        bank=MemoryBank(iteration=1, key_findings=("[Round 1] Old fact (page P3#p2)", "[Round 1] No page")),
    )
    found = [(p.kind, p.page_id, p.text) for p in evidence_passages(given_)]
    assert found == [
        ("sentence", "P1#p1", "Page text."),
        ("summary", "P2#p1", "Summary of another."),
        ("finding", "P3#p2", "Old fact"),
        ("finding", "memory bank", "No page"),
    ]
    assert bank_passages(MemoryBank()) == []


def test_support_follows_what_stands_beside_the_option() -> None:
    text = "Prevalence was 4.52% in rural regions. In urban regions it was 3.01%. Cost was 5.89%."
    options = {"A": "5.89%", "B": "3.01%", "C": "4.52%", "D": "7%"}
    support = option_support(
        PassageIndex(split_text(text, "P#p1")), "What was the prevalence in rural regions?", options
    )
    assert max(support, key=lambda label: support[label].score) == "C"
    assert (support["D"].score, support["D"].passage) == (0.0, None)


@given(st.integers(0, 600))
def test_best_passages_keep_to_their_budget(budget: int) -> None:
    text = "\n\n".join(f"The dose of drug {n} was {n} mg in the trial." for n in range(2, 30))
    index = PassageIndex(split_text(text, "P#p1"))
    chosen = best_passages(index, "What was the dose of drug 7?", {"A": "7 mg", "B": "8 mg"}, budget)
    assert sum(len(p.text) for p in chosen) <= budget
    if budget > 100:
        assert chosen[0].text.startswith("The dose of drug 7")


def test_real_pages_split_quickly(shared_data: Path) -> None:
    import pymupdf

    with pymupdf.open(shared_data / "articles" / "pdf" / "PMC6419842.pdf") as document:
        passages = split_text(document[5].get_text(), "PMC6419842#p6")
    asia = next(p for p in passages if p.text.startswith("Asia"))
    assert "0.217" in asia.tokens
    assert asia.context.startswith("Table 2")
