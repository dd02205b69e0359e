"""The simulated fleet against closed forms of queueing theory and a slow simulation, event by event."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.cost.unit_costs import shipped_costs
from medvrag_core.evaluation.scale.outlook import ServerMachine, outlook
from medvrag_core.evaluation.scale.scatter import Fleet, at_loads, fleet_of, queueing, simulate
from medvrag_core.profiles.load import load_profile

TIMES = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=40)


@settings(deadline=None)
@given(TIMES)
def test_waiting_is_that_of_a_server_watched_job_by_job(jobs: list[tuple[float, float]]) -> None:
    arrivals = np.cumsum([gap for gap, _ in jobs])
    service = np.array([took for _, took in jobs])
    free, wanted = 0.0, []
    for came, took in zip(arrivals, service, strict=True):
        begun = max(came, free)
        wanted.append(begun - came)
        free = begun + took
    assert queueing(arrivals, service) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_one_server_of_equal_jobs_waits_as_theory_has_it(load: float) -> None:
    """M/D/1: mean wait = load / (2 (1 - load)) of a service time (Pollaczek and Khinchine)."""
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1 / load, size=400_000))
    waits = queueing(arrivals, np.ones(len(arrivals)))
    assert waits[1_000:].mean() == pytest.approx(load / (2 * (1 - load)), rel=0.1)


def test_one_server_of_random_jobs_waits_as_theory_has_it() -> None:
    """M/M/1: time in the system is exponential with mean 1 / (mu - lambda)."""
    rng = np.random.default_rng(2)
    arrivals, service = np.cumsum(rng.exponential(2, size=400_000)), rng.exponential(1, size=400_000)
    total = (queueing(arrivals, service) + service)[1_000:]
    assert total.mean() == pytest.approx(2, rel=0.05)
    assert np.quantile(total, 0.95) == pytest.approx(2 * math.log(20), rel=0.05)


def test_alone_and_equal_a_query_takes_the_service_and_the_hop() -> None:
    waited = simulate(Fleet(parts=5, median_s=0.1, hop_s=0.02), queries_per_s=0.001, queries=500)
    assert (waited.p50_s, waited.p95_s, waited.alone_s) == pytest.approx((0.12, 0.12, 0.12))
    assert waited.load == pytest.approx(0.0001)


def test_the_median_of_one_part_is_that_of_its_times() -> None:
    fleet = Fleet(parts=1, median_s=0.1, tail=2.0)
    waited = simulate(fleet, queries_per_s=0.001, queries=40_000)
    assert waited.p50_s == pytest.approx(0.1, rel=0.02)
    assert waited.p95_s == pytest.approx(0.2, rel=0.03)


def test_more_parts_wait_for_slower_ones() -> None:
    """The slowest of n equal parts is under a bound as often as one part is, to the power n."""
    one, many = (simulate(Fleet(parts=n, median_s=1.0, tail=2.0), 1e-4, queries=20_000) for n in (1, 32))
    assert many.p50_s > one.p95_s
    quantile = one.p50_s * math.exp(Fleet(parts=1, median_s=1, tail=2.0).spread * 2.0240)  # the 0.5 ** (1 / 32) one
    assert many.p50_s == pytest.approx(quantile, rel=0.03)


def test_replicas_carry_more_and_stragglers_are_told_by_the_tail() -> None:
    single = simulate(Fleet(parts=4, median_s=0.1), 9.0)
    double = simulate(Fleet(parts=4, median_s=0.1, replicas=2), 9.0)
    assert single.load == pytest.approx(0.9)
    assert double.load == pytest.approx(0.45)
    assert double.p95_s < single.p95_s
    slow = simulate(Fleet(parts=4, median_s=0.1, replicas=2, straggler=0.01, straggler_factor=10), 1.0)
    assert slow.p99_s > 0.9
    assert slow.p50_s < 0.2


def test_the_same_seed_gives_the_same() -> None:
    fleet = Fleet(parts=3, median_s=0.1, tail=1.5)
    assert simulate(fleet, 5.0, queries=1_000) == simulate(fleet, 5.0, queries=1_000)
    assert simulate(fleet, 5.0, queries=1_000) != simulate(fleet, 5.0, queries=1_000, seed=1)


def test_a_fleet_is_that_of_the_outlook() -> None:
    profile, costs = load_profile("a100"), shipped_costs()
    found = outlook(profile, 10_000_000, costs, ServerMachine())
    fleet = fleet_of(found, "exact", replicas=2, straggler=0.01)
    told = found.modes[0]
    assert (fleet.parts, fleet.replicas, fleet.straggler_factor) == (told.parts, 2, 10)
    idle = simulate(fleet.model_copy(update={"straggler": 0.0}), 0.001 * fleet.capacity, queries=10_000)
    assert (idle.p50_s, idle.p95_s) == pytest.approx((told.median_s, told.p95_s), rel=0.03)
    plain = fleet_of(found, "exact")
    assert (plain.straggler, plain.straggler_factor) == (0, 1)
    half, most = at_loads(plain.model_copy(update={"parts": 4}), (0.5, 0.9), queries=2_000)
    assert (half.load, most.load) == pytest.approx((0.5, 0.9))
    assert most.p50_s > half.p50_s
