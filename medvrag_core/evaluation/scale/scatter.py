"""Many queries over an index in parts, simulated: how long they wait, and for which part.

Queries come at random (Poisson). Each asks every part, and is answered when the slowest part has answered. A part is
served by replicas that take turns, as :class:`~medvrag_core.cluster.index_servers.IndexServers` has it, each with one
queue and one query at a time. Service times are lognormal around a median. What is left out: several calls a query,
networks that are busy, machines that share a disk, garbage that is collected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medvrag_core.evaluation.scale.laws import ScaledMode
from medvrag_core.evaluation.scale.outlook import SizeOutlook, log_spread
from medvrag_core.records import Record

LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)
"""Shares of the capacity."""
STRAGGLER_FACTOR = 10.0


class Fleet(Record):
    """What serves one index.

    Attributes
    ----------
    median_s, tail : of one query at one part alone; ``tail`` is the 95th percentile by the median
    hop_s : to a part and back
    straggler, straggler_factor : share of replies that take so many times as long, whatever the reason
    """

    parts: int = Field(ge=1)
    replicas: int = Field(1, ge=1)
    median_s: float = Field(gt=0, allow_inf_nan=False)
    tail: float = Field(1.0, ge=1, allow_inf_nan=False)
    hop_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    straggler: float = Field(0.0, ge=0, le=1)
    straggler_factor: float = Field(1.0, ge=1, allow_inf_nan=False)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of a service time."""
        return log_spread(self.tail)

    @property
    def mean_s(self) -> float:
        """Of a reply."""
        plain = self.median_s * math.exp(self.spread**2 / 2)
        return plain * (1 + self.straggler * (self.straggler_factor - 1))

    @property
    def capacity(self) -> float:
        """Queries a second at which every replica is busy all the time."""
        return self.replicas / self.mean_s


class Waited(Record):
    """Seconds of a query from its arrival to the last part, and the load of the replicas (1: always busy).

    ``alone_s`` is the median without other queries.
    """

    queries_per_s: float
    load: float
    p50_s: float
    p95_s: float
    p99_s: float
    alone_s: float


def simulate(fleet: Fleet, queries_per_s: float, *, queries: int = 20_000, seed: int = 0) -> Waited:
    """Let ``queries`` queries come; the first tenth warms up and is not counted.

    At a load of 1 or more, queues grow as long as queries come, so the result depends on their number; it is given all
    the same, with its load.
    """
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / queries_per_s, size=queries))
    slowest, slowest_alone = np.zeros(queries), np.zeros(queries)
    for _ in range(fleet.parts):
        service = fleet.median_s * np.exp(fleet.spread * rng.standard_normal(queries))
        service[rng.random(queries) < fleet.straggler] *= fleet.straggler_factor
        waited = np.empty(queries)
        for replica in range(fleet.replicas):
            turn = slice(replica, None, fleet.replicas)
            waited[turn] = queueing(arrivals[turn], service[turn])
        slowest = np.maximum(slowest, waited + service)
        slowest_alone = np.maximum(slowest_alone, service)
    counted = slowest[queries // 10 :] + fleet.hop_s
    p50, p95, p99 = (float(value) for value in np.quantile(counted, (0.5, 0.95, 0.99)))
    return Waited(
        queries_per_s=queries_per_s,
        load=queries_per_s / fleet.capacity,
        p50_s=p50,
        p95_s=p95,
        p99_s=p99,
        alone_s=float(np.median(slowest_alone)) + fleet.hop_s,
    )


def at_loads(
    fleet: Fleet, loads: Sequence[float] = LOADS, *, queries: int = 20_000, seed: int = 0
) -> tuple[Waited, ...]:
    """The fleet at some shares of its capacity."""
    return tuple(simulate(fleet, load * fleet.capacity, queries=queries, seed=seed) for load in loads)


def fleet_of(found: SizeOutlook, mode: ScaledMode, *, replicas: int = 1, straggler: float = 0.0) -> Fleet:
    """The parts of an outlook, each so many times; ``straggler`` of the replies take ten times as long."""
    told = next(one for one in found.modes if one.mode == mode)
    return Fleet(
        parts=told.parts,
        replicas=replicas,
        median_s=told.part_s,
        tail=told.tail,
        hop_s=told.hop_s,
        straggler=straggler,
        straggler_factor=STRAGGLER_FACTOR if straggler else 1.0,
    )


def queueing(arrivals: NDArray[np.float64], service: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds that each job waits before one server that takes them in order (Lindley's recursion), shape (jobs,).

    >>> queueing(np.array([0.0, 1.0, 2.0]), np.array([3.0, 1.0, 1.0])).tolist()
    [0.0, 2.0, 2.0]
    """
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - np.diff(arrivals))])
    waits: NDArray[np.float64] = walk - np.minimum.accumulate(walk)
    return waits
