"""HTML tables of what a run holds: settings, articles, ledger, summaries, filter calls, traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from textwrap import shorten
from typing import Any

from medvrag_core.evaluation.errors.by_evidence import GroupRow
from medvrag_core.evaluation.report import RunReport
from medvrag_core.evaluation.retrieval.filter_loss import FilterLoss
from medvrag_core.records import Article, FilterDecision, LedgerEntry, Summary, Trace
from medvrag_core.settings import Profile
from medvrag_core.views.tables import HtmlTable, Number, counted, seconds


def profile_table(profile: Profile) -> HtmlTable:
    """Every setting of a profile, one row a field, stage by stage."""
    rows: list[list[object]] = [["", "note", profile.note], ["", "seed", profile.seed]]
    for stage, values in profile.model_dump(mode="json").items():
        if isinstance(values, dict):
            rows += [[stage, field, str(value)] for field, value in values.items() if value != ""]
    return HtmlTable(["stage", "setting", "value"], rows, caption=f"profile {profile.name}")


def articles_table(articles: Sequence[Article]) -> HtmlTable:
    """Articles of the corpus with their page counts."""
    rows = [[a.article_id, a.title, a.pages] for a in articles]
    return HtmlTable(["article", "title", "pages"], rows, caption=f"{len(articles)} articles")


def ledger_table(ledger: Sequence[LedgerEntry], *, limit: int = 40) -> HtmlTable:
    """What was dropped or changed, and how many entries there are of each kind."""
    counts = Counter(f"{entry.state}: {entry.reason}" for entry in ledger)
    told = [entry for entry in ledger if entry.state != "kept"]
    rows = [[e.file, e.page_id, e.state, e.reason, e.detail] for e in told[:limit]]
    caption = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "the ledger is empty"
    if len(told) > limit:
        caption += f" (first {limit} of {len(told)} shown)"
    return HtmlTable(["file", "page", "state", "reason", "detail"], rows, caption=caption)


def summaries_table(summaries: Mapping[str, Summary], *, limit: int = 5) -> HtmlTable:
    """The first few page summaries."""
    rows = [[s.page_id, s.text, s.tokens, s.method, ", ".join(s.flags)] for s in islice(summaries.values(), limit)]
    caption = f"first {len(rows)} of {len(summaries)} summaries; tokens of an extract are an upper estimate"
    return HtmlTable(["page", "summary", "tokens", "made by", "flags"], rows, caption=caption)


def metrics_table(metrics: Mapping[str, Any], *, caption: str = "") -> HtmlTable:
    """Name and value of plain numbers and texts; anything nested is left out."""
    rows = [[k.replace("_", " "), _plain(v)] for k, v in metrics.items() if not isinstance(v, list | dict)]
    rows += [
        [f"{k.replace('_', ' ')}: {inner}", _plain(v)]
        for k, nested in metrics.items()
        if isinstance(nested, dict)
        for inner, v in nested.items()
        if not isinstance(v, list | dict)
    ]
    return HtmlTable(["", "value"], rows, caption=caption)


def report_table(report: RunReport, *, caption: str = "") -> HtmlTable:
    """The report of a run, one row a figure."""
    accuracy = f"{report.accuracy:.3f} [{report.accuracy_low:.3f}, {report.accuracy_high:.3f}]"
    rows: list[list[object]] = [
        ["questions", report.n],
        ["accuracy [95% interval]", Number(accuracy)],
        ["guessing would give", _plain(report.chance)],
        ["unparsed", _plain(report.unparsed_rate)],
        ["errors", _plain(report.error_rate)],
        ["gold pages among the first 10, Stage 1", _plain(report.recall_at_10)],
        ["gold pages among the first 100, Stage 1", _plain(report.recall_at_100)],
        ["gold pages among the first 10, after the filter", _plain(report.filtered_recall_at_10)],
        ["nDCG@10, Stage 1", _plain(report.ndcg_at_10)],
        ["time a question, median", Number(seconds(report.seconds_per_question))],
        ["rounds a question, mean", _plain(report.mean_rounds)],
    ]
    return HtmlTable(["", "value"], rows, caption=caption)


def filter_table(decision: FilterDecision, *, gold: Sequence[str] = (), show: int = 5) -> HtmlTable:
    """Every call of the filter: what it saw, what it kept, what had to be repaired, and what it cost."""
    rows: list[list[object]] = [
        [
            f"{call.phase} {number}",
            len(call.shown),
            len(call.kept),
            ", ".join(call.kept[:show]) + (" ..." if len(call.kept) > show else ""),
            ", ".join(page for page in gold if page in call.shown) or "-",
            ", ".join(page for page in gold if page in call.kept) or "-",
            call.repeated,
            call.strangers,
            call.filled,
            f"yes ({call.reason or 'unknown'})" if call.fallback else "no",
            call.prompt_tokens or "-",
            ", ".join(call.flags) or "-",
        ]
        for number, call in enumerate(decision.calls, start=1)
    ]
    columns = ["call", "shown", "kept", "best kept", "gold shown", "gold kept", "ids repeated", "ids not shown"]
    return HtmlTable([*columns, "filled", "fell back", "prompt tokens", "flags"], rows)


_FATES = {
    "kept": "kept",
    "lost_to_fallback": "lost, the call fell back to Stage-1 order",
    "lost_in_reduce": "lost in reduce",
    "lost_in_map": "lost in map",
    "lost_unseen": "lost, no call showed it",
}


def filter_loss_table(loss: FilterLoss, *, caption: str = "") -> HtmlTable:
    """What became of the gold pages among the candidates, with the calls behind it in the caption."""
    rows: list[list[object]] = [
        [
            _FATES[row.fate],
            Number(f"{row.count} of {loss.candidates}"),
            _plain(row.share) if loss.candidates else "-",
            Number(f"[{row.low:.3f}, {row.high:.3f}]"),
        ]
        for row in loss.rows
    ]
    rows.append(["never among the candidates", Number(f"{loss.never_candidates} of {loss.gold}"), "-", "-"])
    calls = loss.calls
    fallbacks = ", ".join(f"{reason} {count}" for reason, count in calls.fallbacks.items()) or "none"
    parts = [
        caption,
        f"{loss.system}, {'first round' if loss.rounds == 'first' else 'any round'}",
        counted(loss.questions, "question"),
        f"{calls.calls} calls, fallbacks: {fallbacks}",
        f"{calls.repeated} ids repeated, {calls.strangers} not shown, {calls.cut} calls with a cut summary",
    ]
    if calls.prompt_tokens_median is not None:
        parts.append(f"prompt tokens a call: median {calls.prompt_tokens_median:g}, most {calls.prompt_tokens_max}")
    return HtmlTable(["gold pages", "count", "share", "95% interval"], rows, caption="; ".join(filter(None, parts)))


def traces_table(traces: Sequence[Trace]) -> HtmlTable:
    """One row a question: what was answered, what is right, and how it came about."""
    rows: list[list[object]] = [
        [
            t.question.id,
            shorten(t.question.question, 110),
            t.label or f"({t.reason})",
            t.question.answer or "-",
            "right" if t.correct else "wrong",
            len(t.rounds),
            f"{_found(t)} of {len(t.question.gold_pages)}",
            Number(seconds(t.seconds)) if t.seconds else "-",
        ]
        for t in traces
    ]
    columns = ["id", "question", "answered", "gold", "", "rounds", "gold pages read", "time"]
    return HtmlTable(columns, rows, caption=counted(len(traces), "question"))


def evidence_table(groups: Sequence[GroupRow], *, caption: str = "") -> HtmlTable:
    """Accuracy of each group with its interval."""
    rows: list[list[object]] = [
        [g.group, Number(f"{g.correct} of {g.n}"), _plain(g.accuracy), Number(f"[{g.low:.3f}, {g.high:.3f}]")]
        for g in groups
    ]
    return HtmlTable(["", "right", "accuracy", "95% interval"], rows, caption=caption)


def _found(trace: Trace) -> int:
    read = {page for round_ in trace.rounds for page in round_.shown}
    return len(read & set(trace.question.gold_pages))


def _plain(value: object) -> object:
    if value is None:
        return "-"
    return Number(f"{value:.3f}") if isinstance(value, float) else value if isinstance(value, int) else str(value)
