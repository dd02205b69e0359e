"""The verb ``calibration``: how sure a system is, and how often it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, SystemOption, asked_endings, evaluation_of
from medvrag_core.errors import InputError
from medvrag_core.runs.workspace import Workspace


def calibration(
    run_: Annotated[
        list[Path], typer.Option("--run", help="Folder of a run; repeated, the votes of several runs (seeds) count.")
    ],
    system: SystemOption = "medvrag",
    bins: Annotated[int, typer.Option(min=1, help="Bins of equal mass.")] = 10,
    target: Annotated[float, typer.Option(help="Accuracy that a threshold is chosen for.")] = 0.8,
    as_json: JsonOption = False,
) -> None:
    """Compare confidence with outcomes: ECE against chance, Brier score, risk and coverage, thresholds.

    With one run the confidence is the share that the reader gives its answer. Example:

        medvrag calibration --run runs/mine --system page_single
    """
    from medvrag_core.evaluation.calibration.confidence import stated_confidences, voted_confidences
    from medvrag_core.evaluation.calibration.reliability import calibration_report
    from medvrag_core.evaluation.calibration.selective import ConfidenceReport, selective_report
    from medvrag_core.views.calibration_view import calibration_text

    if len({place.resolve() for place in run_}) < len(run_):
        raise InputError("a run is given twice, so its votes would count twice", way_out="give each run once")
    runs = [asked_endings(Workspace(place), system) for place in run_]
    given = stated_confidences(runs[0]) if len(runs) == 1 else voted_confidences(runs)
    settings = evaluation_of(Workspace(run_[0]))
    report = ConfidenceReport(
        calibration=calibration_report(given, settings, bins=bins),
        selective=selective_report(given, settings, target=target),
    )
    if as_json:
        typer.echo(report.model_dump_json(indent=1))
    else:
        typer.echo(calibration_text(report.calibration, report.selective))
