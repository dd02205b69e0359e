from __future__ import annotations

import pytest

from medvrag_core.evaluation.errors.grounding import GroundingReport, GroundingRow, Group
from medvrag_core.evaluation.errors.removal import FLIPS, TO_WRONG, RemovalReport, RemovalRow
from medvrag_core.evaluation.statistics.contrasts import Effect
from medvrag_core.evaluation.statistics.shares import ratio_of, share_of
from medvrag_core.views.grounding_view import grounding_figure, grounding_table, removal_figure, removal_table


def _row(group: Group, answers: int) -> GroundingRow:
    return GroundingRow(
        group=group, answers=answers, citing=share_of(answers, answers), only_sent=share_of(answers - 1, answers),
        foreign=share_of(1, answers), labeled=answers, supported=share_of(0, answers),
        precision=ratio_of([0] * answers, [2] * answers), recall=ratio_of([], []),
    )  # fmt: skip


def _effect(name: str, n: int, won: int, lost: int) -> Effect:
    return Effect(
        name=name, n=n, accuracy_a=0.1, accuracy_b=0.5, won=won, lost=lost, difference=40.0, low=5.5, high=71.5,
        test="mcnemar", p_value=0.0215, p_adjusted=0.043, agree=True, discordance=0.5, detectable=None,
        equivalence_p=0.9, equivalence_low=1.0, equivalence_high=70.0, verdict="difference",
    )  # fmt: skip


GROUNDING = GroundingReport(
    system="<b>arm</b>", profile="cpu", n=12, unanswered=2, rows=(_row("all", 10), _row("right", 4), _row("wrong", 6))
)
REMOVAL = RemovalReport(
    reference="<b>arm</b>", profile="cpu", n=10, left_out={"no page cited": 2},
    rows=tuple(
        RemovalRow(arm=name, flipped=share_of(k, 10), unanswered=k - 1, to_wrong=share_of(k - 1, 4),
                   to_right=share_of(1, 6))
        for name, k in (("cited_removed", 5), ("uncited_removed", 1))
    ),
    effects=(_effect(FLIPS, 10, 5, 1), _effect(TO_WRONG, 4, 4, 0)),
)  # fmt: skip


def test_grounding_shows_counts_intervals_and_what_the_paper_prints() -> None:
    html = grounding_table(GROUNDING, caption="profile cpu").html
    for part in ("4 of 4: 100.0% [51.0, 100.0]", "3 of 4: 75.0%", "0 of 20: 0.0% [0.0, 27.8]", "85.3%",
                 "2 of 12 questions without an answer", "&lt;b&gt;arm"):  # fmt: skip
        assert part in html
    assert html.count(">–<") == 5  # no gold page to recall, and two groups for which the paper prints nothing
    right, wrong = grounding_figure(GROUNDING).data
    assert (right.name, wrong.name) == ("right answers (4)", "wrong answers (6)")
    assert list(right.x) == [100.0, 75.0, 25.0, 0.0]
    assert right.error_x.array[2] == pytest.approx(100 * share_of(1, 4).high - 25)


def test_no_comparison_of_removals_without_n_counts_interval_and_adjusted_p() -> None:
    html = removal_table(REMOVAL, caption="profile cpu").html
    for part in (">10<", "5 of 10: 50.0%", "1 of 10: 10.0%", "5 / 1", "+40.0", "[+5.5, +71.5]", "0.0215", "0.0430",
                 "4 of 4: 100.0%", "not compared, no page cited: 2", "cited_removed: 1 wrong to right, 4"):  # fmt: skip
        assert part in html
    figure = removal_figure(REMOVAL, caption="profile cpu")
    assert [list(bar.y) for bar in figure.data] == [[50.0, 100.0], [10.0, 0.0]]
    flips = figure.layout.xaxis.ticktext[0]
    for part in ("another answer:<br>5 against 1 of 10", "5 only without cited,<br>1 only without uncited",
                 "+40.0 [+5.5, +71.5] points<br>adjusted p 0.0430"):  # fmt: skip
        assert part in flips
    assert "<b>arm" not in html


def test_a_reader_that_cites_nothing_is_told_so() -> None:
    none = RemovalReport(reference="arm", profile="cpu", n=0, left_out={"no page cited": 7}, rows=(), effects=())
    assert "not compared, no page cited: 7" in removal_table(none).html
    assert removal_figure(none).layout.title.text == "No answer cites pages that could be left out"
