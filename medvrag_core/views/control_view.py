"""Control arms as tables and a figure: what each asks, and how it came out against its reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.statistics.controls import Control, ControlResult
from medvrag_core.views.contrast_view import contrast_figure, contrasts_table
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

    Both means of every comparison; where there is one set of questions they coincide and stand once.
    """
    changed = [Number(share_text(result.changed)) for result in results]
    return contrasts_table(
        [result.contrast for result in results], sets=False, beside=("other answers", changed), caption=caption
    )


def controls_figure(results: Sequence[ControlResult], *, caption: str = "") -> go.Figure:
    """The differences of :func:`controls_table` with their intervals."""
    return contrast_figure([result.contrast for result in results], caption=caption)
