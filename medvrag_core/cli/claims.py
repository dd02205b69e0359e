"""The verb ``claims``: every number of the paper, what this project did about it, and whether that is true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption


def claims(
    run_: Annotated[Path | None, typer.Option("--run", help="Run of the book whose records are read.")] = None,
    file: Annotated[
        Path | None, typer.Option("--claims", help="YAML file of claims. Default: book/claims.yml of this checkout.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the paper's claims with expected and measured values; exit code 1 if a row states what is not so.

    Example:

        medvrag claims --run runs/demo
    """
    from medvrag_core.errors import InputError
    from medvrag_core.evaluation.claims.checks import check_claims
    from medvrag_core.evaluation.claims.table import load_claims
    from medvrag_core.views.claims_view import claims_text

    if run_ is not None and not (run_ / "records").is_dir():
        raise InputError(f"{run_}: holds no records of chapters", way_out=f"medvrag book run --run {run_}")
    report = check_claims(load_claims(file), run_)
    typer.echo(report.model_dump_json(indent=1) if as_json else claims_text(report))
    if not report.true:
        raise typer.Exit(1)
