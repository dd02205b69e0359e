"""The verbs ``systems`` and ``profiles``: what there is to choose from."""

from __future__ import annotations

import json
from typing import Annotated

import typer
import yaml

from medvrag_core.cli.given import ArmsOption, JsonOption
from medvrag_core.profiles.load import load_profile, profile_names


def systems(
    arms: ArmsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the systems and control arms that `medvrag run --system` knows."""
    from medvrag_core.systems.base import add_arms, catalog

    if arms is not None:
        add_arms(arms)
    entries = {entry.name: entry.summary for entry in catalog().values()}
    typer.echo(json.dumps(entries, indent=1) if as_json else "\n".join(f"{k:22}{v}" for k, v in entries.items()))


def profiles(name: Annotated[str | None, typer.Argument(help="Show one profile in full.")] = None) -> None:
    """List the profiles, or print one with every default filled in."""
    if name is None:
        typer.echo("\n".join(f"{n:10}{load_profile(n).note}" for n in profile_names()))
    else:
        typer.echo(yaml.safe_dump(load_profile(name).model_dump(mode="json"), sort_keys=False).rstrip())
