"""The whole audit: of this paper, or of any accuracy table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from medvrag_core.evaluation.audit.accuracy_checks import (
    average_checks,
    component_tests,
    grim_checks,
    significance_checks,
    single_set_checks,
    source_checks,
    step_checks,
    weighting_checks,
)
from medvrag_core.evaluation.audit.averages import AverageRow, StepRow, average_rows, steps
from medvrag_core.evaluation.audit.error_checks import error_checks
from medvrag_core.evaluation.audit.finding import Finding
from medvrag_core.evaluation.audit.grim import GrimCell, grim_cells
from medvrag_core.evaluation.audit.paper import Paper, load_paper
from medvrag_core.evaluation.audit.pipeline_checks import budget_checks, latency_checks, round_checks, size_checks
from medvrag_core.evaluation.audit.significance import DISCORDANCES, StepTest, step_tests
from medvrag_core.evaluation.audit.table import AccuracyTable
from medvrag_core.records import Record

CHECKS: tuple[Callable[[Paper], list[Finding]], ...] = (
    grim_checks, round_checks, budget_checks, error_checks, source_checks, latency_checks, weighting_checks,
    significance_checks, single_set_checks, step_checks, average_checks, size_checks,
)  # fmt: skip
"""All checks of the paper; findings of one severity keep this order."""


class TableAudit(Record):
    """What the numbers of one accuracy table say about each other."""

    table: str
    sizes: dict[str, int]
    unsized: tuple[str, ...]
    runs: int
    grim: tuple[GrimCell, ...]
    averages: tuple[AverageRow, ...]
    steps: tuple[StepRow, ...]
    tests: tuple[StepTest, ...]


class PaperAudit(Record):
    """All findings about the paper, the gravest first, and the tables behind some of them."""

    findings: tuple[Finding, ...]
    grim: tuple[GrimCell, ...]
    averages: tuple[AverageRow, ...]
    steps: tuple[StepRow, ...]
    tests: tuple[StepTest, ...]

    def counts(self) -> dict[str, int]:
        """Findings by verdict."""
        counted = Counter(finding.verdict for finding in self.findings)
        return {verdict: counted[verdict] for verdict in ("fails", "open", "holds", "derived")}

    def of(self, *verdicts: str) -> list[Finding]:
        """The findings with one of these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]


def audit_table(table: AccuracyTable, *, runs: int = 1) -> TableAudit:
    """Check any accuracy table: possible values, averages, steps from row to row and their p-values.

    Parameters
    ----------
    table : the table; sets without a size are left out of everything that counts questions
    runs : how many runs each cell is the mean of
    """
    made = steps(table)
    return TableAudit(
        table=table.name,
        sizes=table.sizes,
        unsized=tuple(name for name in table.sets if name not in table.sizes),
        runs=runs,
        grim=tuple(grim_cells(table, runs=runs)),
        averages=tuple(average_rows(table)),
        steps=tuple(made),
        tests=tuple(step_tests(table, made, discordances=DISCORDANCES)),
    )


def audit_paper(paper: Paper | None = None) -> PaperAudit:
    """Every check of the paper's own numbers; ``paper`` defaults to those that ship with the package."""
    paper = paper or load_paper()
    findings = [finding for check in CHECKS for finding in check(paper)]
    order = {"A": 0, "B": 1, "C": 2, None: 3}
    return PaperAudit(
        findings=tuple(sorted(findings, key=lambda finding: order[finding.severity])),
        grim=tuple(grim_cells(paper.table, runs=paper.count("seeds"), own_only=True)),
        averages=tuple(average_rows(paper.table)),
        steps=tuple(steps(paper.table, list(paper.sequence))),
        tests=tuple(component_tests(paper)),
    )
