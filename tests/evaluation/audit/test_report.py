from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from medvrag_core.errors import InputError
from medvrag_core.evaluation.audit.accuracy_checks import significance_checks
from medvrag_core.evaluation.audit.finding import Finding, Verdict
from medvrag_core.evaluation.audit.paper import Paper, load_paper
from medvrag_core.evaluation.audit.report import CHECKS, audit_paper, audit_table


def verdict(paper: Paper, id: str) -> Verdict:
    checks = [check for check in CHECKS if (check is significance_checks) == id.startswith("significance-")]
    return next(finding for check in checks for finding in check(paper) if finding.id == id).verdict


@pytest.fixture(scope="module")
def by_id() -> dict[str, Finding]:
    return {finding.id: finding for finding in audit_paper().findings}


def test_the_gravest_come_first_and_ids_do_not_repeat(by_id: dict[str, Finding]) -> None:
    findings = audit_paper().findings
    letters = [finding.severity or "D" for finding in findings]
    assert letters == sorted(letters)
    assert len(by_id) == len(findings)
    assert sum(audit_paper().counts().values()) == len(findings)


def test_every_finding_shows_its_arithmetic_and_offers_another_explanation(by_id: dict[str, Finding]) -> None:
    for finding in by_id.values():
        assert finding.arithmetic
        assert finding.result
        assert any(c.isdigit() for c in finding.arithmetic)
        if finding.verdict in ("fails", "open"):
            assert finding.alternatives, finding.id
        text = " ".join([finding.wording, finding.result, *finding.alternatives]).lower()
        assert not any(
            word in text for word in ("fraud", "fabricat", "falsif", "made up", "dishonest", "wrongly claim")
        )


@pytest.mark.parametrize(
    ("id", "parts"),
    [
        ("grim-PubMedQA", ("5 of 7", "73.7", "73.3", "74.9")),
        ("round-mix", ("77.90", "74.61", "78.60")),
        ("taxonomy-counts", ("295",)),
        ("support-ceiling", ("85.3", "83.5")),
        ("recovered-errors", ("9.9", "10.1", "7.4", "14.9")),
        ("wins-Med-PaLM 2", ("MedMCQA",)),
        ("two-round-time", ("31.7", "31.8", "31.9")),
        ("weighted-memory (full)", ("74.61", "78.60")),
        ("index-size", ("18.5 GB", "9.2 GB", "4.6 GB")),
        ("sample-discordance", ("11.1%",)),
        ("mean-rounds", ("1.524",)),
        ("text-filter-window", ("4.0 windows", "64 chunks")),
    ],
)
def test_results_are_those_worked_out_apart(by_id: dict[str, Finding], id: str, parts: tuple[str, ...]) -> None:
    assert all(part in by_id[id].result for part in parts), by_id[id].result


CELLS = [
    # finding, cell to change, its new text, verdict before and after
    ("round-mix", ("memory (full)", "MedMCQA", "74.8"), "fails", "holds"),
    ("average-iteration", ("iteration", "average", "77.9"), "holds", "fails"),
    ("average-iteration", ("iteration", "MedQA", "79.6"), "holds", "fails"),
    ("step-text chunks-page images-MMLU-Med", ("page images", "MMLU-Med", "87.8"), "holds", "fails"),
    ("grim-MedQA", ("iteration", "MedQA", "77.65"), "holds", "fails"),
    ("wins-Med-PaLM 2", ("Med-PaLM 2", "MedMCQA", "69.1"), "fails", "holds"),
    ("source-MedRAG + GPT-4", ("MedRAG + GPT-4", "PubMedQA", "71.6"), "holds", "fails"),
    ("taxonomy-counts", ("memory (full)", "MedQA", "76.8"), "fails", "holds"),
    ("weighting-order", ("iteration", "MedMCQA", "69.0"), "open", "holds"),
    ("setting-PubMedQA", ("no RAG", "PubMedQA", "38.2"), "open", "holds"),
    ("significance-page images", ("page images", "MedMCQA", "68.9"), "open", "holds"),
    ("effect-text chunks-PubMedQA", ("text chunks", "PubMedQA", "63.2"), "open", "holds"),
]


@pytest.mark.parametrize(("id", "cell", "before", "after"), CELLS, ids=lambda value: str(value))
def test_a_changed_cell_changes_the_verdict(id: str, cell: tuple[str, str, str], before: str, after: str) -> None:
    paper = load_paper()
    assert (verdict(paper, id), verdict(paper.with_cell(*cell), id)) == (before, after)


NUMBERS = [
    ("round-shares", "rounds_1_share", "60.4", "holds", "fails"),
    ("more-rounds", "more_rounds_share", "36.8", "holds", "fails"),
    ("round-mix", "rounds_1_accuracy", "82.2", "fails", "holds"),
    ("recovered-errors", "recovered_by_2", "5.0", "fails", "holds"),
    ("stage1-time", "fine_ms", "25.9", "holds", "fails"),
    ("one-round-time", "vlm_s", "13.1", "holds", "fails"),
    ("three-round-time", "three_rounds_s", "45.8", "holds", "fails"),
    ("two-round-time", "two_rounds_s", "31.9", "open", "holds"),
    ("two-round-time", "two_rounds_s", "35.0", "open", "fails"),
    ("two-round-share", "two_of_three_share", "66", "fails", "holds"),
    ("filter-tokens", "summary_tokens", "150", "holds", "fails"),
    ("shard-count", "shard_size", "200", "holds", "fails"),
    ("shard-survivors", "shard_keeps", "24", "holds", "fails"),
    ("shard-headroom", "summary_tokens", "90", "open", "holds"),
    ("text-filter-window", "chunk_tokens", "128", "open", "holds"),
    ("taxonomy-sum", "misread", "31.5", "holds", "fails"),
    ("support-ceiling", "supported", "81.0", "fails", "holds"),
    ("support-ceiling", "recall_filtered", "80.1", "fails", "holds"),
    ("sample-classes", "sample_layout", "21", "open", "holds"),
]


@pytest.mark.parametrize(("id", "name", "text", "before", "after"), NUMBERS, ids=lambda value: str(value))
def test_a_changed_number_changes_the_verdict(id: str, name: str, text: str, before: str, after: str) -> None:
    paper = load_paper()
    assert (verdict(paper, id), verdict(paper.with_number(name, text), id)) == (before, after)


def test_findings_that_rest_on_several_numbers_clear_with_all_of_them() -> None:
    paper = load_paper()
    both = paper.with_number("recovered_by_2", "0.3").with_number("recovered_by_3", "0.1")
    assert (verdict(paper, "recovered-share"), verdict(both, "recovered-share")) == ("open", "holds")
    copied = paper
    for set_name, text in paper.sources[0].cells.items():
        copied = copied.with_cell("GPT-3.5", set_name, text[:-1])
    assert (verdict(paper, "source-GPT-3.5"), verdict(copied, "source-GPT-3.5")) == ("fails", "holds")


def test_possible_accuracies_clear_the_set_and_two_runs_would_too() -> None:
    paper = load_paper()
    cleared = paper
    for row in paper.table.rows:
        if row.own:
            text = row.cells["PubMedQA"]
            cleared = cleared.with_cell(row.arm, "PubMedQA", text[:-1] + str(int(text[-1]) // 2 * 2))
    assert verdict(cleared, "grim-PubMedQA") == "holds"
    assert verdict(paper.with_number("seeds", "2"), "grim-PubMedQA") == "holds"


@given(st.integers(100, 3000), st.data())
@settings(max_examples=25, deadline=None)
def test_a_paper_whose_numbers_come_from_counts_has_clean_averages_steps_and_cells(n: int, data: st.DataObject) -> None:
    """Property: tables printed from real counts are never faulted."""
    paper = load_paper()
    sizes = {name: n + 37 * i for i, name in enumerate(paper.table.sets)}
    rows = []
    for row in paper.table.rows:
        shares = {name: 100 * data.draw(st.integers(0, size)) / size for name, size in sizes.items()}
        cells = {name: f"{share:.2f}" for name, share in shares.items()}
        rows.append(row.model_copy(update={"cells": cells, "average": f"{sum(shares.values()) / len(shares):.2f}"}))
    table = paper.table.model_copy(update={"sizes": sizes, "rows": tuple(rows)})
    made = audit_table(table)
    assert all(cell.possible for cell in made.grim)
    assert all(row.agrees_plain for row in made.averages)


def test_a_finding_cannot_carry_a_severity_that_its_verdict_has_not() -> None:
    for verdict_, severity in (("holds", "A"), ("derived", "C"), ("open", "A"), ("fails", None)):
        with pytest.raises(ValidationError):
            Finding(
                id="x", topic="t", where="w", claim="c", arithmetic="1", result="1", wording="w",
                verdict=verdict_, severity=severity,
            )  # type: ignore[arg-type]  # fmt: skip


def test_the_data_hold_no_verdict_and_every_number_is_used(by_id: dict[str, Finding]) -> None:
    paper = load_paper()
    assert not {"verdict", "severity"} & set(str(paper.model_dump()).replace("'", " ").split())
    whole = audit_paper(paper)
    unused = [name for name in paper.numbers if audit_paper(paper.with_number(name, "37")) == whole]
    assert unused == []


def test_other_data_are_read_and_faults_named(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    for text, named in (("a: [", "not valid YAML"), ("table: 3", "table"), ("{}", "'table' is missing")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=named):
            load_paper(path)
    with pytest.raises(InputError, match="no such file"):
        load_paper(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="hold no 'x'"):
        load_paper().number("x")
