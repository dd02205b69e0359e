"""The verbs ``systems`` and ``profiles``: what there is to choose from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from medvrag_core.cli.given import ArmsOption, JsonOption, ModuleOption, add_own, profile_of
from medvrag_core.errors import InputError
from medvrag_core.profiles.load import load_profile, profile_names
from medvrag_core.runs.workspace import Workspace

if TYPE_CHECKING:
    from medvrag_core.systems.base import SystemEntry


def systems(
    name: Annotated[str | None, typer.Argument(help="Show one system or arm in full.")] = None,
    run_: Annotated[Path | None, typer.Option("--run", help="With NAME: its stages on this run.")] = None,
    arms: ArmsOption = None,
    module: ModuleOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the systems and control arms that `medvrag run --system` knows, or show one in full.

    With --run the system is composed under the profile of that run, and its stages are told; nothing is answered.
    Example:

        medvrag systems medrag --run runs/mine
    """
    from medvrag_core.systems.base import catalog, find_system

    add_own(module, arms)
    if name is None:
        if run_ is not None:
            raise InputError("--run shows one system", way_out="name it: medvrag systems NAME --run RUN")
        entries = {entry.name: entry.summary for entry in catalog().values()}
        typer.echo(json.dumps(entries, indent=1) if as_json else "\n".join(f"{k:22}{v}" for k, v in entries.items()))
        return
    entry = find_system(name)
    told: dict[str, Any] = {
        "name": entry.name,
        "summary": entry.summary,
        "composed_by": f"{entry.make.__module__}.{entry.make.__qualname__}",
        "settings": dict(entry.overrides),
        "stages": None if run_ is None else _stages(entry, Workspace(run_)),
    }
    typer.echo(json.dumps(told, indent=1) if as_json else _in_words(told))


def _stages(entry: SystemEntry, workspace: Workspace) -> str:
    from medvrag_core.systems.resources import Resources

    resources = Resources(workspace, profile_of(workspace))
    try:
        return entry.compose(resources).composition
    finally:
        resources.close()


def _in_words(told: dict[str, Any]) -> str:
    settings = told["settings"] or {"": "those of the profile"}
    lines = [told["name"], f"  {told['summary']}", f"  composed by  {told['composed_by']}"]
    for place, (field, value) in enumerate(settings.items()):
        lines.append(f"  {'' if place else 'settings':11}  {f'{field}: ' if field else ''}{value}")
    if told["stages"] is not None:
        lines.append(f"  stages       {told['stages']}")
    return "\n".join(lines)


def profiles(name: Annotated[str | None, typer.Argument(help="Show one profile in full.")] = None) -> None:
    """List the profiles, or print one with every default filled in."""
    if name is None:
        typer.echo("\n".join(f"{n:10}{load_profile(n).note}" for n in profile_names()))
    else:
        typer.echo(yaml.safe_dump(load_profile(name).model_dump(mode="json"), sort_keys=False).rstrip())
