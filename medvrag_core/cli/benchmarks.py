"""The verbs ``medvrag benchmarks …``: public question sets, fetched, converted and looked through."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption
from medvrag_core.errors import InputError

benchmarks = typer.Typer(
    no_args_is_help=True, help="Public question sets: fetch the files, convert them, look for faults."
)

RegistryOption = Annotated[
    Path | None, typer.Option(help="A registry of yours (YAML) in place of the one in the package.")
]


@benchmarks.command("list")
def list_(registry: RegistryOption = None, as_json: JsonOption = False) -> None:
    """What can be fetched: size, number of questions, origin, licence as found."""
    from pydantic import TypeAdapter

    from medvrag_core.evaluation.benchmarks.registry import Benchmark, load_registry
    from medvrag_core.views.benchmarks_text import registry_text

    known = load_registry(registry)
    if as_json:
        typer.echo(TypeAdapter(list[Benchmark]).dump_json(known, indent=1).decode())
    else:
        typer.echo(registry_text(known))


@benchmarks.command("fetch")
def fetch_(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="As `list` prints them.")],
    to: Annotated[Path, typer.Option(help="Data folder; files go below it, one folder a set.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="A folder that has the files (plain or .gz), in place of the network.")
    ] = None,
    registry: RegistryOption = None,
) -> None:
    """Download the files of question sets, each checked by length and sha256 before it appears.

    Files that are there already are left alone, so the same command goes on where it stopped. Example:

        medvrag benchmarks fetch mirage --to data/downloads
    """
    from medvrag_core.evaluation.benchmarks.fetch import fetch
    from medvrag_core.evaluation.benchmarks.registry import find_benchmark, load_registry
    from medvrag_core.views.trace_text import plain

    known = load_registry(registry)
    for benchmark in [find_benchmark(known, name) for name in names]:
        for file in fetch(benchmark, to, source):
            typer.echo(plain(f"{file.path}: {file.state}, {file.bytes:,} bytes"))
        typer.echo(plain(f"{benchmark.name}: licence as found: {benchmark.licence}"))


@benchmarks.command()
def convert(
    data: Annotated[Path, typer.Option(help="MIRAGE's benchmark.json (or .gz), or the data folder of `fetch`.")],
    out: Annotated[Path, typer.Option(help="Question file to write (JSONL).")],
    sets: Annotated[
        list[str] | None, typer.Argument(metavar="[SET]...", help="Default: medqa medmcqa pubmedqa mmlu.")
    ] = None,
    any_size: Annotated[bool, typer.Option("--any-size", help="Take sets that lack their known size.")] = False,
) -> None:
    """Write question sets as one file for `medvrag run`, under MIRAGE's ids, each question with its set.

    Sets: medqa, medmcqa, pubmedqa, mmlu (the paper's main table), bioasq, and pubmedqa_abstract, which is PubMedQA
    with the abstract to read: another task. Example:

        medvrag benchmarks convert --data data/downloads/mirage/benchmark.json --out questions.jsonl
    """
    from medvrag_core.evaluation.benchmarks.load import MAIN_SETS, load_sets
    from medvrag_core.evaluation.questions import write_questions

    names = sets or list(MAIN_SETS)
    questions = load_sets(names, data, any_size=any_size)
    write_questions(out, questions)
    typer.echo(f"{out}: {len(questions):,} questions of {', '.join(names)}")


@benchmarks.command()
def check(
    questions: Annotated[Path, typer.Argument(help="Question file (JSONL).")],
    keep: Annotated[
        Path | None, typer.Option(help="Write the questions without suspect gold, each once, to this file.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every fault, not the first of each kind.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look for repeated questions and options, missing or conflicting gold, and blank texts.

    Example:

        medvrag benchmarks check questions.jsonl
    """
    from medvrag_core.evaluation.benchmarks.faults import check_questions, without_faults
    from medvrag_core.evaluation.questions import read_questions, write_questions
    from medvrag_core.views.benchmarks_text import faults_text

    asked = read_questions(questions, require_answer=False, usable=False)
    found = check_questions(asked)
    typer.echo(found.model_dump_json(indent=1) if as_json else faults_text(found, every=every))
    if keep is not None:
        kept = without_faults(asked, found)
        if not kept:
            raise InputError(f"{questions}: no question is left that can be asked", way_out="leave out --keep")
        write_questions(keep, kept)
        typer.echo(f"{keep}: {len(kept):,} of {len(asked):,} questions", err=as_json)
