"""Stage 1 beside its peers at scale: recall against time, cost against pages, and the table of times.

All of it is read from the results that the repository keeps. Where there are none, :func:`recall_figure` and
:func:`times_tables` say so, and the others add nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from medvrag_core.evaluation.retrieval.stage1_results import Collection, Engine, EngineFigures, Stage1Run
from medvrag_core.views.markup import HtmlBlock, escape, paragraph
from medvrag_core.views.tables import HtmlTable, Number, Unbroken, three_digits
from medvrag_core.views.theme import PALETTE, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

NOTHING = (
    "There are no results to draw here: benchmarks/stage1.py writes them, and a checkout of the repository keeps them "
    "as stage1*.json in benchmarks/results."
)
_AT = 100
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon")


def recall_figure(runs: Sequence[Stage1Run]) -> go.Figure | HtmlBlock:
    """Recall@100 against CPU time, one panel a size; open marks score one way and are held to that ranking."""
    from plotly.subplots import make_subplots

    panels = sorted(((run, found) for run in runs for found in run.sizes), key=lambda panel: panel[1].pages)
    if not panels:
        return paragraph(NOTHING)
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[_panel(run, found, runs) for run, found in panels],
        shared_yaxes=True,
        horizontal_spacing=0.04,
        vertical_spacing=0.22 / rows,
    )
    names = _names(found for _, found in panels)
    shown: set[str] = set()
    for place, (_, found) in enumerate(panels):
        for engine, figures in found.on_fewest_threads:
            if figures.recall.get(_AT) is None:
                continue
            figure.add_scatter(
                x=[figures.cpu_ms_p50],
                y=[figures.recall[_AT]],
                mode="markers",
                name=_legend(engine),
                legendgroup=engine.name,
                showlegend=engine.name not in shown,
                marker=_mark(engine, names),
                hovertemplate=_hover(engine, figures),
                row=place // columns + 1,
                col=place % columns + 1,
            )
            shown.add(engine.name)
    figure.update_xaxes(type="log", dtick=1, exponentformat="none", tickformat="~g", matches="x")
    figure.update_xaxes(title="CPU ms a query (log scale)", row=rows)
    figure.update_yaxes(range=[0, 1.05])
    figure.update_yaxes(title=f"recall@{_AT}", col=1)
    titled(figure, "Recall against time, at scale", _scope(runs), height=220 + 280 * rows)
    return figure.update_layout(legend={"y": -0.3 / rows}, margin={"t": 110})


def growth_figure(runs: Sequence[Stage1Run]) -> go.Figure | HtmlBlock:
    """CPU time of a query against the number of pages, one line an engine and machine."""
    import plotly.graph_objects as go

    if not any(run.sizes for run in runs):
        return HtmlBlock("")
    figure = go.Figure()
    names = _names(found for run in runs for found in run.sizes)
    machines = list(dict.fromkeys(run.machine.cpu for run in runs))
    for number, machine in enumerate(machines):
        here = [found for run in runs if run.machine.cpu == machine for found in run.sizes]
        for name in names:
            points = [
                (found.pages, engine, figures)
                for found in sorted(here, key=lambda found: found.pages)
                for engine, figures in found.on_fewest_threads
                if engine.name == name
            ]
            if not points:
                continue
            engine = points[0][1]
            mark = _mark(engine, names)
            figure.add_scatter(
                x=[pages for pages, _, _ in points],
                y=[figures.cpu_ms_p50 for _, _, figures in points],
                mode="lines+markers",
                name=_legend(engine) if len(machines) == 1 else f"{_legend(engine)}, {escape(machine)}",
                line={"color": mark["color"], "width": 1.5, "dash": ("solid", "dash", "dot")[number % 3]},
                marker=mark,
                customdata=[[figures.wall_ms_p50] for _, _, figures in points],
                hovertemplate="%{x:,} pages: %{y:.4g} CPU ms<br>by the clock %{customdata[0]:.4g} ms"
                "<extra>" + escape(name) + "</extra>",
            )
    sizes = sorted({found.pages for run in runs for found in run.sizes})
    figure.update_xaxes(title="pages (log scale)", type="log", tickvals=sizes, ticktext=[f"{n:,}" for n in sizes])
    figure.update_yaxes(title="CPU ms a query (log scale)", type="log", dtick=1, exponentformat="none", tickformat="~g")
    return titled(figure, "Cost against the number of pages", _scope(runs), height=520)


def times_tables(runs: Sequence[Stage1Run]) -> HtmlBlock:
    """Time, recall, size and build of every engine, one table a size, and one of scoring alone."""
    tables = []
    for run in runs:
        tables += [_times_table(run, found, _what(found)) for found in run.sizes]
        if run.kernel is not None:
            tables.append(_times_table(run, run.kernel, f"scoring alone, {_what(run.kernel)}"))
    return HtmlBlock("".join(table.html for table in tables)) if tables else paragraph(NOTHING)


def facts(runs: Sequence[Stage1Run]) -> HtmlBlock:
    """The command, the machine, the made pages and the difficulty of the queries, a paragraph a file."""
    return HtmlBlock("".join(paragraph(_facts(run)).html for run in runs))


def _scope(runs: Sequence[Stage1Run]) -> str:
    """What a reader must know about every number of some runs."""
    return f"made-up page vectors. {_gpu(runs)}"


def _gpu(runs: Sequence[Stage1Run]) -> str:
    on_gpu = dict.fromkeys(name for run in runs for name in run.on_gpu)
    return f"On a GPU: {', '.join(on_gpu)}." if on_gpu else "Nothing ran on a GPU."


def _times_table(run: Stage1Run, found: Collection, what: str) -> HtmlTable:
    recalls = sorted({n for _, figures in found.measured for n in figures.recall})
    rows = [
        [
            Unbroken(engine.name if figures.device == "cpu" else f"{engine.name} on {figures.device}"),
            Number(str(engine.threads)),
            Unbroken(engine.compared_with),
            Number(three_digits(figures.cpu_ms_p50)),
            Number(_times(found.ratio(engine))),
            Number(three_digits(figures.wall_ms_p50)),
            Number(three_digits(figures.wall_ms_p95)),
            Number(three_digits(figures.floor_ms) if figures.floor_ms else "–"),
            Number(_times(figures.of_floor)),
            *(Number(_share(figures.recall.get(n))) for n in recalls),
            Number(f"{figures.bytes_per_page:,.0f}"),
            Number(three_digits(figures.build_cpu_ms_per_page)),
        ]
        for engine, figures in found.measured
    ]
    columns = [
        *("engine", "threads", "recall is of", "CPU ms, median", f"beside {found.beside}", "ms by the clock, median"),
        *("95th percentile", "floor, ms", "× floor", *(f"recall@{n:,}" for n in recalls)),
        *("bytes a page", "build, CPU ms a page"),
    ]
    bandwidth = ", ".join(
        f"{speed / 1e9:.1f} GB/s with {threads} thread{'s' * (threads != 1)}"
        for threads, speed in sorted(found.read_bytes_per_s.items())
    )
    parts = [
        _scope([run]).rstrip("."),
        what,
        f"{found.queries} queries of {found.query_rows:.0f} vectors",
        _machine(run),
        "" if found.load is None else f"load {found.load[0]:g} to {found.load[1]:g} while engines searched",
        f"memory is read at {bandwidth}",
        *_not_measured(found),
    ]
    return HtmlTable(columns, rows, caption="; ".join(filter(None, parts)))


def _not_measured(found: Collection) -> list[str]:
    """Which engines did not run: those that were not there in one list, the others each with its reason."""
    absent = dict.fromkeys(engine.name for engine in found.not_measured if engine.status == "not installed")
    others: dict[tuple[str, str], list[int]] = {}
    for engine in found.not_measured:
        if engine.name not in absent:
            others.setdefault((engine.name, f"{engine.status}, {engine.reason}"), []).append(engine.threads)
    told = [
        f"{name} with {' and '.join(map(str, threads))} thread{'s' * (threads != [1])}: {why}"
        for (name, why), threads in others.items()
    ]
    return told + ([f"not installed: {', '.join(absent)}"] if absent else [])


def _what(found: Collection) -> str:
    return f"{found.pages:,} pages of {found.rows / found.pages:.0f} vectors"


def _facts(run: Stage1Run) -> str:
    made = run.generator
    told = [
        f"{run.source}: benchmarks/stage1.py {' '.join(run.command)}, measured on {_machine(run)}, Python "
        f"{run.machine.python}. {_gpu([run])} "
        f"The page vectors are made up, {made.dim} numbers wide, from seed {made.seed}: {made.topics:,} topics of "
        f"{made.concepts:,} concepts, {made.background_share:.0%} of the regions background that looks alike on all "
        f"pages, {made.short_share:.0%} of the pages with under 12 vectors. A query looks at two places of one page, "
        f"blurred; {made.query_words:.0%} of its vectors are words that any question has."
    ]
    for found in run.sizes:
        hard = found.difficulty
        shared = hard.two_way_top_100_in_one_way
        told.append(
            f"Among {found.pages:,} pages exact search puts the page that a query was made from first in "
            f"{hard.target_first:.0%} of {found.queries} queries, and among the first 100 in "
            f"{hard.target_among_100:.0%}"
            + ("." if shared is None else f"; one way and two ways share {shared:.0%} of their first 100 pages.")
        )
    return " ".join(told)


def _machine(run: Stage1Run) -> str:
    told = run.machine
    parts = [
        told.cpu,
        f"{told.cores} cores" if told.cores else "",
        f"{told.memory_gb:.0f} GB" if told.memory_gb else "",
        " ".join(told.flags),
        "" if told.load is None else f"load {told.load:g} at the start",
    ]
    return ", ".join(filter(None, parts))


def _panel(run: Stage1Run, found: Collection, runs: Sequence[Stage1Run]) -> str:
    return f"{found.pages:,} pages" + (f"<br>{escape(run.source)}" if len(runs) > 1 else "")


def _names(collections: Iterable[Collection]) -> list[str]:
    """Engines in the order in which they come first."""
    return list(dict.fromkeys(engine.name for found in collections for engine, _ in found.measured))


def _mark(engine: Engine, names: Sequence[str]) -> dict[str, object]:
    place = names.index(engine.name)
    turn = place // len(PALETTE)
    symbol = _SYMBOLS[(place + turn) % len(_SYMBOLS)]
    return {
        "size": 11,
        "color": PALETTE[place % len(PALETTE)],
        "symbol": symbol if engine.ways == 2 else f"{symbol}-open",
        "line": {"width": 0 if engine.ways == 2 else 2},
    }


def _legend(engine: Engine) -> str:
    return escape(engine.name) + ("" if engine.ways == 2 else " (one way)")


def _hover(engine: Engine, figures: EngineFigures) -> str:
    version = f" {engine.version}" if engine.version else ""
    return (
        f"{escape(engine.name)}{escape(version)}, {engine.threads} thread{'s' * (engine.threads != 1)}<br>"
        f"%{{x:.4g}} CPU ms, {figures.wall_ms_p50:.4g} ms by the clock<br>"
        f"recall@{_AT} %{{y:.3f}} of {escape(engine.compared_with)}<extra></extra>"
    )


def _times(value: float | None) -> str:
    return (
        "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.0f}"
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
