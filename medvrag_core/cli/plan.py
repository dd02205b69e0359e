"""The verb ``plan``: what a run will take, before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, ProfileOption, SetOption, SystemOption, profile_for
from medvrag_core.errors import InputError
from medvrag_core.runs.workspace import Workspace


def plan(
    articles: Annotated[int | None, typer.Option(min=1, help="PDFs of the corpus.")] = None,
    pages: Annotated[int | None, typer.Option(min=1, help="Pages of the corpus.")] = None,
    questions: Annotated[int | None, typer.Option(min=0, help="Questions to answer.")] = None,
    scanned: Annotated[float, typer.Option(min=0, max=1, help="Share of pages without a text layer.")] = 0.0,
    run_: Annotated[
        Path | None, typer.Option("--run", help="Take sizes and profile of a run, and compare with its records.")
    ] = None,
    system: SystemOption = "medvrag",
    costs: Annotated[Path | None, typer.Option(help="YAML file with unit costs of your machine.")] = None,
    profile: ProfileOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say before a run what it will take: hours, GPU hours, gigabytes, memory; exit code 2 when something does not fit.

    Each line tells whether its unit costs were measured, are the paper's, or are assumed. Example:

        medvrag plan --profile a100 --articles 18000 --pages 350000 --questions 7045
    """
    from medvrag_core.evaluation.cost.plan import plan_run
    from medvrag_core.evaluation.cost.plan_check import check_plan, size_of_run
    from medvrag_core.evaluation.cost.run_size import RunSize
    from medvrag_core.evaluation.cost.unit_costs import read_costs, shipped_costs
    from medvrag_core.views.plan_text import plan_text

    units = read_costs(costs) if costs is not None else shipped_costs()
    workspace = Workspace(run_) if run_ is not None else None
    if workspace is not None:
        size = size_of_run(workspace, questions)
    elif articles is None and pages is None:
        raise InputError("the size of the corpus is not given", way_out="give --pages or --articles, or --run")
    else:
        a_article = units["pages_per_article"].value
        size = RunSize(
            articles=articles or max(1, round((pages or 0) / a_article)),
            pages=pages or round((articles or 0) * a_article),
            questions=questions or 0,
            scanned=scanned,
        )
    made = plan_run(profile_for(workspace, profile, set_), size, units, system)
    if workspace is not None:
        made = made.model_copy(update={"checked": check_plan(made, workspace, system)})
    typer.echo(made.model_dump_json(indent=1) if as_json else plan_text(made))
    if made.does_not_fit:
        raise typer.Exit(2)
