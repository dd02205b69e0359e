"""The verb ``cost``: seconds, calls, tokens, images and money by stage, and for an extra right answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.errors import InputError
from medvrag_core.evaluation.endings import Ending
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EvaluationSettings


def cost(
    run_: Annotated[Path | None, typer.Argument(metavar="RUN", help="Folder of a run.")] = None,
    system: Annotated[str, typer.Option(help="The arm whose cost is shown.")] = "medvrag",
    against: Annotated[
        str | None, typer.Option(help="Arm of the same run to compare with: cost of one extra right answer.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="YAML file of prices, for money.")] = None,
    price_template: Annotated[bool, typer.Option("--price-template", help="Print a price table to fill in.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")] = False,
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
    profile = load_profile(str(workspace.profile)) if workspace.profile.is_file() else None
    at_once = profile.calls.questions_at_once if profile else None
    asked = {name: _asked(workspace, name) for name in (system, against) if name is not None}
    reports = {
        name: arm_cost(workspace, endings, prices=table, questions_at_once=at_once) for name, endings in asked.items()
    }
    extra = None
    if against is not None:
        settings = profile.evaluation if profile else EvaluationSettings()
        extra = extra_right(asked, reports, {"": (against, system)}, settings, family="this contrast alone")[0]
    if as_json:
        made = Costs(cost=reports[system], against=reports.get(against or ""), extra_right=extra)
        typer.echo(made.model_dump_json(indent=1))
        return
    typer.echo("\n\n".join(cost_text(report) for report in reports.values()))
    if extra is not None:
        typer.echo(f"\n{extra_right_text(extra, currency(reports[system]))}")


def _asked(workspace: Workspace, system: str) -> list[Ending]:
    """Endings of the questions asked last; a run folder can hold answers to earlier question files."""
    from medvrag_core.evaluation.outcomes import read_asked_endings

    return read_asked_endings(workspace, system, made_by=f"`medvrag run --system {system}` first")[0]
