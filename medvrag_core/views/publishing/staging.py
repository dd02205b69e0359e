"""From a run folder to book source: chapters that passed, each under a note that says what made it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from medvrag_core.errors import NotBuiltError
from medvrag_core.evaluation.claims.checks import check_claims
from medvrag_core.evaluation.claims.table import load_claims
from medvrag_core.records import RunRecord
from medvrag_core.runs.workspace import Workspace
from medvrag_core.views.inspector.assets import FOLDER, publish_inspector
from medvrag_core.views.publishing.chapters import stage_of
from medvrag_core.views.publishing.errors import BookError, ChapterFailed
from medvrag_core.views.publishing.notebook import read_notebook, write_notebook
from medvrag_core.views.publishing.paper_map import paper_map
from medvrag_core.views.publishing.reference import reference_pages
from medvrag_core.views.publishing.runner import is_private
from medvrag_core.views.publishing.settings_page import settings_page
from medvrag_core.views.publishing.verdict import require_complete, require_record

CHAPTERS = "chapters/"
INSPECTOR = "10_case_inspector"
"""The chapter that writes the cases of the inspector."""


def stage_book(run: Path, book_source: Path, stage: Path) -> None:
    """Fill ``stage`` with all that Jupyter Book reads: prose, chapters, generated pages, plotly.js, the inspector.

    Raises
    ------
    NotBuiltError : a chapter of the table of contents has no executed notebook that passed
    BookError : the book has no readable table of contents
    InputError : its claims cannot be read
    """
    shutil.rmtree(stage, ignore_errors=True)
    # Underscored folders other than the assets are products of older layouts or of an editor.
    shutil.copytree(book_source, stage, ignore=shutil.ignore_patterns("_build", "_vendor", "_generated", "chapters"))
    for name in chapters_of(book_source):
        notebook = _passed(run, name)
        target = stage / CHAPTERS / f"{name}.ipynb"
        target.parent.mkdir(exist_ok=True)
        write_notebook(notebook, target)
    generated = stage / "_generated"
    generated.mkdir()
    report = check_claims(load_claims(book_source / "claims.yml"), run)
    (generated / "paper_map.md").write_text(paper_map(report), encoding="utf-8")
    (generated / "settings.md").write_text(settings_page(), encoding="utf-8")
    for room, page in reference_pages(stage / CHAPTERS).items():
        (generated / f"api_{room}.md").write_text(page, encoding="utf-8")
    _vendor_plotly(stage / "_vendor")
    publish_inspector(run, stage / "_vendor" / FOLDER, private=is_private(run, INSPECTOR))


def chapters_of(book_source: Path) -> list[str]:
    """Names of the chapters in ``_toc.yml``, in order."""
    return [page[len(CHAPTERS) :] for page in pages_of(book_source) if page.startswith(CHAPTERS)]


def pages_of(book_source: Path) -> list[str]:
    """Names of all pages in ``_toc.yml``, in order, the first one included."""
    path = book_source / "_toc.yml"
    try:
        toc = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise BookError(f"{path}: no readable table of contents ({str(error).splitlines()[0]})") from None
    return [str(toc["root"]), *_files(toc)] if isinstance(toc, dict) and "root" in toc else _files(toc)


def provenance_note(record: RunRecord) -> str:
    """What produced the numbers of a chapter, as a MyST admonition."""
    scope = {
        "a100": "They come from the paper's models.",
        "gpu1": "They come from smaller models than the paper's. See [](../honesty.md).",
        "hosted": "They come from other models than the paper's. See [](../honesty.md).",
    }.get(
        record.profile,
        "They test the machinery on a small corpus with small models; they neither support nor contradict "
        "the paper's claims. See [](../honesty.md).",
    )
    return (
        ":::{admonition} What made these numbers\n:class: note\n\n"
        f"Every number and figure of this chapter was made by profile `{record.profile}`, run `{record.run_id}`, "
        f"on {record.started[:10]} (settings `{record.fingerprint}`). {scope}\n:::"
    )


def _passed(run: Path, name: str) -> Any:
    path = Workspace(run).notebooks / f"{name}.ipynb"
    if not path.is_file():
        raise NotBuiltError(
            f"run '{run.name}' holds no executed chapter {name}", way_out=f"medvrag book run --run {run}"
        )
    notebook = read_notebook(path)
    try:
        require_complete(notebook, name)
        record = require_record(run, name, stage_of(path))
    except ChapterFailed as error:
        raise NotBuiltError(error.problem, way_out=f"medvrag book run --run {run}") from None
    return _dressed(notebook, record)


def _dressed(notebook: Any, record: RunRecord) -> Any:
    """Add the provenance note, fold imports and injected parameters, drop absolute paths and live widgets."""
    from nbformat.v4 import new_markdown_cell

    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)  # no kernel and no widget manager stands behind the page
    imports = True
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        tags = cell.metadata.get("tags", [])
        imports = imports and "parameters" not in tags
        if cell.cell_type == "code" and (imports or "injected-parameters" in tags):
            cell.metadata["tags"] = [*tags, "hide-input"]
    notebook.cells.insert(1, new_markdown_cell(provenance_note(record)))  # type: ignore[no-untyped-call]
    return notebook


def _files(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in _files(item)]
    if isinstance(node, dict):
        own = [str(node["file"])] if "file" in node else []
        return own + [name for key in ("parts", "chapters", "sections") for name in _files(node.get(key))]
    return []


def _vendor_plotly(folder: Path) -> None:
    """Copy the one plotly.js of the site out of the installed plotly package."""
    import plotly

    folder.mkdir()
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    if not script.is_file():
        raise BookError(f"the installed plotly {plotly.__version__} ships no plotly.min.js", way_out="reinstall plotly")
    shutil.copyfile(script, folder / "plotly.min.js")
