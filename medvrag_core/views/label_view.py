"""Tables of relevance labels: what was drawn, how two raters agree, what a judge's labels are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medvrag_core.evaluation.labels.agreement import Agreement
from medvrag_core.evaluation.labels.corrected import Correction
from medvrag_core.evaluation.labels.sample import LabelTask
from medvrag_core.views.retrieval_view import estimate_cell
from medvrag_core.views.tables import HtmlTable, Number


def agreement_table(found: Agreement, *, caption: str = "") -> HtmlTable:
    """Counts of two raters, how often they agree, how common relevant pages are, and kappa."""
    rows: list[list[object]] = [
        ["relevant to both", Number(str(found.both_relevant))],
        [f"relevant to {found.a} alone", Number(str(found.only_a))],
        [f"relevant to {found.b} alone", Number(str(found.only_b))],
        ["relevant to neither", Number(str(found.neither))],
        ["they agree on", estimate_cell(found.raw)],
        [f"relevant to {found.a}", estimate_cell(found.prevalence_a)],
        [f"relevant to {found.b}", estimate_cell(found.prevalence_b)],
        ["Cohen's kappa", found.undefined or estimate_cell(found.kappa)],
    ]
    parts = [
        caption,
        f"{found.pages} pages of {found.questions} questions labeled by both",
        f"{found.unclear} more unsure or unread, {found.labeled_once} labeled by one alone",
        f"{found.confidence:.0%} bootstrap intervals over questions",
        "pages weighted by 1 / probability of being drawn" if found.weighted else "",
        "every resample gives the same kappa, so its interval shows no uncertainty" if found.one_kappa else "",
        f"kappa undefined in {found.undefined_draws:,} resamples" if found.undefined_draws else "",
    ]
    return HtmlTable(["", "pages or share"], rows, caption="; ".join(filter(None, parts)))


def correction_table(found: Correction, *, caption: str = "") -> HtmlTable:
    """A judge's share of relevant pages as it has it, its errors, and the share corrected by them."""
    rows: list[list[object]] = [
        ["as the judge has it", estimate_cell(found.apparent)],
        ["sensitivity of the judge", estimate_cell(found.sensitivity)],
        ["specificity of the judge", estimate_cell(found.specificity)],
        ["corrected", found.undefined or estimate_cell(found.corrected)],
    ]
    parts = [
        caption,
        f"{found.pages} pages of {found.questions} questions judged",
        f"{found.confidence:.0%} bootstrap intervals over questions",
        f"undefined in {found.undefined_draws:,} resamples, which the interval leaves out"
        if found.undefined_draws and not found.undefined
        else "",
    ]
    return HtmlTable(["share of relevant pages", "value"], rows, caption="; ".join(filter(None, parts)))


def sample_table(tasks: Sequence[LabelTask], *, caption: str = "") -> HtmlTable:
    """How many pages of each stratum are to be labeled, and with which probability each was drawn."""
    drawn = Counter((task.stratum, task.probability) for task in tasks)
    rows = [
        [stratum, Number(str(round(count / probability))), Number(str(count)), Number(f"{probability:.3f}")]
        for (stratum, probability), count in sorted(drawn.items())
    ]
    return HtmlTable(["stratum", "pages in it", "drawn", "probability"], rows, caption=caption)
