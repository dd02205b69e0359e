"""The plan of a run in plain text, for the terminal."""

from __future__ import annotations

from medvrag_core.evaluation.cost.run_plan import Checked, PlanLine, RunPlan
from medvrag_core.views.scale_text import scale_lines
from medvrag_core.views.tables import byte_text, three_digits
from medvrag_core.views.trace_text import plain

_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))


def plan_text(plan: RunPlan) -> str:
    """A line for each part of the run, totals, memory, what does not fit, and the unit costs with their sources."""
    size = plan.size
    rows = [
        [line.stage, plain(line.what), _count(line.amount, line.unit), _time(line.wall_s), _time(line.core_s),
         _time(line.gpu_s), byte_text(line.bytes), _tokens(line), line.kind]
        for line in plan.lines
    ]  # fmt: skip
    total = [
        "total", "", "", f"{plan.wall_hours:,.2f} h", f"{plan.core_hours:,.2f} h", f"{plan.gpu_hours:,.2f} h",
        f"{plan.gigabytes:,.2f} GB", "", "",
    ]  # fmt: skip
    head = ["stage", "what", "amount", "time", "core time", "GPU time", "disk", "tokens in + out", "unit costs"]
    if plan.money is not None:
        total[5] += f", {plan.money:,.2f} {plain(plan.currency)}"
    lines = [
        f"{plain(plan.profile)}: {size.articles:,} articles, {size.pages:,} pages, {size.questions:,} questions",
        *_columns([head, *rows, total]),
        "memory",
        *(
            f"  {m.where}: {m.gib:,.1f} GiB" + (f" of {m.of_gib:,.0f}" if m.of_gib else "") + f", {plain(m.what)}"
            for m in plan.memory
        ),
        *(scale_lines(plan.scale, plan.limits) if plan.scale is not None else ()),
        *(f"does not fit: {plain(fault)}" for fault in plan.does_not_fit),
        *(f"note: {plain(note)}" for note in plan.notes),
        "unit costs",
        *(
            f"  {name} = {cost.value:.3g} {plain(cost.unit)} ({cost.kind}: {plain(cost.source)})"
            for name, cost in plan.unit_costs.items()
        ),
    ]
    return "\n".join([*lines, *(_checked_lines(plan.checked) if plan.checked else ())])


def _checked_lines(rows: tuple[Checked, ...]) -> list[str]:
    table = [["recorded in this run", "planned", "recorded", "recorded / planned"]]
    for row in rows:
        shown = _time if row.unit == "s" else byte_text
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else "–"
        table.append([row.what, shown(row.planned), shown(row.recorded), ratio])
    return _columns(table)


def _columns(rows: list[list[str]]) -> list[str]:
    """Two columns of text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = 2 if len(widths) > 4 else 1
    return [
        "  "
        + "  ".join(f"{c:<{w}}" if n < text else f"{c:>{w}}" for n, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


def _count(amount: float, unit: str) -> str:
    return f"{amount:,.0f} {unit}"


def _time(seconds: float | None) -> str:
    """Seconds in a unit that suits them; a dash for none, a question mark for unknown.

    >>> _time(5400), _time(0.5), _time(0), _time(None)
    ('1.5 h', '0.5 s', '–', '?')
    """
    if seconds is None:
        return "?"
    if not seconds:
        return "–"
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return f"{three_digits(seconds / size)} {unit}"


def _tokens(line: PlanLine) -> str:
    if not line.prompt_tokens:
        return "–"
    return f"{three_digits(line.prompt_tokens / 1e6)} M + {three_digits(line.completion_tokens / 1e6)} M"
