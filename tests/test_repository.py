"""Rules of the repository that no tool checks: notebooks, table of contents, locks, rooms, text of committed files."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml

import medvrag_core
from medvrag_core.views.publishing.chapters import find_chapters
from medvrag_core.views.publishing.staging import chapters_of

REPO = Path(__file__).resolve().parents[1]
PACKAGE = REPO / "medvrag_core"
NOTEBOOKS = sorted((REPO / "notebooks").glob("*.ipynb"))
LAYERS = (
    *("errors", "strict_json", "strict_yaml", "records", "settings", "profiles", "runs"),
    *("models", "corpus", "encoders", "index", "cluster", "filter", "reasoning"),
    *("systems", "evaluation", "views", "cli"),
)
"""Parts of the package in the order of the data: a part knows those before it, and none after it."""
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_CELL = 20
LONGEST_MODULE = 420


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells


def source_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def project() -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return data


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0].lower().replace("_", "-") for text in requirements}


def committed_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [REPO / name for name in done.stdout.split("\0") if name and (REPO / name).is_file()]


# --- notebooks and the book -------------------------------------------------------------


def test_there_are_the_chapters_of_the_book_and_all_are_in_its_table_of_contents() -> None:
    names = [path.stem for path in NOTEBOOKS]
    assert names == chapters_of(REPO / "book")
    assert len(names) >= 12
    assert [chapter.name for chapter in find_chapters(REPO / "notebooks")] == names


def test_the_first_chapter_names_every_other_one() -> None:
    first, *others = NOTEBOOKS
    assert re.findall(r'"\| (\d\d) ', first.read_text(encoding="utf-8")) == [path.stem[:2] for path in others]


def test_every_page_of_the_book_is_in_its_table_of_contents() -> None:
    toc = (REPO / "book" / "_toc.yml").read_text(encoding="utf-8")
    pages = {path.stem for path in (REPO / "book").glob("*.md")}
    listed = set(re.findall(r"(?:file|root): (\w+)$", toc, flags=re.MULTILINE))
    assert pages == listed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_clean_and_thin(path: Path) -> None:
    cells = cells_of(path)
    ids = [cell.get("id") for cell in cells]
    assert None not in ids
    assert len(set(ids)) == len(ids), "cell ids repeat"
    headings = [line for cell in cells if cell["cell_type"] == "markdown" for line in source_of(cell).splitlines()]
    assert cells[0]["cell_type"] == "markdown"
    assert source_of(cells[0]).startswith("# ")
    assert sum(line.startswith("# ") for line in headings) == 1, "exactly one title"
    for number, cell in enumerate(cell for cell in cells if cell["cell_type"] == "code"):
        where = f"code cell {number + 1}"
        assert cell["outputs"] == [], f"{where} keeps outputs; strip them with nbstripout --keep-id"
        assert cell["execution_count"] is None, f"{where} keeps its execution count"
        tree = ast.parse(source_of(cell))
        assert len(source_of(cell).splitlines()) <= LONGEST_CELL, f"{where} is long; its logic belongs in the package"
        defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        assert not defined, f"{where} defines {defined[0].name}; it belongs in the package"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_parameters_are_typed_and_explained(path: Path) -> None:
    tagged = [cell for cell in cells_of(path) if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    for line in filter(None, source_of(tagged[0]).splitlines()):
        assert re.fullmatch(r"\w+: (str|int|float|bool) = .+  # .+", line), f"not 'name: type = value  # why': {line}"


# --- installation -----------------------------------------------------------------------


def test_the_lock_pins_every_dependency_and_names_no_registry() -> None:
    lock = (REPO / "requirements.lock").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9._-]+)==", lock, flags=re.MULTILINE))
    wanted = names_of(project()["dependencies"]) | names_of(project()["optional-dependencies"]["dev"])
    assert wanted <= pinned
    assert not {name for name in pinned if name in {"torch", "torchvision"} or name.startswith("nvidia")}
    more = [REPO / f"requirements-{name}.lock" for name in ("local", "ray")]
    for text in (lock, *(path.read_text(encoding="utf-8") for path in more)):
        assert "--index-url" not in text
        assert "://" not in text
        assert re.search(r"^    --hash=sha256:", text, flags=re.MULTILINE)


def test_the_gpu_environment_holds_the_default_install_but_for_faiss() -> None:
    environment = yaml.safe_load((REPO / "environment.yml").read_text(encoding="utf-8"))
    block = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    names = names_of(block)
    assert names_of(project()["dependencies"]) - names == {"faiss-cpu"}
    assert {"torch", "vllm", "colpali-engine", "faiss-gpu", "ray"} <= names
    assert all("==" in line for line in block)


def test_one_version_everywhere() -> None:
    version = project()["version"]
    assert medvrag_core.__version__ == version
    assert f"{{{version}}}" in (REPO / "book" / "cite.md").read_text(encoding="utf-8")


def test_commands_of_the_readme_exist() -> None:
    import typer.main

    from medvrag_core.cli.app import app

    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    text = (REPO / "README.md").read_text(encoding="utf-8")
    used = set(re.findall(r"(?:^|`)medvrag (\w+)", text, flags=re.MULTILINE))
    assert used
    assert used <= known


# --- code -------------------------------------------------------------------------------


def imports_of(path: Path) -> list[tuple[str, str]]:
    """Every module of the package that a file imports, also inside of functions, with the name taken from it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(REPO)} imports relative to itself"
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    # `from medvrag_core import views` is an import of medvrag_core.views.
    named = [(f"{module}.{name}" if module == PACKAGE.name else module, name) for module, name in found]
    return [(module, name) for module, name in named if module.startswith(f"{PACKAGE.name}.")]


def part_of(module: str) -> str:
    return module.split(".")[1]


def test_every_part_of_the_package_has_its_layer() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert parts - {"__init__"} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_layers_before_it(layer: str) -> None:
    later = LAYERS[LAYERS.index(layer) + 1 :]
    files = sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]
    found = [
        f"{path.relative_to(REPO)} imports {module}"
        for path in files
        for module, name in imports_of(path)
        if name != "__version__" and part_of(module) in later
    ]
    assert found == []


def test_no_modules_import_each_other() -> None:
    """Imports inside of functions count too; `systems.base` opens all of its package, and is named in no import."""
    names = {".".join(path.relative_to(REPO).with_suffix("").parts): path for path in MODULES}
    graph = {
        module: {
            found
            for imported, name in imports_of(path)
            if (found := f"{imported}.{name}" if f"{imported}.{name}" in names else imported) in names
        }
        for module, path in names.items()
    }
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_module_imports_a_private_name() -> None:
    found = [
        f"{path.relative_to(REPO)} imports {name} from {module}"
        for path in MODULES
        for module, name in imports_of(path)
        if name.startswith("_") and not name.startswith("__")
    ]
    assert found == []


def test_nothing_evaluates_text_or_starts_a_shell() -> None:
    for path in [*MODULES, REPO / "run.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in {"eval", "exec", "os.system"}, f"{path.relative_to(REPO)} calls {name}"
                shell = [keyword for keyword in node.keywords if keyword.arg == "shell"]
                assert not shell, f"{path.relative_to(REPO)} passes shell="
            if isinstance(node, ast.Import):
                assert "pickle" not in {alias.name for alias in node.names}, f"{path.relative_to(REPO)} imports pickle"


def test_modules_stay_short() -> None:
    long = {path.relative_to(REPO).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_MODULE} == {}


def test_no_committed_text_names_a_place_on_one_machine() -> None:
    places = ["/" + name + "/" for name in ("work", "root", "home", "opt", "Users")]
    found = []
    for path in committed_files():
        if path.suffix in {".png", ".pdf", ".jpg", ".ttf", ".woff2", ".lock"}:
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        found += [
            f"{path.relative_to(REPO)}: {place}" for place in places if re.search(rf"(?<![\w.~/]){place}\w", text)
        ]
    assert found == []
