"""Control arms as tables and a figure: what each asks, and how it came out against its reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.statistics.controls import Control, ControlResult
from medvrag_core.views.contrast_text import MEAN_OVER, ONE_SET, VERDICTS, disagreement_text, means, tests_text
from medvrag_core.views.contrast_view import contrast_figure
from medvrag_core.views.error_view import share_text
from medvrag_core.views.tables import HtmlTable, Number, p_text

if TYPE_CHECKING:
    import plotly.graph_objects as go


def questions_table(controls: Sequence[Control], *, caption: str = "") -> HtmlTable:
    """What every comparison asks, and what an equal result would mean."""
    rows = [[c.arm, c.reference, c.asks, c.if_equal] for c in controls]
    return HtmlTable(["control", "against", "asks", "if equal"], rows, caption=caption)


def controls_table(results: Sequence[ControlResult], *, caption: str = "") -> HtmlTable:
    """Every control against its reference: counts, difference, interval, adjusted p, and answers that changed at all.

    Both means of every comparison; where there is one set of questions they coincide and stand once.
    """
    rows: list[list[object]] = []
    for result in results:
        found = result.contrast
        for e in means(found):
            numbers = (
                f"{e.n:,}",
                f"{100 * e.accuracy_a:.1f} → {100 * e.accuracy_b:.1f}",
                f"{e.won} / {e.lost}",
                f"{e.difference:+.1f}",
                f"[{e.low:+.1f}, {e.high:+.1f}]{'' if e.agree else '*'}",
                p_text(e.p_value),
                p_text(e.p_adjusted),
                share_text(result.changed),
            )
            rows.append([f"{found.b} over {found.a}", MEAN_OVER[e.name], *map(Number, numbers), VERDICTS[e.verdict]])
    contrasts = [result.contrast for result in results]
    confidence = f"{1 - contrasts[0].rules.alpha:.0%}" if contrasts else ""
    columns = ["comparison", "mean over", "n", "accuracy (%)", "won / lost", "points", f"{confidence} interval"]
    notes = [
        ONE_SET if contrasts and all(len(found.sets) == 1 for found in contrasts) else "",
        *dict.fromkeys(map(tests_text, contrasts)),
        disagreement_text([e for found in contrasts for e in means(found)]),
    ]
    return HtmlTable(
        [*columns, "p", "adjusted p", "other answers", "verdict"],
        rows,
        caption="; ".join(filter(None, (caption, *notes))),
    )


def controls_figure(results: Sequence[ControlResult], *, caption: str = "") -> go.Figure:
    """The differences of :func:`controls_table` with their intervals."""
    return contrast_figure([result.contrast for result in results], caption=caption)
