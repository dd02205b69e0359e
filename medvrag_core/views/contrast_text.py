"""One contrast, and the power of a plan, as plain text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.evaluation.statistics.contrasts import Contrast, Effect, Verdict
from medvrag_core.evaluation.statistics.near_duplicates import StemClusters
from medvrag_core.evaluation.statistics.power import FlipRate, PowerPlan
from medvrag_core.views.tables import p_text
from medvrag_core.views.trace_text import plain

VERDICTS: dict[Verdict, str] = {
    "difference": "the arms differ",
    "small_difference": "the arms differ, by less than the margin",
    "equivalent": "no meaningful difference",
    "inconclusive": "no evidence either way",
}
MEAN_OVER = {"macro": "sets", "question_weighted": "questions"}
_NAMES = {"macro": "macro", "question_weighted": "question-weighted"}
_NAME = 20
"""Columns that a name takes."""
VARIANTS = {
    "strict": "strict",
    "mirage": "MIRAGE's rule",
    "lenient": "lenient",
    "answered": "answered by all",
    "clusters": "near-duplicates as one",
}
ONE_SET = "one set of questions, so the mean of sets is the mean of questions"
TESTS = {"mcnemar": "exact McNemar", "sign_flip": "sign flips of question means within sets"}


def contrast_text(found: Contrast) -> str:
    """Everything a reader needs to judge the contrast."""
    confidence, several = f"{1 - found.rules.alpha:.0%}", len(found.sets) > 1
    lines = [
        f"{found.n:,} questions in {len(found.sets)} set(s), differences in points, positive favors B",
        f"  A {plain(f'{found.a} {found.source_a}')}, {found.runs_a} run(s)",
        f"  B {plain(f'{found.b} {found.source_b}')}, {found.runs_b} run(s)",
        f"  {'':{_NAME}}{'n':>6}{'A %':>8}{'B %':>8}{'won':>6}{'lost':>6}{'B - A':>8}  "
        f"{confidence + ' interval':18}{'p':>8}{'adj. p':>8}{'differ':>8}{'MDE80':>7}",
        *(_row(_name(effect, found), effect) for effect in (*means(found), *(found.sets if several else ()))),
        *([] if several else [ONE_SET]),
        f"equivalence within {found.rules.margin:g} point(s), TOST, {1 - 2 * found.rules.alpha:.0%} interval",
        *(
            f"  {_name(e, found):{_NAME}}p = {p_text(e.equivalence_p)} "
            f"[{e.equivalence_low:+.2f}, {e.equivalence_high:+.2f}]: {VERDICTS[e.verdict]}"
            for e in means(found)
        ),
        tests_text(found),
    ]
    if found.scorer != "strict":
        lines.append(f"scorer {plain(found.scorer)}: to lay beside the strict one, no result")
    if not all(e.agree for e in (*found.estimates, *found.sets)):
        lines.append("* test and bootstrap disagree about 0; the widest interval is shown")
    lines += [
        flips_text(name, flips)
        for name, flips in (("A", found.flips_a), ("B", found.flips_b), ("A and B (A/A)", found.flips))
        if flips
    ]
    lines += _variants(found)
    if found.preregistration:
        lines.append(f"pre-registration sha256 {found.preregistration}")
    else:
        lines.append("no pre-registration: exploratory")
    return "\n".join([*lines, *(f"departure: {plain(text)}" for text in found.departures)])


def means(found: Contrast) -> tuple[Effect, ...]:
    """Both means, or one where the other could only repeat it."""
    return found.estimates if len(found.sets) > 1 else found.estimates[1:]


def disagreement_text(effects: Sequence[Effect]) -> str:
    """The footnote to a star, where there is one."""
    return (
        "" if all(e.agree for e in effects) else "* test and bootstrap disagree about 0, the widest interval is shown"
    )


def flips_text(name: str, flips: FlipRate) -> str:
    """The noise of one arm in a line."""
    return (
        f"flips between {flips.runs} runs of {name}: right or wrong {flips.right_or_wrong:.1%} "
        f"[{flips.low:.1%}, {flips.high:.1%}], label {flips.label:.1%} of {flips.n:,} questions"
    )


def power_text(plan: PowerPlan) -> str:
    """Power, detectable difference and needed questions, one line an estimand or set and discordance."""
    lines = [
        f"{plan.n:,} questions, {plan.seeds} seed(s), flip rate {plan.flip_rate:.1%}, alpha {plan.alpha:g}"
        + (f" over {plan.tests} tests" if plan.tests > 1 else ""),
        f"  {'differ':>7}  {'':20}{'n':>6}{'as many as':>12}{f'power for {plan.difference:g}':>14}"
        f"{f'detectable at {plan.target:.0%}':>20}{'needs':>9}",
    ]
    for row in plan.rows:
        found = "-" if row.detectable is None else f"{row.detectable:.1f}"
        lines.append(
            f"  {row.discordance:>7.1%}  {plain(_NAMES.get(row.what, row.what)):20}{row.n:>6,}{row.effective_n:>12,.0f}"
            f"{row.power:>14.2f}{found:>20}{row.questions_needed:>9,}"
        )
    if plan.preregistration:
        lines.append(f"pre-registration sha256 {plan.preregistration}")
    return "\n".join(lines)


def _variants(found: Contrast) -> list[str]:
    if not found.variants:
        return []
    lines = [f"the same under other readings, {'p adjusted as above' if found.family else 'p not adjusted'}"]
    for name, effects in readings(found):
        lines += [f"  {name}:", *(_row(_name(effect, found), effect) for effect in effects)]
    return lines + ([stems_text(found.stems)] if found.stems else [])


def readings(found: Contrast) -> list[tuple[str, tuple[Effect, ...]]]:
    """The means of every variant that differ from those before it; readings that come out the same share a name."""
    named: dict[tuple[Effect, ...], list[str]] = {}
    for variant in found.variants:
        shown = variant.estimates if len(found.sets) > 1 else variant.estimates[1:]
        named.setdefault(shown, []).append(VARIANTS.get(variant.name, variant.name))
    if len(named) == 1:
        return [("every reading", effects) for effects in named]
    return [(", ".join(names), effects) for effects, names in named.items()]


def stems_text(stems: StemClusters) -> str:
    """How many questions stand together as near-duplicates."""
    return (
        f"near-duplicate stems: {stems.repeated:,} of {stems.questions:,} questions in groups of two or more, the "
        f"largest of {stems.largest}, {stems.clusters:,} units in all (word triples, Jaccard {stems.threshold:g})"
    )


def _row(name: str, e: Effect) -> str:
    interval = f"[{e.low:+.2f}, {e.high:+.2f}]{'' if e.agree else '*'}"
    found = "-" if e.detectable is None else f"{e.detectable:.1f}"
    return (
        f"  {plain(name):{_NAME}}{e.n:>6,}{100 * e.accuracy_a:>8.2f}{100 * e.accuracy_b:>8.2f}{e.won:>6}{e.lost:>6}"
        f"{e.difference:>+8.2f}  {interval:18}{p_text(e.p_value):>8}"
        f"{p_text(e.p_adjusted):>8}{e.discordance:>8.1%}{found:>7}"
    )


def _name(e: Effect, found: Contrast) -> str:
    return _NAMES.get(e.name, e.name) if len(found.sets) > 1 else "all questions"


def tests_text(found: Contrast) -> str:
    """Which tests were made, and over what their p-values are adjusted."""
    estimates, single = (TESTS[effects[0].test] for effects in (found.estimates, found.sets))
    if found.family:
        how = {"holm": "Holm over", "bonferroni": "times the size of", "none": "not adjusted in"}[found.adjustment]
        adjusted = f"{how} family '{plain(found.family)}' of {found.family_size} contrast(s) for each mean"
    else:
        adjusted = "none for the means"
    tests = single if estimates == single else f"{estimates} for the means, {single} a set"
    return f"tests: {tests}; adjustment: {adjusted}, {found.sets_adjusted_for} test(s) of sets"
