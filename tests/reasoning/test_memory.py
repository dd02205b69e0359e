from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.reasoning.memory import MAX_FINDINGS, remember
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


def test_a_reader_cannot_forge_the_round_of_a_finding() -> None:
    bank = remember(MemoryBank(), 2, ("[Round 1] [round 7] dose is 5 mg/kg",), "")
    assert bank.key_findings == ("[Round 2] dose is 5 mg/kg",)


def test_the_bank_is_the_json_object_of_the_paper() -> None:
    bank = remember(MemoryBank(), 1, ("a",), "note")
    assert bank.to_json() == '{"iteration":1,"key_findings":["[Round 1] a"],"reasoning_history":["note"]}'
    assert MemoryBank.from_json(bank.to_json()) == bank
