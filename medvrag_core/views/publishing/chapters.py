"""Chapters as files: their order, their stage, their parameters and what decides whether they are up to date."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import medvrag_core
from medvrag_core.errors import InputError, SettingsError
from medvrag_core.models.secrets import refuse_keys
from medvrag_core.views.publishing.errors import ChapterFailed
from medvrag_core.views.publishing.notebook import read_notebook

_NAME = re.compile(r"\d\d_(?P<stage>[a-z0-9_]+)")
_NOT_HASHED = ("views/publishing/", "views/inspector/assets/", "cli.py")
REQUIRED = ("profile", "run_id")


@dataclass(frozen=True)
class Chapter:
    """One notebook of the book.

    Attributes
    ----------
    name : file name without suffix, ``03_filter``
    stage : name of the RunRecord the chapter leaves behind, ``filter``
    path : the source notebook
    defaults : names and default values of its ``parameters`` cell
    """

    name: str
    stage: str
    path: Path
    defaults: dict[str, Any]


def find_chapters(folder: Path) -> list[Chapter]:
    """All chapters of a folder by number.

    Raises
    ------
    InputError : the folder is missing or holds no notebook, or a name is not ``NN_stage.ipynb``
    ChapterFailed : a notebook has no ``parameters`` cell, or several
    """
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        raise InputError(f"{folder}: holds no notebook", way_out="point --notebooks at the folder of chapters")
    return [read_chapter(path) for path in paths]


def read_chapter(path: Path) -> Chapter:
    """The chapter in one file; see :func:`find_chapters` for what is refused."""
    return Chapter(path.stem, stage_of(path), path, _read_defaults(path))


def stage_of(path: Path) -> str:
    """Name of the RunRecord that belongs to a chapter file.

    >>> stage_of(Path("notebooks/03_filter.ipynb"))
    'filter'
    """
    match = _NAME.fullmatch(path.stem)
    if match is None:
        raise InputError(f"{path}: a chapter is named NN_stage.ipynb, such as 03_filter.ipynb")
    return match["stage"]


def check_parameters(chapters: Iterable[Chapter], parameters: Mapping[str, Any]) -> None:
    """Refuse a parameter that no chapter has, whose value no notebook can store, or that holds a key.

    Papermill itself would inject an unknown name and go on with the default.
    """
    known = sorted({name for chapter in chapters for name in chapter.defaults} - set(REQUIRED))
    for name, value in parameters.items():
        refuse_keys(f"parameter '{name}'", str(value))
        if name in REQUIRED:
            raise SettingsError(f"parameter '{name}' is set by the runner", way_out="use --profile or --run")
        if name not in known:
            hint = difflib.get_close_matches(name, known, n=1)
            tail = f"did you mean '{hint[0]}'?" if hint else f"known: {', '.join(known) or 'none'}"
            raise SettingsError(f"no chapter has a parameter '{name}' ({tail})")
        plain = value is None or isinstance(value, str | int | float | bool)
        if not plain or (isinstance(value, float) and not math.isfinite(value)):
            raise SettingsError(f"parameter '{name}': {value!r} is not text, a finite number or true/false")


def chapter_key(chapter: Chapter, parameters: Mapping[str, Any], profile: Mapping[str, Any], root: Path) -> str:
    """Hash of everything the chapter's own outcome depends on, but for the chapters before it."""
    return digest_of(chapter.path.read_text(encoding="utf-8"), *_conditions(parameters, profile, root))


def flow_key(chapter: Chapter, parameters: Mapping[str, Any], profile: Mapping[str, Any], root: Path) -> str:
    """As :func:`chapter_key` without the prose: later chapters do not rerun because a sentence changed."""
    notebook = read_notebook(chapter.path)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return digest_of(json.dumps(code), *_conditions(parameters, profile, root))


def package_hash() -> str:
    """Hash of the package's files, without those that only run chapters and render them."""
    package = Path(medvrag_core.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package).as_posix()
        if path.is_file() and "__pycache__" not in name and not name.startswith(_NOT_HASHED):
            digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_of(*parts: str) -> str:
    """Hex sha256 over several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read_defaults(path: Path) -> dict[str, Any]:
    notebook = read_notebook(path)
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ChapterFailed(
            f"chapter {path.stem}: has {len(cells)} cells tagged 'parameters'",
            way_out="give it exactly one; parameters would be ignored otherwise",
        )
    try:
        defaults = dict(_assignments(ast.parse(cells[0].source)))
    except (SyntaxError, ValueError) as error:
        raise ChapterFailed(f"chapter {path.stem}: the parameters cell must hold plain values ({error})") from None
    missing = [name for name in REQUIRED if name not in defaults]
    if missing:
        raise ChapterFailed(f"chapter {path.stem}: the parameters cell lacks {' and '.join(missing)}")
    return defaults


def _assignments(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, ast.literal_eval(node.value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, ast.literal_eval(node.value)


def _conditions(parameters: Mapping[str, Any], profile: Mapping[str, Any], root: Path) -> list[str]:
    inputs = [_content(root / v) for v in parameters.values() if isinstance(v, str) and "/" in v]
    return [json.dumps(dict(parameters), sort_keys=True), json.dumps(dict(profile), sort_keys=True), *inputs]


def _content(path: Path) -> str:
    """Hash of a file or folder named by a parameter; empty when there is none."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else []
    return digest_of(*(f"{p.name}\0{hashlib.sha256(p.read_bytes()).hexdigest()}" for p in files)) if files else ""
