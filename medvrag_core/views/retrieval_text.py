"""Retrieval of a system, a judge and two raters as plain text for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medvrag_core.evaluation.labels.corrected import Correction, RaterComparison
from medvrag_core.evaluation.labels.judge import JudgeReport
from medvrag_core.evaluation.retrieval.exact_overlap import ExactOverlap, SearchWay
from medvrag_core.evaluation.retrieval.report import StageReport
from medvrag_core.views.retrieval_view import CHUNKS_COUNT, STAGE_LABELS, estimate_text, overlap_note
from medvrag_core.views.tables import counted, seconds
from medvrag_core.views.trace_text import plain


def stage_report_text(report: StageReport) -> str:
    """Recall of every stage, then what the filter lost, then the modes of the index beside exact search."""
    found, lost = report.recall, report.filter_loss
    lines = [
        f"{plain(found.system)}, profile {plain(found.profile)}, {found.rounds} round: "
        f"{counted(found.questions, 'question')} with {found.gold_pages} relevant pages "
        f"({found.without_gold} without, {found.unranked} without a ranking)",
        f"  {'':24}{'first k':>8}  {'recall':23}{'any gold':23}{'all gold':23}",
    ]
    for row in found.rows:
        cells = "".join(f"{estimate_text(e):23}" for e in (row.recall, row.any_gold, row.all_gold))
        judged = "" if row.judged is None else f"{row.judged:.0%} of these pages labeled"
        lines.append(f"  {STAGE_LABELS[row.stage]:24}{row.k:>8,}  {cells}{judged}".rstrip())
    lines += [
        f"  {STAGE_LABELS[r.stage]:24}nDCG@10 {estimate_text(r.ndcg_at_10)}, MRR {estimate_text(r.mrr)}"
        for r in found.ranks
    ]
    if found.chunks:
        lines.append(f"  {CHUNKS_COUNT}")
    fates = ", ".join(f"{row.fate.replace('_', ' ')} {row.count}" for row in lost.rows)
    lines.append(f"filter: {lost.candidates} of {lost.gold} gold pages came in; {fates}")
    lines += [
        f"corrected by people, {STAGE_LABELS[row.stage]}, first {row.k:,}: {_corrected(row.recall)}"
        for row in report.corrected
    ]
    return "\n".join(lines + (_overlap_lines(report.exact) if report.exact is not None else []))


def judge_text(report: JudgeReport, out: Path, calls: Mapping[str, int]) -> str:
    """What became of every pair, and what was paid for it."""
    lines = [
        f"{out}: {report.pairs} pages of {counted(report.questions, 'question')} judged by {plain(report.model)}, "
        f"prompt {report.prompt_version}",
        f"  {report.relevant} relevant, {report.not_relevant} not",
        f"  replies without a label: {_counts(report.unread)}; failed calls: {_counts(report.failed)}",
        f"  calls: {calls.get('asked', 0)} asked, {calls.get('stored', 0)} found in the store",
    ]
    if report.cut:
        lines.append(f"  {report.cut} pages were cut to fit")
    return "\n".join(lines)


def raters_text(found: RaterComparison) -> str:
    """Counts, shares and kappa of two raters."""
    both = found.agreement
    drawn = ", weighted by the chance of being drawn" if both.weighted else ""
    lines = [
        f"A {plain(both.a)} ({_counts(both.labels_a)})",
        f"B {plain(both.b)} ({_counts(both.labels_b)})",
        f"{both.pages} pages of {counted(both.questions, 'question')} labeled by both; "
        f"{both.unclear} more unsure or unread, {both.labeled_once} labeled by one alone",
        f"  both relevant {both.both_relevant}, only A {both.only_a}, only B {both.only_b}, neither {both.neither}",
        f"  they agree on {estimate_text(both.raw)}{drawn}",
        f"  relevant to A {estimate_text(both.prevalence_a)}, to B {estimate_text(both.prevalence_b)}",
        f"  Cohen's kappa {both.undefined or estimate_text(both.kappa)}",
    ]
    if both.undefined_draws and not both.undefined:
        lines.append(f"  kappa is undefined in {both.undefined_draws:,} resamples, which its interval leaves out")
    if both.one_kappa:
        lines.append("  every resample gives the same kappa: its interval shows no uncertainty")
    lines.append(f"  {both.confidence:.0%} bootstrap intervals over questions")
    if found.correction is not None:
        lines.append(f"relevant to A, corrected by B: {_corrected(found.correction)}")
    return "\n".join(lines)


def _corrected(found: Correction) -> str:
    errors = f"sensitivity {estimate_text(found.sensitivity)}, specificity {estimate_text(found.specificity)}"
    value = found.undefined or estimate_text(found.corrected)
    return f"{value} (as judged {estimate_text(found.apparent)}; {errors})"


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{plain(name)} {count}" for name, count in found.items()) or "none"


def _overlap_lines(found: ExactOverlap) -> list[str]:
    lines = [
        f"the modes of the index beside exact search: {found.queries} queries, {found.pages:,} pages; "
        "time is the median of one search; no finding: every page is scored by its vectors, so agreement is certain"
    ]
    for searched in found.searched:
        note = overlap_note(found, searched)
        lines.append(f"  {_way_text(searched)}: {seconds(searched.seconds)}{note and f'; {note}'}")
        lines += [
            f"    first {row.k:,}: {estimate_text(row.overlap)} found, {row.identical} queries in the same order, "
            f"{row.proved} proved"
            for row in searched.rows
        ]
    return lines + [f"  mode {mode} is left out: {plain(reason)}" for mode, reason in found.left_out.items()]


def _way_text(way: SearchWay) -> str:
    parts = [f"mode {way.mode}"]
    if way.ann_neighbors is not None:
        parts.append(f"{way.ann_neighbors:,} centroids a query vector")
    if way.shortlist is not None:
        parts.append(f"shortlist {way.shortlist:,}")
    return ", ".join([*parts, f"{way.rescore:,} scored anew"])
