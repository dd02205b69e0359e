"""A Sphinx extension: the sections of our docstrings as reStructuredText.

Entries of ``Parameters`` and its kind say what a thing is, not of which type (``dim : d``); readers made for numpy's
convention would take that text for a type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_origin

from pydantic import BaseModel

from medvrag_core.views.publishing.settings_page import default_text, type_text

SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises")
PROSE = ("Notes", "Examples")
_ROLE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_ENTRY = re.compile(r"(?P<name>\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*)(?: : (?P<text>.+))?")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True}


def sections_as_rst(lines: Sequence[str]) -> list[str]:
    """A docstring with its sections as fields of definitions; all else stays.

    >>> sections_as_rst(["Text.", "", "Raises", "------", "InputError : no such file", "    or no file at all"])[2:]
    [':Raises:', '    ``InputError``', '        no such file', '        or no file at all', '']
    """
    made: list[str] = []
    place = 0
    while place < len(lines):
        under = lines[place + 1] if place + 1 < len(lines) else ""
        if lines[place] in PROSE and under and set(under) == {"-"}:
            made += [f".. rubric:: {lines[place]}", ""]
            place += 2
        elif lines[place] in SECTIONS and under and set(under) == {"-"}:
            end = _end(lines, place + 2)
            made += [f":{lines[place]}:", *_entries(lines[place + 2 : end]), ""]
            place = end
        else:
            made.append(lines[place])
            place += 1
    return made


def _end(lines: Sequence[str], start: int) -> int:
    """Where a section ends: at a paragraph that is no entry, or at the next section."""
    for place in range(start, len(lines)):
        line = lines[place]
        after_gap = place > start and not lines[place - 1].strip()
        headed = line in SECTIONS + PROSE and place + 1 < len(lines) and set(lines[place + 1]) == {"-"}
        entry = _ENTRY.fullmatch(line)
        if headed or (after_gap and line and not line.startswith(" ") and not (entry and entry["text"])):
            return place
    return len(lines)


def _entries(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            yield f"{'    ' if line.startswith(' ') else '        '}{line}".rstrip()
            continue
        yield f"    ``{entry['name']}``"
        if entry["text"]:
            yield f"        {entry['text']}"


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    # An alias of types has the docstring of the type behind it; what it stands for says more.
    lines[:] = [] if what == "data" and get_origin(obj) is not None else sections_as_rst(lines)
    if isinstance(obj, type) and issubclass(obj, BaseModel):
        lines += ["", *fields_as_rst(obj)]


def fields_as_rst(record: type[BaseModel]) -> list[str]:
    """The fields of a record: type, default where there is one, and what the field says of itself.

    >>> from medvrag_core.records import SearchResult
    >>> fields_as_rst(SearchResult)[::3]
    [':Fields:', '    - ``proved``: bool, by default ``false``']
    """
    lines = [":Fields:"] if record.model_fields else []
    for name, field in record.model_fields.items():
        default = "" if field.is_required() else f", by default ``{default_text(field)}``"
        meaning = _ROLE.sub(r"``\1``", (field.description or "").replace("*", r"\*"))
        lines.append(f"    - ``{name}``: {type_text(field.annotation)}{default}{'; ' if meaning else ''}{meaning}")
    return lines


def _signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Defaults that are objects have no text that Python could read; Sphinx would print such a signature as it is."""
    return signature and re.sub(r"<[^<>]*>", "...", signature), returns
