"""`medvrag calibration` through the entry point."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.records import FilterDecision, MemoryBank, ParsedReply, Question, ReaderReply, Round, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import trace_path

Run = Callable[..., SimpleNamespace]


def write_run(folder: Path, labels: str, shares: dict[str, float]) -> Path:
    """A run of one label a question; the gold answer is always A."""
    workspace = Workspace(folder)
    for number, label in enumerate(labels):
        reply = ReaderReply(text="", option_scores=shares)
        trace = Trace(
            system="loop",
            profile="test",
            fingerprint="f",
            question=Question(id=f"q{number:02d}", question="?", options={"A": "x", "B": "y"}, answer="A"),
            rounds=(
                Round(
                    number=1,
                    query="?",
                    stage1=(),
                    filter=FilterDecision(kept=()),
                    shown=(),
                    bank_before=MemoryBank(),
                    reply=reply,
                    parsed=ParsedReply(label=label),
                    times=(),
                ),
            ),
            outcome="answered",
            label=label,
            correct=label == "A",
            seconds=1.0,
        )
        path = trace_path(workspace, "loop", trace.question.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trace.to_json(), encoding="utf-8")
    return workspace.root


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Twenty answers with the confidences 0.9 (A, right) and 0.1 (B, wrong)."""
    return write_run(tmp_path / "told", "A" * 12 + "B" * 8, {"A": 0.9, "B": 0.1})


def test_one_run_is_judged_by_the_shares_it_tells(medvrag: Run, told: Path) -> None:
    found = json.loads(medvrag("calibration", "--run", told, "--system", "loop", "--json").out)
    assert found["calibration"]["source"] == "option_scores" and found["calibration"]["n"] == 20
    assert found["calibration"]["ece"] == pytest.approx(0.1) and len(found["calibration"]["bins"]) == 2
    assert found["selective"]["aurc"] == pytest.approx(found["selective"]["aurc_best"])
    text = medvrag("calibration", "--run", told, "--system", "loop").out
    assert "ranks right answers above wrong ones" in text and "12 of 12" in text


def test_several_runs_are_judged_by_their_votes(medvrag: Run, told: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", "A" * 20, {})
    found = json.loads(medvrag("calibration", "--run", told, "--run", other, "--system", "loop", "--json").out)
    assert found["calibration"]["source"] == "vote_share"
    assert found["calibration"]["mean_confidence"] == pytest.approx(1.0 * 0.6 + 0.5 * 0.4)
    assert found["calibration"]["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--run", "{told}", "--run", "{told}"), "given twice"),
        (("--run", "{silent}"), "tells no share of its options"),
        (("--run", "{told}", "--target", "2"), "no accuracy"),
        (("--run", "{told}x"), "has no trace"),
    ],
)
def test_bad_input_is_one_sentence(
    medvrag: Run, told: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    silent = write_run(tmp_path / "silent", "A", {})
    result = medvrag("calibration", "--system", "loop", *(a.format(told=told, silent=silent) for a in arguments))
    assert result.code == 2 and message in result.err and result.err.count("\n") == 1
