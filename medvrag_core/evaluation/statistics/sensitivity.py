"""Whether a finding stands under other readings of the same runs.

Five readings: each of the three scorers; only the questions that every run of every arm answered (unparsed replies left
out instead of wrong); and near-duplicate stems as one unit of resampling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import InputError
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.scorers.base import SCORERS, ScorerName
from medvrag_core.evaluation.statistics.contrasts import Contrast, Variant, contrast_family, require_arms, rules_of
from medvrag_core.evaluation.statistics.estimands import Arm, SetRule, arm_of, set_by_dataset
from medvrag_core.evaluation.statistics.near_duplicates import near_duplicates, stem_clusters
from medvrag_core.settings import EvaluationSettings

Runs = Sequence[Sequence[Answered]]
"""Answers of one arm, a list a run."""

Clusters = NDArray[np.intp]
Compare = Callable[[Mapping[str, Arm], Clusters | None], Sequence[Contrast]]
"""Contrasts of arms by name, always the same ones in the same order; the clusters of questions, if any."""


def with_variants(
    arms: Mapping[str, Runs],
    compare: Compare,
    *,
    set_of: SetRule = set_by_dataset,
    scorer: ScorerName = "strict",
) -> list[Contrast]:
    """The contrasts of ``compare`` under ``scorer``, each with its variants.

    ``answered`` goes by the strict scorer, and is left out where no question was answered by all.

    Raises
    ------
    InputError : what :func:`.estimands.arm_of` and ``compare`` raise; arms that ``compare``
        does not lay side by side answered other questions
    """
    read = {s: {name: arm_of(runs, set_of, scorer=s) for name, runs in arms.items()} for s in SCORERS}
    found = compare(read[scorer], None)
    made: dict[str, Sequence[Contrast]] = {s: found if s == scorer else compare(read[s], None) for s in SCORERS}
    ids, stems = _questions_of_all(arms)
    answered = _answered_by_all(arms, ids)
    if answered.any():
        made["answered"] = compare({name: arm.only(answered) for name, arm in read["strict"].items()}, None)
    clusters = near_duplicates(stems)
    counted = stem_clusters(clusters)
    made["clusters"] = compare(read[scorer], clusters) if counted.repeated else found
    return [
        whole.model_copy(
            update={
                "scorer": scorer,
                "stems": counted,
                "variants": tuple(
                    Variant(name=name, n=contrasts[place].n, estimates=contrasts[place].estimates)
                    for name, contrasts in made.items()
                ),
            }
        )
        for place, whole in enumerate(found)
    ]


def compare_in_full(
    arms: Mapping[str, Sequence[Answered]],
    pairs: Mapping[str, tuple[str, str]],
    settings: EvaluationSettings,
    *,
    family: str,
) -> list[Contrast]:
    """As :func:`~medvrag_core.evaluation.statistics.contrasts.compare_arms`, every contrast with its variants."""
    require_arms(pairs, arms)
    rules = rules_of(settings)

    def compare(made: Mapping[str, Arm], clusters: Clusters | None) -> list[Contrast]:
        return list(contrast_family(made, pairs, rules, family=family, clusters=clusters).values())

    return with_variants({name: [answers] for name, answers in arms.items()}, compare)


def _questions_of_all(arms: Mapping[str, Runs]) -> tuple[list[str], list[str]]:
    """Ids of the questions, sorted, and their stems."""
    first, *others = ({a.question.id: a.question.question for a in runs[0]} for runs in arms.values())
    odd = next((other.keys() ^ first.keys() for other in others if other.keys() != first.keys()), None)
    if odd:
        raise InputError(
            f"the arms answered different questions, for example '{min(odd)}'", way_out="leave out arms of other files"
        )
    return sorted(first), [first[i] for i in sorted(first)]


def _answered_by_all(arms: Mapping[str, Runs], ids: Sequence[str]) -> NDArray[np.bool_]:
    open_ids = {a.question.id for runs in arms.values() for run in runs for a in run if a.label is None}
    return np.array([i not in open_ids for i in ids], dtype=bool)
