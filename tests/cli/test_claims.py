"""`medvrag claims` through the entry point."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import yaml

from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.stage import begin_stage

Run = Callable[..., SimpleNamespace]
ROW = {
    "id": "pages", "where": "Section 3.1", "what": "Pages", "paper": {"pages": 350_000}, "tolerance": 35_000,
    "chapter": "01_corpus_build", "command": "medvrag book run", "measured": {"pages": "corpus_build: pages"},
    "status": "scaled down",
}  # fmt: skip


def arguments(tmp_path: Path, **changes: object) -> tuple[object, ...]:
    """A run of one record, and a file of one claim."""
    draft = begin_stage(tmp_path / "run", "corpus_build", load_profile("cpu"))
    draft.measure(pages=52)
    draft.finish()
    (tmp_path / "claims.yml").write_text(yaml.safe_dump({"rows": [ROW | changes]}))
    return "claims", "--claims", tmp_path / "claims.yml", "--run", tmp_path / "run"


def test_measured_values_and_status_are_printed(medvrag: Run, tmp_path: Path) -> None:
    given = arguments(tmp_path)
    done = medvrag(*given)
    assert done.code == 0 and "paper 350,000; measured 52" in done.out and "of this run" in done.out
    found = json.loads(medvrag(*given, "--json").out)
    (check,) = found["checks"]
    assert (check["values"], check["status"], check["problems"]) == ({"pages": 52.0}, "scaled down", [])


def test_a_row_that_says_more_than_the_run_shows_ends_in_code_1(medvrag: Run, tmp_path: Path) -> None:
    done = medvrag(*arguments(tmp_path, status="reproduced"))
    assert done.code == 1
    assert "not true: pages: stated 'reproduced', the run says 'scaled down'" in done.out
    done = medvrag(*arguments(tmp_path, measured={"pages": "corpus_build: leaves"}), "--json")
    assert done.code == 1 and "there is no 'leaves'" in json.loads(done.out)["checks"][0]["problems"][0]


def test_the_shipped_claims_are_true_of_the_audit(medvrag: Run) -> None:
    assert medvrag("claims").code == 0


def test_faults_are_one_sentence(medvrag: Run, tmp_path: Path) -> None:
    for words, given in (
        ("holds no records", ("claims", "--run", tmp_path)),
        ("no such file", ("claims", "--claims", tmp_path / "none.yml")),
    ):
        done = medvrag(*given)
        assert done.code == 2 and words in done.err and len(done.err.strip().splitlines()) == 1, done.err
