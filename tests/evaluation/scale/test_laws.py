"""Lines through measured sizes, and that what is shipped is what the results say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.cost.unit_costs import shipped_costs
from medvrag_core.evaluation.retrieval.stage1_results import Stage1Run, read_stage1_runs
from medvrag_core.evaluation.scale.laws import core_seconds, law_costs, laws
from medvrag_core.evaluation.scale.outlook import MEASURED_TO

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def made_run(milliseconds: dict[int, float], name: str = "stage1-made.json") -> Stage1Run:
    """A file of results in which modes exact and fast took so long."""
    sizes = [
        {
            "pages": pages, "rows": 103 * pages, "queries": 1, "query_rows": 20,
            "difficulty": {"target_first": 1, "target_among_100": 1}, "read_bytes_per_s": {"1": 1e9},
            "beside": "ours exact",
            "engines": [
                {
                    "name": f"ours {mode}", "ways": 2, "compared_with": "exact two-way", "threads": threads,
                    "status": "ok", "cpu_ms_p50": took * threads, "wall_ms_p50": 10, "wall_ms_p95": 15,
                    "recall@100": 1.0, "bytes_per_page": 1, "build_cpu_ms_per_page": 0.3, "floor_ms": 1,
                    "private_mb": pages / 1e4,
                }
                for mode in ("exact", "fast")
                for threads in (1, 2)
            ],
        }
        for pages, took in milliseconds.items()
    ]  # fmt: skip
    made = {"dim": 128, "topics": 1, "concepts": 1, "background_share": 0, "short_share": 0, "query_words": 0}
    return Stage1Run.model_validate(
        {"source": name, "command": [], "machine": {"cpu": "x"}, "generator": {"seed": 0, **made}, "sizes": sizes}
    )


@settings(deadline=None)
@given(fixed=st.floats(1, 50), each=st.floats(1e-5, 1e-2))
def test_points_on_a_line_give_that_line(fixed: float, each: float) -> None:
    for law in laws([made_run({pages: fixed + each * pages for pages in (5_000, 20_000, 100_000, 350_000)})]):
        assert law.fixed_s == pytest.approx(fixed / 1e3, rel=1e-6)
        assert law.page_s == pytest.approx(each / 1e3, rel=1e-6)
        assert law.worst < 1e-9
        assert (law.tail, law.largest) == (1.5, 350_000)


def test_a_point_off_the_line_is_told() -> None:
    law = laws([made_run({10_000: 10.0, 100_000: 100.0, 200_000: 400.0})])[0]
    off = [abs(law.seconds(point.pages) / (point.cpu_ms / 1e3) - 1) for point in law.points]
    assert law.worst == pytest.approx(max(off))
    assert law.worst > 0.2


def test_two_sizes_are_too_few() -> None:
    with pytest.raises(InputError, match="2 sizes were measured"):
        laws([made_run({10: 1.0, 20: 2.0})])


def test_what_is_shipped_is_what_the_results_say() -> None:
    shipped, found = shipped_costs(), law_costs(laws(read_stage1_runs(RESULTS)))
    assert len(found) == 8
    assert {law.largest for law in laws(read_stage1_runs(RESULTS))} == {MEASURED_TO}
    assert {name: shipped[name] for name in found} == found


def test_time_grows_with_the_numbers_of_a_page() -> None:
    costs = shipped_costs()
    fixed = costs["exact_fixed_s"].value
    once, twice = (core_seconds(costs, "exact", 1e6, n * 103 * 128) - fixed for n in (1, 2))
    assert twice == pytest.approx(2 * once)
    assert core_seconds(costs, "fast", 0, 1) == costs["fast_fixed_s"].value
