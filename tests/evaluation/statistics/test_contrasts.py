"""Whole contrasts: published flips, the paper's deltas, families, seeds, A/A runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.load import MIRAGE_SIZES
from medvrag_core.evaluation.scorers.mirage import mirage_letter
from medvrag_core.evaluation.statistics.contrasts import Contrast, Rules, contrast, contrast_family
from medvrag_core.evaluation.statistics.estimands import Arm

QUICK = Rules(resamples=500, permutations=2_000)
Counts = tuple[int, int, int, int]
"""Questions that both arms, only b, only a, and neither answer right."""


def arm(name: str, sets: Sequence[str], right: object, fingerprint: str = "f") -> Arm:
    table = np.atleast_2d(np.asarray(right, dtype=bool))
    ids = tuple(f"{s}:{i:05}" for i, s in enumerate(sets))
    labels = np.where(table, "A", "B")
    return Arm(name, ids, tuple(sets), table, labels, ("A",) * len(ids), (fingerprint,) * len(table))


def arms_of(counts: Mapping[str, Counts]) -> tuple[Arm, Arm]:
    sets = [name for name, cells in counts.items() for _ in range(sum(cells))]
    a = np.concatenate([np.repeat([1, 0, 1, 0], cells) for cells in counts.values()])
    b = np.concatenate([np.repeat([1, 1, 0, 0], cells) for cells in counts.values()])
    return arm("a", sets, a), arm("b", sets, b)


def delta(net: Mapping[str, int], discordance: float) -> Contrast:
    """Arms of the paper's sizes with the net gains of a row and an assumed discordance."""
    counts = {}
    for name, n in MIRAGE_SIZES.items():
        differing = round(n * discordance)
        differing += (differing - net[name]) % 2
        won = (differing + net[name]) // 2
        counts[name] = (n - differing, won, differing - won, 0)
    return contrast(*arms_of(counts), Rules(resamples=1_000))


def test_flips_between_published_predictions() -> None:
    found = contrast(*arms_of({"medqa": (987, 57, 72, 157), "mmlu": (929, 45, 69, 46)}), QUICK)
    medqa, mmlu = found.sets
    assert (medqa.n, medqa.won, medqa.lost, medqa.test) == (1273, 57, 72, "mcnemar")
    assert round(medqa.p_value, 3) == 0.218 and round(mmlu.p_value, 3) == 0.031
    assert round(mmlu.p_adjusted, 3) == 0.062
    assert medqa.difference == pytest.approx(-100 * 15 / 1273)
    assert [e.name for e in found.estimates] == ["macro", "question_weighted"]


MODALITY = {"medqa": 13, "medmcqa": 33, "pubmedqa": 8, "mmlu": 7}
ITERATION = {"medqa": 23, "medmcqa": 21, "pubmedqa": 10, "mmlu": 17}
MEMORY = {"medqa": 23, "medmcqa": 71, "pubmedqa": 1, "mmlu": 2}


@pytest.mark.parametrize(
    ("net", "discordance", "sets", "estimates"),
    [
        (MODALITY, 0.06, (0.171, 0.043, 0.200, 0.457), (0.009, 0.003)),
        (MODALITY, 0.10, (0.287, 0.118, 0.322, 0.566), (0.044, 0.022)),
        (MODALITY, 0.15, (0.385, 0.201, 0.422, 0.639), (0.100, 0.062)),
        (ITERATION, 0.10, (0.050, 0.329, 0.203, 0.125), (0.002, 0.007)),
        (ITERATION, 0.15, (0.111, 0.424, 0.302, 0.210), (0.014, 0.027)),
        (MEMORY, 0.10, (0.050, 0.001, 1.0, 0.92), (0.049, 0.0003)),
        (MEMORY, 0.15, (0.111, 0.005, 1.0, 0.94), (0.109, 0.003)),
    ],
)
def test_p_values_of_the_papers_deltas(
    net: dict[str, int], discordance: float, sets: tuple[float, ...], estimates: tuple[float, float]
) -> None:
    found = delta(net, discordance)
    by_name = {e.name: e.p_value for e in found.sets}
    # Here the discordant count has the parity of the net gain, and flips are counted where the cells of the
    # estimands come from a normal approximation: a few thousandths either way.
    assert [by_name[name] for name in MIRAGE_SIZES] == pytest.approx(sets, abs=0.012, rel=0.06)
    assert [e.p_value for e in found.estimates] == pytest.approx(estimates, abs=0.005)


def test_answers_published_with_mirage(shared_data: Path) -> None:
    folder = shared_data / "benchmarks" / "mirage"
    gold = json.loads(gzip.decompress((folder / "benchmark.json.gz").read_bytes()))["mmlu"]
    ids = sorted(gold)

    def right(file: str) -> list[bool]:
        with gzip.open(folder / "predictions" / file, "rt", encoding="utf-8") as lines:
            rows = {row["id"]: row["outputs"] for row in map(json.loads, lines) if row["dataset"] == "mmlu"}
        return [mirage_letter(rows[i][0])[0] == gold[i]["answer"] for i in ids]

    a, b = (arm(n, ["mmlu"] * len(ids), right(f"gpt-35-turbo-16k.{n}.jsonl.gz")) for n in ("cot", "rag_32"))
    mmlu = contrast(a, b, QUICK).sets[0]
    assert (mmlu.n, mmlu.won, mmlu.lost) == (1089, 129, 101)
    assert mmlu.p_value == pytest.approx(0.075, abs=5e-4)


cells = st.tuples(*[st.integers(0, 9)] * 3, st.integers(1, 9))


@settings(max_examples=15, deadline=None)
@given(st.dictionaries(st.sampled_from("xyz"), cells, min_size=1, max_size=3))
def test_a_contrast_is_antisymmetric_and_adds_up(counts: dict[str, Counts]) -> None:
    a, b = arms_of(counts)
    found, turned = contrast(a, b, QUICK), contrast(b, a, QUICK)
    macro, weighted = found.estimates
    assert macro.difference == pytest.approx(np.mean([e.difference for e in found.sets]))
    assert weighted.difference == pytest.approx(100 * (weighted.won - weighted.lost) / weighted.n)
    assert sum(e.n for e in found.sets) == found.n == macro.n
    for e, other in zip((*found.estimates, *found.sets), (*turned.estimates, *turned.sets), strict=True):
        assert e.low <= e.difference + 1e-9 and e.difference <= e.high + 1e-9
        assert (e.won, e.lost, e.p_value) == (other.lost, other.won, other.p_value)
        assert e.difference == pytest.approx(-other.difference)
        assert e.difference == pytest.approx(100 * (e.accuracy_b - e.accuracy_a))
    if len(counts) == 1:
        assert macro.model_copy(update={"name": ""}) == weighted.model_copy(update={"name": ""})


def test_the_two_estimands_can_disagree() -> None:
    found = contrast(*arms_of({"large": (3000, 160, 90, 750), "small": (400, 10, 24, 66)}), QUICK)
    macro, weighted = found.estimates
    assert macro.difference < 0 < weighted.difference
    assert weighted.p_value < 0.01 < macro.p_value


def test_seeds_are_averaged_within_the_question() -> None:
    rng = np.random.default_rng(4)
    sets = ["s"] * 300 + ["t"] * 100
    a = arm("a", sets, rng.random((1, 400)) < 0.6)
    b = arm("b", sets, a.right ^ (rng.random((1, 400)) < 0.1))
    once = contrast(a, b, QUICK)
    # The same run stated five times is no more evidence than once.
    copies = contrast(arm("a", sets, np.repeat(a.right, 5, 0)), arm("b", sets, np.repeat(b.right, 5, 0)), QUICK)
    for e, repeated in zip(once.estimates, copies.estimates, strict=True):
        assert (e.low, e.high, e.p_value) == (repeated.low, repeated.high, repeated.p_value)
    assert copies.sets[0].test == "sign_flip"
    assert copies.flips_a is not None and copies.flips_a.right_or_wrong == 0


def test_an_aa_run_gives_the_flip_rate() -> None:
    first = np.arange(200) < 150
    second = first.copy()
    second[140:160] = ~second[140:160]
    sets = ["s"] * 200
    found = contrast(arm("a", sets, first), arm("a", sets, second), QUICK)
    assert found.same_arm and found.flips is not None
    assert found.flips.right_or_wrong == 0.10 and found.flips.low < 0.10 < found.flips.high
    other = contrast(arm("a", sets, first), arm("a", sets, second, fingerprint="g"), QUICK)
    assert not other.same_arm and other.flips is None


def test_a_family_is_adjusted_for_each_estimand_and_over_all_sets() -> None:
    rng = np.random.default_rng(9)
    sets = ["x"] * 300 + ["y"] * 200
    base = rng.random(500) < 0.6
    arms = {
        n: arm(n, sets, base ^ (rng.random(500) < 0.1) | (rng.random(500) < s))
        for n, s in zip("pqr", (0, 0.04, 0.1), strict=True)
    }
    pairs = {"first": ("p", "q"), "second": ("q", "r"), "both": ("p", "r")}
    found = contrast_family(arms, pairs, QUICK, family="f")
    for k in range(2):
        p_values = [found[name].estimates[k].p_value for name in pairs]
        assert [found[name].estimates[k].p_adjusted for name in pairs] == pytest.approx(
            list(multipletests(p_values, method="holm")[1])
        )
    p_values = [e.p_value for c in found.values() for e in c.sets]
    assert [e.p_adjusted for c in found.values() for e in c.sets] == pytest.approx(
        list(multipletests(p_values, method="holm")[1])
    )
    # With an arm missing, Holm cannot be known; what is shown bounds it from above.
    part = contrast_family({n: arms[n] for n in "pq"}, pairs, QUICK, family="f")
    assert set(part) == {"first"} and part["first"].adjustment == "bonferroni"
    for e, whole in zip(part["first"].estimates, found["first"].estimates, strict=True):
        assert e.p_adjusted == min(1, 3 * e.p_value) >= whole.p_adjusted


def test_verdicts_tell_no_evidence_from_evidence_of_no_effect() -> None:
    def verdict(*counts: int) -> str:
        return contrast(*arms_of({"s": counts}), QUICK).estimates[1].verdict  # type: ignore[dict-item]

    assert verdict(6900, 20, 20, 60) == "equivalent"
    assert verdict(80, 5, 5, 10) == "inconclusive"
    assert verdict(6000, 400, 100, 500) == "difference"
    assert verdict(6900, 50, 20, 30) == "small_difference"


def test_no_difference_on_a_few_questions_is_no_certainty() -> None:
    few, many = (contrast(*arms_of({"s": (n, 0, 0, n)}), QUICK).estimates[0] for n in (2, 2000))
    assert few.low < -30 and few.high > 30 and few.verdict == "inconclusive"
    assert -0.1 < many.low < 0 < many.high < 0.1 and many.verdict == "equivalent"
    alone = contrast(*arms_of({"s": (1, 0, 0, 0)}), QUICK).estimates[0]
    assert (alone.equivalence_low, alone.equivalence_high) == (-100.0, 100.0), "no accuracy differs by more"
    # One small set without a difference beside a large one must not lend the mean its certainty.
    macro = contrast(*arms_of({"small": (3, 0, 0, 3), "large": (900, 30, 30, 40)}), QUICK).estimates[0]
    assert macro.high - macro.low > 15


def test_arms_on_other_questions_are_refused() -> None:
    a = arm("a", ["s"] * 4, [1, 1, 0, 0])
    with pytest.raises(InputError, match=r"only 'a' answered s:00003"):
        contrast(a, arm("b", ["s"] * 3, [1, 1, 0]), QUICK)
