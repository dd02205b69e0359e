"""The verb ``medvrag data check``: articles and questions of the demo corpus, checked before they are built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.errors import NotBuiltError

data = typer.Typer(no_args_is_help=True, help="The demo corpus: check what its authors wrote.")

_DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"


@data.callback()
def _group() -> None:
    """Keep ``check`` a verb of its own while it is the only one."""


@data.command("check")
def check_(
    source: Annotated[
        Path, typer.Option(help="Folder that holds articles/ and questions/.", show_default="data/demo")
    ] = _DEMO,
) -> None:
    """Refuse questions whose gold pages do not hold the answer, and all else that data/demo/AUTHORING.md forbids.

    Prints every fault with file, question and field. The typesetter that the checks need is not part of the
    package: it is run from the checkout that this package was installed from. Example:

        medvrag data check --source my_articles/
    """
    script = _DEMO / "check.py"
    if not script.is_file():
        raise NotBuiltError(
            f"{script} is missing: the package was not installed from a checkout",
            way_out="clone the repository, and install it with: pip install -e .",
        )
    done = subprocess.run([sys.executable, str(script), "--source", str(source)], check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)
