"""What many verbs are given alike: profiles, overrides, sizes of sets, runs, and options of the same meaning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.models.secrets import refuse_keys
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EvaluationSettings, Profile

if TYPE_CHECKING:
    from medvrag_core.evaluation.endings import Ending

SourceOption = Annotated[
    str | None,
    typer.Option(help="A folder of PDFs (searched in depth), packages:DIR, store:DIR, pmc:QUERY or pmc-ids:FILE."),
]
ProfileOption = Annotated[str | None, typer.Option(help="Profile name or YAML file. Default: the run's own, else cpu.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override, e.g. --set loop.max_rounds=1.")]
RayOption = Annotated[
    str | None,
    typer.Option(help="Spread the work by Ray: local, auto (the cluster of this machine), its address, or off."),
]
ArmsOption = Annotated[Path | None, typer.Option(help="YAML file with control arms of your own, one line each.")]
ModuleOption = Annotated[
    list[Path] | None,
    typer.Option("--module", help="Python file that registers systems or retrievers of your own; repeatable."),
]
RunOption = Annotated[Path, typer.Option("--run", help="Folder of a finished run.")]
SystemOption = Annotated[str, typer.Option(help="Which system or control arm; see `medvrag systems`.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of text.")]


def add_own(modules: list[Path] | None, arms: Path | None = None) -> None:
    """Make known what a user's own files register: Python files first, since arms may be based on what they hold.

    Raises
    ------
    InputError : a file is unusable, or something in it has a name that is taken
    """
    from medvrag_core.systems.base import add_arms
    from medvrag_core.systems.registration import add_module

    for path in modules or ():
        add_module(path)
    if arms is not None:
        add_arms(arms)


def profile_for(
    workspace: Workspace | None, name: str | None, overrides: list[str] | None, *, ray: str | None = None
) -> Profile:
    """The profile asked for; without a name the one saved in the run, else ``cpu``. ``ray`` is where Ray is to run."""
    values = pairs(overrides or [], "--set") | ({} if ray is None else {"ray.where": ray})
    saved = workspace.profile if workspace is not None else None
    if name is None and saved is not None and saved.is_file():
        return load_profile(str(saved), values)
    return load_profile(name or "cpu", values)


def profile_of(workspace: Workspace) -> Profile:
    """The profile saved in a run; raises NotBuiltError where there is none."""
    if not workspace.profile.is_file():
        raise NotBuiltError(f"run '{workspace.root}' has no saved profile", way_out="run `medvrag run` on it first")
    return load_profile(str(workspace.profile))


def evaluation_of(workspace: Workspace) -> EvaluationSettings:
    """How the profile saved in a run evaluates; the defaults where none is saved."""
    return profile_of(workspace).evaluation if workspace.profile.is_file() else EvaluationSettings()


def pairs(items: list[str], flag: str) -> dict[str, Any]:
    """``name=value`` of a repeatable flag, values read as YAML; raises InputError for an item without ``=``."""
    values: dict[str, Any] = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign:
            raise InputError(f"{flag} {item}: has no '='", way_out=f"write {flag} name=value")
        refuse_keys(f"{flag} {key.strip()}", value)
        values[key.strip()] = yaml.safe_load(value)
    return values


def sizes(items: Sequence[str], flag: str) -> dict[str, int]:
    """``SET=N`` of a repeatable flag: questions by set; raises InputError for anything else, and for a set given twice.

    >>> sizes(["MedQA=1273", "a=b=2"], "--size")
    {'MedQA': 1273, 'a=b': 2}
    """
    found: dict[str, int] = {}
    for item in items:
        name, sign, count = (part.strip() for part in item.rpartition("="))
        if not (sign and name and count.isascii() and count.isdigit() and len(count) < 12 and int(count)):
            raise InputError(f"{flag} {item}: is not SET=N", way_out=f"write for example {flag} medqa=1273")
        if name in found:
            raise InputError(f"{flag} {item}: set '{name}' is given twice")
        found[name] = int(count)
    return found


def run_first(system: str) -> str:
    """What makes the answers of a system, as a way out."""
    return f"`medvrag run --system {system}` first"


def asked_endings(workspace: Workspace, system: str) -> list[Ending]:
    """Endings of the questions asked last; a run folder can hold answers to earlier question files."""
    from medvrag_core.evaluation.outcomes import read_asked_endings

    return read_asked_endings(workspace, system, made_by=run_first(system))[0]


def traces_of(place: Path, system: str) -> list[Trace]:
    """Traces of a run folder, or of an export of one."""
    from medvrag_core.systems.answering import read_traces
    from medvrag_core.systems.archive import archived_traces

    if place.is_dir():
        return read_traces(Workspace(place), system, made_by=run_first(system))
    found = [trace for trace in archived_traces(place) if trace.system == system]
    if not found:
        raise InputError(f"{place}: holds no trace of system '{system}'")
    return found
