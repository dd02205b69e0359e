"""Does an answer rest on the pages that it cites? The same questions again, without those pages.

An answer can cite a page that it did not need. If it rests on the cited pages, leaving them out changes it more often
than leaving out as many pages that were sent and not cited: any change of the pages may change an answer, so the
control says how much of it is change as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scoring import require_one_arm
from medvrag_core.evaluation.statistics.contrasts import Effect, Rules, contrast_family
from medvrag_core.evaluation.statistics.estimands import Arm, arm_of, one_set
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.records import Record, Trace
from medvrag_core.systems.precedent import precedent_of

FLIPS, TO_WRONG = "another answer", "right to wrong"


class RemovalRow(Record):
    """What became of the answers when some pages were left out."""

    arm: str
    flipped: Share = Field(description="questions that get another answer than before, or none")
    unanswered: int = Field(description="of these, questions without an answer now")
    to_wrong: Share = Field(description="answers that were right and are wrong now, of those that were right")
    to_right: Share = Field(description="answers that were wrong and are right now, of those that were wrong")


class RemovalReport(Record):
    """Cited pages left out, against as many uncited ones, on the questions where both can be done."""

    reference: str = Field(description="the system whose answers are put to the test")
    profile: str
    n: int = Field(description="questions compared")
    left_out: dict[str, int] = Field(description="questions that cannot be compared, by reason")
    rows: tuple[RemovalRow, ...] = Field(description="cited pages left out, then the control; empty where n is 0")
    effects: tuple[Effect, ...] = Field(
        description="cited minus uncited, paired: share of flips over all, of right to wrong over answers that were "
        "right; the second is missing where none was right. Exact McNemar, adjusted for one another by Holm"
    )


def removal_report(
    reference: Sequence[Trace], cited: Sequence[Trace], uncited: Sequence[Trace], rules: Rules | None = None
) -> RemovalReport:
    """Compare answers with and without the pages that they cited.

    Parameters
    ----------
    reference : answers of the system itself
    cited, uncited : its answers without the cited pages, and without as many uncited ones (arms ``cited_removed`` and
        ``uncited_removed``), both to all of these questions
    rules : level of the intervals, resamples and seed

    Raises
    ------
    InputError : an arm lacks one of the questions that can be compared
    """
    chosen, left_out = _comparable(reference)
    told = {"reference": reference[0].system, "profile": reference[0].profile, "n": len(chosen), "left_out": left_out}
    if not chosen:
        return RemovalReport(**told, rows=(), effects=())
    asked = [_asked(traces, chosen) for traces in (reference, cited, uncited)]
    before, without, control = (arm_of([traces], one_set) for traces in asked)
    right = before.right[0]
    arms = {FLIPS: (_flips(control, before), _flips(without, before))}
    if right.any():
        arms[TO_WRONG] = (_wrongs(control.only(right)), _wrongs(without.only(right)))
    effects = contrast_family(
        {f"{name}, {arm.name}": arm for name, pair in arms.items() for arm in pair},
        {name: (f"{name}, {a.name}", f"{name}, {b.name}") for name, (a, b) in arms.items()},
        rules,
        family="cited pages left out",
    )
    confidence = 1 - (rules or Rules()).alpha
    return RemovalReport(
        **told,
        rows=(_row(without, before, asked[1], confidence), _row(control, before, asked[2], confidence)),
        # One set of all questions: its test is the exact one.
        effects=tuple(found.sets[0].model_copy(update={"name": name}) for name, found in effects.items()),
    )


def _comparable(reference: Sequence[Trace]) -> tuple[frozenset[str], dict[str, int]]:
    """Questions whose answer cites pages, with as many pages uncited; and how many are not, by reason."""
    require_one_arm(reference)
    chosen: set[str] = set()
    reasons: Counter[str] = Counter()
    for trace in reference:
        known = precedent_of(trace)
        gone, kept = len(known.cited), len(known.sent - known.cited)
        if trace.outcome != "answered":
            reasons["no answer"] += 1
        elif not gone:
            reasons["no page cited"] += 1
        elif kept < gone:
            reasons["fewer pages uncited than cited"] += 1
        else:
            chosen.add(trace.question.id)
    return frozenset(chosen), dict(sorted(reasons.items()))


def _asked(traces: Sequence[Trace], chosen: frozenset[str]) -> list[Trace]:
    """The traces of the chosen questions; InputError when one is missing."""
    mine = [t for t in traces if t.question.id in chosen]
    missing = sorted(chosen - {t.question.id for t in mine})
    if missing:
        name = f"arm '{traces[0].system}'" if traces else "an arm without traces"
        raise InputError(
            f"{name} has not answered question '{missing[0]}' ({len(missing)} missing)",
            way_out="answer the same questions with all three arms",
        )
    return mine


def _flips(arm: Arm, before: Arm) -> Arm:
    """The arm with "gives another answer than before" in the place of "right"."""
    return replace(arm, right=arm.labels != before.labels)


def _wrongs(arm: Arm) -> Arm:
    return replace(arm, right=~arm.right)


def _row(arm: Arm, before: Arm, traces: Sequence[Trace], confidence: float) -> RemovalRow:
    flipped, was, now = (arm.labels != before.labels)[0], before.right[0], arm.right[0]

    def share(count: NDArray[np.bool_], of: NDArray[np.bool_]) -> Share:
        return share_of(int((count & of).sum()), int(of.sum()), confidence=confidence)

    return RemovalRow(
        arm=arm.name,
        flipped=share(flipped, np.ones_like(was)),
        unanswered=sum(t.outcome != "answered" for t in traces),
        to_wrong=share(~now, was),
        to_right=share(now, ~was),
    )
