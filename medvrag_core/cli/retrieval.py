"""Verbs about retrieval measured as such: recall of each stage, labels by a judge, agreement of two raters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.calls import _profile_of
from medvrag_core.runs.workspace import Workspace

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]
RunOption = Annotated[Path, typer.Option("--run", help="Folder of a finished run.")]
SystemOption = Annotated[str, typer.Option(help="Which system.")]


def retrieval(
    run_: RunOption,
    system: SystemOption = "medvrag",
    any_round: Annotated[bool, typer.Option("--any-round", help="All rounds together, not the first alone.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Search again, with the index and exactly.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Recall of each stage: among the candidates, kept by the filter, shown to the reader; and what the filter lost.

    Example:

        medvrag retrieval --run runs/mine --exact
    """
    from medvrag_core.evaluation.stage_report import stage_report
    from medvrag_core.systems.answering import read_traces
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.retrieval_text import stage_report_text

    workspace = Workspace(run_)
    traces = read_traces(workspace, system, made_by=f"`medvrag run --system {system}` first")
    profile = _profile_of(workspace)
    report = stage_report(
        traces,
        profile,
        rounds="any" if any_round else "first",
        search=Resources(workspace, profile) if exact else None,
    )
    typer.echo(report.model_dump_json(indent=1) if as_json else stage_report_text(report))
