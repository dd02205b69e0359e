"""Pages of the API reference: what chapters import, and the seams between stages, in the order of the data flow.

The choice is a rule, not a list that somebody must keep: a name belongs in if a chapter uses it, if its package exports
it, or if it is a seam, a base class that a user may implement.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from medvrag_core.errors import InputError

PACKAGE = "medvrag_core"
ROOMS = (
    "records", "errors", "runs", "profiles", "corpus", "encoders", "index", "models", "filter", "reasoning", "systems",
    "evaluation", "views",
)  # fmt: skip
"""Packages and modules that have a page, as data flows."""
_SEAMS = {"ABC", "Protocol"}
Names = Mapping[str, tuple[str, ...]]
"""Public names by module."""


def reference_pages(notebooks: Path) -> dict[str, str]:
    """Markdown of each page by the name of its room; needs ``sphinx.ext.autodoc``."""
    found = merged([*seams().items(), *exported().items(), *used_in_chapters(notebooks).items()])
    return {room: _page(room, found) for room in ROOMS}


def used_in_chapters(notebooks: Path) -> dict[str, tuple[str, ...]]:
    """Names that chapters import, or take from a module that they import.

    Raises
    ------
    InputError : a notebook cannot be read, or has a cell that is no Python
    """
    found = []
    for path in sorted(notebooks.glob("*.ipynb")):
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
            found += list(_used(ast.parse(source)))
        except (ValueError, KeyError, SyntaxError) as error:
            raise InputError(f"{path}: is no notebook of Python ({error})") from None
    return merged((module, (name,)) for module, name in found)


def seams() -> dict[str, tuple[str, ...]]:
    """Classes of the package that derive from ABC or Protocol, found in its text."""
    root = Path(importlib.import_module(PACKAGE).__path__[0])
    found = []
    for path in sorted(root.rglob("*.py")):
        module = ".".join([PACKAGE, *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            bases = (
                {ast.unparse(base).split("[")[0] for base in node.bases} if isinstance(node, ast.ClassDef) else set()
            )
            if bases & _SEAMS and isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.append((module, (node.name,)))
    return merged(found)


def exported() -> dict[str, tuple[str, ...]]:
    """What the rooms themselves export: ``__all__``, or the public classes of a room that is a module."""
    found = []
    for room in ROOMS:
        loaded = importlib.import_module(f"{PACKAGE}.{room}")
        names = getattr(loaded, "__all__", None)
        if names is None and not hasattr(loaded, "__path__"):
            names = [name for name, value in vars(loaded).items() if isinstance(value, type) and name[0].isupper()]
        found.append((loaded.__name__, tuple(names or ())))
    return merged(found)


def merged(parts: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Names of each module once, in order of the alphabet."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for module, some in parts:
        names[module].update(some)
    return {module: tuple(sorted(names[module])) for module in sorted(names) if names[module]}


def _used(tree: ast.Module) -> Iterator[tuple[str, str]]:
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if importlib.util.find_spec(node.module or "") is None:
                    continue
                if _is_module(whole):
                    modules[alias.asname or alias.name] = whole
                else:
                    yield str(node.module), alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _page(room: str, found: Names) -> str:
    """One room: what it is for, then its modules; names that are re-exported stand where they are defined."""
    own = [module for module in found if module == f"{PACKAGE}.{room}" or module.startswith(f"{PACKAGE}.{room}.")]
    package = importlib.import_module(f"{PACKAGE}.{room}")
    parts = [f"# `{room}`", "", *_rst((package.__doc__ or "").strip().splitlines())]
    for module in own:
        loaded = importlib.import_module(module)
        block = []
        if module != package.__name__:
            parts += ["", f"## {module.removeprefix(PACKAGE + '.')}"]
            block = [f".. automodule:: {module}", "   :no-members:", ""]
        parts.append("")
        for name in found[module]:
            block += [f".. {_directive(getattr(loaded, name))}:: {module}.{name}", ""]
        parts += _rst(block)
    return "\n".join(parts) + "\n"


def _directive(value: object) -> str:
    if isinstance(value, type):
        return "autoclass"
    return "autofunction" if inspect.isroutine(value) else "autodata"


def _rst(lines: Iterable[str]) -> list[str]:
    return ["```{eval-rst}", *lines, "```"]
