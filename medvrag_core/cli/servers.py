"""The verbs about model servers: ``serve`` and ``doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, ProfileOption, SetOption, profile_for
from medvrag_core.errors import MedvragError, NotBuiltError
from medvrag_core.models.serving.options import Phase
from medvrag_core.runs.workspace import Workspace


def serve(
    profile: ProfileOption = None,
    start: Annotated[bool, typer.Option("--run", help="Start the servers, keep them until Ctrl-C.")] = False,
    phase: Annotated[str, typer.Option(help="Which servers --run starts: questions or summaries.")] = "questions",
    logs: Annotated[Path, typer.Option(help="Folder for the logs of --run.")] = Path("runs/servers"),
    wait: Annotated[float, typer.Option(min=1, help="Seconds that a server may take to answer.")] = 1_800,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the command of every model server that a profile needs, with its reasons; or start them.

    Example:

        medvrag serve --profile a100
    """
    from medvrag_core.models.serving.plan import serving_plan
    from medvrag_core.models.serving.run import run_servers
    from medvrag_core.models.serving.text import plan_text

    plan = serving_plan(profile_for(None, profile, set_))
    if start:
        run_servers(plan.of_phase(phase), logs / plan.profile, wait_s=wait, say=typer.echo)
    else:
        typer.echo(plan.model_dump_json(indent=1) if as_json else plan_text(plan))


def doctor(
    run_: Annotated[Path | None, typer.Option("--run", help="Run whose saved profile is checked.")] = None,
    phase: Annotated[
        Phase, typer.Option(help="Whose servers: questions, or summaries, which run before them.")
    ] = "questions",
    profile: ProfileOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the model servers of a profile with a few short calls, and where stage 1 computes; exit 2 if one fails.

    Each failure names the setting, or the flag of the server, to change. Example:

        medvrag doctor --profile a100
    """
    from medvrag_core.index.device_text import device_text
    from medvrag_core.models.doctor import Check, report_of, run_checks
    from medvrag_core.views.check_text import check_text

    workspace = Workspace(run_) if run_ is not None else None
    if workspace is not None and profile is None and not workspace.profile.is_file():
        raise NotBuiltError(f"run '{run_}' has no profile", way_out="give --profile, or the folder of a run")
    resolved = profile_for(workspace, profile, set_)
    try:
        device = Check(role="index", name="device", state="ok", found=device_text(resolved.index))
    except MedvragError as error:
        device = Check(role="index", name="device", state="failed", found=error.problem, change=error.way_out)
    checks = []
    for check in (device, *run_checks(resolved, phase)):
        checks.append(check)
        if not as_json:
            typer.echo(check_text(check))
    made = report_of(resolved, checks)
    if as_json:
        typer.echo(made.model_dump_json(indent=1))
    elif checks == [device]:
        typer.echo(f"profile '{resolved.name}' uses no model server in the phase '{phase}'")
    if not made.ok:
        raise typer.Exit(2)
