"""How much there was in a run, and its plan beside what the run recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.encode import read_throughput
from medvrag_core.evaluation.cost.run_plan import Checked, RunPlan, Stage
from medvrag_core.evaluation.cost.run_size import RunSize
from medvrag_core.records import RunRecord
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import each_trace, systems_with_traces


def size_of_run(workspace: Workspace, questions: int | None = None) -> RunSize:
    """Articles, pages and scanned pages of a run; questions are those that have answers unless given.

    Raises
    ------
    NotBuiltError : the run has no finished corpus
    """
    store = CorpusStore.open(workspace.corpus)
    if questions is None:
        questions = max((_answered(workspace, name) for name in systems_with_traces(workspace)), default=0)
    scanned = sum(page.text_source == "ocr" for page in store.pages)
    return RunSize(
        articles=len(store.articles), pages=len(store.pages), questions=questions, scanned=scanned / len(store.pages)
    )


def check_plan(plan: RunPlan, workspace: Workspace, system: str) -> tuple[Checked, ...]:
    """The plan beside the records of a finished run of the same size.

    A stage that was stopped, or found its work done, recorded the time of its last call alone; such rows say little.
    Answers are compared where the plan is for as many questions as have one.
    """
    return tuple(_checked(plan, workspace, system))


def _checked(plan: RunPlan, workspace: Workspace, system: str) -> Iterator[Checked]:
    sizes: tuple[tuple[str, tuple[Stage, ...], Path], ...] = (
        ("corpus and summaries", ("corpus", "summaries"), workspace.corpus),
        ("page vectors", ("embedding",), workspace.vectors),
        ("index", ("index",), workspace.index),
    )
    record = workspace.root / "records" / "corpus_build.json"
    if record.is_file():
        seconds = RunRecord.from_json(record.read_text(encoding="utf-8"), source=str(record)).seconds
        yield _row("corpus and summaries", "s", _seconds(plan, "corpus", "summaries"), seconds)
    throughput = read_throughput(workspace.vectors)
    if throughput is not None and throughput.pages == plan.size.pages:
        yield _row("page vectors", "s", _seconds(plan, "embedding"), throughput.seconds)
    if plan.size.questions and plan.size.questions == _answered(workspace, system):
        answered = sum(trace.seconds for trace in each_trace(workspace, system))
        yield _row("answers", "s", _seconds(plan, "search", "filter", "helper", "reader"), answered)
        sizes = (*sizes, ("traces", ("traces",), workspace.traces(system)))
    for what, stages, folder in sizes:
        if folder.is_dir():
            planned = sum(line.bytes for line in plan.lines if line.stage in stages)
            yield _row(what, "bytes", planned, _bytes_in(folder))


def _row(what: str, unit: Literal["s", "bytes"], planned: float, recorded: float) -> Checked:
    ratio = recorded / planned if planned else None
    return Checked(what=what, unit=unit, planned=planned, recorded=recorded, ratio=ratio)


def _seconds(plan: RunPlan, *stages: Stage) -> float:
    return sum(line.wall_s or 0.0 for line in plan.lines if line.stage in stages)


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _answered(workspace: Workspace, system: str) -> int:
    return sum(1 for _ in workspace.traces(system).glob("*.json*"))
