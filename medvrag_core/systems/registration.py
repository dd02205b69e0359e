"""What it takes to register something of a user's own: a file that can be run, and a name that is free."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from medvrag_core.errors import InputError, MedvragError
from medvrag_core.runs.publish import sha256_of

_PACKAGE = __name__.partition(".")[0]


def add_module(path: Path) -> None:
    """Run a Python file of the user's own once in this process, so that what it registers is known.

    Raises
    ------
    InputError
        The file is missing or no Python file, or running it fails: file, line and error are named.
    """
    place = path.resolve()
    # Two files of one name are two modules; one file given twice is one.
    name = f"user_module_{hashlib.sha256(str(place).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return
    if path.suffix != ".py" or not path.is_file():
        raise InputError(f"{path}: no such Python file", way_out="give the path of a file that ends in .py")
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while they are made
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        told, way_out = f"{type(error).__name__}: {error}", "repair the file"
        if isinstance(error, MedvragError):
            told, way_out = error.problem, error.way_out
        raise InputError(f"{path}, line {_line_of(error, place)}: {told}", way_out=way_out) from error


def require_free_name(kind: str, name: str, made: Callable[..., Any], known: Callable[[], Mapping[str, Any]]) -> None:
    """Refuse a name that is no plain one, or that something else has.

    Parameters
    ----------
    kind : what is named
    made : the function to be registered
    known : what is registered, by name; not asked for functions of this package, which are while it is imported

    Raises
    ------
    InputError
    """
    # The name becomes a folder of the run.
    if not name.isidentifier():
        raise InputError(f"{kind} '{name}': is no plain name", way_out="use letters, digits and '_'")
    if _of_this_package(made) or (there := known().get(name)) is None:
        return
    if _place(there) != _place(made):
        raise InputError(
            f"{kind} '{name}': there is one of this name, {'.'.join(_place(there))}", way_out="choose another name"
        )


def file_digest(made: Callable[..., Any]) -> str:
    """Twelve hex digits of the file that a function stands in; empty for this package and for notebooks."""
    file = getattr(sys.modules.get(made.__module__), "__file__", None)
    return "" if _of_this_package(made) or not file else sha256_of(Path(file))[:12]


def _of_this_package(made: Callable[..., Any]) -> bool:
    return made.__module__.partition(".")[0] == _PACKAGE


def _place(made: Any) -> tuple[str, str]:
    return getattr(made, "__module__", "?"), getattr(made, "__qualname__", "?")


def _line_of(error: BaseException, file: Path) -> int:
    """The last line of the file that was being run, or that cannot be read as Python."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 1
    lines = [frame.lineno or 1 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return lines[-1] if lines else 1
