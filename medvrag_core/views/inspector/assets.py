"""The inspector's module and style, as a widget takes them and as a page without a kernel does."""

from __future__ import annotations

import re
import shutil
from importlib import resources
from pathlib import Path

from medvrag_core.errors import MedvragError
from medvrag_core.views.markup import escape

FOLDER = "inspector"
"""Where the cases lie in a run, and the inspector in a book's static files."""
_EXPORT = re.compile(r"^export default ", re.MULTILINE)


def asset(name: str) -> str:
    """One of ``inspector.js`` and ``inspector.css``."""
    return (resources.files("medvrag_core.views.inspector") / "assets" / name).read_text(encoding="utf-8")


def classic_script() -> str:
    """The module as a script that any page may load, since browsers refuse modules from ``file://``.

    Raises MedvragError where the module does not have exactly one export.
    """
    text, count = _EXPORT.subn("const hosts = ", asset("inspector.js"))
    if count != 1:
        raise MedvragError(f"inspector.js has {count} lines that begin with 'export default'", way_out="keep one")
    return f'"use strict";\n(() => {{\n{text}\nhosts.mountAll();\n}})();\n'


def mount_html(root: str = "", *, place: str = "") -> str:
    """The spot in a page of the book where the inspector appears.

    Parameters
    ----------
    root : way from the page to the root of the book, such as ``../``
    place : what is open at first, such as ``arm=medvrag&case=hcq-01``

    Examples
    --------
    >>> 'data-base="../_static/inspector/"' in mount_html("../")
    True
    """
    base = f"{root}_static/{FOLDER}/"
    start = f' data-place="{escape(place)}"' if place else ""
    return (
        f'<link rel="stylesheet" href="{base}inspector.css">'
        f'<div class="mv-inspector-mount" data-base="{base}"{start}>'
        "<noscript>The case inspector needs JavaScript; it ships with this book and fetches nothing.</noscript></div>"
        f'<script defer src="{base}inspector.js"></script>'
    )


def publish_inspector(run: Path, target: Path) -> None:
    """Put script, style and the cases of a run, if it has any, into a book's static files."""
    if (run / FOLDER).is_dir():
        shutil.copytree(run / FOLDER, target)
    target.mkdir(parents=True, exist_ok=True)
    (target / "inspector.js").write_text(classic_script(), encoding="utf-8")
    (target / "inspector.css").write_text(asset("inspector.css"), encoding="utf-8")
