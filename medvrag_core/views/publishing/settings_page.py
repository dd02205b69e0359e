"""The page of all settings: one table a stage, made from the classes that check them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from medvrag_core.settings import Profile

_HEAD = """# Settings

Every field of a profile, as `medvrag profiles NAME` prints it resolved. A profile lists only what differs from these
defaults, or from the profile that it `extends`; `--set stage.field=value` changes one. Unknown keys are refused. This
page is made from the classes that check the settings.
"""


def settings_page() -> str:
    """Markdown of the page.

    >>> "`corpus.pmc`" in settings_page()
    True
    """
    stages: dict[type[BaseModel], list[str]] = {}
    meanings: dict[str, str] = {}
    for name, field in _nested("", Profile):
        stages.setdefault(_stage(field), []).append(name)
        meanings[name] = _plain(field.description or "")
    parts = [_HEAD, "## The profile itself", *_table(Profile)]
    for stage, names in stages.items():
        parts += ["", f"## {', '.join(f'`{name}`' for name in names)}", "", _first(stage.__doc__)]
        parts += [f"\n`{name}`: {meanings[name]}" for name in names if meanings[name]]
        parts += _table(stage)
    return "\n".join(parts) + "\n"


def type_text(annotation: Any) -> str:
    """A type in few words.

    >>> type_text(int), type_text(tuple[int, ...]), type_text(str | None)
    ('int', 'tuple of int', 'str or None')
    """
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    inner = [one for one in get_args(annotation) if one is not Ellipsis]
    origin = get_origin(annotation)
    if origin is Annotated:
        return type_text(inner[0])
    if origin in (tuple, list, frozenset):
        return f"tuple of {', '.join(map(type_text, inner))}"
    if origin is dict:
        return f"mapping of {' to '.join(map(type_text, inner))}"
    if inner and all(isinstance(one, str | int) for one in inner):
        return " or ".join(map(str, inner))
    return " or ".join(map(type_text, inner)) or str(annotation)


def default_text(field: FieldInfo) -> str:
    """What a field is when nobody says, as JSON; ``required`` where it has to be said."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "its own defaults" if isinstance(value, BaseModel) else json.dumps(value, ensure_ascii=False, default=str)


def _nested(prefix: str, stage: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in stage.model_fields.items():
        if _is_stage(field):
            yield prefix + name, field
            yield from _nested(f"{prefix}{name}.", _stage(field))


def _table(stage: type[BaseModel]) -> list[str]:
    rows = [
        f"| `{name}` | {_code(type_text(field.annotation))} | {_code(default_text(field))} | "
        f"{_plain(field.description or '')} |"
        for name, field in stage.model_fields.items()
        if stage is not Profile or not _is_stage(field)
    ]
    head = ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    return ["", ":::{div} medvrag-settings", "", *head, *rows, ":::"]


def _is_stage(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _stage(field: FieldInfo) -> type[BaseModel]:
    assert isinstance(field.annotation, type)
    return field.annotation


def _first(doc: str | None) -> str:
    return _plain(" ".join((doc or "").strip().split("\n\n")[0].split()))


def _code(text: str) -> str:
    return "`" + text.replace("|", "or") + "`"


def _plain(text: str) -> str:
    """Text of a docstring in a cell of a table."""
    return text.replace("``", "`").replace("|", "\\|").replace("<", "&lt;")
