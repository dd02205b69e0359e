"""A corpus of any size on machines of a given size, by hand and by properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.cost.unit_costs import shipped_costs
from medvrag_core.evaluation.scale.limits import limits
from medvrag_core.evaluation.scale.outlook import GIB, ServerMachine, counts_in, footprint_of, outlook
from medvrag_core.profiles.load import load_profile

COSTS = shipped_costs()
A100 = load_profile("a100")


def test_the_papers_corpus_by_hand() -> None:
    found = outlook(A100, 350_000, COSTS, ServerMachine(cores=4))
    assert found.footprint.codes == 350_000 * 112 * 128, "107 vectors of 128, in blocks of 16"
    assert found.footprint.centroids == 350_000 * 8 * 128
    exact, fast = found.modes
    assert (exact.machines, exact.parts, exact.beyond) == (1, 4, False)
    page = COSTS["exact_page_s"].value * (744 / 7) / 103
    assert exact.core_s == pytest.approx(COSTS["exact_fixed_s"].value + 350_000 * page)
    part = COSTS["exact_fixed_s"].value + 350_000 * page / 4
    assert exact.median_s > part + 2 * COSTS["hop_s"].value, "the slowest of four"
    assert fast.core_s < exact.core_s


@settings(deadline=None)
@given(pages=st.integers(1, 10**8), ram=st.floats(1, 4_096), cores=st.integers(1, 256))
def test_the_index_fits_the_machines_and_one_fewer_would_not_do(pages: int, ram: float, cores: int) -> None:
    machine = ServerMachine(cores=cores, ram_gib=ram)
    found = outlook(A100, pages, COSTS, machine)
    need = found.footprint.codes + found.footprint.centroids
    for mode in found.modes:
        assert mode.machines * machine.index_bytes >= need * (1 - 1e-12)
        assert mode.machines == 1 or (mode.machines - 1) * machine.index_bytes < need
        assert mode.parts == mode.machines * cores
        # All parts together do at most what their cores can, and a query alone is no quicker than its share.
        assert mode.queries_per_s * mode.core_s <= mode.parts * (1 + 1e-9)
        assert mode.median_s >= mode.core_s / mode.parts
        assert mode.beyond == (pages > 350_000)


@settings(deadline=None)
@given(pages=st.integers(1, 10**8), more=st.integers(1, 10**8))
def test_more_pages_never_need_less(pages: int, more: int) -> None:
    small, large = (footprint_of(A100, n, COSTS) for n in (pages, pages + more))
    assert all(getattr(small, name) < getattr(large, name) for name in type(small).model_fields)


def test_a_disk_is_read_by_the_shortlist_in_mode_fast_and_whole_in_mode_exact() -> None:
    found = outlook(A100, 10_000_000, COSTS, ServerMachine())
    here, short, whole = found.residences[0], *found.residences[-2:]
    assert (here.read, here.read_s) == (0, 0)
    vectors = 256 * found.footprint.vectors / 10_000_000
    assert short.read == pytest.approx(4_000 * 112 * 128 + vectors)
    assert short.ram == found.footprint.centroids
    assert whole.read == pytest.approx(found.footprint.codes + vectors)
    assert whole.read_s > short.read_s
    few = outlook(A100, 100, COSTS, ServerMachine()).residences[-2]
    assert few.read == pytest.approx(100 * (112 * 128 + found.footprint.vectors / 10_000_000)), "no more than there are"


def test_limits_come_nearest_first_and_hold_where_they_say() -> None:
    machine = ServerMachine()
    found = limits(A100, COSTS, machine)
    assert [one.pages for one in found] == sorted(one.pages for one in found)
    assert len({one.what for one in found}) == len(found)
    by = {one.what: one.pages for one in found}
    memory = by["memory of one machine, codes and centroids of all pages"]
    fits = footprint_of(A100, math.floor(memory), COSTS)
    assert fits.codes + fits.centroids <= machine.index_bytes < (fits.codes + fits.centroids) * (1 + 2 / memory)
    second = by["a query of mode exact in a second, all cores of one machine"]
    mode = outlook(A100, round(second), COSTS, machine.model_copy(update={"ram_gib": 1e6})).modes[0]
    assert mode.core_s == pytest.approx(
        COSTS["exact_fixed_s"].value + 32 * (1 - COSTS["exact_fixed_s"].value), rel=1e-6
    )
    assert by["memory of the process that builds the corpus"] == 256 * GIB / COSTS["ledger_page_bytes"].value
    assert all(one.why and one.way_out for one in found)


def test_a_larger_machine_moves_limits_of_memory_alone() -> None:
    small, large = (
        {one.what: one.pages for one in limits(A100, COSTS, ServerMachine(ram_gib=ram))} for ram in (256, 512)
    )
    moved = {what for what in small if small[what] != large[what]}
    assert moved == {what for what in small if what.startswith("memory")}


@pytest.mark.parametrize("text", ["", "0", "12 x", "1.5", "-3", "٣"])
def test_what_is_no_number_of_pages_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no numbers of pages"):
        counts_in(text)
