"""The ``medvrag`` command: few verbs, each a thin call into the package.

Exit codes: 0 done; 1 a replay differed, or a chapter failed; 2 the input, a setting or the state of the run is at
fault; 3 a model failed, or questions of a run ended in an error (run again to ask only those); 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli import (
    audit,
    benchmarks,
    best,
    calibration,
    calls,
    claims,
    compare,
    cost,
    errors,
    listings,
    retrieval,
    score,
)
from medvrag_core.cli.given import JsonOption, pairs, profile_for, run_first
from medvrag_core.errors import InputError, MedvragError, NotBuiltError
from medvrag_core.records import Question
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.stage import record_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile, fingerprint
from medvrag_core.views.trace_text import plain

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
book = typer.Typer(no_args_is_help=True, help="Run the chapters of the book and render it.")
app.add_typer(book, name="book")
app.add_typer(calls.calls, name="calls")
app.add_typer(benchmarks.benchmarks, name="benchmarks")
app.command("replay")(calls.replay)
app.command("diff")(calls.diff)
app.command("score")(score.score)
app.command("systems")(listings.systems)
app.command("profiles")(listings.profiles)
for verb in (retrieval.retrieval, retrieval.judge, retrieval.agreement):
    app.command()(verb)
app.command("audit")(audit.audit)
app.command("compare")(compare.compare)
app.command("best")(best.best)
app.command("plan")(compare.plan)
app.command("cost")(cost.cost)
app.command("claims")(claims.claims)
app.command("calibration")(calibration.calibration)
app.command("errors")(errors.errors)

SourceOption = Annotated[Path | None, typer.Option(help="Folder of PDFs (searched in depth).")]
ProfileOption = Annotated[str | None, typer.Option(help="Profile name or YAML file. Default: the run's own, else cpu.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override, e.g. --set loop.max_rounds=1.")]
ArmsOption = Annotated[Path | None, typer.Option(help="YAML file with control arms of your own, one line each.")]
RunOption = Annotated[Path | None, typer.Option("--run", help="Folder of a finished run.")]


@app.command()
def run(
    questions: Annotated[Path, typer.Option(help="JSONL: id, question, options, answer, optional gold_pages.")],
    out: Annotated[Path, typer.Option(help="Run folder; made if missing, resumed if it exists.")],
    source: SourceOption = None,
    profile: ProfileOption = None,
    system: Annotated[str, typer.Option(help="Which system answers; see `medvrag systems`.")] = "medvrag",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    arms: ArmsOption = None,
    calls: Annotated[
        str | None, typer.Option(help="Model calls: only-missing (default), always, never, or only-cache (a replay).")
    ] = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build what is missing, answer every question, write OUT/report.json and one trace a question.

    Stopped runs go on where they stopped. Example:

        medvrag run --source pdfs --questions q.jsonl --out runs/mine
    """
    from medvrag_core.evaluation.outcomes import read_asked_endings
    from medvrag_core.evaluation.questions import read_questions
    from medvrag_core.evaluation.report import run_report, write_report
    from medvrag_core.systems.answering import answer_and_store, require_resumable
    from medvrag_core.systems.base import add_arms, find_system
    from medvrag_core.systems.prepare import prepare
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.report_text import report_text

    asked = read_questions(questions)[:limit]
    if arms is not None:
        add_arms(arms)
    find_system(system)
    workspace = Workspace(out)
    resolved = profile_for(workspace, profile, [*(set_ or []), *([f"calls.policy={calls}"] if calls else [])])
    with only_writer(out):
        _require_corpus(workspace, source)
        require_resumable(system, workspace, resolved)
        prepare(workspace, source, resolved)
        resources = Resources(workspace, resolved)
        with record_stage(out, "reasoning_loop", profile=resolved.name, settings=resolved) as stage:
            try:
                answer_and_store(system, resources, asked)
            finally:
                resources.close()
            report = run_report(*read_asked_endings(workspace, system, made_by="the same command again"))
            write_report(out / "report.json", report)
            stage.add(out / "report.json")
            stage.measure(**report.model_dump(mode="json"))
    typer.echo(report.model_dump_json(indent=1) if as_json else report_text(report, out))
    if not report.complete:
        raise typer.Exit(3)


@app.command()
def retrieve(
    queries: Annotated[Path, typer.Option(help="JSONL with id and text.")],
    out: Annotated[Path, typer.Option(help="TREC run file to write.")],
    source: SourceOption = None,
    run_: RunOption = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Pages a query.")] = 100,
    retriever: Annotated[
        str, typer.Option(help="stage1, exact, bm25, hybrid, filtered, or a text arm: text_bm25 ...")
    ] = "stage1",
    profile: ProfileOption = None,
    set_: SetOption = None,
) -> None:
    """Rank pages for every query and write a TREC run file (query Q0 page rank score tag).

    With --source and no --run, pages and vectors are kept in a cache folder (MEDVRAG_CACHE).
    """
    from medvrag_core.evaluation.questions import read_queries
    from medvrag_core.evaluation.retrieval.metrics import write_trec
    from medvrag_core.systems.prepare import prepare, prepare_corpus
    from medvrag_core.systems.resources import Resources
    from medvrag_core.systems.retrievers import find_retriever, rank_all, reads_text_alone

    asked = read_queries(queries)
    search = find_retriever(retriever)
    if source is None and run_ is None:
        raise InputError("nothing to search", way_out="give --source DIR or --run RUN")
    workspace = Workspace(run_) if run_ is not None else _cached(source, profile_for(None, profile, set_))
    resolved = profile_for(workspace, profile, set_)
    with only_writer(workspace.root):
        _require_corpus(workspace, source)
        if reads_text_alone(retriever):
            if source is not None:
                prepare_corpus(workspace, source, resolved)
        elif source is not None or not (workspace.index / "manifest.json").is_file():
            prepare(workspace, source, resolved)
        resources = Resources(workspace, resolved)
        write_trec(out, rank_all(search, resources, asked, k), tag=retriever)
    typer.echo(f"{out}: {len(asked)} queries, up to {k} pages each, retriever {retriever}")


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    run_: Annotated[Path, typer.Option("--run", help="Folder of a finished run.")],
    option: Annotated[list[str], typer.Option(help="LABEL=text, at least two times.")],
    profile: ProfileOption = None,
    system: Annotated[str, typer.Option(help="Which system answers.")] = "medvrag",
    arms: ArmsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer one question and show every round: query, pages, findings, memory bank.

    Example:

        medvrag ask "Which test?" --option A=Fundoscopy --option B=Spirometry --run runs/mine
    """
    from medvrag_core.systems.answering import answer_one, answering_fingerprint, set_up
    from medvrag_core.systems.base import add_arms, find_system
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.trace_text import trace_text

    if arms is not None:
        add_arms(arms)
    entry = find_system(system)
    options = _options(option)
    workspace = Workspace(run_)
    if not (workspace.index / "manifest.json").is_file():
        raise NotBuiltError(
            f"run '{run_}' has no index",
            way_out=f"build it with `medvrag run --source DIR --questions FILE --out {run_}`",
        )
    resources = Resources(workspace, profile_for(workspace, profile, set_))
    try:
        view, (asked,) = set_up(system, resources, [Question(id="ask", question=question, options=options)])
        key = answering_fingerprint(system, view)
        trace = answer_one(system, entry.compose(view), asked, profile=view.profile.name, key=key)
    finally:
        resources.close()
    typer.echo(trace.model_dump_json(indent=1) if as_json else trace_text(trace))
    if trace.outcome == "error":
        raise typer.Exit(3)


@app.command()
def report(
    run_: Annotated[Path, typer.Option("--run", help="Folder of a finished run.")],
    system: Annotated[str, typer.Option(help="Which system.")] = "medvrag",
    as_json: JsonOption = False,
) -> None:
    """Recompute the report of a run from what is stored, all three scorers included."""
    from medvrag_core.evaluation.outcomes import read_asked_endings
    from medvrag_core.evaluation.report import run_report
    from medvrag_core.views.report_text import report_text

    made = run_report(*read_asked_endings(Workspace(run_), system, made_by=run_first(system)))
    typer.echo(made.model_dump_json(indent=1) if as_json else report_text(made, run_))


@app.command()
def convert(
    questions: Annotated[Path, typer.Argument(help="JSONL with _id, text and metadata (options, answer, doc, page).")],
    out: Annotated[Path, typer.Option(help="Question file to write.")],
) -> None:
    """Rewrite a question file in BEIR form as a question file for `medvrag run`."""
    from medvrag_core.evaluation.questions import read_questions, write_questions

    asked = read_questions(questions)
    write_questions(out, asked)
    typer.echo(f"{out}: {len(asked)} questions")


@book.command("run")
def book_run(
    run_: Annotated[Path, typer.Option("--run", help="Run folder that all chapters share.")] = Path("runs/demo"),
    notebooks: Annotated[Path, typer.Option(help="Folder of chapters.")] = Path("notebooks"),
    profile: Annotated[str, typer.Option(help="Profile name or YAML file.")] = "cpu",
    parameter: Annotated[list[str] | None, typer.Option("-p", help="name=value for chapters that have it.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Chapter to run (repeatable), e.g. 03_filter.")] = None,
    force: Annotated[bool, typer.Option(help="Run chapters again even if nothing changed.")] = False,
) -> None:
    """Run the chapters in order with papermill; each must pass the verdict before the next one starts."""
    from medvrag_core.views.publishing.runner import run_chapters

    parameters = pairs(parameter or [], "-p")
    with only_writer(run_):
        done = run_chapters(notebooks, run_, profile=profile, parameters=parameters, only=only, force=force)
    typer.echo(f"{run_.name}: {len(done)} chapters passed")


@book.command("build")
def book_build(
    run_: Annotated[Path, typer.Option("--run", help="Run whose executed chapters are published.")] = Path("runs/demo"),
    source: Annotated[Path, typer.Option(help="Folder of the book's own pages.")] = Path("book"),
    out: Annotated[Path, typer.Option(help="Where the site goes.")] = Path("book/_build"),
) -> None:
    """Render the book from executed chapters; a warning is an error, nothing is fetched at view time."""
    from medvrag_core.views.publishing.book import build_book

    typer.echo(f"open {build_book(run_, source, out)}")


@app.command()
def serve(
    profile: ProfileOption = None,
    start: Annotated[bool, typer.Option("--run", help="Start the servers, keep them until Ctrl-C.")] = False,
    phase: Annotated[str, typer.Option(help="Which servers --run starts: questions or summaries.")] = "questions",
    logs: Annotated[Path, typer.Option(help="Folder for the logs of --run.")] = Path("runs/servers"),
    wait: Annotated[float, typer.Option(min=1, help="Seconds that a server may take to answer.")] = 1_800,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the command of every model server that a profile needs, with its reasons; or start them.

    Example:

        medvrag serve --profile a100
    """
    from medvrag_core.models.serving.plan import serving_plan
    from medvrag_core.models.serving.run import run_servers
    from medvrag_core.models.serving.text import plan_text

    plan = serving_plan(profile_for(None, profile, set_))
    if start:
        run_servers(plan.of_phase(phase), logs / plan.profile, wait_s=wait, say=typer.echo)
    else:
        typer.echo(plan.model_dump_json(indent=1) if as_json else plan_text(plan))


@app.command()
def doctor(
    run_: Annotated[Path | None, typer.Option("--run", help="Run whose saved profile is checked.")] = None,
    profile: ProfileOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the model servers of a profile with a few short calls; exit code 2 when a check fails.

    Each failure names the setting, or the flag of the server, to change. Example:

        medvrag doctor --profile a100
    """
    from medvrag_core.models.doctor import report_of, run_checks
    from medvrag_core.views.check_text import check_text

    workspace = Workspace(run_) if run_ is not None else None
    if workspace is not None and profile is None and not workspace.profile.is_file():
        raise NotBuiltError(f"run '{run_}' has no profile", way_out="give --profile, or the folder of a run")
    resolved = profile_for(workspace, profile, set_)
    checks = []
    for check in run_checks(resolved):
        checks.append(check)
        if not as_json:
            typer.echo(check_text(check))
    made = report_of(resolved, checks)
    if as_json:
        typer.echo(made.model_dump_json(indent=1))
    elif not checks:
        typer.echo(f"profile '{resolved.name}' uses no model server")
    if not made.ok:
        raise typer.Exit(2)


def main() -> None:
    """Entry point of the console script: errors become one sentence and an exit code."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    logging.basicConfig(level=os.environ.get("MEDVRAG_LOG", "WARNING"), format="%(name)s: %(message)s")
    try:
        code = app(standalone_mode=False)
    except MedvragError as error:
        # Errors quote files and servers, which must not steer the terminal.
        typer.echo(plain(f"medvrag: {error}"), err=True)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("medvrag: stopped; finished work is kept, the same command goes on from here", err=True)
        code = 130
    except BrokenPipeError:
        code = 0
    except Exception as error:
        # A usage error: typer shows it itself, but does not export the class.
        if not hasattr(error, "show"):
            raise
        error.show()
        code = 2
    sys.exit(code or 0)


def _require_corpus(workspace: Workspace, source: Path | None) -> None:
    if source is None and not workspace.corpus.is_dir():
        raise NotBuiltError(f"run '{workspace.root}' has no corpus yet", way_out="give --source DIR, a folder of PDFs")


def _cached(source: Path | None, profile: Profile) -> Workspace:
    base = Path(os.environ.get("MEDVRAG_CACHE", Path.home() / ".cache" / "medvrag"))
    key = sha256(f"{source and source.resolve()}\n{fingerprint(profile)}".encode()).hexdigest()[:16]
    return Workspace(base / key)


def _options(items: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in items:
        label, sign, text = pair.partition("=")
        if not sign or not label.strip() or not text.strip():
            raise InputError(f"--option {pair}: is not LABEL=text", way_out='write --option "A=first choice"')
        if label.strip() in options:
            raise InputError(f"--option {pair}: label '{label.strip()}' is given twice")
        options[label.strip()] = text.strip()
    if len(options) < 2:
        raise InputError("a question needs at least two options", way_out="give --option LABEL=text for each")
    return options
