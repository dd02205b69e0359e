"""Flows: what is drawn adds up to what was counted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.statistics.contrasts import Rules, contrast
from medvrag_core.evaluation.statistics.estimands import Arm
from medvrag_core.evaluation.stopping.rounds import RoundsRow
from medvrag_core.records import FilterDecision, Hit
from medvrag_core.views.flow_view import discordance_figure, rank_flow_figure, rounds_flow_figure
from medvrag_core.views.theme import profile_caption

HOSTILE = "<b>page</b>"


def row(rounds: int, n: int, correct: int) -> RoundsRow:
    return RoundsRow(rounds=rounds, n=n, share=0.1, correct=correct, accuracy=correct / n, low=0.0, high=1.0)


def drawn(figure: go.Figure) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(figure.to_json())
    assert "machinery" in data["layout"]["title"]["subtitle"]["text"]
    return data


def line(figure: go.Figure, page_id: str) -> tuple[str, float, float]:
    """Kind of a page's line, and where it begins and ends."""
    found = []
    for trace in figure.data:
        for place, told in enumerate(trace.hovertemplate[::3]):
            if told.startswith(f"{page_id}<br>"):
                found.append((trace.name, trace.y[3 * place], trace.y[3 * place + 1]))
                assert trace.y[3 * place + 2] is None, "lines of two pages are not joined"
    (one,) = found
    return one


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1)), min_size=1, max_size=4))
def test_as_many_questions_leave_a_round_as_come_into_it(counts: list[tuple[int, float]]) -> None:
    rows = [row(k, n, round(share * n)) for k, (n, share) in enumerate(counts, start=1)]
    sankey = rounds_flow_figure(rows).data[0]
    into, out = [0.0] * (len(rows) + 2), [0.0] * (len(rows) + 2)
    for source, target, value in zip(sankey.link.source, sankey.link.target, sankey.link.value, strict=True):
        out[source] += value
        into[target] += value
    total = sum(r.n for r in rows)
    assert [out[0], *into[1 : len(rows)]] == out[: len(rows)]
    assert out[0] == into[-2] + into[-1] == total
    assert into[-2] == sum(r.correct for r in rows)
    assert sankey.node.label[0] == f"Round 1: {total}"


def test_rounds_are_named_as_they_were_counted() -> None:
    sankey = drawn(rounds_flow_figure([row(1, 8, 6), row(3, 4, 1)], caption=profile_caption("cpu")))["data"][0]
    assert sankey["node"]["label"] == ["Round 1: 12", "Round 3: 4", "right: 7", "not right: 5"]


def test_a_page_goes_from_its_rank_before_to_its_rank_after_or_to_the_foot() -> None:
    hits = [Hit(page_id=f"p{rank}", score=1 / rank, rank=rank) for rank in range(1, 41)]
    hits[29] = Hit(page_id=HOSTILE, score=0.1, rank=30)
    decision = FilterDecision(kept=("p3", HOSTILE, "p1", "p40"))
    gold = [HOSTILE, "p39", "elsewhere#p1"]
    figure = rank_flow_figure(hits, decision, gold=gold, shown=["p3"], first=5, caption=profile_caption("cpu"))
    assert line(figure, "p1") == ("kept", 1, 3)
    assert line(figure, "p3") == ("shown to the reader", 3, 1)
    assert line(figure, "&lt;b&gt;page&lt;/b&gt;") == ("gold page", 30, 2)
    kind, before, foot = line(figure, "p2")
    assert (kind, before) == ("dropped", 2) and foot > 40
    assert line(figure, "p39") == ("gold page", 39, foot)
    data = drawn(figure)
    assert sum(len(trace["y"]) // 3 for trace in data["data"]) == 7, "the first five, and gold pages below them"
    assert data["layout"]["yaxis"]["ticktext"][-1] == "dropped"
    assert HOSTILE not in figure.to_json()


def test_questions_that_two_arms_do_not_share_stand_on_two_sides_of_zero() -> None:
    right = np.repeat([[True, False, True, False], [True, True, False, False]], (80, 14, 9, 37), axis=1)
    ids = tuple(f"q{place}" for place in range(140))
    a, b = (
        Arm(name, ids, ("",) * 140, mine[None], np.where(mine[None], "x", "y"), ("x",) * 140, ("f",))
        for name, mine in zip((HOSTILE, "b"), right, strict=True)
    )
    found = contrast(a, b, Rules(resamples=200, permutations=200))
    figure = discordance_figure([found], caption=profile_caption("cpu"))
    assert {bar.name: (bar.x[0], int(bar.text[0])) for bar in figure.data} == {"lost": (-9, 9), "won": (14, 14)}
    assert "117 of 140 alike" in figure.data[0].y[0] and HOSTILE not in figure.to_json()
    axis = drawn(figure)["layout"]["xaxis"]
    assert [abs(value) for value in axis["tickvals"]] == [int(text) for text in axis["ticktext"]]
    assert axis["range"][1] > 14 and axis["range"][0] < -14
