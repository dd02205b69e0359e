"""The verb ``audit``: what the numbers of an accuracy table say about each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, sizes
from medvrag_core.errors import InputError


def audit(
    table: Annotated[
        Path | None,
        typer.Argument(
            help="CSV or TSV: arm, one column a set, optional average. Without it: the paper's own numbers."
        ),
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(help="SET=N, the questions of a set (repeatable); or a first row named n.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="How many runs each cell is the mean of.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Check printed accuracies: possible values (GRIM), averages, steps and what they could prove.

    Example:

        medvrag audit table.csv --size MedQA=1273 --size PubMedQA=500
    """
    from medvrag_core.evaluation.audit.report import audit_paper, audit_table
    from medvrag_core.evaluation.audit.table import read_table
    from medvrag_core.views.audit_text import paper_audit_text, table_audit_text

    if table is None:
        if size or runs != 1:
            raise InputError("--size and --runs go with a table", way_out="name a CSV file")
        paper = audit_paper()
        typer.echo(paper.model_dump_json(indent=1) if as_json else paper_audit_text(paper))
        return
    made = audit_table(read_table(table, sizes(size or [], "--size")), runs=runs)
    typer.echo(made.model_dump_json(indent=1) if as_json else table_audit_text(made))
