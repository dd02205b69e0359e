"""Control arms as tables and a figure: what each asks, and how it came out against its reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.statistics.controls import Control, ControlResult
from medvrag_core.views.contrast_text import VERDICTS, p_text, tests_text
from medvrag_core.views.contrast_view import contrast_figure
from medvrag_core.views.error_view import share_text
from medvrag_core.views.tables import HtmlTable, Number

if TYPE_CHECKING:
    import plotly.graph_objects as go


def questions_table(controls: Sequence[Control], *, caption: str = "") -> HtmlTable:
    """What every comparison asks, and what an equal result would mean."""
    rows = [[c.arm, c.reference, c.asks, c.if_equal] for c in controls]
    return HtmlTable(["control", "against", "asks", "if equal"], rows, caption=caption)


def controls_table(results: Sequence[ControlResult], *, caption: str = "") -> HtmlTable:
    """Every control against its reference: counts, difference, interval, adjusted p, and answers that changed at all.

    Differences are of the mean over questions.
    """
    rows = []
    for result in results:
        found = result.contrast
        e = found.estimates[1]
        numbers = (
            f"{e.n:,}",
            f"{100 * e.accuracy_a:.1f} → {100 * e.accuracy_b:.1f}",
            f"{e.won} / {e.lost}",
            f"{e.difference:+.1f}",
            f"[{e.low:+.1f}, {e.high:+.1f}]",
            p_text(e.p_value),
            p_text(e.p_adjusted),
            share_text(result.changed),
        )
        rows.append([f"{found.b} over {found.a}", *map(Number, numbers), VERDICTS[e.verdict]])
    confidence = f"{1 - results[0].contrast.rules.alpha:.0%}" if results else ""
    columns = ["comparison", "n", "accuracy (%)", "won / lost", "points", f"{confidence} interval"]
    notes = dict.fromkeys(tests_text(result.contrast) for result in results)
    return HtmlTable(
        [*columns, "p", "adjusted p", "other answers", "verdict"],
        rows,
        caption="; ".join(filter(None, (caption, *notes))),
    )


def controls_figure(results: Sequence[ControlResult], *, caption: str = "") -> go.Figure:
    """The differences of :func:`controls_table` with their intervals."""
    return contrast_figure([result.contrast for result in results], caption=caption)
