"""What gives way first when a corpus grows on machines of a given size, and the way out of each.

A limit is the number of pages at which one resource is used up, or one step takes longer than somebody would wait. All
are computed from unit costs; none of them was run into, but where ``measured`` says how far the thing was seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from medvrag_core.evaluation.cost.run_size import duplicate_products, page_size
from medvrag_core.evaluation.cost.unit_costs import UnitCosts
from medvrag_core.evaluation.scale.laws import SCALED_MODES, core_seconds
from medvrag_core.evaluation.scale.outlook import GIB, ServerMachine, footprint_of, numbers_read
from medvrag_core.index.build import SEGMENT_NUMBERS
from medvrag_core.index.coarse_to_fine import HNSW_LINKS
from medvrag_core.index.segments import MAPPED
from medvrag_core.records import Record
from medvrag_core.settings import Profile

_DAY, _GIGA, _MILLION = 86_400.0, 1e9, 1_000_000
_SECOND = 1.0
_LINK_BYTES = 4
_MOST_MAPS = 65_530
_MOST = 10**12
"""Pages above which nothing is looked for."""


class Limit(Record):
    """One thing that gives way.

    Attributes
    ----------
    pages : at which it does
    measured : pages at which it was seen to work
    """

    what: str
    pages: float
    why: str
    way_out: str
    measured: int


def limits(profile: Profile, costs: UnitCosts, machine: ServerMachine) -> tuple[Limit, ...]:
    """All of them, the nearest first, for one machine where nothing else is said."""
    return tuple(sorted(_limits(profile, costs, machine), key=lambda limit: limit.pages))


def _limits(profile: Profile, costs: UnitCosts, machine: ServerMachine) -> Iterator[Limit]:
    page, index = page_size(profile, costs), profile.index
    a_page = footprint_of(profile, _MILLION, costs)
    ram = machine.ram_gib * GIB
    yield Limit(
        what="memory of one machine, codes and centroids of all pages",
        pages=machine.index_bytes / ((a_page.codes + a_page.centroids) / _MILLION),
        why=f"{(a_page.codes + a_page.centroids) / _MILLION:,.0f} bytes a page; slow reads from the disk beyond",
        way_out="parts on more machines (ray.index_servers), a larger pool_factor, or codes on the disk",
        measured=350_000,
    )
    yield Limit(
        what="memory of one machine, centroids alone",
        pages=machine.index_bytes / (a_page.centroids / _MILLION),
        why=f"{a_page.centroids / _MILLION:,.0f} bytes a page in mode fast, with the codes on the disk",
        way_out="parts on more machines, fewer centroids",
        measured=350_000,
    )
    yield Limit(
        what="memory of the process that builds the corpus",
        pages=ram / costs["ledger_page_bytes"].value,
        why=f"{costs['ledger_page_bytes'].value:,.0f} bytes a page, what was told of it above all, until all are there",
        way_out="several corpora, one a shard of the source; publishing one file after another is not built",
        measured=200_000,
    )
    held, named = costs["held_page_bytes"].value, costs["manifest_page_bytes"].value
    yield Limit(
        what="memory of each process that serves a part of the index",
        pages=ram / machine.cores / (held + named),
        why=f"{held + named:,.0f} bytes a page of ids, lengths, scales and manifest, {machine.cores} processes",
        way_out="fewer and larger parts with several threads each",
        measured=350_000,
    )
    asked = held + named + costs["corpus_page_bytes"].value
    yield Limit(
        what="memory of a process that answers questions, beside the index",
        pages=ram / asked,
        why=f"{asked:,.0f} bytes a page: ids of pages, of summaries and of the index; their texts are read when needed",
        way_out="several runs, each over its own questions",
        measured=200_000,
    )
    a_segment = max(1.0, SEGMENT_NUMBERS / (page.vectors * page.vector_width))
    yield Limit(
        what="files that one process can map",
        pages=_MOST_MAPS / MAPPED * a_segment,
        why=f"{_MOST_MAPS:,} maps a process (vm.max_map_count of Linux), {MAPPED} for {a_segment:,.0f} pages",
        way_out="parts: each process maps its own segments alone",
        measured=350_000,
    )
    yield Limit(
        what="disk of one machine",
        pages=machine.nvme_gb * _GIGA / (a_page.disk / _MILLION),
        why=f"{a_page.disk / _MILLION / 1e3:,.0f} kB a page, page images above all",
        way_out="images in object storage: a round reads ten of them; fewer dpi (corpus.max_pixels)",
        measured=20_000,
    )
    yield Limit(
        what="near-duplicates in a day of one core",
        pages=_largest(lambda n: duplicate_products(n) * page.vector_width / _GIGA * costs["maxsim_s"].value, _DAY),
        why="pages to the power 1.5; this step is one process on one machine",
        way_out="duplicates sought within an article and its versions, or by cells spread over workers: not built",
        measured=350_000,
    )
    for mode in SCALED_MODES:
        numbers = numbers_read(mode, page, profile)
        yield Limit(
            what=f"a query of mode {mode} in a second, all cores of one machine",
            pages=_largest(lambda n, m=mode, w=numbers: core_seconds(costs, m, n / machine.cores, w), _SECOND),  # type: ignore[misc]
            why=f"{costs[f'{mode}_page_s'].value * 1e9:,.0f} ns of a core a page of 103 vectors",
            way_out="parts on more machines, for memory wants them before" if mode == "exact" else "parts",
            measured=350_000,
        )
    ann = min(float(index.centroids), page.vectors) * (page.vector_width * 4 + 2 * HNSW_LINKS * _LINK_BYTES)
    yield Limit(
        what="memory of one machine, mode paper with an HNSW",
        pages=machine.index_bytes / ann,
        why=f"{ann:,.0f} bytes a page: centroids as float32 and their links; the ANN is one, and not divided",
        way_out="mode fast, which finds more in less time",
        measured=100_000,
    )
    hnsw = min(float(index.centroids), page.vectors) * costs["hnsw_s"].value
    yield Limit(
        what="making that HNSW in a day of one core",
        pages=_DAY / hnsw,
        why=f"{hnsw * 1e3:.2g} ms a page, and more with every page that is there before",
        way_out="ann: ivf, or mode fast",
        measured=100_000,
    )


def _largest(of: object, bound: float) -> float:
    """Most pages for which a growing function stays under a bound."""
    assert callable(of)
    low, high = 1, _MOST
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if of(middle) <= bound else (low, middle - 1)
    return float(low)
