"""`medvrag compare` and `medvrag power` through the entry point, on run folders made of traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from medvrag_core.evaluation.benchmarks.load import MIRAGE_SIZES
from medvrag_core.evaluation.statistics.preregistration import read_preregistration
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import asked_path, trace_path
from medvrag_core.systems.base import catalog
from medvrag_core.systems.prepare import save_profile

Run = Callable[..., SimpleNamespace]


def answered(root: Path, system: str, right: Mapping[str, bool], *, fingerprint: str = "f", dataset: str = "") -> Path:
    """A run folder in which a system answered every question right or wrong."""
    workspace = Workspace(root)
    for question_id, good in right.items():
        label = "A" if good else "B"
        trace = Trace(
            system=system,
            profile="test",
            fingerprint=fingerprint,
            question=Question(
                id=question_id, question=f"? {question_id}", options={"A": "x", "B": "y"}, answer="A", dataset=dataset
            ),
            rounds=(),
            outcome="answered",
            label=label,
            correct=good,
            seconds=1.0,
        )
        path = trace_path(workspace, system, question_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trace.to_json(), encoding="utf-8")
    return root


def outcomes(
    both: int, won: int, lost: int, neither: int, of: str = "medqa"
) -> tuple[dict[str, bool], dict[str, bool]]:
    pairs = [(True, True)] * both + [(False, True)] * won + [(True, False)] * lost + [(False, False)] * neither
    ids = [f"{of}:{i}" for i in range(len(pairs))]
    return dict(zip(ids, (a for a, _ in pairs), strict=True)), dict(zip(ids, (b for _, b in pairs), strict=True))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One run folder, arms ``text`` and ``pages``, 100 questions of one set and 40 of another."""
    for dataset, counts in (("medqa", (60, 12, 3, 25)), ("mmlu", (20, 2, 6, 12))):
        for system, right in zip(("text", "pages"), outcomes(*counts, of=dataset), strict=True):
            answered(tmp_path / "run", system, right, dataset=dataset)
    return tmp_path / "run"


def test_the_rules_are_those_of_the_runs_profile(medvrag: Run, runs: Path) -> None:
    save_profile(Workspace(runs), load_profile("test", {"evaluation.confidence": 0.9, "evaluation.seed": 7}))
    found = json.loads(medvrag("compare", runs, runs, "--system", "text", "--other", "pages", "--json").out)
    assert (found["rules"]["alpha"], found["rules"]["seed"]) == (pytest.approx(0.1), 7)
    chosen = json.loads(medvrag("best", "--run", runs, "--among", "text", "--against", "pages", "--json").out)
    assert chosen["contrast"]["rules"] == found["rules"]


def test_bc40_in_full(medvrag: Run, runs: Path) -> None:
    done = medvrag("compare", runs, runs, "--system", "text", "--other", "pages", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    medqa, mmlu = found["sets"]
    assert (medqa["n"], medqa["won"], medqa["lost"], medqa["difference"]) == (100, 12, 3, 9.0)
    assert medqa["p_value"] == pytest.approx(0.035, abs=5e-4) and medqa["test"] == "mcnemar"
    assert 0 < medqa["low"] < 9.0 < medqa["high"]
    macro, weighted = found["estimates"]
    assert macro["difference"] == pytest.approx((9 - 10) / 2)
    assert weighted["difference"] == pytest.approx(100 * 5 / 140)
    assert mmlu["p_adjusted"] >= mmlu["p_value"]
    assert found["family"] == "" and not found["same_arm"]
    text = medvrag("compare", runs, runs, "--system", "text", "--other", "pages").out
    for words in ("macro", "question-weighted", "medqa", "exact McNemar", "TOST", "exploratory", "adj. p"):
        assert words in text


def test_questions_without_a_dataset_are_one_set(medvrag: Run, tmp_path: Path) -> None:
    for system, right in zip(("text", "pages"), outcomes(6, 3, 1, 2), strict=True):
        run = answered(tmp_path / "run", system, right)
    found = json.loads(medvrag("compare", run, run, "--system", "text", "--other", "pages", "--json").out)
    assert [e["name"] for e in found["sets"]] == ["all"]
    assert found["estimates"][0]["difference"] == found["estimates"][1]["difference"]


def test_sets_go_by_dataset_where_questions_name_one(medvrag: Run, runs: Path) -> None:
    arms = ("compare", runs, runs, "--system", "text", "--other", "pages")
    found = json.loads(medvrag(*arms, "--json").out)
    assert [(e["name"], e["n"]) for e in found["sets"]] == [("medqa", 100), ("mmlu", 40)]
    assert found == json.loads(medvrag(*arms, "--sets", "prefix", "--json").out)
    assert [e["name"] for e in json.loads(medvrag(*arms, "--sets", "one", "--json").out)["sets"]] == ["all"]
    both, one = medvrag(*arms).out, medvrag(*arms, "--sets", "one").out
    assert both.count("question-weighted") == 4 and "medqa" in both and "one set of questions" not in both
    assert one.count("all questions") == 4 and "macro" not in one and one.count("one set of questions") == 1


def test_other_readings_stand_below(medvrag: Run, runs: Path) -> None:
    arms = ("compare", runs, runs, "--system", "text", "--other", "pages")
    found = json.loads(medvrag(*arms, "--json").out)
    by_name = {v["name"]: v for v in found["variants"]}
    assert list(by_name) == ["strict", "mirage", "lenient", "answered", "clusters"]
    assert by_name["strict"]["estimates"] == found["estimates"]
    assert found["stems"]["questions"] == found["stems"]["clusters"] == 140
    # These traces hold no reply, so nothing can be read anew.
    assert by_name["mirage"]["estimates"][1]["accuracy_a"] == 0
    text = medvrag(*arms).out
    for words in ("MIRAGE's rule", "answered by all", "near-duplicate stems: 0 of 140", "p not adjusted"):
        assert words in text, words
    mirage = json.loads(medvrag(*arms, "--scorer", "mirage", "--json").out)
    assert mirage["estimates"] == by_name["mirage"]["estimates"]
    assert (found["scorer"], mirage["scorer"]) == ("strict", "mirage")
    assert "scorer mirage: " in medvrag(*arms, "--scorer", "mirage").out and "no result" not in text


def test_a_registered_family(medvrag: Run, runs: Path, tmp_path: Path) -> None:
    answered(runs, "loop", outcomes(70, 10, 2, 18)[1], dataset="medqa")
    answered(runs, "loop", outcomes(20, 2, 6, 12, of="mmlu")[1], dataset="mmlu")
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        yaml.safe_dump(
            {
                "title": "t",
                "registered": "2026-11-30",
                "sets": {"medqa": 100, "mmlu": 41},
                "arms": {"text": "", "pages": "", "loop": ""},
                "families": {"components": {"modality": ["text", "pages"], "iteration": ["pages", "loop"]}},
                "exclusions": "none",
                "stopping": "one run",
            }
        )
    )
    arguments = ("compare", runs, runs, "--system", "text", "--other", "pages")
    found = json.loads(medvrag(*arguments, "--preregistration", plan, "--json").out)
    assert (found["family"], found["adjustment"], found["family_size"]) == ("components", "holm", 2)
    assert found["preregistration"] == sha256(plan.read_bytes()).hexdigest()
    assert found["departures"] == ["40 questions of set 'mmlu', 41 registered"]
    text = medvrag(*arguments, "--preregistration", plan).out
    assert sha256(plan.read_bytes()).hexdigest() in text and "departure: 40 questions" in text
    planned = json.loads(medvrag("power", "--preregistration", plan, "--json").out)
    assert (planned["tests"], planned["sets"]) == (2, {"medqa": 100, "mmlu": 41})


def test_an_aa_run_and_seeds(medvrag: Run, tmp_path: Path) -> None:
    first, second = outcomes(150, 6, 4, 40)
    a, again = answered(tmp_path / "a", "medvrag", first), answered(tmp_path / "b", "medvrag", second)
    found = json.loads(medvrag("compare", a, again, "--json").out)
    assert found["same_arm"] and found["flips"]["right_or_wrong"] == 0.05
    assert "flips between 2 runs of A and B (A/A): right or wrong 5.0%" in medvrag("compare", a, again).out
    other = answered(tmp_path / "c", "text", second)
    seeds = json.loads(
        medvrag("compare", other, a, "--system", "text", "--other", "medvrag", "--also-b", again, "--json").out
    )
    assert (seeds["runs_a"], seeds["runs_b"], seeds["flips_a"]) == (1, 2, None)
    assert seeds["sets"][0]["test"] == "sign_flip" and seeds["flips_b"]["right_or_wrong"] == 0.05


def test_what_is_missing_is_told(medvrag: Run, tmp_path: Path) -> None:
    first, second = outcomes(3, 1, 1, 1)
    a, b = answered(tmp_path / "a", "medvrag", first), answered(tmp_path / "b", "medvrag", second)
    for run in (a, b):
        asked_path(Workspace(run), "medvrag").write_text(json.dumps([*first, "medqa:99"]))
    found = json.loads(medvrag("compare", a, b, "--json").out)
    assert [note.endswith("1 of 7 questions have no outcome yet") for note in found["departures"]] == [True, True]


def test_faults_are_one_sentence(medvrag: Run, runs: Path, tmp_path: Path) -> None:
    short = answered(tmp_path / "short", "pages", {"medqa:0": True})
    both = ("--system", "text", "--other", "pages")
    for arguments, words in (
        (("compare", runs, short, *both), "only 'text' answered"),
        (("compare", runs, short, "--system", "nothing"), "no trace of system 'nothing'"),
        (("compare", runs, runs, *both, "--sets", tmp_path / "none.json"), "no such file"),
        (("compare", runs, runs, *both, "--preregistration", tmp_path / "none.yaml"), "no such file"),
        (("compare", runs, runs, "--system", "text"), "given twice"),
        (("compare", runs, short, *both, "--also-a", runs), "given twice"),
        (("compare", runs, runs, *both, "--scorer", "kind"), "is no scorer"),
        (("power", "--set-size", "medqa"), "is not SET=N"),
        (("power", "--discordance", "0.001"), "cannot come from a discordance"),
    ):
        done = medvrag(*arguments)
        assert done.code == 2 and words in done.err and len(done.err.strip().splitlines()) == 1, done.err


def test_power_of_the_papers_sets(medvrag: Run) -> None:
    made = json.loads(medvrag("power", "--discordance", "0.10", "--json").out)
    powers = {row["what"]: round(row["power"], 2) for row in made["rows"]}
    assert (powers["question_weighted"], powers["macro"]) == (0.76, 0.52)
    text = medvrag("power").out
    assert "7,045 questions" in text and "question-weighted" in text


def test_the_template_is_a_plan_of_known_systems(medvrag: Run, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(medvrag("power", "--template").out, encoding="utf-8")
    plan = read_preregistration(path).content
    assert plan.arms.keys() <= catalog().keys()
    assert plan.sets == MIRAGE_SIZES
    made = json.loads(medvrag("power", "--preregistration", path, "--json").out)
    assert (made["tests"], made["n"], made["preregistration"]) == (3, 7045, sha256(path.read_bytes()).hexdigest())
