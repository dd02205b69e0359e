"""HTML tables of the book; every cell is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.evaluation.cost.latency import LatencyRow
from medvrag_core.evaluation.retrieval.metrics import RetrievalReport
from medvrag_core.evaluation.scoring import AccuracyReport
from medvrag_core.views.markup import escape

_LONG_TEXT = 40
"""Characters from which on a cell holds prose, which the book's style keeps from being squeezed on narrow screens."""


class HtmlTable:
    """A table of plain values with a caption; numbers stand right, text left.

    >>> HtmlTable(["name", "n"], [["<arm>", 3]]).html.count("&lt;arm&gt;")
    1
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, caption: str = "") -> None:
        self.columns = tuple(columns)
        self.rows = tuple(tuple(row) for row in rows)
        self.caption = caption

    @property
    def html(self) -> str:
        """The whole ``<table>`` element."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in self.rows)
        caption = (
            f'<caption style="caption-side:top;text-align:left">{escape(self.caption)}</caption>'
            if self.caption
            else ""
        )
        return f'<table class="medvrag-table">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

    def _repr_html_(self) -> str:
        return self.html


def arms_table(reports: Sequence[AccuracyReport], *, caption: str = "") -> HtmlTable:
    """Accuracy, interval, and rates of questions without an answer by arm; incomplete arms are marked."""
    rows = [
        [
            r.system,
            Number(f"{r.correct} of {r.n}"),
            Number(_percent(r.accuracy)),
            Number(f"[{_percent(r.low)}, {_percent(r.high)}]"),
            Number(_percent(r.unparsed_rate)),
            Number(_percent((r.truncated + r.refused) / r.n)),
            Number(_percent(r.error_rate)),
            "yes" if r.complete else f"no ({r.n} of {r.expected} questions, {r.errors} errors)",
        ]
        for r in reports
    ]
    return HtmlTable(
        ["arm", "right", "accuracy", "95% interval", "unparsed", "cut or refused", "errors", "complete"],
        rows,
        caption=caption,
    )


def latency_table(rows: Sequence[LatencyRow], *, caption: str = "") -> HtmlTable:
    """Mean, median and spread by step beside the paper's Table 2; a dash where nothing was timed or printed."""
    cells = [
        [
            r.label,
            Number(str(r.n)),
            Number(seconds(r.mean)),
            Number(seconds(r.median)),
            Number("–" if r.p25 is None else f"{seconds(r.p25)} to {seconds(r.p75)}"),
            Number("–" if r.p10 is None else f"{seconds(r.p10)} to {seconds(r.p90)}"),
            Number(seconds(r.paper)),
        ]
        for r in rows
    ]
    columns = ["step", "n", "mean", "median", "p25 to p75", "p10 to p90", "paper (mean, 4 x A100)"]
    return HtmlTable(columns, cells, caption=caption)


def retrieval_table(reports: dict[str, RetrievalReport], *, caption: str = "") -> HtmlTable:
    """Recall at each cut-off, nDCG@10, MRR and MRR@10 by retriever; cut-offs of the first report."""
    ks = sorted(next(iter(reports.values())).recall) if reports else []
    rows = [
        [
            name,
            Number(str(r.n)),
            *(Number(f"{r.recall[k]:.3f}" if k in r.recall else "–") for k in ks),
            Number(f"{r.ndcg_at_10:.3f}"),
            Number(f"{r.mrr:.3f}"),
            Number(f"{r.mrr_at_10:.3f}"),
        ]
        for name, r in reports.items()
    ]
    columns = ["retriever", "questions", *(f"recall@{k}" for k in ks), "nDCG@10", "MRR", "MRR@10"]
    return HtmlTable(columns, rows, caption=caption)


class Number(str):
    """A formatted number; set right-aligned with figures of equal width."""


class Unbroken(str):
    """A short text that stays on one line."""


class Code(str):
    """A command; set in a fixed-width font."""


def seconds(value: float | None) -> str:
    """Seconds in the unit that reads best; a dash for ``None``.

    >>> seconds(0.0019), seconds(15.93), seconds(None)
    ('1.9 ms', '15.9 s', '–')
    """
    if value is None:
        return "–"
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.1f} s"


def three_digits(value: float) -> str:
    """A number in three digits, or in all that stand before the point.

    >>> three_digits(2_671.4), three_digits(0.01234), three_digits(20.0)
    ('2,671', '0.0123', '20')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "question"), counted(1_273, "question")
    ('1 question', '1,273 questions')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def byte_text(size: float) -> str:
    """Bytes in units of 1,000.

    >>> byte_text(2.5e9), byte_text(12_000), byte_text(0)
    ('2.5 GB', '12 kB', '–')
    """
    if not size:
        return "–"
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= factor:
            return f"{three_digits(size / factor)} {unit}"
    return f"{three_digits(size / 1e3)} kB"


def pages_text(pages: float) -> str:
    """A number of pages in thousands or millions.

    >>> pages_text(350_000), pages_text(17_900_000), pages_text(2.2e9), pages_text(500)
    ('350 K', '17.9 M', '2,200 M', '500')
    """
    for factor, unit in ((1e6, " M"), (1e3, " K")):
        if pages >= factor:
            return three_digits(pages / factor) + unit
    return f"{pages:,.0f}"


def p_text(value: float | None) -> str:
    """A p-value with four decimals, never 0; a dash where there is none.

    >>> p_text(0.00004), p_text(0.0412), p_text(None)
    ('<.0001', '0.0412', '–')
    """
    return "–" if value is None else "<.0001" if value < 1e-4 else f"{value:.4f}"


def _cell(value: object) -> str:
    if isinstance(value, Number | int | float):
        return f'<td style="text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap">{escape(value)}</td>'
    if isinstance(value, Unbroken):
        return f'<td style="text-align:left;white-space:nowrap">{escape(value)}</td>'
    if isinstance(value, Code):
        return f'<td style="text-align:left"><code>{escape(value)}</code></td>'
    long = ' class="long"' if len(str(value)) > _LONG_TEXT else ""
    return f'<td{long} style="text-align:left">{escape(value)}</td>'


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
