"""Where everything of one run lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medvrag_core.errors import InputError


@dataclass(frozen=True)
class Workspace:
    """Paths inside a run folder; creates nothing by itself.

    >>> Workspace(Path("runs/demo")).traces("medvrag").as_posix()
    'runs/demo/systems/medvrag/traces'
    """

    root: Path

    @property
    def corpus(self) -> Path:
        """Pages, layouts, images, summaries, ledger."""
        return self.root / "corpus"

    @property
    def vectors(self) -> Path:
        """Page vectors in shards, with the fitted state of the encoder."""
        return self.root / "vectors"

    @property
    def index(self) -> Path:
        """Codes and centroids of the pages in segments, and the ANN over the centroids."""
        return self.root / "index"

    @property
    def text(self) -> Path:
        """Vectors of text chunks, a folder for each encoder and cut of the text."""
        return self.root / "text"

    @property
    def profile(self) -> Path:
        """The resolved profile that the run was made with."""
        return self.root / "profile.yaml"

    @property
    def notebooks(self) -> Path:
        """Executed notebooks, one a chapter."""
        return self.root / "notebooks"

    @property
    def calls(self) -> Path:
        """Every model call of the run, with its reply."""
        return self.root / "calls.sqlite"

    def system(self, name: str) -> Path:
        """Everything one system produced."""
        return self.root / "systems" / name

    def traces(self, name: str) -> Path:
        """One JSON trace a question."""
        return self.system(name) / "traces"


def project_root(start: Path | None = None) -> Path:
    """The checkout that holds ``start`` (or the working directory): the nearest folder with ``notebooks`` in it.

    Raises InputError outside of a checkout.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "notebooks").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    raise InputError(f"{here}: not inside a checkout of this project", way_out="start from the repository")


def open_run(run_id: str) -> Workspace:
    """The run ``runs/<run_id>`` of this checkout, whether it exists yet or not.

    Notebooks start in ``notebooks/`` under JupyterLab and at the root under papermill; both find the same run.
    """
    if not run_id or run_id in {".", ".."} or "/" in run_id or "\\" in run_id:
        raise InputError(f"run id '{run_id}' is not a plain name", way_out="use letters, digits, '-' and '_'")
    return Workspace(project_root() / "runs" / run_id)
