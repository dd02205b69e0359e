"""The verbs of a corpus: built by itself, reported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, ProfileOption, RayOption, SetOption, profile_for
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.workspace import Workspace

corpus = typer.Typer(no_args_is_help=True, help="Build a corpus by itself, and see what became of every file.")


@corpus.command("build")
def corpus_build(
    source: Annotated[str, typer.Option(help="Where articles come from: folder:DIR, pmc:QUERY, pmc-ids:FILE ...")],
    out: Annotated[Path, typer.Option(help="Folder of the corpus; made if missing, resumed if it exists.")],
    profile: ProfileOption = None,
    set_: SetOption = None,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Render every article of SOURCE that is not in OUT yet; OUT/ledger.parquet tells what became of each page.

    A stopped command goes on where it stopped. Runs share the corpus with `--source store:OUT`. Example:

        medvrag corpus build --source folder:papers --out corpora/papers
    """
    from medvrag_core.corpus.sources import page_source
    from medvrag_core.systems.corpus_report import report_of
    from medvrag_core.systems.prepare import build_store
    from medvrag_core.views.ledger_text import ledger_text

    resolved = profile_for(None, profile, set_, ray=ray)
    with only_writer(out):
        build_store(page_source(source, resolved.corpus), out, resolved, calls_of=Workspace(out))
    report = report_of(out)
    typer.echo(report.to_json() if as_json else f"{out}\n{ledger_text(report)}")


@corpus.command("report")
def corpus_report(
    place: Annotated[Path, typer.Argument(help="Folder of a corpus or of a run.")],
    as_json: JsonOption = False,
) -> None:
    """Count what was kept, dropped and quarantined, by which rule; and the articles by licence.

    Example:

        medvrag corpus report runs/mine
    """
    from medvrag_core.systems.corpus_report import report_of
    from medvrag_core.views.ledger_text import ledger_text

    report = report_of(place)
    typer.echo(report.to_json() if as_json else ledger_text(report))
