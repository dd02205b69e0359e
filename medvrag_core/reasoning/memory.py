"""The JSON memory bank that carries findings from round to round (paper section 3.5)."""

from __future__ import annotations

import re

from medvrag_core.reasoning.sameness import folded
from medvrag_core.records import MemoryBank

MAX_FINDINGS = 60
MAX_CHARACTERS = 400

_PREFIX = re.compile(r"^\s*(?:\[round\s+\d+\]\s*)+", re.IGNORECASE)
_FORGED = re.compile(r"\[(?=\s*round\s+\d+\s*\])", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def remember(bank: MemoryBank, round_number: int, findings: tuple[str, ...], note: str) -> MemoryBank:
    """Append one round's notes; what is already in the bank never changes.

    A finding that repeats an earlier one (whatever its case, spacing, punctuation or round) is not added twice. A
    ``[Round k]`` that a reader wrote itself is taken off, or loses its bracket inside a text, so provenance cannot
    be forged.

    >>> bank = remember(MemoryBank(), 1, ("Dose is weight based",), "dosing found")
    >>> remember(bank, 2, ("[Round 9] dose is  weight based", "Screen yearly"), "").key_findings
    ('[Round 1] Dose is weight based', '[Round 2] Screen yearly')
    """
    added = [f"[Round {round_number}] {finding}" for finding in new_findings(bank, findings)]
    return MemoryBank(
        iteration=bank.iteration + 1,
        key_findings=(*bank.key_findings, *added)[:MAX_FINDINGS],
        reasoning_history=(*bank.reasoning_history, _plain(note)),
    )


def new_findings(bank: MemoryBank, findings: tuple[str, ...]) -> tuple[str, ...]:
    """The findings that the bank does not hold yet, without a round, in order and once each."""
    known = {_meaning(finding) for finding in bank.key_findings}
    found = []
    for finding in findings:
        text = _plain(finding)[:MAX_CHARACTERS]
        if text and _meaning(text) not in known:
            known.add(_meaning(text))
            found.append(text)
    return tuple(found)


def _plain(text: str) -> str:
    return _FORGED.sub("(", _SPACE.sub(" ", _PREFIX.sub("", text))).strip()


def _meaning(finding: str) -> str:
    text = _SPACE.sub(" ", _PREFIX.sub("", finding)).strip()
    # A finding of nothing but signs is compared as it stands.
    return folded(text) or text
