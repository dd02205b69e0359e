"""Checks of the error taxonomy, the sample of wins and the support figure (sections 4.5 and 4.6)."""

from __future__ import annotations

import math

from medvrag_core.evaluation.audit.finding import Finding, compare, decide, derive
from medvrag_core.evaluation.audit.grim import fitting_totals, possible_counts
from medvrag_core.evaluation.audit.paper import Paper
from medvrag_core.evaluation.audit.rounded import exact, total
from medvrag_core.evaluation.statistics.proportions import wilson

CLASSES = ("retrieval_miss", "filter_miss", "misread", "round_drift")
SAMPLE = ("sample_figure", "sample_table", "sample_layout")
TOTALS = range(50, 301)
"""Totals among which another number of errors is looked for."""


def error_checks(paper: Paper) -> list[Finding]:
    """All checks of this module; those that need the MedQA cell of the full system are left out without it."""
    return [*_taxonomy(paper), *_support(paper), *_recall(paper), *_sample(paper)]


def _right(paper: Paper, arm: str) -> range:
    """Counts of right MedQA answers that the printed accuracy can stand for."""
    accuracy = paper.table.cell(arm, "MedQA")
    return range(0) if accuracy is None else possible_counts(accuracy, paper.table.sizes["MedQA"])


def _taxonomy(paper: Paper) -> list[Finding]:
    shares, shown = [paper.number(name) for name in CLASSES], [paper.shown(name) for name in CLASSES]
    where, n = paper.where(*CLASSES), paper.table.sizes["MedQA"]
    found = [
        compare(
            "taxonomy-sum", "errors", where, "the four classes are all errors", claimed=exact(100),
            computed=total(shares), arithmetic=" + ".join(shown), wording="The classes do not add up to all errors.",
        )
    ]  # fmt: skip
    errors = sorted(n - k for k in _right(paper, paper.sequence[-1]))
    if not errors:
        return found
    fitting = [e for e in errors if fitting_totals(shares, range(e, e + 1), complete=True)]
    first = errors[0]
    beside = "; ".join(_nearest(text, float(share), first) for text, share in zip(shown, shares, strict=True))
    others = fitting_totals(shares, TOTALS, complete=True)
    found.append(
        decide(
            "taxonomy-counts", "errors", f"{where}, {paper.table.name}",
            f"{', '.join(shown)}% of the errors of the full system on MedQA",
            ok=bool(fitting),
            arithmetic=f"{n} questions at {paper.table.row(paper.sequence[-1]).cells['MedQA']}% leave "
            f"{' or '.join(map(str, errors))} errors; on {first}: {beside}",
            result=f"fits {fitting[0]} errors" if fitting else "the four shares fit "
            + (f"{', '.join(map(str, others[:8]))} errors" if others else "no total")
            + f" (of {TOTALS[0]} to {TOTALS[-1]})",
            severity="A",
            wording="Taken as rounded to one decimal, the shares are not those of this many errors. The paper marks "
            "them as approximate, so the total they refer to should be stated rather than guessed.",
            alternatives=(
                "the marks mean more than rounding to one decimal",
                *(f"{total_} errors were classified, for example of another run" for total_ in others[:1]),
                "some errors were counted in parts, or classified with weights",
            ),
        )
    )  # fmt: skip
    return found


def _nearest(text: str, share: float, n: int) -> str:
    below = math.floor(share * n / 100)
    return f"{text} beside {100 * below / n:.1f} ({below}) and {100 * (below + 1) / n:.1f} ({below + 1})"


def _support(paper: Paper) -> list[Finding]:
    """Supported answers against the questions for which the filter let a relevant page through at all."""
    n, counts = paper.table.sizes["MedQA"], _right(paper, paper.sequence[-1])
    if not counts:
        return []
    right = counts[-1]
    reached = math.floor(paper.number("recall_filtered").high * n / 100)
    wrong = math.ceil(paper.number("misread").low * (n - right) / 100)
    ceiling = exact(100 * min(right, reached - wrong)) / right
    claimed = paper.number("supported")
    names = ("recall_filtered", "misread", "supported")
    return [
        decide(
            "support-ceiling", "errors", paper.where(*names),
            f"{paper.shown('supported')}% of right answers supported by a cited page",
            ok=claimed.low <= ceiling.value,
            arithmetic=f"recall {paper.shown('recall_filtered')}% of {n}: at most {reached} with a relevant page; "
            f"at least {wrong} of them are errors by misreading; {reached - wrong} / {right} = {ceiling.show()}%",
            result=f"printed {claimed.show()}%, at most {ceiling.show()}% if support needs a relevant page",
            severity="B",
            wording="More right answers are called supported than had a relevant page, if both are judged alike; so "
            "the two figures use different judgments or different rounds.",
            alternatives=(
                "recall is of round 1, support of all rounds",
                "a page can support an answer without having been judged relevant to the question",
                "the judges, or what they see, differ (page summaries for support)",
            ),
        )
    ]  # fmt: skip


def _recall(paper: Paper) -> list[Finding]:
    """What the two recall figures mean for the filter, and for questions without evidence."""
    before, after = paper.number("recall_candidates"), paper.number("recall_filtered")
    n, counts = paper.table.sizes["MedQA"], _right(paper, paper.sequence[-1])
    where = paper.where("recall_candidates", "recall_filtered")
    found = [
        derive(
            "filter-loss", "errors", where,
            f"({before.show()} - {after.show()}) / {before.show()}",
            f"{((before - after) / before * 100).show()}% of the questions whose page stage 1 found lose it there",
            "The most that a better filter could bring back, by the paper's own labels.",
        )
    ]  # fmt: skip
    if counts:
        # Errors by misreading had their evidence by definition; all others may have lacked it.
        without, wrong = n - math.floor(after.high * n / 100), n - counts[0]
        lacking = wrong - math.ceil(paper.number("misread").low * wrong / 100)
        right = max(0, without - lacking)
        found.append(
            derive(
                "right-without-evidence", "errors", f"{where}, {paper.table.name}",
                f"at least {without} questions without a relevant page, at most {lacking} errors among them",
                f"at least {right} of these {without} were answered right ({100 * right / max(1, without):.0f}%)",
                "Right answers are no proof of evidence: the backbone knows much by heart, or the labels miss pages.",
            )
        )  # fmt: skip
    return found


def _sample(paper: Paper) -> list[Finding]:
    """The 100 questions that the full system wins over the text arm."""
    sample, parts = paper.count("sample"), [paper.count(name) for name in SAMPLE]
    where, n = paper.where(*SAMPLE), paper.table.sizes["MedQA"]
    found = [
        decide(
            "sample-classes", "errors", where, "most wins depend on figures, tables or layout",
            ok=sum(parts) < sample,
            arithmetic=f"{' + '.join(map(str, parts))} = {sum(parts)} of {sample}",
            result=f"{max(0, sample - sum(parts))} of {sample} wins are in no such class",
            severity="C",
            wording="The classes take in every win, so the sample could not have shown that page images do not matter. "
            "Losses, and a class for plain text, would make it a test.",
            alternatives=("a class for plain text existed and stayed empty",),
        )
    ]  # fmt: skip
    for name, count in zip(SAMPLE, parts, strict=True):
        if count > sample:
            continue
        low, high = wilson(count, sample)
        found.append(
            derive(
                name.replace("_", "-"), "errors", where, f"{count} of {sample}",
                f"95% interval {100 * low:.0f} to {100 * high:.0f}%", "Sampling error alone; there was one rater.",
            )
        )  # fmt: skip
    text, full = _right(paper, paper.sequence[1]), _right(paper, paper.sequence[-1])
    if text and full:
        nominal = round((paper.table.known(paper.sequence[-1])["MedQA"] - paper.table.known(paper.sequence[1])["MedQA"])
                        .value * n / 100)  # fmt: skip
        lost = max(0, sample - nominal)
        found.append(
            derive(
                "sample-discordance", "errors", f"{where}, {paper.table.name}",
                f"{paper.sequence[-1]} has {nominal} more right answers than {paper.sequence[1]} on MedQA; at least "
                f"{sample} wins need at least {lost} losses; ({sample} + {lost}) / {n}",
                f"the arms differ on at least {100 * (sample + lost) / n:.1f}% of MedQA",
                "A lower bound for the discordance that the paper does not print.",
            )
        )  # fmt: skip
    return found
