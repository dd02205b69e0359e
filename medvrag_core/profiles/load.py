"""Profiles by name or YAML file, resolved with their parents and overrides into a :class:`.settings.Profile`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from medvrag_core.errors import SettingsError
from medvrag_core.settings import Profile


def profile_names() -> list[str]:
    """Names of the profiles that ship with the package."""
    folder = resources.files("medvrag_core") / "profiles"
    return sorted(Path(item.name).stem for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_profile(name_or_path: str, overrides: dict[str, Any] | None = None) -> Profile:
    """Resolve a shipped profile by name or a YAML file by path.

    Parameters
    ----------
    name_or_path : ``cpu``, ``a100``, ... or a path that ends in ``.yaml``
    overrides : values by dotted field, e.g. ``{"loop.max_rounds": 1}``; win over the file

    Raises
    ------
    SettingsError : the profile does not exist, is no YAML, or has an unknown key or bad value

    >>> load_profile("cpu", {"loop.max_rounds": 1}).loop.max_rounds
    1
    """
    data, source = _read_profile(name_or_path, seen=())
    return _resolved(data, overrides or {}, source)


def with_overrides(profile: Profile, overrides: Mapping[str, Any], *, source: str) -> Profile:
    """A resolved profile with values by dotted field, checked as a whole; ``source`` names them in errors.

    Raises
    ------
    SettingsError : an unknown key or a bad value

    >>> with_overrides(load_profile("cpu"), {"loop.max_rounds": 1}, source="arm 'one'").loop.max_rounds
    1
    """
    return _resolved(profile.model_dump(), overrides, source)


def _resolved(data: dict[str, Any], overrides: Mapping[str, Any], source: str) -> Profile:
    for dotted, value in overrides.items():
        _set_dotted(data, dotted, value)
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        raise SettingsError(f"{source}: {_explain(error)}") from None


def _read_profile(name_or_path: str, seen: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    if name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        if not path.is_file():
            raise SettingsError(f"{path}: no such profile file")
        text, source, default_name = path.read_text(encoding="utf-8"), str(path), path.stem
    else:
        if name_or_path not in profile_names():
            hint = difflib.get_close_matches(name_or_path, profile_names(), n=1)
            raise SettingsError(
                f"profile '{name_or_path}' does not exist" + (f" (did you mean '{hint[0]}'?)" if hint else ""),
                way_out=f"choose one of {', '.join(profile_names())} or give a path that ends in .yaml",
            )
        text = (resources.files("medvrag_core") / "profiles" / f"{name_or_path}.yaml").read_text(encoding="utf-8")
        source, default_name = f"profile '{name_or_path}'", name_or_path
    try:
        data = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise SettingsError(f"{source}: not valid YAML ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict):
        raise SettingsError(f"{source}: must be a mapping of stages, found {type(data).__name__}")
    parent = data.pop("extends", None)
    if parent is not None:
        if parent in seen:
            raise SettingsError(f"{source}: 'extends' runs in a circle through '{parent}'")
        base, _ = _read_profile(str(parent), (*seen, str(parent)))
        data = _merged(base, data)
    data["name"] = data.get("name") if parent is None and "name" in data else default_name
    return data, source


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        out[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def _set_dotted(data: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for part in parents:
        child = data.setdefault(part, {})
        if not isinstance(child, dict):
            raise SettingsError(f"override '{dotted}': '{part}' is not a stage")
        data = child
    data[last] = value


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        return f"'{path}': {first['msg'].lower()}"
    fields: dict[str, Any] = dict(Profile.model_fields)
    for part in first["loc"][:-1]:
        annotation = fields[str(part)].annotation
        fields = dict(annotation.model_fields) if annotation is not None else {}
    hint = difflib.get_close_matches(str(first["loc"][-1]), fields, n=1)
    known = f"did you mean '{hint[0]}'?" if hint else f"known here: {', '.join(fields)}"
    return f"unknown key '{path}' ({known})"
