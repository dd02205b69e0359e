"""One contrast in full: both estimands and every set, with counts, interval, test, adjusted test and equivalence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.statistics.estimands import ESTIMANDS, Arm, Pairs, arm_of, paired, set_weights
from medvrag_core.evaluation.statistics.near_duplicates import StemClusters
from medvrag_core.evaluation.statistics.power import FlipRate, flip_rate
from medvrag_core.evaluation.statistics.preregistration import Registered
from medvrag_core.evaluation.statistics.proportions import detectable_difference, holm, mcnemar
from medvrag_core.evaluation.statistics.resampling import (
    PERMUTATIONS,
    bca_interval,
    bootstrap_set_means,
    equivalence_p_value,
    has_a_set_without_spread,
    percentile_interval,
    set_means,
    sign_flip_p_values,
    standard_error,
    t_interval,
)
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings

Verdict = Literal["difference", "small_difference", "equivalent", "inconclusive"]
Adjustment = Literal["holm", "bonferroni", "none"]


class Rules(Record):
    """How decisions are made; those of a pre-registration where there is one."""

    alpha: float = 0.05
    margin: float = Field(1.0, description="points within which a difference does not matter")
    resamples: int = 10_000
    permutations: int = PERMUTATIONS
    seed: int = 42


class Effect(Record):
    """Arm ``b`` minus arm ``a`` in one estimand or one set; differences and their bounds in points."""

    name: str = Field(description="macro, question_weighted, or the name of a set")
    n: int
    accuracy_a: float
    accuracy_b: float
    won: int = Field(description="questions on which b is right in a larger share of its runs than a")
    lost: int
    difference: float
    low: float = Field(
        description="BCa bootstrap within sets; widened where it contradicts the test or a set has no spread"
    )
    high: float
    test: Literal["mcnemar", "sign_flip"]
    p_value: float
    p_adjusted: float
    agree: bool = Field(description="the bootstrap interval excludes 0 exactly when the test finds a difference")
    discordance: float = Field(description="share of questions on which the arms differ")
    detectable: float | None = Field(description="smallest true difference in points found with 80% power")
    equivalence_p: float = Field(description="TOST against the margin")
    equivalence_low: float = Field(description="lower end of the interval of TOST, confidence 1 - 2 alpha")
    equivalence_high: float
    verdict: Verdict = Field(description="from the adjusted p-value and TOST; 'inconclusive' says nothing was shown")


class Variant(Record):
    """The two means under another reading of the same runs; see :mod:`.sensitivity`."""

    name: str
    n: int
    estimates: tuple[Effect, ...]


class Contrast(Record):
    """Two arms on the same questions; ``b`` against ``a``."""

    a: str
    b: str
    source_a: str = Field("", description="where the runs of a lie")
    source_b: str = ""
    n: int
    runs_a: int
    runs_b: int
    scorer: str = Field("strict", description="rule by which answers were read; only strict is a result")
    estimates: tuple[Effect, ...] = Field(description="macro, then question_weighted")
    sets: tuple[Effect, ...]
    rules: Rules
    family: str = Field("", description="family that p-values are adjusted over; empty for a contrast by itself")
    family_size: int = Field(1, description="contrasts of the family")
    adjustment: Adjustment = Field("none", description="of the two estimates")
    sets_adjusted_for: int = Field(description="tests that the adjusted p-values of the sets count")
    same_arm: bool = Field(description="both are runs of one arm under the same settings (A/A)")
    flips_a: FlipRate | None = Field(None, description="between runs of a, where there are several")
    flips_b: FlipRate | None = None
    flips: FlipRate | None = Field(None, description="of an A/A contrast: over all of its runs")
    variants: tuple[Variant, ...] = Field((), description="both means under other readings, where they were asked for")
    stems: StemClusters | None = Field(None, description="near-duplicates behind the variant `clusters`")
    preregistration: str = Field("", description="SHA-256 of the file of the pre-registration")
    departures: tuple[str, ...] = Field((), description="where the runs are not what was asked or registered")


def contrast(a: Arm, b: Arm, rules: Rules | None = None, *, clusters: NDArray[np.intp] | None = None) -> Contrast:
    """Compare two arms outside of any family: an exploratory result.

    The estimates keep their p-values; the tests of single sets are adjusted for one another. ``clusters`` numbers
    questions that stand together as one unit of resampling, shape (n,); without it every question is one.

    Raises
    ------
    InputError : the arms answered other questions, or with other gold answers
    """
    found = _contrast(a, b, rules or Rules(), clusters)
    return _with_p(found, [e.p_value for e in found.estimates], holm([e.p_value for e in found.sets]))


def contrast_family(
    arms: Mapping[str, Arm],
    pairs: Mapping[str, tuple[str, str]],
    rules: Rules | None = None,
    *,
    family: str,
    clusters: NDArray[np.intp] | None = None,
) -> dict[str, Contrast]:
    """All contrasts of a family whose arms are there, adjusted for the whole family.

    Where a contrast's arms are missing, no Holm correction can be known, and p times the size of the family (its
    upper bound) stands in its place.
    """
    present = {name: pair for name, pair in pairs.items() if set(pair) <= arms.keys()}
    found = {name: _contrast(arms[a], arms[b], rules or Rules(), clusters) for name, (a, b) in present.items()}
    whole, size = len(present) == len(pairs), len(pairs)
    estimates = [
        _adjusted([c.estimates[k].p_value for c in found.values()], size if not whole else None)
        for k in range(len(ESTIMANDS))
    ]
    singles = [e.p_value for c in found.values() for e in c.sets]
    sets = size * max((len(c.sets) for c in found.values()), default=0)
    adjusted = iter(_adjusted(singles, sets if not whole else None))
    result = {}
    for number, (name, made) in enumerate(found.items()):
        done = _with_p(made, [column[number] for column in estimates], [next(adjusted) for _ in made.sets])
        result[name] = done.model_copy(
            update={
                "family": family,
                "family_size": size,
                "adjustment": "holm" if whole else "bonferroni",
                "sets_adjusted_for": len(singles) if whole else sets,
            }
        )
    return result


def steps(arms: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Each arm over the one before it, then the last over the first (the paper's Table 1 read downwards).

    >>> list(steps(["text", "pages", "loop"]).values())
    [('text', 'pages'), ('pages', 'loop'), ('text', 'loop')]
    """
    names = list(arms)
    pairs = [*pairwise(names), *([(names[0], names[-1])] if len(names) > 2 else [])]
    return {f"{b} over {a}": (a, b) for a, b in pairs}


def compare_arms(
    arms: Mapping[str, Sequence[Answered]],
    pairs: Mapping[str, tuple[str, str]],
    settings: EvaluationSettings,
    *,
    family: str,
) -> list[Contrast]:
    """Contrasts of one family straight from the traces (or endings) of single runs, in the order of ``pairs``.

    Parameters
    ----------
    arms : answers by name of the arm; sets go by the dataset that each question names
    pairs : name of a contrast to its arms ``(a, b)``; see :func:`steps`
    settings : confidence, resamples and seed
    family : what the p-values are adjusted over, for the reader

    Raises
    ------
    InputError : a pair names an arm that is not there, or the arms of a pair answered different questions
    """
    require_arms(pairs, arms)
    made = {name: arm_of([answers]) for name, answers in arms.items()}
    return list(contrast_family(made, pairs, rules_of(settings), family=family).values())


def rules_of(settings: EvaluationSettings) -> Rules:
    """The rules that a profile asks for."""
    return Rules(alpha=1 - settings.confidence, resamples=settings.bootstrap_samples, seed=settings.seed)


def require_arms(pairs: Mapping[str, tuple[str, str]], arms: Mapping[str, object]) -> None:
    """Refuse pairs of arms that are not there, which a family would pass over."""
    unknown = sorted({name for pair in pairs.values() for name in pair} - arms.keys())
    if unknown:
        raise InputError(f"no traces of arm '{unknown[0]}'", way_out=f"choose among {', '.join(arms)}")


def registered_contrast(
    a: Arm,
    b: Arm,
    others: Mapping[str, Arm],
    registered: Registered,
    *,
    clusters: NDArray[np.intp] | None = None,
) -> Contrast:
    """The contrast of two arms as a pre-registration has it, with every departure from it told.

    ``others`` are further arms at hand, by system; those that the family needs and that are missing make the
    correction conservative (see :func:`contrast_family`).
    """
    plan = registered.content
    rules = Rules(**plan.model_dump(include=set(Rules.model_fields)))
    arms = {**others, a.name: a, b.name: b}
    family = plan.family_of(a.name, b.name)
    if family is None:
        found = contrast(a, b, rules, clusters=clusters)
        departures = ["the contrast is in no registered family: exploratory"]
    else:
        # The direction asked for; p-values do not depend on it.
        asked = {a.name, b.name}
        pairs = {n: (a.name, b.name) if set(p) == asked else p for n, p in plan.families[family].items()}
        made = contrast_family(arms, pairs, rules, family=family, clusters=clusters)
        found = next(c for c in made.values() if {c.a, c.b} == asked)
        missing = sorted({arm for p in pairs.values() for arm in p if arm not in arms})
        departures = [f"no runs of {', '.join(missing)}: adjusted by the size of the family"] if missing else []
    departures += _departures(found, registered)
    return found.model_copy(update={"preregistration": registered.sha256, "departures": tuple(departures)})


def _departures(found: Contrast, registered: Registered) -> list[str]:
    plan = registered.content
    told = [
        f"{runs} run(s) of '{arm}', {plan.seeds} registered"
        for arm, runs in ((found.a, found.runs_a), (found.b, found.runs_b))
        if runs != plan.seeds
    ]
    sizes = {effect.name: effect.n for effect in found.sets}
    for name in sorted(sizes.keys() | plan.sets.keys()):
        if sizes.get(name, 0) != plan.sets.get(name, 0):
            told.append(f"{sizes.get(name, 0):,} questions of set '{name}', {plan.sets.get(name, 0):,} registered")
    return told


def _contrast(a: Arm, b: Arm, rules: Rules, clusters: NDArray[np.intp] | None) -> Contrast:
    pairs = paired(a, b, clusters)
    same = a.name == b.name and len({*a.fingerprints, *b.fingerprints}) == 1
    sets = len(pairs.names)
    # Rows: both estimands, then every set by itself, all on the same draws.
    weights = np.vstack([*(set_weights(pairs.sizes, e) for e in ESTIMANDS), np.eye(sets)])
    flips = sign_flip_p_values(pairs, weights, samples=rules.permutations, seed=rules.seed)
    draws = bootstrap_set_means(pairs, samples=rules.resamples, seed=rules.seed) @ weights.T
    effects = []
    for row, name in enumerate([*ESTIMANDS, *pairs.names]):
        single = row - len(ESTIMANDS)
        part = pairs if single < 0 else pairs.within(single)
        exact = clusters is None and a.runs == b.runs == 1 and (single >= 0 or sets == 1)
        p_value = _mcnemar(part) if exact else float(flips[row])
        own = weights[row] if single < 0 else np.ones(1)
        effects.append(_effect(name, part, own, draws[:, row], p_value, rules, exact=exact))
    return Contrast(
        a=a.name,
        b=b.name,
        n=len(a.ids),
        runs_a=a.runs,
        runs_b=b.runs,
        estimates=tuple(effects[: len(ESTIMANDS)]),
        sets=tuple(effects[len(ESTIMANDS) :]),
        rules=rules,
        sets_adjusted_for=sets,
        same_arm=same,
        flips_a=flip_rate(a) if a.runs > 1 else None,
        flips_b=flip_rate(b) if b.runs > 1 else None,
        flips=flip_rate(_together(a, b)) if same else None,
    )


def _effect(
    name: str,
    pairs: Pairs,
    weights: NDArray[np.float64],
    draws: NDArray[np.float64],
    p_value: float,
    rules: Rules,
    *,
    exact: bool,
) -> Effect:
    confidence = 1 - rules.alpha
    d = pairs.differences
    estimate = float(weights @ set_means(pairs))
    error = standard_error(pairs, weights)
    low, high = bca_interval(draws, pairs, weights, confidence)
    agree = (p_value < rules.alpha) == (not low <= 0 <= high)
    if not agree or has_a_set_without_spread(pairs):
        # The wider of the answers is reported, so that no finding rests on the choice of a method, and so that a few
        # questions without a difference, of which no resample shows one either, do not look like certainty.
        others = (percentile_interval(draws, confidence), t_interval(estimate, error, confidence))
        low, high = min(low, *(i[0] for i in others)), max(high, *(i[1] for i in others))
        low, high = max(low, -1.0), min(high, 1.0)
    close = t_interval(estimate, error, 1 - 2 * rules.alpha)
    sizes = pairs.sizes
    spread = np.bincount(pairs.of, weights=d**2, minlength=len(sizes)) / sizes
    shares = weights**2 / sizes
    detectable = detectable_difference(
        float(1 / shares.sum()), float((shares * spread).sum() / shares.sum()), alpha=rules.alpha
    )
    means = [np.bincount(pairs.of, weights=side, minlength=len(sizes)) / sizes for side in (pairs.a, pairs.b)]
    return Effect(
        name=name,
        n=len(d),
        accuracy_a=float(weights @ means[0]),
        accuracy_b=float(weights @ means[1]),
        won=int((d > 0).sum()),
        lost=int((d < 0).sum()),
        difference=100 * estimate,
        low=100 * low,
        high=100 * high,
        test="mcnemar" if exact else "sign_flip",
        p_value=p_value,
        p_adjusted=p_value,
        agree=agree,
        discordance=float((d != 0).mean()),
        detectable=detectable,
        equivalence_p=equivalence_p_value(estimate, error, rules.margin / 100),
        equivalence_low=100 * max(close[0], -1.0),
        equivalence_high=100 * min(close[1], 1.0),
        verdict="inconclusive",
    )


def _with_p(found: Contrast, estimates: Sequence[float], sets: Sequence[float]) -> Contrast:
    def told(effects: Sequence[Effect], adjusted: Sequence[float]) -> tuple[Effect, ...]:
        return tuple(
            e.model_copy(update={"p_adjusted": p, "verdict": _verdict(p, e.equivalence_p, found.rules.alpha)})
            for e, p in zip(effects, adjusted, strict=True)
        )

    return found.model_copy(update={"estimates": told(found.estimates, estimates), "sets": told(found.sets, sets)})


def _verdict(p_adjusted: float, equivalence_p: float, alpha: float) -> Verdict:
    if equivalence_p < alpha:
        return "small_difference" if p_adjusted < alpha else "equivalent"
    return "difference" if p_adjusted < alpha else "inconclusive"


def _adjusted(p_values: Sequence[float], bound: int | None) -> list[float]:
    return holm(p_values) if bound is None else [min(1.0, bound * p) for p in p_values]


def _mcnemar(pairs: Pairs) -> float:
    d = pairs.differences
    return mcnemar(int((d > 0).sum()), int((d < 0).sum()))


def _together(a: Arm, b: Arm) -> Arm:
    """All runs of one arm as one."""
    if a.ids != b.ids:
        raise InputError(f"runs of '{a.name}' answered different questions")
    return Arm(
        a.name,
        a.ids,
        a.sets,
        np.vstack([a.right, b.right]),
        np.vstack([a.labels, b.labels]),
        a.gold,
        (*a.fingerprints, *b.fingerprints),
    )
