"""Checks of the paper's Table 1: averages, steps, possible accuracies, weighting, copied rows, significance."""

from __future__ import annotations

from collections import defaultdict

from medvrag_core.evaluation.audit.averages import step, steps
from medvrag_core.evaluation.audit.finding import Finding, compare, decide, derive
from medvrag_core.evaluation.audit.grim import GrimCell, fitting_totals, grim_cells
from medvrag_core.evaluation.audit.paper import Paper
from medvrag_core.evaluation.audit.rounded import mean, printed, signed
from medvrag_core.evaluation.audit.significance import (
    ALPHA,
    DISCORDANCES,
    PLAUSIBLE,
    StepTest,
    largest_discordance,
    step_tests,
)
from medvrag_core.evaluation.audit.table import plain_mean, question_mean

NEARBY = 0.02
"""How far from the stated size, in parts of it, another number of questions is looked for."""


def average_checks(paper: Paper) -> list[Finding]:
    """Every printed average against the plain mean of its row, and averages over shared sets."""
    table, found = paper.table, []
    for row in table.rows:
        claimed, computed = table.average(row.arm), plain_mean(table, row.arm)
        if claimed is None or computed is None:
            continue
        cells = list(row.cells.values())
        found.append(
            compare(
                f"average-{row.arm}", "averages", table.name, f"average of {row.arm}: {row.average}",
                claimed=claimed, computed=computed, arithmetic=f"({' + '.join(cells)}) / {len(cells)}",
                wording="The printed average is not the plain mean of the printed cells.",
                alternatives=("a weighted mean was printed", "a cell or the average is a misprint"),
            )
        )  # fmt: skip
    for claim in paper.shared_averages:
        known = table.known(claim.arm)
        cells = [table.row(claim.arm).cells[name] for name in claim.sets]
        found.append(
            compare(
                f"shared-average-{claim.arm}", "averages", claim.where,
                f"average of {claim.arm} over {', '.join(claim.sets)}: {claim.text}",
                claimed=printed(claim.text), computed=mean([known[name] for name in claim.sets]),
                arithmetic=f"({' + '.join(cells)}) / {len(cells)}",
                wording="The printed average is not the plain mean of the named cells.",
            )
        )  # fmt: skip
    return found


def step_checks(paper: Paper) -> list[Finding]:
    """Every difference that the text quotes against the cells of the table."""
    table, found = paper.table, []
    for claim in paper.steps:
        read = table.average if claim.column == "average" else lambda arm, c=claim: table.cell(arm, c.column)
        first, second = read(claim.first), read(claim.second)
        if first is None or second is None:
            continue
        found.append(
            compare(
                f"step-{claim.first}-{claim.second}-{claim.column}", "steps", claim.where,
                f"{claim.second} over {claim.first}, {claim.column}: {claim.text}",
                claimed=printed(claim.text), computed=second - first,
                arithmetic=f"{second.show()} - {first.show()}",
                wording="The quoted difference is not that of the printed cells.",
                alternatives=("the difference was taken before rounding in another way",),
            )
        )  # fmt: skip
    return found


def grim_checks(paper: Paper) -> list[Finding]:
    """Accuracies of the authors' own arms that no whole number of right answers gives, by set."""
    by_set: dict[str, list[GrimCell]] = defaultdict(list)
    for cell in grim_cells(paper.table, runs=paper.count("seeds"), own_only=True):
        by_set[cell.set_name].append(cell)
    found = []
    for name, cells in by_set.items():
        bad = [cell for cell in cells if not cell.possible]
        n, runs = cells[0].n, cells[0].runs
        near = "; ".join(f"{c.accuracy} lies between {c.below} and {c.above}" for c in bad)
        nowhere = (
            "" if not bad or _fitting_near(cells) else f"; no size within {NEARBY:.0%} of {n} fits all {len(cells)}"
        )
        telling = "" if cells[0].telling else "; with so many questions every printed value has a count"
        found.append(
            decide(
                f"grim-{name}", "possible accuracies", f"{paper.table.name}, {paper.where('seeds')}",
                f"accuracies on {n} questions of {name}, {runs} run{'s' if runs > 1 else ''}",
                ok=not bad,
                arithmetic=f"steps of 100 / {n * runs} = {100 / (n * runs):.3f} points{telling}"
                + (f"; {near}" if near else "") + nowhere,
                result=f"{len(bad)} of {len(cells)} values have no whole count of right answers"
                + (f": {', '.join(dict.fromkeys(c.accuracy for c in bad))}" if bad else ""),
                severity="A",
                wording=f"On {n} questions scored once, these values cannot occur; how the cells of {name} "
                "came about needs a word from the authors. The other cells of the table are not touched by this.",
                alternatives=_grim_alternatives(cells, bad),
            )
        )  # fmt: skip
    return found


def _fitting_near(cells: list[GrimCell]) -> list[int]:
    n = cells[0].n
    margin = max(1, int(n * NEARBY))
    return fitting_totals([printed(cell.accuracy) for cell in cells], range(n - margin, n + margin + 1))


def _grim_alternatives(cells: list[GrimCell], bad: list[GrimCell]) -> list[str]:
    """Explanations that are checked by the same arithmetic before they are offered."""
    if not bad:
        return []
    n, runs = cells[0].n, cells[0].runs
    values = [printed(cell.accuracy) for cell in cells]
    near = _fitting_near(cells)
    offered = []
    needed = [cell.runs_needed for cell in bad]
    if all(needed):
        offered.append(f"the cells are means of {max(m or 1 for m in needed)} or more runs, where {runs} is stated")
    if near:
        counts = ", ".join(map(str, near[:6])) + (" …" if len(near) > 6 else "")
        offered.append(f"another number of questions was scored: {counts} would fit all {len(cells)} values")
    if fitting_totals(values, range(2 * n, 2 * n + 1)):
        offered.append(f"a set of {2 * n} questions was used")
    if all(cell.truncated_only for cell in bad):
        offered.append("the values were cut instead of rounded")
    return [*offered, "misprints"]


def weighting_checks(paper: Paper) -> list[Finding]:
    """Averages by question beside the printed averages by set, and whether the order of the components stays."""
    table, found = paper.table, []
    for arm in paper.sequence:
        weighted, plain = question_mean(table, arm), plain_mean(table, arm)
        if weighted is None or plain is None:
            continue
        parts = " + ".join(f"{table.sizes[name]} x {table.row(arm).cells[name]}" for name in table.sets)
        found.append(
            derive(
                f"weighted-{arm}", "weighting", table.name, f"({parts}) / {sum(table.sizes.values())}",
                f"{weighted.show(2)} by question, {plain.show(2)} by set",
                f"Every question counting the same, {arm} stands at {weighted.show(2)}.",
            )
        )  # fmt: skip
    made = [row for row in steps(table, list(paper.sequence)) if row.plain is not None and row.weighted is not None]
    if len(made) < 2:
        return found
    plain_order = [row.second for row in sorted(made, key=lambda row: -(row.plain or 0))]
    weighted_order = [row.second for row in sorted(made, key=lambda row: -(row.weighted or 0))]
    found.append(
        decide(
            "weighting-order", "weighting", table.name, "which component adds most, in what order",
            ok=plain_order == weighted_order,
            arithmetic="; ".join(
                f"{r.second}: {signed(r.plain)} by set, {signed(r.weighted)} by question" for r in made
            ),
            result=f"by set: {' > '.join(plain_order)}; by question: {' > '.join(weighted_order)}",
            severity="C",
            wording="The order of the components depends on how the sets are weighted. Both weightings are legitimate "
            "and should be shown together.",
            alternatives=("the average by set is the benchmark's convention, and is what the paper says it prints",),
        )
    )  # fmt: skip
    return found


def source_checks(paper: Paper) -> list[Finding]:
    """Rows marked as copied against what the named source prints, and "wins" against the cells."""
    found = []
    for row in paper.sources:
        cells = paper.table.known(row.arm)
        theirs = {name: printed(text) for name, text in row.cells.items()}
        differ = [name for name in theirs if name in cells and not cells[name].agrees(theirs[name])]
        beside = "; ".join(f"{name} {cells[name].show()} beside {row.cells[name]}" for name in theirs if name in cells)
        found.append(
            decide(
                f"source-{row.arm}", "copied rows", paper.table.name, f"{row.arm} as in {row.source}",
                ok=not differ, arithmetic=beside,
                result=f"differs on {', '.join(differ)}" if differ else "agrees on every set",
                severity="B",
                wording="The row is not what the named source prints for this setting; the reference may be mistaken.",
                alternatives=(
                    "taken from another paper or model version",
                    "another setting, such as given abstracts or worked examples",
                ),
            )
        )  # fmt: skip
    return [*found, *_win_checks(paper), *_setting_checks(paper)]


def _win_checks(paper: Paper) -> list[Finding]:
    found = []
    for claim in paper.wins:
        a, b = paper.table.known(claim.arm), paper.table.known(claim.over)
        ahead = [name for name in paper.table.sets if name in a and name in b and a[name].value > b[name].value]
        found.append(
            decide(
                f"wins-{claim.arm}", "copied rows", claim.where, f"{claim.arm} wins {' and '.join(claim.sets)}",
                ok=set(ahead) == set(claim.sets),
                arithmetic="; ".join(f"{name} {a[name].show()} against {b[name].show()}" for name in a if name in b),
                result=f"ahead on {', '.join(ahead) or 'no set'}",
                severity="B",
                wording=f"By the printed cells {claim.arm} leads on {len(ahead)} sets; {len(claim.sets)} are named.",
                alternatives=("an oversight in the caption",),
            )
        )  # fmt: skip
    return found


def _setting_checks(paper: Paper) -> list[Finding]:
    """An arm without retrieval far above published ones that saw the question only was given something else."""
    found = []
    for claim in paper.settings:
        cell = paper.table.cell(claim.arm, claim.set_name)
        if cell is None:
            continue
        best = max(printed(text).value for text in claim.published.values())
        found.append(
            decide(
                f"setting-{claim.set_name}", "copied rows", f"{claim.where}, {paper.table.name}",
                f"{claim.set_name} is asked as in {claim.source}",
                ok=cell.low <= best,
                arithmetic=f"{claim.arm} {cell.show()}; {claim.source}: "
                + ", ".join(f"{name} {text}" for name, text in claim.published.items()),
                result=f"{signed(float(cell.value - best), 1)} points over the best of them",
                severity="C",
                wording="Without retrieval the score is far above what larger models reach from the question alone. "
                "If the abstract was given, the set is a different task from the one of the copied rows beside it.",
                alternatives=("the abstract was part of the question", "the backbone has seen the set in training"),
            )
        )  # fmt: skip
    return found


def component_tests(paper: Paper) -> list[StepTest]:
    """p-values of the components after retrieval itself, one family, by assumed discordance."""
    made = steps(paper.table, list(paper.sequence[1:]))
    return step_tests(paper.table, made, discordances=DISCORDANCES)


def single_set_checks(paper: Paper) -> list[Finding]:
    """Effects on one set that the text speaks of, and whether a plausible discordance lets them be told from chance."""
    found = []
    for claim in paper.effects:
        n, net = paper.table.sizes[claim.set_name], step(paper.table, claim.first, claim.second).net[claim.set_name]
        limit = largest_discordance(net, n)
        most = "at no discordance" if limit is None else f"up to a discordance of {limit:.1%}"
        found.append(
            decide(
                f"effect-{claim.second}-{claim.set_name}", "significance", claim.where, claim.claim,
                ok=limit is not None and limit >= PLAUSIBLE[1],
                arithmetic=f"{net:+d} of {n} questions", result=f"p < {ALPHA} {most} (exact McNemar)",
                severity="C",
                wording=f"A difference of {abs(net)} questions is spoken of as an effect; chance alone can make it.",
                alternatives=(
                    "the effect is known from elsewhere, and this is only consistent with it",
                    *(() if limit is None else ("the arms differ on very few questions of this set",)),
                ),
            )
        )  # fmt: skip
    return found


def significance_checks(paper: Paper) -> list[Finding]:
    """Whether each component is significant under both weightings wherever the discordance is plausible."""
    low, high = PLAUSIBLE
    found = []
    tests = [test for test in component_tests(paper) if low <= test.discordance <= high]
    for row in steps(paper.table, list(paper.sequence[1:])):
        mine = [test for test in tests if test.second == row.second]
        worst = [p for test in mine for p in (test.plain_holm, test.weighted_holm)]
        shown = "; ".join(
            f"at {test.discordance:.0%} p = {_p(test.plain_holm)} by set, {_p(test.weighted_holm)} by question"
            for test in mine
        )
        limits = {
            name: largest_discordance(net, paper.table.sizes[name]) if net > 0 else None
            for name, net in row.net.items()
        }
        by_set = ", ".join(f"{name} {'never' if limit is None else f'{limit:.1%}'}" for name, limit in limits.items())
        found.append(
            decide(
                f"significance-{row.second}", "significance", paper.table.name,
                f"{row.second} over {row.first}: {signed(row.plain)} by set, {signed(row.weighted)} by question",
                ok=bool(worst) and all(p is not None and p < ALPHA for p in worst),
                arithmetic=f"Holm over {len(paper.sequence) - 2} components: {shown}",
                result=f"set by set p < {ALPHA} needs a discordance of at most: {by_set}",
                severity="C",
                wording="Whether this effect can be told from chance rests on how many questions changed, which is not "
                "printed; the paper itself asks for care here (section 5).",
                alternatives=("the two arms differ on few questions", "further seeds would narrow the noise of runs"),
            )
        )  # fmt: skip
    return found


def _p(value: float | None) -> str:
    return "–" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"
