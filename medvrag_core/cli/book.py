"""The verbs of the book: run its chapters, build it, print it, and write its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import pairs
from medvrag_core.runs.lock import only_writer

ADDRESS = "MEDVRAG_BOOK_ADDRESS"
"""Environment variable of the address, for who builds the book by ``run.py``."""

book = typer.Typer(no_args_is_help=True, help="Run the chapters of the book and render it.")


@book.command("run")
def book_run(
    run_: Annotated[Path, typer.Option("--run", help="Run folder that all chapters share.")] = Path("runs/demo"),
    notebooks: Annotated[Path, typer.Option(help="Folder of chapters.")] = Path("notebooks"),
    profile: Annotated[str, typer.Option(help="Profile name or YAML file.")] = "cpu",
    parameter: Annotated[list[str] | None, typer.Option("-p", help="name=value for chapters that have it.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Chapter to run (repeatable), e.g. 03_filter.")] = None,
    force: Annotated[bool, typer.Option(help="Run chapters again even if nothing changed.")] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Show pages whatever their licence; keep the book.")
    ] = False,
) -> None:
    """Run the chapters in order with papermill; each must pass the verdict before the next one starts.

    A book may be handed on, so pages are shown only where their licence allows it (CC0, CC BY, CC BY-SA), see
    `corpus.licence` for your own; with --private all are, for a book that you keep to yourself.
    """
    from medvrag_core.views.publishing.runner import run_chapters

    parameters = pairs(parameter or [], "-p")
    with only_writer(run_):
        done = run_chapters(
            notebooks, run_, profile=profile, parameters=parameters, only=only, force=force, private=private
        )
    typer.echo(f"{run_.name}: {len(done)} chapters passed")


@book.command("build")
def book_build(
    run_: Annotated[Path, typer.Option("--run", help="Run whose executed chapters are published.")] = Path("runs/demo"),
    source: Annotated[Path, typer.Option(help="Folder of the book's own pages.")] = Path("book"),
    out: Annotated[Path, typer.Option(help="Where the site goes.")] = Path("book/_build"),
    address: Annotated[
        str,
        typer.Option(
            envvar=ADDRESS,
            help="Where it will be published: adds canonical links, a sitemap and a social card.",
        ),
    ] = "",
) -> None:
    """Render the book from executed chapters; a warning is an error, nothing is fetched at view time.

    Says what a browser loads for the heaviest pages; all are in `sizes.json` beside the site.
    """
    from medvrag_core.views.publishing.book import build_book
    from medvrag_core.views.publishing.sizes import sizes_text

    built = build_book(run_, source, out, address=address)
    typer.echo(sizes_text(built.sizes))
    typer.echo(f"open {built.index}")


@book.command("pdf")
def book_pdf(
    site: Annotated[Path, typer.Option(help="The built book.")] = Path("book/_build/html"),
    source: Annotated[Path, typer.Option(help="Folder of the book's own pages.")] = Path("book"),
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("book/_build/medvrag.pdf"),
) -> None:
    """Print the built book into one PDF with bookmarks; needs Chromium on PATH."""
    from medvrag_core.views.publishing.pdf import print_book
    from medvrag_core.views.publishing.staging import pages_of

    typer.echo(f"{out}: {print_book(site, pages_of(source), out)} sheets")


@book.command("figures")
def book_figures(
    site: Annotated[Path, typer.Option(help="The built book.")] = Path("book/_build/html"),
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("book/_build/figures"),
) -> None:
    """Write each figure of the built book as an SVG file, for print; needs Chromium on PATH."""
    from medvrag_core.views.publishing.figure_files import write_figures

    typer.echo(f"{out}: {len(write_figures(site, out))} figures")
