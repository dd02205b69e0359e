"""The inspector's module and style, as a widget takes them and as a page without a kernel does."""

from __future__ import annotations

import re
import shutil
from importlib import resources
from pathlib import Path

from medvrag_core.errors import MedvragError, NotBuiltError
from medvrag_core.views.inspector.export import REPORT, ExportReport
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


def publish_inspector(run: Path, target: Path, *, private: bool = False) -> None:
    """Put script, style and the cases of a run, if it has any, into a book's static files.

    Parameters
    ----------
    private : the book is for the eyes of who makes it

    Raises
    ------
    NotBuiltError : the cases were written outside of `book run`, and hold pages that a published book may not show
    """
    if (run / FOLDER).is_dir():
        _require_publishable(run, private=private)
        shutil.copytree(run / FOLDER, target)
    target.mkdir(parents=True, exist_ok=True)
    (target / "inspector.js").write_text(classic_script(), encoding="utf-8")
    (target / "inspector.css").write_text(asset("inspector.css"), encoding="utf-8")


def _require_publishable(run: Path, *, private: bool) -> None:
    folder, report = run / FOLDER, run / FOLDER / REPORT
    way_out = f"medvrag book run --run {run} --only 10_case_inspector --force"
    if not report.is_file():
        raise NotBuiltError(f"{folder}: does not say what it holds, {REPORT} is missing", way_out=way_out)
    written = ExportReport.from_json(report.read_bytes(), source=str(report))
    if written.restricted and not private:
        raise NotBuiltError(
            f"{folder}: holds {written.restricted} pages that a published book may not show", way_out=way_out
        )
