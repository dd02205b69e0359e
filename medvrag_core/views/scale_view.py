"""Chapter 11: what grows with the pages, as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from medvrag_core.evaluation.cost.run_plan import RunPlan
from medvrag_core.evaluation.scale.laws import ScaledMode, StageOneLaw
from medvrag_core.evaluation.scale.limits import Limit
from medvrag_core.evaluation.scale.outlook import GIB, SizeOutlook
from medvrag_core.evaluation.scale.scatter import Fleet, Waited
from medvrag_core.views.markup import escape
from medvrag_core.views.tables import HtmlTable, Number, byte_text, pages_text, seconds, three_digits
from medvrag_core.views.theme import BLUE, GRAY, GREEN, ORANGE, PURPLE, VERMILION, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLORS: dict[ScaledMode, str] = {"exact": BLUE, "fast": VERMILION}
_SCOPE = "arithmetic on unit costs; nothing ran on a GPU or at more than 350,000 pages"


def size_table(sizes: Sequence[SizeOutlook]) -> HtmlTable:
    """Bytes of each kind, and the machines whose memory holds the index."""
    rows = [
        [
            Number(f"{size.pages:,}"),
            *(
                Number(byte_text(value))
                for value in (
                    size.footprint.images,
                    size.footprint.vectors,
                    size.footprint.codes,
                    size.footprint.centroids,
                )
            ),
            Number(f"{size.modes[0].machines:,}"),
            Number(f"{size.modes[0].parts:,}"),
        ]
        for size in sizes
    ]
    columns = ["pages", "images and text", "page vectors", "codes", "centroids", "machines", "parts"]
    return HtmlTable(columns, rows, caption=f"{_machine(sizes[0])}; one part a core; {_SCOPE}")


def time_table(sizes: Sequence[SizeOutlook]) -> HtmlTable:
    """A query of each mode at each size."""
    rows = [
        [
            Number(f"{size.pages:,}"),
            mode.mode,
            Number(f"{mode.machines:,}"),
            Number(seconds(mode.core_s)),
            Number(seconds(mode.median_s)),
            Number(seconds(mode.p95_s)),
            Number(three_digits(mode.queries_per_s)),
            "extrapolated" if mode.beyond else "within what was measured",
        ]
        for size in sizes
        for mode in size.modes
    ]
    columns = ["pages", "mode", "machines", "core time", "one query alone", "95th percentile", "queries a second"]
    caption = f"{_machine(sizes[0])}; codes and centroids in memory; {_SCOPE}"
    return HtmlTable([*columns, "the law is"], rows, caption=caption)


def bytes_figure(sizes: Sequence[SizeOutlook]) -> go.Figure:
    """Bytes by pages, beside the memory and the disk of one machine."""
    import plotly.graph_objects as go

    figure = go.Figure()
    pages = [size.pages for size in sizes]
    for name, color, symbol in (
        ("images", ORANGE, "circle"),
        ("vectors", GREEN, "square"),
        ("codes", BLUE, "diamond"),
        ("centroids", PURPLE, "triangle-up"),
    ):
        values = [getattr(size.footprint, name) for size in sizes]
        figure.add_scatter(
            x=pages,
            y=[value / 1e9 for value in values],
            name={"images": "page images and text"}.get(name, name),
            mode="lines+markers",
            line={"color": color},
            marker={"symbol": symbol, "size": 8},
            customdata=[[byte_text(value)] for value in values],
            hovertemplate="%{x:,} pages: %{customdata[0]}",
        )
    machine = sizes[0].machine
    for y, what, dash in (
        (machine.nvme_gb, "disk of one machine", "dash"),
        (machine.index_bytes / 1e9, "memory for the index of one machine", "dot"),
    ):
        figure.add_scatter(
            x=[pages[0], pages[-1]],
            y=[y, y],
            name=what,
            mode="lines",
            line={"color": GRAY, "dash": dash, "width": 2},
            hovertemplate="%{y:,.0f} GB",
        )
    _by_pages(figure, pages)
    figure.update_yaxes(title="GB (log scale)", type="log", dtick=1, exponentformat="none", tickformat=",~g")
    return titled(figure, "Bytes by the number of pages", "arithmetic on unit costs", height=460)


def latency_figure(laws: Sequence[StageOneLaw], pages: Sequence[int], cores: int) -> go.Figure:
    """Measured medians of one core and the law through them, dashed where it is extrapolated.

    Dotted: the law for as many parts as ``cores``, each with its share of the pages.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for law in laws:
        color = _COLORS[law.mode]
        figure.add_scatter(
            x=[point.pages for point in law.points],
            y=[point.cpu_ms / 1e3 for point in law.points],
            name=f"{law.mode}, measured",
            mode="markers",
            marker={"color": color, "size": 11, "symbol": "circle" if law.mode == "exact" else "diamond"},
            customdata=[[point.source] for point in law.points],
            hovertemplate="%{x:,} pages: %{y:.3g} s of a core<br>%{customdata[0]}",
        )
        within = np.geomspace(law.points[0].pages, law.largest, 20)
        beyond = np.geomspace(law.largest, max(*pages, law.largest + 1), 20)
        everywhere = np.concatenate([within, beyond])
        for x, divided, dash, what in (
            (within, 1, "solid", "one core"),
            (beyond, 1, "dash", "one core, extrapolated"),
            (everywhere, cores, "dot", f"{cores} parts, computed"),
        ):
            figure.add_scatter(
                x=x,
                y=[law.seconds(n / divided) for n in x],
                name=f"{law.mode}, {what}",
                mode="lines",
                line={"color": color, "width": 2, "dash": dash},
                hovertemplate="%{x:,.0f} pages: %{y:.3g} s",
            )
    _by_pages(figure, pages)
    figure.update_yaxes(
        title="seconds a query (log scale)", type="log", dtick=1, exponentformat="none", tickformat="~g"
    )
    return titled(figure, "Time of a query by the number of pages", "made-up page vectors", height=520)


def law_table(laws: Sequence[StageOneLaw]) -> HtmlTable:
    """Each measured point beside its line, with its recall."""
    rows = [
        [
            law.mode,
            Number(f"{point.pages:,}"),
            Number(seconds(point.cpu_ms / 1e3)),
            Number(seconds(law.seconds(point.pages))),
            Number(f"{law.seconds(point.pages) / (point.cpu_ms / 1e3) - 1:+.0%}"),
            *(Number("–" if (share := point.recall.get(at)) is None else f"{share:.3f}") for at in (10, 100, 2_000)),
        ]
        for law in laws
        for point in law.points
    ]
    columns = ["mode", "pages", "measured", "line", "off by", "recall@10", "recall@100", "recall@2,000"]
    files = ", ".join(dict.fromkeys(point.source for law in laws for point in law.points))
    return HtmlTable(columns, rows, caption=f"medians of one core, made-up page vectors; {files}")


def model_table(plans: Sequence[RunPlan]) -> HtmlTable:
    """GPU hours of embedding and summaries, core hours of rendering, at each size; money where a price was given."""
    rows = []
    for plan in plans:
        gpu = {line.stage: line for line in plan.lines}
        rows.append(
            [
                Number(f"{plan.size.pages:,}"),
                Number(_hours(gpu["corpus"].core_s)),
                *(Number(_hours(gpu[stage].gpu_s)) for stage in ("embedding", "summaries")),
                Number(_hours(sum(line.core_s for line in plan.lines if line.stage == "index"))),
                Number("–" if plan.money is None else f"{plan.money:,.0f} {plan.currency}"),
            ]
        )
    columns = ["pages", "rendering, core h", "embedding, GPU h", "summaries, GPU h", "index, core h", "GPU hours cost"]
    return HtmlTable(columns, rows, caption=f"profile {plans[0].profile}; {_SCOPE}")


def hours_figure(plans: Sequence[RunPlan]) -> go.Figure:
    """Hours of GPUs and cores by the number of pages, paid once."""
    import plotly.graph_objects as go

    figure = go.Figure()
    pages = [plan.size.pages for plan in plans]
    for stage, device, color, symbol in (
        ("summaries", "GPU", VERMILION, "circle"),
        ("embedding", "GPU", ORANGE, "square"),
        ("corpus", "core", BLUE, "diamond"),
        ("index", "core", GREEN, "triangle-up"),
    ):
        spent = [
            sum((line.gpu_s if device == "GPU" else line.core_s) for line in plan.lines if line.stage == stage) / 3600
            for plan in plans
        ]
        figure.add_scatter(
            x=pages,
            y=spent,
            name=f"{'rendering' if stage == 'corpus' else stage}, {device} hours",
            mode="lines+markers",
            line={"color": color, "dash": "solid" if device == "GPU" else "dash"},
            marker={"symbol": symbol, "size": 8},
            customdata=[[three_digits(hours)] for hours in spent],
            hovertemplate="%{x:,} pages: %{customdata[0]} h",
        )
    _by_pages(figure, pages)
    figure.update_yaxes(title="hours (log scale)", type="log", dtick=1, exponentformat="none", tickformat=",~g")
    return titled(figure, "Hours that a corpus takes, once", "arithmetic; nothing ran on a GPU", height=440)


def residence_table(sizes: Sequence[SizeOutlook]) -> HtmlTable:
    """Where the index may lie: memory, bytes read a query, and the time that costs."""
    rows = [
        [
            Number(f"{size.pages:,}"),
            place.what,
            place.mode,
            Number(f"{place.machines:,}"),
            Number(byte_text(place.ram)),
            Number(byte_text(place.read)),
            Number(seconds(place.read_s) if place.read else "–"),
        ]
        for size in sizes
        for place in size.residences
    ]
    columns = ["pages", "where", "mode", "machines", "memory, all machines", "read a query", "more time a query"]
    return HtmlTable(columns, rows, caption=f"{_machine(sizes[0])}; reads as fast as the virtual disk of the benchmark")


def limits_table(found: Sequence[Limit]) -> HtmlTable:
    """What gives way, the nearest first."""
    rows = [
        [Number(pages_text(one.pages)), one.what, one.why, one.way_out, Number(f"{one.measured:,}")] for one in found
    ]
    columns = ["at pages", "what gives way", "why", "way out", "seen to work at"]
    return HtmlTable(columns, rows, caption="computed from unit costs; none of them was run into")


def load_figure(rows: Sequence[tuple[str, Sequence[Waited]]]) -> go.Figure:
    """Median and 95th percentile by queries a second, a color a fleet."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for (name, waited), color in zip(rows, (BLUE, VERMILION, GREEN, PURPLE), strict=False):
        for what, dash in (("p50_s", "solid"), ("p95_s", "dot")):
            figure.add_scatter(
                x=[one.queries_per_s for one in waited],
                y=[getattr(one, what) for one in waited],
                name=f"{escape(name)}, {'median' if what == 'p50_s' else '95th percentile'}",
                mode="lines+markers",
                line={"color": color, "dash": dash},
                customdata=[[one.load] for one in waited],
                hovertemplate="%{x:.3g} queries a second: %{y:.3g} s<br>replicas busy %{customdata[0]:.0%}",
            )
    figure.update_xaxes(title="queries a second", rangemode="tozero")
    figure.update_yaxes(
        title="seconds to the last part (log scale)", type="log", dtick=1, exponentformat="none", tickformat="~g"
    )
    return titled(figure, "Waiting for the slowest part", "simulated; queries come at random", height=460)


def fleet_table(rows: Sequence[tuple[str, Fleet, Sequence[Waited]]]) -> HtmlTable:
    """Each fleet alone, at half its capacity, and at nine tenths."""
    cells = [
        [
            name,
            Number(f"{fleet.parts:,} × {fleet.replicas}"),
            Number(seconds(fleet.median_s)),
            Number(seconds(waited[0].alone_s)),
            Number(three_digits(fleet.capacity)),
            *(Number(f"{seconds(one.p50_s)} / {seconds(one.p95_s)}") for one in waited),
        ]
        for name, fleet, waited in rows
    ]
    loads = [f"median / 95th percentile at load {one.load:.0%}" for one in rows[0][2]]
    columns = ["fleet", "parts × replicas", "one part", "slowest part", "most queries a second", *loads]
    return HtmlTable(columns, cells, caption="simulated; queries come at random, the first tenth is not counted")


def _by_pages(figure: go.Figure, pages: Sequence[int]) -> None:
    figure.update_xaxes(
        title="pages (log scale)", type="log", tickvals=list(pages), ticktext=[pages_text(n) for n in pages]
    )


def _machine(size: SizeOutlook) -> str:
    machine = size.machine
    return (
        f"machines of {machine.cores} cores, {machine.ram_gib:,.0f} GiB of memory "
        f"({machine.index_bytes / GIB:,.0f} for the index), {machine.nvme_gb:,.0f} GB of disk"
    )


def _hours(spent: float) -> str:
    return f"{three_digits(spent / 3600)}"
