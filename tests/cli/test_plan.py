"""`medvrag plan`, and the run that it plans: `medvrag embed`, `medvrag index`, `medvrag run`, one after another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medvrag_core.evaluation.cost.run_plan import RunPlan
from medvrag_core.evaluation.questions import write_questions
from medvrag_core.records import Question

Command = Callable[..., SimpleNamespace]


def test_the_table_tells_times_sizes_and_where_they_come_from(medvrag: Command) -> None:
    done = medvrag("plan", "--profile", "a100", "--articles", "18000", "--pages", "350000", "--questions", "7045")
    assert done.code == 0, done.err
    assert done.out.startswith("a100: 18,000 articles, 350,000 pages, 7,045 questions\n")
    rows = {line.split()[0]: line for line in done.out.splitlines() if line.startswith("  ")}
    assert rows["filter"].endswith("paper")
    assert rows["embedding"].endswith("assumed")
    assert rows["corpus"].endswith("measured")
    assert {"h", "GB"} <= set(rows["total"].split())
    assert "  filter_s = 3.8 s for 240,000 tokens of summaries (paper: Table 2" in done.out
    assert "note: times on GPUs are the paper's or arithmetic; nothing of this project has run on a GPU yet" in done.out


def test_json_holds_the_same_plan(medvrag: Command) -> None:
    sizes = ("--pages", "100", "--questions", "10")
    plan = RunPlan.from_json(medvrag("plan", *sizes, "--json").out, source="stdout")
    assert (plan.profile, plan.size.pages, plan.size.questions) == ("cpu", 100, 10)
    slower = json.loads(medvrag("plan", *sizes, "--set", "loop.min_rounds=3", "--json").out)
    assert sum(line["wall_s"] for line in slower["lines"] if line["stage"] == "reader") > sum(
        line.wall_s or 0 for line in plan.lines if line.stage == "reader"
    )


def test_pages_follow_from_articles_and_costs_from_a_file(medvrag: Command, tmp_path: Path) -> None:
    costs = tmp_path / "costs.yaml"
    costs.write_text("pages_per_article: {value: 7, unit: pages, kind: measured, source: here}\n")
    plan = json.loads(medvrag("plan", "--articles", "3", "--costs", costs, "--json").out)
    assert (plan["size"]["articles"], plan["size"]["pages"], plan["size"]["questions"]) == (3, 21, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give --pages or --articles, or --run"),
        (("--pages", "0"), "Invalid value for '--pages'"),
        (("--pages", "9", "--scanned", "1.5"), "Invalid value for '--scanned'"),
        (("--pages", "9", "--costs", "none.yaml"), "none.yaml: cannot be read"),
        (("--run", "none"), "none"),
    ],
)
def test_what_cannot_be_planned_is_refused(medvrag: Command, arguments: tuple[str, ...], words: str) -> None:
    done = medvrag("plan", *arguments)
    assert done.code == 2
    assert words in done.err


def test_what_does_not_fit_ends_with_2(medvrag: Command) -> None:
    done = medvrag("plan", "--profile", "a100", "--pages", "9", "--set", "serve.reader_share=0.3")
    assert done.code == 2
    assert "does not fit: 'reader_model'" in done.out


def test_one_command_embeds_one_indexes_one_runs(
    medvrag: Command, made_pdfs: Path, made_questions: list[Question], tmp_path: Path
) -> None:
    out, asked = tmp_path / "run", tmp_path / "questions.jsonl"
    write_questions(asked, made_questions)
    refused = medvrag("index", "--run", out)
    assert refused.code == 2
    assert "has no corpus yet" in refused.err

    embedded = medvrag("embed", "--source", made_pdfs, "--profile", "test", "--out", out)
    assert embedded.code == 0, embedded.err
    assert embedded.out.startswith(f"{out}: ")
    assert "bytes a page" in embedded.out
    assert not (out / "index").exists()
    shards = {path: path.stat().st_mtime_ns for path in (out / "vectors").rglob("vectors.npy")}
    assert shards

    indexed = medvrag("index", "--run", out)
    assert indexed.code == 0, indexed.err
    assert indexed.out.rstrip().endswith("mode exact on cpu")
    record = json.loads(medvrag("index", "--run", out, "--json").out)
    assert (record["stage"], record["metrics"]["device"]) == ("indexing", "cpu")
    made = (out / "index" / "manifest.json").stat().st_mtime_ns

    done = medvrag("run", "--questions", asked, "--out", out)
    assert done.code == 0, done.err
    assert {path: path.stat().st_mtime_ns for path in shards} == shards, "nothing is encoded again"
    assert (out / "index" / "manifest.json").stat().st_mtime_ns == made, "nor indexed"

    plan: dict[str, Any] = json.loads(medvrag("plan", "--run", out, "--json").out)
    assert plan["size"]["questions"] == len(made_questions)
    checked = {(row["what"], row["unit"]): row for row in plan["checked"]}
    assert {"corpus and summaries", "page vectors", "index", "traces"} <= {what for what, _ in checked}
    for row in plan["checked"]:
        assert row["recorded"] > 0
        assert row["ratio"] == pytest.approx(row["recorded"] / row["planned"])
    vectors = sum(path.stat().st_size for path in (out / "vectors").rglob("*") if path.is_file())
    assert checked["page vectors", "bytes"]["recorded"] == vectors
    assert "recorded / planned" in medvrag("plan", "--run", out).out
