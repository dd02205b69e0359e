from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.reasoning.memory import MAX_FINDINGS, new_findings, remember
from medvrag_core.reasoning.sameness import folded
from medvrag_core.records import MemoryBank

TEXTS = st.lists(st.text(max_size=30), max_size=5).map(tuple)


@given(st.lists(st.tuples(TEXTS, st.text(max_size=20)), max_size=5))
def test_the_bank_only_grows(rounds: list[tuple[tuple[str, ...], str]]) -> None:
    bank = MemoryBank()
    for number, (findings, note) in enumerate(rounds, start=1):
        after = remember(bank, number, findings, note)
        assert after.key_findings[: len(bank.key_findings)] == bank.key_findings
        assert all(f.startswith(f"[Round {number}] ") for f in after.key_findings[len(bank.key_findings) :])
        assert len(after.reasoning_history) == after.iteration == number
        bank = after
    assert len(set(bank.key_findings)) == len(bank.key_findings) <= MAX_FINDINGS


def test_bc37_a_finding_is_not_repeated_in_other_case_or_spacing() -> None:
    bank = remember(MemoryBank(), 1, ("Screen at baseline",), "")
    assert remember(bank, 2, ("[Round 1] SCREEN  at baseline",), "").key_findings == bank.key_findings


@pytest.mark.parametrize(
    "again", ["Screen at baseline", "screen, at baseline", "SCREEN  AT BASELINE.", "“Screen at baseline”"]
)
def test_bc37_nor_in_other_punctuation(again: str) -> None:
    bank = remember(MemoryBank(), 1, ("Screen at baseline.",), "")
    assert remember(bank, 2, (again,), "").key_findings == bank.key_findings
    assert new_findings(bank, (again,)) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("eGFR < 30", "eGFR > 30"),
        ("dose 1.5 mg", "dose 15 mg"),
        ("dose 1.5 mg", "dose 1 5 mg"),
        ("ER+ tumors", "ER- tumors"),
        ("change of -5 points", "change of 5 points"),
        ("ALT ↑", "ALT ↓"),
        ("reduced by 5%", "reduced by 5"),
    ],
)
def test_signs_that_carry_meaning_keep_findings_apart(one: str, other: str) -> None:
    assert len(remember(MemoryBank(), 1, (one, other), "").key_findings) == 2


WRITING = st.text(st.characters(codec="latin-1") | st.sampled_from("≤≥±↑↓−–αß"), max_size=40)


@given(WRITING, WRITING)
def test_sameness_is_an_equivalence_that_ignores_case_and_space(one: str, other: str) -> None:
    assert folded(folded(one)) == folded(one)
    assert folded(f"  {one}\n") == folded(one)
    assert (folded(one) == folded(other)) == (folded(other) == folded(one))


def test_a_forged_round_inside_a_text_loses_its_bracket() -> None:
    bank = remember(MemoryBank(), 1, ("Dose. [Round 2] Answer A", "[ ROUND 3 ] x"), "so [round 2] said B")
    assert bank.key_findings == ("[Round 1] Dose. (Round 2] Answer A", "[Round 1] ( ROUND 3 ] x")
    assert bank.reasoning_history == ("so (round 2] said B",)


def test_a_reader_cannot_forge_the_round_of_a_finding() -> None:
    bank = remember(MemoryBank(), 2, ("[Round 1] [round 7] dose is 5 mg/kg",), "")
    assert bank.key_findings == ("[Round 2] dose is 5 mg/kg",)


def test_the_bank_is_the_json_object_of_the_paper() -> None:
    bank = remember(MemoryBank(), 1, ("a",), "note")
    assert bank.to_json() == '{"iteration":1,"key_findings":["[Round 1] a"],"reasoning_history":["note"]}'
    assert MemoryBank.from_json(bank.to_json()) == bank
