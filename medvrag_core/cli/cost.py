"""The verb ``cost``: seconds, calls, tokens, images and money by stage, and for an extra right answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, asked_endings, evaluation_of, profile_of
from medvrag_core.errors import InputError
from medvrag_core.runs.workspace import Workspace


def cost(
    run_: Annotated[Path | None, typer.Argument(metavar="RUN", help="Folder of a run.")] = None,
    system: Annotated[str, typer.Option(help="The arm whose cost is shown.")] = "medvrag",
    against: Annotated[
        str | None, typer.Option(help="Arm of the same run to compare with: cost of one extra right answer.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="YAML file of prices, for money.")] = None,
    price_template: Annotated[bool, typer.Option("--price-template", help="Print a price table to fill in.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what the questions of a run cost, by stage: mean, median, tail and sum.

    Example:

        medvrag cost runs/mine --system medvrag --against page_single
    """
    from medvrag_core.evaluation.cost.bill import arm_cost
    from medvrag_core.evaluation.cost.extra_right import Costs, extra_right
    from medvrag_core.evaluation.cost.prices import price_template as template
    from medvrag_core.evaluation.cost.prices import read_prices
    from medvrag_core.views.cost_text import cost_text, extra_right_text
    from medvrag_core.views.cost_view import currency

    if price_template:
        typer.echo(template(), nl=False)
        return
    if run_ is None:
        raise InputError("no run is named", way_out="give the folder of a run, or --price-template")
    if against == system:
        raise InputError(f"'{system}' is compared with itself", way_out="name another arm with --against")
    workspace, table = Workspace(run_), read_prices(prices) if prices is not None else None
    at_once = profile_of(workspace).calls.questions_at_once if workspace.profile.is_file() else None
    asked = {name: asked_endings(workspace, name) for name in (system, against) if name is not None}
    reports = {
        name: arm_cost(workspace, endings, prices=table, questions_at_once=at_once) for name, endings in asked.items()
    }
    extra = None
    if against is not None:
        pair = {"": (against, system)}
        extra = extra_right(asked, reports, pair, evaluation_of(workspace), family="this contrast alone")[0]
    if as_json:
        made = Costs(cost=reports[system], against=reports.get(against or ""), extra_right=extra)
        typer.echo(made.model_dump_json(indent=1))
        return
    typer.echo("\n\n".join(cost_text(report) for report in reports.values()))
    if extra is not None:
        typer.echo(f"\n{extra_right_text(extra, currency(reports[system]))}")
