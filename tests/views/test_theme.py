from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.views.theme import labeled_range

NUMBERS = st.floats(-100, 100)
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS).map(lambda p: tuple(sorted(p))), min_size=1, max_size=20)


@given(POINTS)
def test_a_labeled_range_holds_zero_intervals_and_labels(points: list[tuple[float, float, float]]) -> None:
    left, right = labeled_range(points)
    width = right - left
    assert width >= 1 and left <= 0 <= right
    for low, value, high in points:
        assert left <= low and high <= right
        # A label is about 0.54 as wide as the plot of a page.
        assert min(value - left, right - value) >= 0.27 * width - 1e-9


def test_without_points_there_is_a_range_around_zero() -> None:
    left, right = labeled_range([], least=0.2)
    assert left < 0 < right and right - left >= 0.2
