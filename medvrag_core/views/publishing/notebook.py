"""Reading notebook files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medvrag_core.views.publishing.errors import ChapterFailed


def read_notebook(path: Path) -> Any:
    """The notebook in a file, in nbformat 4.

    Raises
    ------
    ChapterFailed : the file is missing or holds no notebook
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:  # NotJSONError is a ValueError
        raise ChapterFailed(f"{path}: not a readable notebook ({str(error).splitlines()[0]})") from None


def write_notebook(notebook: Any, path: Path) -> None:
    """Write a notebook as nbformat does."""
    import nbformat

    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
