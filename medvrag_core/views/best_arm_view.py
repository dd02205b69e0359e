"""The half of the questions that chose among several arms, as a table."""

from __future__ import annotations

from medvrag_core.evaluation.statistics.best_arm import BestArm
from medvrag_core.views.tables import HtmlTable, Number


def choosing_table(found: BestArm, *, caption: str = "") -> HtmlTable:
    """The candidates by the accuracy that chose among them; what the chosen one is worth stands in its contrast."""
    mean = found.estimand.replace("_", "-")
    rows = [
        [s.arm, Number(f"{found.n_choosing:,}"), Number(f"{100 * s.accuracy:.1f}"), "chosen" * (s.arm == found.chosen)]
        for s in found.choosing
    ]
    note = "the first accuracy is that of the luckiest as well as of the best"
    columns = ["arm", "questions that choose", f"{mean} accuracy (%)", ""]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, note))))
