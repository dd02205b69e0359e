"""How hard a set of questions is: what it holds, rules without reading, gold pages found, abstention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.calibration.answerability import AnswerabilityReport
from medvrag_core.evaluation.difficulty.baselines import Baseline
from medvrag_core.evaluation.difficulty.gold_found import GoldFound
from medvrag_core.evaluation.difficulty.groups import Composition, GroupContrast
from medvrag_core.views.contrast_view import contrasts_table
from medvrag_core.views.error_view import share_text
from medvrag_core.views.retrieval_view import estimate_text
from medvrag_core.views.tables import HtmlTable, Number, Unbroken, p_text
from medvrag_core.views.theme import BLUE, GRAY, ORANGE, ROW_HEIGHT, interval_bars, titled

if TYPE_CHECKING:
    import numpy as np
    import plotly.graph_objects as go
    from numpy.typing import NDArray

_ROUNDS = {"first": "round 1", "any": "all rounds"}


def composition_figure(sets: Mapping[str, Sequence[Composition]], *, caption: str = "") -> go.Figure:
    """Questions by evidence, pages and difficulty, a bar for each set of questions side by side."""
    import plotly.graph_objects as go

    rows = list(dict.fromkeys((row.property, row.value) for found in sets.values() for row in found))
    figure = go.Figure()
    for name, found in sets.items():
        counts = {(row.property, row.value): row.count for row in found}
        figure.add_bar(
            y=[[row[0] for row in rows], [row[1] for row in rows]],
            x=[counts.get(row, 0) for row in rows],
            name=name,
            orientation="h",
            text=[counts.get(row, 0) for row in rows],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{x}<extra>%{fullData.name}</extra>",
        )
    titled(figure, "What the questions need", caption, height=140 + ROW_HEIGHT * len(rows))
    figure.update_xaxes(title="questions")
    figure.update_yaxes(autorange="reversed")
    return figure.update_layout(barmode="group")


def composition_table(sets: Mapping[str, Sequence[Composition]], *, caption: str = "") -> HtmlTable:
    """The counts of :func:`composition_figure`."""
    rows = list(dict.fromkeys((row.property, row.value) for found in sets.values() for row in found))
    counts = [{(row.property, row.value): row.count for row in found} for found in sets.values()]
    return HtmlTable(
        ["property", "value", *sets],
        [[*row, *(Number(str(of.get(row, 0))) for of in counts)] for row in rows],
        caption=caption,
    )


def baselines_table(found: Sequence[Baseline], *, caption: str = "") -> HtmlTable:
    """Every rule with its share of right answers, the share of a guess, and the test against it."""
    rows = [
        [
            Unbroken(b.name),
            b.rule,
            Number(f"{b.right.count} of {b.right.n}"),
            Number(share_text(b.right)),
            Number(f"{100 * b.chance:.1f}%"),
            Number(p_text(b.p_value)),
        ]
        for b in found
    ]
    columns = ["rule", "what it chooses", "right", "share [95% interval]", "a guess", "p against a guess"]
    return HtmlTable(columns, rows, caption=caption)


def baselines_figure(found: Sequence[Baseline], *, caption: str = "") -> go.Figure:
    """Shares of right answers with their intervals, and the guessing level."""
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.add_scatter(
        x=[100 * b.right.share for b in found],
        y=[b.name for b in found],
        mode="markers",
        marker={"size": 10, "symbol": "square", "color": BLUE},
        error_x=interval_bars([(b.right.low, b.right.share, b.right.high) for b in found], BLUE, scale=100),
        hovertemplate="%{y}: %{x:.1f}%<extra></extra>",
        showlegend=False,
    )
    for chance in sorted({b.chance for b in found}):
        figure.add_vline(x=100 * chance, line={"color": GRAY, "dash": "dot"}, annotation_text="a guess")
    titled(figure, "Rules that read no page", caption, height=160 + ROW_HEIGHT * len(found))
    figure.update_xaxes(title="right answers (%)", range=[0, 100])
    return figure.update_yaxes(autorange="reversed")


def group_contrasts_table(found: Sequence[GroupContrast], *, caption: str = "") -> HtmlTable:
    """Every comparison with the group of questions that it was made on."""
    groups = [Unbroken(row.group) for row in found]
    return contrasts_table(
        [row.contrast for row in found], sets=False, beside=("questions", list(groups)), caption=caption
    )


def gold_found_table(found: Sequence[GoldFound], *, caption: str = "") -> HtmlTable:
    """How many questions had one, or all, of their gold pages before the reader."""
    rows = [
        [
            Unbroken(row.system),
            row.group,
            _ROUNDS[row.rounds],
            Number(str(row.every.n)),
            Number(share_text(row.some)),
            Number(share_text(row.every)),
        ]
        for row in found
    ]
    columns = ["arm", "questions", "pages of", "n", "a gold page shown", "all gold pages shown"]
    return HtmlTable(columns, rows, caption=caption)


def answerability_table(reports: Sequence[AnswerabilityReport], *, caption: str = "") -> HtmlTable:
    """Whether confidence parts answerable from unanswerable questions, and what a threshold of other questions does."""
    rows = []
    for r in reports:
        held = r.held_back
        cells = (
            [Number("–")] * 5
            if held is None
            else [
                Number(f"{held.threshold:.3f}"),
                *(Number(share_text(s)) for s in (held.unanswerable, held.answerable)),
                *(Number(share_text(s)) for s in (held.right_before, held.right_given)),
            ]
        )
        rows.append(
            [
                Unbroken(r.system),
                Number(f"{r.answerable} / {r.unanswerable}"),
                Number(estimate_text(r.auroc)),
                Number(p_text(r.p_value)),
                *cells,
            ]
        )
    columns = [
        *("arm", "answerable / unanswerable", "AUROC [95% interval]", "p", "threshold, chosen on other questions"),
        *("unanswerable held back", "answerable held back", "right, all answered", "right, of those still answered"),
    ]
    return HtmlTable(columns, rows, caption=caption)


def answerability_figure(
    answerable: NDArray[np.float64],
    unanswerable: NDArray[np.float64],
    *,
    threshold: float | None = None,
    caption: str = "",
) -> go.Figure:
    """Confidences of both kinds of questions, each as its share at or above a confidence.

    Parameters
    ----------
    answerable, unanswerable : confidences, each between 0 and 1
    threshold : marked, where there is one
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, values, color in (("answerable", answerable, BLUE), ("unanswerable", unanswerable, ORANGE)):
        levels = sorted(values)
        figure.add_scatter(
            x=[0.0, *levels],
            y=[100.0, *(100 * (len(levels) - place) / len(levels) for place in range(len(levels)))],
            mode="lines",
            line={"shape": "vh", "color": color, "dash": "solid" if name == "answerable" else "dash"},
            name=f"{name} (n = {len(levels)})",
            hovertemplate="%{y:.0f}% have %{x:.3f} or more<extra>%{fullData.name}</extra>",
        )
    if threshold is not None:
        figure.add_vline(x=threshold, line={"color": GRAY, "dash": "dot"}, annotation_text="threshold")
    titled(figure, "Is the reader less sure where the corpus has no answer?", caption)
    figure.update_xaxes(title="confidence of the answer", range=[0, 1])
    return figure.update_yaxes(title="questions at or above (%)", range=[0, 104])
