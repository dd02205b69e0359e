"""A corpus of any size on machines of a given size: bytes, parts, time of stage 1, and what a disk changes.

Arithmetic on unit costs. Times of stage 1 are those of the measured law; beyond its largest size they are a guess, and
``beyond`` says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import NormalDist

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.cost.run_size import PageSize, page_size
from medvrag_core.evaluation.cost.unit_costs import UnitCosts
from medvrag_core.evaluation.scale.laws import LAW_VECTORS, LAW_WIDTH, SCALED_MODES, ScaledMode, core_seconds
from medvrag_core.index.segments import segment_bytes
from medvrag_core.records import Record
from medvrag_core.settings import Profile

GIB = 1 << 30
MEASURED_TO = 350_000
"""Pages of the largest collection that the laws were drawn through."""
_CALLS = {"exact": 2, "fast": 3}
"""Times that all parts are asked for one query, see ``index/parts.py``."""


class ServerMachine(Record):
    """One machine of a cluster; the defaults are an assumption, no machine that anything ran on.

    ``fill`` is the share of the memory that the index may take.
    """

    cores: int = Field(32, ge=1)
    ram_gib: float = Field(256.0, gt=0, allow_inf_nan=False)
    nvme_gb: float = Field(7_680.0, gt=0, allow_inf_nan=False)
    fill: float = Field(0.8, gt=0, le=1)

    @property
    def index_bytes(self) -> float:
        """Of memory for the index."""
        return self.ram_gib * self.fill * GIB


class Footprint(Record):
    """Bytes of a corpus: page images with their text, page vectors, codes and centroids of the index.

    ``held`` is what a process that opens the index holds beside mapped files: ids, lengths, scales.
    """

    images: float
    vectors: float
    codes: float
    centroids: float
    held: float

    @property
    def disk(self) -> float:
        """All that is kept."""
        return self.images + self.index_disk

    @property
    def index_disk(self) -> float:
        """What a search may read."""
        return self.vectors + self.codes + self.centroids


class ModeOutlook(Record):
    """Stage 1 in one mode, with codes and centroids in memory.

    Attributes
    ----------
    machines : that hold the index in memory; page images lie elsewhere
    parts : one a core
    core_s : of all cores together for one query, whatever part does not depend on pages counted once
    part_s, tail : median of one part, and its 95th percentile by it
    hop_s : to the parts and back, all calls of a query
    median_s, p95_s : of one query alone, which waits for the slowest part; every part is taken to pay the whole of what
        does not depend on pages, and to be slow on its own account
    queries_per_s : at which the cores are busy all the time
    law : of the time, in words: what it goes through, and how far off it is there
    beyond : more pages than were ever measured
    """

    mode: ScaledMode
    machines: int
    parts: int
    core_s: float
    part_s: float
    tail: float
    hop_s: float
    median_s: float
    p95_s: float
    queries_per_s: float
    law: str
    beyond: bool


class Residence(Record):
    """Where the index lies, and what one query must read from the disks because of it.

    Attributes
    ----------
    ram : bytes in memory, of all machines
    read : bytes a query, from all disks
    read_s : seconds for that, as the disk of the benchmark reads, divided among the machines
    """

    what: str
    mode: ScaledMode
    machines: int
    ram: float
    read: float
    read_s: float


class SizeOutlook(Record):
    """All of it for one number of pages."""

    pages: int
    machine: ServerMachine
    footprint: Footprint
    modes: tuple[ModeOutlook, ...]
    residences: tuple[Residence, ...]


def outlook(profile: Profile, pages: int, costs: UnitCosts, machine: ServerMachine) -> SizeOutlook:
    """What ``pages`` pages under the settings of a profile need.

    >>> from medvrag_core.evaluation.cost.unit_costs import shipped_costs
    >>> from medvrag_core.profiles.load import load_profile
    >>> found = outlook(load_profile("a100"), 70_000_000, shipped_costs(), ServerMachine())
    >>> round(found.footprint.codes / 1e9), round(found.footprint.centroids / 1e9)
    (1004, 72)
    """
    page = page_size(profile, costs)
    footprint = footprint_of(profile, pages, costs)
    modes = tuple(_mode(mode, pages, page, profile, costs, footprint, machine) for mode in SCALED_MODES)
    return SizeOutlook(
        pages=pages,
        machine=machine,
        footprint=footprint,
        modes=modes,
        residences=tuple(_residences(modes, page, profile, costs, footprint, machine)),
    )


def counts_in(text: str) -> tuple[int, ...]:
    """Numbers of pages with spaces between them, ascending.

    Raises
    ------
    InputError : one is no whole number above 0, or there is none

    >>> counts_in("10,000,000 350_000")
    (350000, 10000000)
    """
    words = text.split()
    counts = [int(plain) for word in words if (plain := re.sub("[,_]", "", word)).isascii() and plain.isdigit()]
    if not words or len(counts) < len(words) or min(counts) < 1:
        raise InputError(f"'{text}': are no numbers of pages", way_out="write them as 350,000 10,000,000")
    return tuple(sorted(counts))


def footprint_of(profile: Profile, pages: int, costs: UnitCosts) -> Footprint:
    """Bytes of so many average pages."""
    page, centroids = page_size(profile, costs), profile.index.centroids
    codes = segment_bytes(page.vectors, page.vector_width, 0)
    return Footprint(
        images=pages * (page.megapixels * costs["image_bytes"].value + costs["text_bytes"].value),
        vectors=pages * page.stored_bytes,
        codes=pages * codes,
        centroids=pages * (segment_bytes(page.vectors, page.vector_width, centroids) - codes),
        held=pages * costs["held_page_bytes"].value,
    )


def _mode(
    mode: ScaledMode,
    pages: int,
    page: PageSize,
    profile: Profile,
    costs: UnitCosts,
    footprint: Footprint,
    machine: ServerMachine,
) -> ModeOutlook:
    machines = max(1, math.ceil((footprint.codes + footprint.centroids) / machine.index_bytes))
    parts = machines * machine.cores
    numbers = numbers_read(mode, page, profile)
    part, tail = core_seconds(costs, mode, pages / parts, numbers), costs[f"{mode}_tail"].value
    hop = _CALLS[mode] * costs["hop_s"].value
    core = core_seconds(costs, mode, pages, numbers)
    return ModeOutlook(
        mode=mode,
        machines=machines,
        parts=parts,
        core_s=core,
        part_s=part,
        tail=tail,
        hop_s=hop,
        median_s=slowest(part, tail, parts, 0.5) + hop,
        p95_s=slowest(part, tail, parts, 0.95) + hop,
        queries_per_s=parts / (parts * costs[f"{mode}_fixed_s"].value + core - costs[f"{mode}_fixed_s"].value),
        law=costs[f"{mode}_page_s"].source,
        beyond=pages > MEASURED_TO,
    )


def slowest(median: float, tail: float, parts: int, share: float) -> float:
    """Time within which a share of queries has the reply of the slowest of independent parts, each lognormal.

    Parameters
    ----------
    median, tail : of one part; ``tail`` is its 95th percentile by its median

    >>> slowest(0.1, 1.5, 1, 0.5), round(slowest(0.1, 1.5, 1, 0.95), 6)
    (0.1, 0.15)
    """
    return median * math.exp(log_spread(tail) * NormalDist().inv_cdf(share ** (1 / parts)))


def log_spread(tail: float) -> float:
    """Standard deviation of the logarithm of a lognormal time, by its 95th percentile over its median."""
    return math.log(tail) / NormalDist().inv_cdf(0.95)


def numbers_read(mode: ScaledMode, page: PageSize, profile: Profile) -> float:
    """Numbers of a page that every query reads: of all its vectors, or of its centroids."""
    rows = page.vectors if mode == "exact" else min(float(profile.index.centroids), page.vectors)
    return rows * page.vector_width


def _residences(
    modes: tuple[ModeOutlook, ...],
    page: PageSize,
    profile: Profile,
    costs: UnitCosts,
    footprint: Footprint,
    machine: ServerMachine,
) -> Iterator[Residence]:
    whole = footprint.codes + footprint.centroids
    for mode in modes:
        what = "codes and centroids in memory"
        yield Residence(what=what, mode=mode.mode, machines=mode.machines, ram=whole, read=0.0, read_s=0.0)
    pages = footprint.codes / segment_bytes(page.vectors, page.vector_width, 0)
    vectors = page.stored_bytes * min(profile.index.rescore, pages)
    a_page, shortlist = footprint.codes / pages, min(float(profile.index.shortlist), pages)
    few = max(
        1,
        math.ceil(footprint.centroids / machine.index_bytes),
        math.ceil(footprint.index_disk / (machine.nvme_gb * 1e9)),
    )
    reads = (shortlist * a_page + vectors) / (LAW_VECTORS * LAW_WIDTH)
    yield Residence(
        what="centroids in memory, codes and vectors on disks",
        mode="fast",
        machines=few,
        ram=footprint.centroids,
        read=shortlist * a_page + vectors,
        read_s=reads * costs["disk_page_16_s"].value / few,
    )
    yield Residence(
        what="all on disks",
        mode="exact",
        machines=few,
        ram=0.0,
        read=footprint.codes + vectors,
        read_s=footprint.codes / costs["disk_bytes_per_s"].value / few,
    )
