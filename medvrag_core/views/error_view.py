"""Tables and figures of wrong answers: both taxonomies side by side, and the way that the evidence went."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

from medvrag_core.evaluation.errors.by_hand import HumanCheck
from medvrag_core.evaluation.errors.evidence_flow import EvidenceFlow, Place
from medvrag_core.evaluation.errors.paper_taxonomy import (
    PAPER_CLASSES,
    BothTaxonomies,
    ErrorCase,
    PageFate,
    PaperClass,
    PaperTaxonomy,
    SideRow,
)
from medvrag_core.evaluation.errors.taxonomy import ERROR_CLASSES, ErrorClass, ErrorRow, ErrorTaxonomy
from medvrag_core.evaluation.statistics.shares import Share
from medvrag_core.records import Trace
from medvrag_core.views.tables import HtmlTable, Number, counted
from medvrag_core.views.theme import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    ROW_HEIGHT,
    SKY,
    VERMILION,
    interval_bars,
    sankey,
    titled,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

DASH = "–"
ERROR_LABELS: dict[ErrorClass, str] = {
    "retrieval_miss": "Retrieval miss: not among the candidates",
    "filter_miss": "Filter miss: dropped by the filter",
    "not_shown": "Not shown: kept, but ranked below the pages shown",
    "round_drift": "Round drift: lost after a refined query",
    "misread": "Misread: shown, answer still wrong",
    "suspect_gold": "Suspect gold: the right option is in doubt",
    "no_retrieval": "System retrieves nothing",
    "unlabeled": "No gold page known",
    "unparsed": "Reply without a readable answer",
    "truncated": "Reply cut at the token limit",
    "refused": "Refused by the model",
    "error": "Ended by an error",
}
PAPER_NAMES: dict[PaperClass, str] = {
    "retrieval_miss": "(i) retrieval miss",
    "filter_miss": "(ii) filter miss",
    "misread": "(iii) misinterpretation",
    "round_drift": "(iv) round drift",
}
_SHIFT = 0.16
PLACE_LABELS: dict[Place, str] = {
    "shown": "shown in the last round",
    "drifted": "lost after a refined query",
    "not_shown": "kept, not shown",
    "dropped": "dropped by the filter",
    "not_found": "not among the candidates",
}
_COLORS: dict[Place, str] = {
    "shown": BLUE,
    "drifted": GREEN,
    "not_shown": PURPLE,
    "dropped": ORANGE,
    "not_found": VERMILION,
}


def share_text(share: Share | ErrorRow) -> str:
    """A share in per cent with its interval; a dash where there is nothing to take a share of.

    >>> share_text(Share(count=3, n=4, share=0.75, low=0.301, high=0.954))
    '75.0% [30.1, 95.4]'
    """
    if (share.low, share.high) == (0, 1):  # the interval of no question at all
        return DASH
    return f"{100 * share.share:.1f}% [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def errors_text(row: ErrorRow) -> str:
    """A count, with the suspect questions that would stand in the class if their gold option held."""
    return f"{row.count} (+{row.suspect} suspect)" if row.suspect else str(row.count)


def taxonomy_table(taxonomy: ErrorTaxonomy, *, caption: str = "") -> HtmlTable:
    """Error classes with counts, and shares with their intervals."""
    rows = [[ERROR_LABELS[r.error_class], Number(errors_text(r)), Number(share_text(r))] for r in taxonomy.rows]
    columns = ["class", "errors", f"share of {taxonomy.wrong} wrong, 95% interval"]
    return HtmlTable(columns, rows, caption=caption)


def both_taxonomies_table(both: BothTaxonomies, *, caption: str = "") -> HtmlTable:
    """Our classes as rows, the paper's definitions as columns; below, the totals and what the paper prints."""
    paper = both.paper
    rows: list[list[object]] = [_ours(row, side) for row, side in zip(both.ours.rows, both.rows, strict=True)]
    totals: tuple[tuple[str, list[str], str, str], ...] = (
        (
            "meets the definition",
            [str(r.found.count) for r in paper.rows],
            str(paper.several.count),
            str(paper.none.count),
        ),
        (
            f"share of {paper.several.n} judged",
            [share_text(r.found) for r in paper.rows],
            share_text(paper.several),
            share_text(paper.none),
        ),
        ("meets no other", [str(r.alone) for r in paper.rows], DASH, DASH),
        ("printed (MedQA)", [f"{r.printed}%" for r in paper.rows], "0 claimed", "0 claimed"),
    )
    rows += [[name, "", "", *map(Number, (*cells, several, none))] for name, cells, several, none in totals]
    columns = ["our class", "errors", f"share of {both.ours.wrong} wrong", *PAPER_NAMES.values(), "in several"]
    return HtmlTable([*columns, "in none"], rows, caption=_caption(both, caption))


def overlap_table(paper: PaperTaxonomy, *, caption: str = "") -> HtmlTable:
    """How many errors meet two of the paper's definitions at once; the diagonal counts each definition."""
    rows = [[PAPER_NAMES[r.paper_class], *(Number(str(r.overlap[c])) for c in PAPER_CLASSES)] for r in paper.rows]
    return HtmlTable(["errors that also meet", *PAPER_NAMES.values()], rows, caption=caption)


def fates_table(fates: Sequence[PageFate], *, caption: str = "") -> HtmlTable:
    """What one gold page can go through, and what each taxonomy calls it."""
    most = max((len(fate.stages) for fate in fates), default=0)
    rows = [
        [
            *fate.stages,
            *[""] * (most - len(fate.stages)),
            _name(fate.ours),
            _paper_names(fate.paper),
        ]
        for fate in fates
    ]
    columns = [*(f"round {k}" for k in range(1, most + 1)), "our class", "the paper's definitions that hold"]
    return HtmlTable(columns, rows, caption=caption)


def cases_table(cases: Sequence[ErrorCase], traces: Sequence[Trace], *, caption: str = "") -> HtmlTable:
    """Every wrong answer with its class in both taxonomies.

    Parameters
    ----------
    cases : wrong answers
    traces : of the same system, those of the cases among them
    """
    by_id = {trace.question.id: trace for trace in traces}
    rows = []
    for case in cases:
        trace = by_id[case.question_id]
        paper = "cannot be judged" if case.paper is None else _paper_names(case.paper)
        answered = trace.label or f"({trace.reason or trace.outcome})"
        question = shorten(trace.question.question, 110)
        rows.append(
            [
                case.question_id,
                question,
                answered,
                trace.question.answer,
                len(trace.rounds),
                _name(case.error_class),
                paper,
            ]
        )
    columns = ["id", "question", "answered", "gold", "rounds", "our class", "the paper's definitions that hold"]
    return HtmlTable(columns, rows, caption=caption)


def human_check_table(found: HumanCheck | None, *, caption: str = "") -> HtmlTable:
    """Computed classes as rows, those given by hand as columns; below, both as shares. ``None``: nobody labeled."""
    if found is None:
        return HtmlTable(["computed class"], [["no labels by hand"]])
    named = {**found.computed, **found.by_hand}
    names = [name for name in ERROR_CLASSES if name in named]
    rows: list[list[object]] = [
        [_name(ours), *(Number(str(found.confusion[ours].get(theirs, 0))) for theirs in names)]
        for ours in names
        if ours in found.confusion
    ]
    for text, shares in (("share as computed", found.computed), ("share by hand", found.by_hand)):
        rows.append([text, *(Number(share_text(shares[name]) if name in shares else DASH) for name in names)])
    kappa = found.kappa
    told = (
        f"{found.n} of {found.n + found.not_labeled} wrong answers labeled by {found.rater}",
        f"agreement {found.agree.count} of {found.agree.n}: {share_text(found.agree)}",
        f"kappa {kappa.value:.2f} [{kappa.low:.2f}, {kappa.high:.2f}]" if kappa else "kappa undefined: one class alone",
    )
    columns = ["computed class", *(f"by hand: {_name(name)}" for name in names)]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, *told))))


def both_taxonomies_figure(both: BothTaxonomies, *, caption: str = "") -> go.Figure:
    """Shares by class: ours, the range that the paper's definitions allow, and what is printed for the paper's run."""
    import plotly.graph_objects as go

    ours, theirs, none = both.ours.rows, both.paper.rows, both.paper.none
    # Ours stand a little above the line of their class, the paper's a little below.
    lines: dict[str, int] = {row.error_class: place for place, row in enumerate(ours)}
    figure = go.Figure()
    for place, row in enumerate(theirs):
        share = 100 / row.found.n if row.found.n else 0.0
        figure.add_scatter(
            x=[share * row.alone, share * row.found.count], y=[lines[row.paper_class] + _SHIFT] * 2,
            mode="lines+markers", name="paper's definitions: from alone to all that meet it",
            legendgroup="paper", showlegend=place == 0, line={"color": ORANGE, "width": 7},
            marker={"size": 9, "color": ORANGE, "symbol": "square"},
            hovertemplate=f"{row.alone} to {row.found.count} of {row.found.n} errors<extra>paper's definitions</extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=[100 * none.share], y=[len(ours) + _SHIFT], mode="markers", legendgroup="paper", showlegend=False,
        marker={"size": 9, "color": ORANGE, "symbol": "square"}, error_x=_intervals([none], ORANGE),
        hovertemplate=f"{none.count} of {none.n} errors<extra>in no class</extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=[100 * row.share for row in ours], y=[place - _SHIFT for place in range(len(ours))], mode="markers",
        name="our classes, 95% interval", marker={"size": 10, "color": BLUE}, error_x=_intervals(ours, BLUE),
        customdata=[row.count for row in ours],
        hovertemplate="%{customdata} errors, %{x:.1f}%<extra>ours</extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=[float(row.printed.lstrip("~")) for row in theirs], y=[lines[row.paper_class] + _SHIFT for row in theirs],
        mode="markers", name="printed for the paper's own run",
        marker={"size": 11, "symbol": "diamond-open", "color": GRAY, "line": {"width": 2}},
        hovertemplate="%{x:.1f}%<extra>printed</extra>",
    )  # fmt: skip
    names = [f"{_name(row.error_class)}<br>{row.count} of {both.ours.wrong}" for row in ours]
    figure.update_xaxes(title=f"share of {both.ours.wrong} wrong answers (%)", range=[-2, 102])
    figure.update_yaxes(
        range=[len(ours) + 0.6, -0.6], tickvals=list(range(len(ours) + 1)),
        ticktext=[*names, "In none of the<br>paper's classes"], showgrid=False, zeroline=False, title="",
    )  # fmt: skip
    return titled(figure, "Two taxonomies of the same errors", caption, height=220 + ROW_HEIGHT * (len(ours) + 1))


def flow_table(flow: EvidenceFlow, *, caption: str = "") -> HtmlTable:
    """Questions by the place that their evidence reached, and how they ended."""
    rows = [
        [
            f"gold page {PLACE_LABELS[row.place]}",
            Number(str(row.right.n)),
            Number(str(row.right.count)),
            Number(str(row.wrong)),
            Number(str(row.unanswered)),
            Number(share_text(row.right)),
        ]
        for row in flow.rows
    ]
    told = f"{counted(flow.n, 'question')}, {flow.left_out} without gold page or retrieval left out"
    columns = ["", "questions", "right", "wrong", "no answer", "right, with 95% interval"]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, (caption, told))))


def flow_figure(flow: EvidenceFlow, *, caption: str = "") -> go.Figure:
    """From all questions through the place that the gold page reached to the end, as bands as wide as their counts."""
    import plotly.graph_objects as go

    rows = [row for row in flow.rows if row.right.n]
    ends = {
        "right": sum(row.right.count for row in rows),
        "wrong": sum(row.wrong for row in rows),
        "no answer": sum(row.unanswered for row in rows),
    }
    shown_ends = {name: count for name, count in ends.items() if count}
    first = 1 + len(rows)
    place_of = {name: first + k for k, name in enumerate(shown_ends)}
    links = [(0, 1 + k, row.right.n, _COLORS[row.place]) for k, row in enumerate(rows)]
    for k, row in enumerate(rows):
        parts = {"right": row.right.count, "wrong": row.wrong, "no answer": row.unanswered}
        links += [(1 + k, place_of[name], count, _COLORS[row.place]) for name, count in parts.items() if count]
    end_colors = {"right": SKY, "wrong": VERMILION, "no answer": GRAY}
    nodes = [
        (counted(flow.n, "question"), GRAY),
        *((f"{PLACE_LABELS[row.place]}: {row.right.n}", _COLORS[row.place]) for row in rows),
        *((f"{name}: {count}", end_colors[name]) for name, count in shown_ends.items()),
    ]
    figure = go.Figure(sankey(nodes, links, "%{value:.0f} questions<extra></extra>", pad=22))
    return titled(figure, "Where the gold page went, and how the question ended", caption, height=420)


def _ours(row: ErrorRow, side: SideRow) -> list[object]:
    cells = [*(str(side.found[c]) for c in PAPER_CLASSES), str(side.several), str(side.none)]
    return [_name(row.error_class), *map(Number, (errors_text(row), share_text(row), *cells))]


def _caption(both: BothTaxonomies, caption: str) -> str:
    parts = [caption, f"{both.ours.wrong} of {counted(both.ours.n, 'question')} wrong, system {both.ours.system}"]
    if both.paper.unjudged:
        parts.append(f"{both.paper.unjudged} cannot be judged (no gold page, or no retrieval)")
    if both.ours.suspect_reasons:
        reasons = ", ".join(f"{reason} {count}" for reason, count in both.ours.suspect_reasons.items())
        parts.append(f"suspect gold: {reasons}")
    return "; ".join(filter(None, parts))


def _name(error_class: ErrorClass) -> str:
    return ERROR_LABELS[error_class].partition(":")[0]


def _paper_names(classes: Sequence[PaperClass]) -> str:
    return " and ".join(PAPER_NAMES[c] for c in classes) or "none"


def _intervals(rows: Sequence[Share | ErrorRow], color: str) -> dict[str, object]:
    return interval_bars([(row.low, row.share, row.high) for row in rows], color, scale=100)
