"""The noise of a run: how many answers change when the same arm answers the same questions again (A/A)."""

from __future__ import annotations

from collections.abc import Iterable

from medvrag_core.errors import MismatchError
from medvrag_core.evaluation.outcomes import read_asked_endings
from medvrag_core.evaluation.statistics.estimands import arm_of
from medvrag_core.evaluation.statistics.power import FlipRate, flip_rate
from medvrag_core.runs.workspace import Workspace, open_run


def flips_against(run: Workspace, again_run_id: str, systems: Iterable[str]) -> list[FlipRate]:
    """Flip rate of every arm between ``run`` and ``runs/<again_run_id>``; none where no second run is named.

    Raises
    ------
    MismatchError : an arm was not run under the same settings, so that a flip would not be noise
    InputError, NotBuiltError : the second run has no answers of an arm, or to other questions
    """
    if not again_run_id:
        return []
    again = open_run(again_run_id)
    rates = []
    for system in systems:
        both = [read_asked_endings(place, system, made_by="that arm there too")[0] for place in (run, again)]
        arm = arm_of(both)
        if len(set(arm.fingerprints)) > 1:
            raise MismatchError(
                f"'{system}' ran under other settings in '{again_run_id}' than in '{run.root.name}'",
                way_out="answer again with the same profile and corpus",
            )
        rates.append(flip_rate(arm))
    return rates
