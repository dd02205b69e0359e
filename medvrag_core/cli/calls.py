"""Verbs about model calls: what a run paid for, its replay, its export, and how two runs differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import ArmsOption, JsonOption, RunOption, SystemOption, profile_of, run_first, traces_of
from medvrag_core.errors import NotBuiltError
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import differences

calls = typer.Typer(no_args_is_help=True, help="The model calls of a run: count, export, import.")


@calls.command("status")
def status(run_: RunOption, as_json: JsonOption = False) -> None:
    """Count the stored calls of a run by outcome, and by purpose and prompt version."""
    from medvrag_core.models.calls_status import calls_status
    from medvrag_core.models.store import CallStore
    from medvrag_core.views.calls_text import calls_text

    workspace = _with_calls(run_)
    with CallStore(workspace.calls) as store:
        report = calls_status(store)
    typer.echo(report.model_dump_json(indent=1) if as_json else calls_text(report))


@calls.command("export")
def export(
    run_: RunOption,
    out: Annotated[Path, typer.Option(help="File to write, for example mine.jsonl.xz.")],
) -> None:
    """Write all calls and traces of a run into one compressed file, so that others can replay it."""
    from medvrag_core.runs.lock import only_writer
    from medvrag_core.systems.archive import export_calls

    workspace = _with_calls(run_)
    with only_writer(run_):
        header = export_calls(workspace, out)
    typer.echo(f"{out}: {header.calls} calls, systems {', '.join(header.systems) or 'none'}")


@calls.command("import")
def import_(
    archive: Annotated[Path, typer.Argument(help="File that `medvrag calls export` wrote.")],
    run_: RunOption,
) -> None:
    """Put the calls of an export into a run; calls that it has already are kept."""
    from medvrag_core.runs.lock import only_writer
    from medvrag_core.systems.archive import import_calls

    with only_writer(run_):
        report = import_calls(archive, Workspace(run_))
    told = f"{report.calls} calls, {report.new_calls} of them new"
    if report.different_calls:
        told += f"; {report.different_calls} have another reply in this run, which was kept"
    typer.echo(f"{run_}: {told}")


def replay(
    run_: RunOption,
    system: SystemOption = "medvrag",
    arms: ArmsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer the questions of a run again from its stored calls alone; exits with 1 if any detail differs."""
    from medvrag_core.systems.answering import read_traces
    from medvrag_core.systems.base import add_arms
    from medvrag_core.systems.replay import replay as replay_run
    from medvrag_core.views.trace_text import plain

    if arms is not None:
        add_arms(arms)
    workspace = Workspace(run_)
    stored = read_traces(workspace, system, made_by=run_first(system))
    report = replay_run(workspace, profile_of(workspace), system, stored)
    if as_json:
        typer.echo(report.model_dump_json(indent=1))
    else:
        typer.echo(f"{run_}, {system}: {report.identical} of {report.questions} questions identical to the byte")
        typer.echo(f"  stored   {report.digest}\n  replayed {report.replayed}")
        if report.different:
            more = f" and {len(report.different) - 20} more" if len(report.different) > 20 else ""
            typer.echo(plain(f"  different: {', '.join(report.different[:20])}{more}"))
    if report.different:
        raise typer.Exit(1)


def diff(
    first: Annotated[Path, typer.Argument(help="Folder of a run, or an export of one.")],
    second: Annotated[Path, typer.Argument(help="Folder of a run, or an export of one.")],
    system: Annotated[str, typer.Option(help="Which system, in both runs unless --other names one.")] = "medvrag",
    other: Annotated[str | None, typer.Option(help="System of the second run.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs question by question: what came out differently, and where they first went apart."""
    from medvrag_core.evaluation.diff import diff_runs
    from medvrag_core.views.calls_text import diff_text

    names = (f"{first} ({system})", f"{second} ({other or system})")
    found = diff_runs(traces_of(first, system), traces_of(second, other or system), names=names)
    settings = []
    # An export keeps no settings, and traces can be compared without them.
    if all(Workspace(run).profile.is_file() for run in (first, second)):
        a, b = (profile_of(Workspace(run)).model_dump(mode="json") for run in (first, second))
        settings = differences(a, b)
    typer.echo(found.model_dump_json(indent=1) if as_json else diff_text(found, settings))


def _with_calls(run: Path) -> Workspace:
    workspace = Workspace(run)
    if not workspace.calls.is_file():
        raise NotBuiltError(
            f"run '{run}' has made no model calls", way_out="run it with a profile whose filter or reader is a model"
        )
    return workspace
