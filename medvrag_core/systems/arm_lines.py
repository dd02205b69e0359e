"""Arms as data: one line of YAML that names a base system and the settings in which the arm differs from it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.profiles.load import with_overrides
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.settings import Profile
from medvrag_core.strict_yaml import strict_yaml

OVERRIDABLE = (
    *("filter", "filter_model", "reader", "reader_model", "loop", "control", "text", "index"),
    *("helper", "helper_model", "generator_model", "medrag", "i_medrag", "visrag", "medrgag"),
)
"""Stages that an arm may set. The others shape the pages of the run, which all arms share, or no answer at all."""


class ArmLine(Record):
    """One arm. ``set`` holds values by dotted field of the profile: ``loop.max_rounds: 1``."""

    base: str
    summary: str = Field(min_length=1)
    set: dict[str, Any] = Field(default_factory=dict)


def shipped_arms() -> dict[str, ArmLine]:
    """The arms of ``arms.yaml``, by name."""
    text = (resources.files("medvrag_core.systems") / "arms.yaml").read_text(encoding="utf-8")
    return _parsed(text, "arms.yaml")


def read_arms(path: Path) -> dict[str, ArmLine]:
    """Arms of a user's file, by name.

    Raises
    ------
    InputError
        The file is missing or no mapping of arms; an arm has an unknown or a missing key, or sets what no arm can set.
    SettingsError
        An arm sets a field that there is not, or to a value that it cannot have. File, arm and key are named.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})", way_out="give a YAML file of arms") from None
    return _parsed(text, str(path))


def _parsed(text: str, source: str) -> dict[str, ArmLine]:
    data = strict_yaml(text, source) or {}
    if not isinstance(data, dict):
        raise InputError(f"{source}: must be a mapping of arms", way_out=_FORM)
    return {str(name): _line(value, f"{source}: arm '{name}'", str(name)) for name, value in data.items()}


_FORM = "write one line an arm: name: {base: medvrag, summary: what it is, set: {loop.max_rounds: 1}}"


def _line(value: Any, where: str, name: str) -> ArmLine:
    # The name becomes a folder of the run.
    if not name.isidentifier():
        raise InputError(f"{where}: is no plain name", way_out="use letters, digits and '_'")
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be a mapping", way_out=_FORM)
    try:
        line = ArmLine.model_validate(value)
    except ValidationError as error:
        raise InputError(f"{where}: {describe_validation_error(error)}", way_out=_FORM) from None
    for key in line.set:
        if key.partition(".")[0] not in OVERRIDABLE or "." not in key:
            raise InputError(f"{where}: cannot set '{key}'", way_out=f"an arm sets fields of {', '.join(OVERRIDABLE)}")
    with_overrides(Profile(name="defaults"), line.set, source=where)
    return line
