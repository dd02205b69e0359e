from __future__ import annotations

from medvrag_core.evaluation.audit.averages import steps
from medvrag_core.evaluation.audit.finding import Finding
from medvrag_core.evaluation.audit.grim import grim_cells
from medvrag_core.evaluation.audit.paper import load_paper
from medvrag_core.evaluation.audit.report import audit_paper
from medvrag_core.evaluation.audit.significance import step_tests
from medvrag_core.evaluation.audit.table import AccuracyTable, ArmRow
from medvrag_core.views import audit_view

AUDIT = audit_paper()


def test_every_finding_stands_in_one_table_with_its_arithmetic() -> None:
    tables = {
        "fails": audit_view.findings_table(AUDIT.of("fails")),
        "open": audit_view.findings_table(AUDIT.of("open")),
        "holds": audit_view.holding_table(AUDIT.of("holds")),
        "derived": audit_view.derived_table(AUDIT.of("derived")),
    }
    assert {verdict: len(table.rows) for verdict, table in tables.items()} == AUDIT.counts()
    for finding in AUDIT.findings:
        assert any(finding.arithmetic in str(row) for row in tables[finding.verdict].rows)


def test_impossible_values_are_shown_without_a_count() -> None:
    table = audit_view.grim_table(AUDIT.grim)
    cells = [cell for row in table.rows for cell in row]
    assert "73.7: none" in cells
    assert "77.2: 386" in cells
    assert sum("none" in str(cell) for cell in cells) == sum(not cell.possible for cell in AUDIT.grim)


def test_names_from_a_table_are_escaped_everywhere() -> None:
    evil = "<img src=x onerror=alert(1)>"
    rows = tuple(ArmRow(arm=f"{evil}{i}", cells={evil: f"{50 + i}.0", "B": "70.0"}) for i in range(3))
    table = AccuracyTable(name=evil, sets=(evil, "B"), sizes={evil: 100, "B": 200}, rows=rows)
    made = steps(table)
    tests = step_tests(table, made)
    finding = Finding(
        id=evil, topic=evil, where=evil, claim=evil, arithmetic=evil, result=evil, wording=evil, verdict="open",
        severity="C", alternatives=(evil,),
    )  # fmt: skip
    pages = [
        audit_view.findings_table([finding]), audit_view.holding_table([finding]), audit_view.derived_table([finding]),
        audit_view.grim_table(grim_cells(table)), audit_view.steps_table(made), audit_view.p_values_table(tests),
    ]  # fmt: skip
    assert all("<img" not in page.html and "&lt;img" in page.html for page in pages)
    for figure in (audit_view.weighting_figure(made), audit_view.significance_figure(tests)):
        assert "<img" not in figure.to_json().replace("\\u003c", "<")


def test_figures_hold_every_step_under_both_weightings() -> None:
    bars = audit_view.weighting_figure(AUDIT.steps)
    assert [len(trace.x) for trace in bars.data] == [len(load_paper().sequence) - 1] * 2
    lines = audit_view.significance_figure(AUDIT.tests)
    assert len(lines.data) == 2 * len({test.second for test in AUDIT.tests})
    assert sum(bool(trace.showlegend) for trace in lines.data) == len(lines.data) // 2
