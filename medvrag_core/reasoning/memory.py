"""The JSON memory bank that carries findings from round to round (paper section 3.5)."""

from __future__ import annotations

import re

from medvrag_core.records import MemoryBank

MAX_FINDINGS = 60
MAX_CHARACTERS = 400

_PREFIX = re.compile(r"^\s*(?:\[round\s+\d+\]\s*)+", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def remember(bank: MemoryBank, round_number: int, findings: tuple[str, ...], note: str) -> MemoryBank:
    """Append one round's notes; what is already in the bank never changes.

    A finding that repeats an earlier one (whatever its case, spacing or round) is not added twice. A
    ``[Round k]`` that a reader wrote itself is replaced, so provenance cannot be forged.

    >>> bank = remember(MemoryBank(), 1, ("Dose is weight based",), "dosing found")
    >>> remember(bank, 2, ("[Round 9] dose is  weight based", "Screen yearly"), "").key_findings
    ('[Round 1] Dose is weight based', '[Round 2] Screen yearly')
    """
    known = {_folded(finding) for finding in bank.key_findings}
    added = list(bank.key_findings)
    for finding in findings:
        text = _SPACE.sub(" ", _PREFIX.sub("", finding)).strip()[:MAX_CHARACTERS]
        if text and _folded(text) not in known and len(added) < MAX_FINDINGS:
            known.add(_folded(text))
            added.append(f"[Round {round_number}] {text}")
    return MemoryBank(
        iteration=bank.iteration + 1,
        key_findings=tuple(added),
        reasoning_history=(*bank.reasoning_history, _SPACE.sub(" ", note).strip()),
    )


def _folded(finding: str) -> str:
    return _SPACE.sub(" ", _PREFIX.sub("", finding)).strip().casefold()
