"""The verb ``errors``: where wrong answers come from, and what answers cite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, RunOption, SystemOption, evaluation_of
from medvrag_core.runs.workspace import Workspace


def errors(
    run_: RunOption,
    system: SystemOption = "medvrag",
    suspect: Annotated[
        Path | None, typer.Option(help="JSON lines with id and reason: questions whose gold option is in doubt.")
    ] = None,
    relevant: Annotated[Path | None, typer.Option(help="Relevance labels in place of gold pages.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="JSON lines with id, error_class and rater: classes given by hand.")
    ] = None,
    rater: Annotated[str | None, typer.Option(help="Whose classes, where --labels holds several raters'.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Classify wrong answers, by classes that exclude each other and by the paper's; and check what answers cite.

    Example:

        medvrag errors --run runs/mine --system page_single
    """
    from medvrag_core.evaluation.errors.by_hand import read_error_labels, suspect_questions
    from medvrag_core.evaluation.errors.report import error_report, read_for_errors
    from medvrag_core.evaluation.labels.relevance import as_gold, read_labels
    from medvrag_core.views.error_text import error_report_text

    workspace, gold = Workspace(run_), None
    if relevant is not None:
        judged = as_gold(read_labels(relevant))
        gold = {question: {page for page, grade in pages.items() if grade} for question, pages in judged.items()}
    traces = read_for_errors(workspace, system, gold)
    report = error_report(
        traces,
        gold,
        suspect=suspect_questions([trace.question for trace in traces], suspect or ""),
        labels=() if labels is None else read_error_labels(labels, rater=rater),
        settings=evaluation_of(workspace),
    )
    typer.echo(report.model_dump_json(indent=1) if as_json else error_report_text(report))
