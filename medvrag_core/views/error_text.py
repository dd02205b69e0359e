"""Wrong answers and grounding of a system as plain text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from medvrag_core.evaluation.errors.paper_taxonomy import PAPER_CLASSES
from medvrag_core.evaluation.errors.report import ErrorReport
from medvrag_core.views.error_view import ERROR_LABELS, PLACE_LABELS, errors_text, share_text
from medvrag_core.views.grounding_view import CITATION_LABELS
from medvrag_core.views.tables import counted
from medvrag_core.views.trace_text import plain


def error_report_text(report: ErrorReport) -> str:
    """Both taxonomies, the way of the evidence, and what answers cite, a line each."""
    return "\n".join([*_taxonomies(report), *_flow(report), *_grounding(report), *_checked(report)])


def _taxonomies(report: ErrorReport) -> Iterator[str]:
    ours, paper, crossed = report.taxonomies.ours, report.taxonomies.paper, report.taxonomies.rows
    strict = {row.error_class: row.count for row in report.lost_first.rows}
    yield (
        f"{plain(ours.system)}, profile {plain(ours.profile)}: {ours.wrong} of {counted(ours.n, 'question')} wrong; "
        "columns (i) to (iv): by the paper's definitions"
    )
    yield f"  {'':50}{'errors':>16}  {'share of the wrong':21}{'lost first':>10}" + _cells(
        "(i)", "(ii)", "(iii)", "(iv)"
    )
    for row, side in zip(ours.rows, crossed, strict=True):
        yield (
            f"  {ERROR_LABELS[row.error_class]:50}{errors_text(row):>16}  {share_text(row):21}"
            f"{strict.get(row.error_class, 0):>10}" + _cells(*(side.found[c] for c in PAPER_CLASSES))
        )
    for text, cells in (
        ("meet the paper's definition", [row.found.count for row in paper.rows]),
        ("meet no other", [row.alone for row in paper.rows]),
        ("printed in the paper, %", [row.printed for row in paper.rows]),
    ):
        yield f"  {text:99}" + _cells(*cells)
    yield (
        f"  by the paper's definitions: in several classes {paper.several.count} ({share_text(paper.several)}), "
        f"in none {paper.none.count} ({share_text(paper.none)}), not to be judged {paper.unjudged}"
    )
    for reason, count in ours.suspect_reasons.items():
        yield f"  suspect gold: {plain(reason)} {count}"


def _flow(report: ErrorReport) -> Iterator[str]:
    flow = report.flow
    yield f"evidence of {counted(flow.n, 'question')} ({flow.left_out} without labels or retrieval)"
    for row in flow.rows:
        yield (
            f"  {PLACE_LABELS[row.place]:30}{row.right.n:>6} questions, {row.right.count} right, {row.wrong} wrong, "
            f"{row.unanswered} without an answer; right {share_text(row.right)}"
        )


def _grounding(report: ErrorReport) -> Iterator[str]:
    yield f"citations ({counted(report.grounding.unanswered, 'question')} without an answer)"
    yield "  " + " " * 14 + "".join(f"{name:24}" for name in CITATION_LABELS.values()).rstrip()
    for row in report.grounding.rows:
        shares = (share_text(getattr(row, name)) for name in CITATION_LABELS)
        yield f"  {row.group:6}{row.answers:>6}  " + "".join(f"{text:24}" for text in shares).rstrip()


def _checked(report: ErrorReport) -> Iterator[str]:
    if found := report.checked:
        kappa = (
            f"{found.kappa.value:.2f} [{found.kappa.low:.2f}, {found.kappa.high:.2f}]" if found.kappa else "undefined"
        )
        yield f"by hand ({plain(found.rater)}): {found.n} labeled, agreement {share_text(found.agree)}, kappa {kappa}"
        yield from (f"  {ERROR_LABELS[name]:50}{share_text(share)}" for name, share in found.by_hand.items())


def _cells(*values: object) -> str:
    return "".join(f"{value!s:>8}" for value in values)
