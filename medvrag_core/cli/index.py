"""The verbs of an index: built, tuned, thinned, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from medvrag_core.cli.given import JsonOption, ProfileOption, RayOption, RunOption, SetOption, profile_for
from medvrag_core.cli.run import require_corpus
from medvrag_core.errors import InputError
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.workspace import Workspace

index = typer.Typer(invoke_without_command=True)


@index.callback()
def build(
    context: typer.Context,
    run_: Annotated[Path | None, typer.Option("--run", help="Folder of a run with vectors.")] = None,
    profile: ProfileOption = None,
    set_: SetOption = None,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build the index over the pages of a run, after `medvrag embed`, or bring it up to date.

    Pages that were added to the vectors get a segment of their own; a stopped build goes on. Example:

        medvrag index --run runs/a100
    """
    if context.invoked_subcommand is not None:
        return
    from medvrag_core.runs.stage import read_stage
    from medvrag_core.systems.prepare import prepare_index

    if run_ is None:
        raise InputError("no run is named", way_out="give --run and the folder of a run")
    workspace = Workspace(run_)
    resolved = profile_for(workspace, profile, set_, ray=ray)
    require_corpus(workspace, None)
    with only_writer(run_):
        prepare_index(workspace, resolved)
    record = read_stage(run_, "indexing", made_by="`medvrag index`")
    if as_json:
        typer.echo(record.model_dump_json(indent=1))
        return
    found = record.metrics
    kept = sum(found["near_duplicates_kept"].values())
    typer.echo(
        f"{run_}: {found['pages_indexed']:,} pages indexed, {found['near_duplicates_left_out']:,} near-duplicates left "
        f"out, {kept:,} kept for other numbers or no text, {found['bytes_index'] / found['pages']:,.0f} bytes a page; "
        f"mode {found['mode']} on {found['device']}"
    )


@index.command("tune")
def tune(
    run_: RunOption,
    mode: Annotated[Literal["fast", "paper"], typer.Option(help="The mode to tune.")] = "fast",
    recall: Annotated[float, typer.Option(min=0, max=1, help="Share of exact search's best pages to find.")] = 0.99,
    at: Annotated[int, typer.Option(min=1, help="Best pages that count.")] = 100,
    queries: Annotated[
        Path | None, typer.Option(help="JSONL with id and text; not those you report. Default: page summaries.")
    ] = None,
    kept: Annotated[bool, typer.Option("--kept", help="Show the curve of the last time; search nothing.")] = False,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the fastest settings of a mode that find enough of what exact search finds; keep the whole curve.

    Example:

        medvrag index tune --run runs/a100 --recall 0.99 --at 100
    """
    from medvrag_core.evaluation.questions import read_queries
    from medvrag_core.evaluation.retrieval.index_tuning import read_tuning, tune_run
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.index_text import tuning_text

    workspace = Workspace(run_)
    resources = Resources(workspace, profile_for(workspace, None, set_))
    if kept:
        found = read_tuning(resources, mode)
    else:
        asked = None if queries is None else read_queries(queries)
        found = tune_run(resources, mode, asked, recall=recall, at=at)
    typer.echo(found.to_json() if as_json else tuning_text(found))


@index.command("add")
def add(
    run_: RunOption,
    source: Annotated[str, typer.Option(help="Where all articles of the run come from now, old and new.")],
    profile: ProfileOption = None,
    set_: SetOption = None,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the articles to a run that SOURCE has and the run lacks, and take out those that SOURCE has no more.

    New pages get vectors and a segment of their own, the others stay as they are; pages that are gone, as of an article
    that was retracted, are found no more. What the encoder learned from the first articles stays. Example:

        medvrag index add --run runs/a100 --source papers
    """
    from medvrag_core.systems.growing import add_articles
    from medvrag_core.views.tables import counted

    workspace = Workspace(run_)
    resolved = profile_for(workspace, profile, set_, ray=ray)
    with only_writer(run_):
        found = add_articles(workspace, source, resolved)
    typer.echo(
        found.model_dump_json(indent=1)
        if as_json
        else f"{run_}: {counted(found.articles_added, 'article')} ({counted(found.pages_added, 'page')}) added, "
        f"{counted(found.articles_gone, 'article')} ({counted(found.pages_gone, 'page')}) gone; "
        f"{counted(found.pages, 'page')} in all"
    )


@index.command("delete")
def delete(
    run_: RunOption,
    pages: Annotated[list[str], typer.Argument(help="Page ids, such as paper#p6.")],
) -> None:
    """Take pages out of the index of a run; it answers as one that was made without them.

    In mode paper the ANN counts neighbors among their centroids still, until the index is made anew. Example:

        medvrag index delete --run runs/a100 paper#p6 paper#p7
    """
    from medvrag_core.corpus.store import CorpusStore
    from medvrag_core.encoders.vectors import VectorStore
    from medvrag_core.index.build import delete_pages

    workspace = Workspace(run_)
    require_corpus(workspace, None)
    with only_writer(run_):
        corpus = CorpusStore.open(workspace.corpus)
        manifest = delete_pages(VectorStore.open(workspace.vectors), workspace.index, pages, corpus=corpus)
    typer.echo(f"{run_}: {len({*pages}):,} pages deleted, {manifest.pages:,} are left")


@index.command("check")
def check(run_: RunOption) -> None:
    """Read every byte of the vectors and the index of a run, and hold them against their digests.

    Whatever opens them reads files anew only when somebody wrote to them; this finds bytes that rotted on the disk too.
    Example:

        medvrag index check --run runs/a100
    """
    from medvrag_core.encoders.vectors import VectorStore
    from medvrag_core.index.build import open_index

    workspace = Workspace(run_)
    require_corpus(workspace, None)
    settings = profile_for(workspace, None, None).index
    open_index(VectorStore.open(workspace.vectors, full=True), settings, workspace.index, full=True)
    typer.echo(f"{run_}: vectors and index are whole")
