"""The verb ``medvrag score``: raw replies of any system, or the replies of a run, under the three scorers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medvrag_core.cli.given import JsonOption, run_first
from medvrag_core.errors import InputError

if TYPE_CHECKING:
    from medvrag_core.evaluation.scorers.base import ScorerName
    from medvrag_core.evaluation.scorers.report import ScorersReport


def score(
    replies: Annotated[
        Path | None, typer.Option(help="JSONL: id, reply, options; optional gold, finish_reason, reasoning.")
    ] = None,
    scorer: Annotated[str, typer.Option(help="strict (the headline), mirage, lenient; or relaxed.")] = "strict",
    out: Annotated[Path | None, typer.Option(help="JSONL to write: id, label or null, reason, correct.")] = None,
    run_: Annotated[Path | None, typer.Option("--run", help="In place of --replies: a run, all three scorers.")] = None,
    system: Annotated[str, typer.Option(help="Which system of --run.")] = "medvrag",
    as_json: JsonOption = False,
) -> None:
    """Score a file of raw replies, or lay the three scorers side by side on a run.

    Only strict is a result: it takes exactly one option named in the last answer block of a whole reply. mirage
    behaves as the public MIRAGE script, which gives "A" to what it cannot read; lenient also reads prose. relaxed is
    for answers in free text, whose lines have no options: a number within 5 % of gold, or the gold text. Example:

        medvrag score --replies replies.jsonl --scorer mirage --out scored.jsonl
    """
    if run_ is not None:
        if replies is not None or out is not None:
            raise InputError("--run does not go with --replies or --out", way_out="give either --run, or the other two")
        from medvrag_core.views.scorers_view import scorers_text

        told = _run_report(run_, system)
        typer.echo(told.model_dump_json(indent=1) if as_json else scorers_text(told))
        return
    if replies is None or out is None:
        raise InputError("--replies FILE and --out FILE are needed", way_out="or give --run DIR to score a run")
    from medvrag_core.evaluation.scorers.file import score_file
    from medvrag_core.views.scorers_view import scored_file_text

    made = score_file(replies, "relaxed" if scorer == "relaxed" else checked_scorer(scorer, "relaxed"), out)
    typer.echo(made.model_dump_json(indent=1) if as_json else scored_file_text(made, out))


def checked_scorer(name: str, *more: str) -> ScorerName:
    """The name of a scorer of options; raises InputError for any other, which names ``more`` as well."""
    from medvrag_core.evaluation.scorers.base import SCORERS

    for scorer in SCORERS:
        if name == scorer:
            return scorer
    raise InputError(f"--scorer {name}: is no scorer", way_out=f"choose one of {', '.join([*SCORERS, *more])}")


def _run_report(run: Path, system: str) -> ScorersReport:
    from medvrag_core.evaluation.outcomes import read_asked_endings
    from medvrag_core.evaluation.scorers.report import scorers_report
    from medvrag_core.runs.workspace import Workspace

    endings, asked = read_asked_endings(Workspace(run), system, made_by=run_first(system))
    return scorers_report(endings, expected=asked)
