"""Where everything of one run lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
        """Centroids and the ANN over them."""
        return self.root / "index"

    @property
    def profile(self) -> Path:
        """The resolved profile that the run was made with."""
        return self.root / "profile.yaml"

    @property
    def notebooks(self) -> Path:
        """Executed notebooks, one a chapter."""
        return self.root / "notebooks"

    def system(self, name: str) -> Path:
        """Everything one system produced."""
        return self.root / "systems" / name

    def traces(self, name: str) -> Path:
        """One JSON trace a question."""
        return self.system(name) / "traces"
