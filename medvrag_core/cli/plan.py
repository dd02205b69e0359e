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
    cores: Annotated[int, typer.Option(min=1, help="Cores of a machine that serves the index.")] = 32,
    ram: Annotated[float, typer.Option(min=1, help="Its memory, GiB.")] = 256.0,
    nvme: Annotated[float, typer.Option(min=1, help="Its disk, GB.")] = 7_680.0,
    prices: Annotated[
        Path | None, typer.Option(help="Price table; `medvrag cost --price-template` prints one to fill in.")
    ] = None,
    profile: ProfileOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say before a run what it will take: hours, GPU hours, gigabytes, memory; exit code 2 when something does not fit.

    Each line tells whether its unit costs were measured, are the paper's, or are assumed. Below: on how many machines
    of a given size the index fits, what one query takes there, and what gives way first when the corpus grows. Example:

        medvrag plan --profile a100 --articles 18000 --pages 350000 --questions 7045
    """
    from medvrag_core.evaluation.cost.plan import plan_run
    from medvrag_core.evaluation.cost.plan_check import check_plan, size_of_run
    from medvrag_core.evaluation.cost.prices import read_prices
    from medvrag_core.evaluation.cost.run_size import RunSize
    from medvrag_core.evaluation.cost.unit_costs import read_costs, shipped_costs
    from medvrag_core.evaluation.scale.limits import limits
    from medvrag_core.evaluation.scale.outlook import ServerMachine, outlook
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
    settings = profile_for(workspace, profile, set_)
    made, machine = plan_run(settings, size, units, system), ServerMachine(cores=cores, ram_gib=ram, nvme_gb=nvme)
    made = made.model_copy(
        update={"scale": outlook(settings, size.pages, units, machine), "limits": limits(settings, units, machine)}
    )
    made = made.priced(read_prices(prices) if prices is not None else None)
    if workspace is not None:
        made = made.model_copy(update={"checked": check_plan(made, workspace, system)})
    typer.echo(made.model_dump_json(indent=1) if as_json else plan_text(made))
    if made.does_not_fit:
        raise typer.Exit(2)
