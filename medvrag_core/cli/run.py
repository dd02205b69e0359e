"""The verbs of a run: ``embed``, ``run``, ``retrieve``, ``ask``, ``report``, ``convert``."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import (
    ArmsOption,
    JsonOption,
    ModuleOption,
    ProfileOption,
    RayOption,
    RunOption,
    SetOption,
    SourceOption,
    SystemOption,
    add_own,
    profile_for,
    run_first,
)
from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.records import Question
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.stage import record_stage
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile, fingerprint

OutOption = Annotated[Path, typer.Option(help="Run folder; made if missing, resumed if it exists.")]


def embed(
    out: OutOption,
    source: SourceOption = None,
    profile: ProfileOption = None,
    set_: SetOption = None,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Render the pages that are not in OUT yet and encode those that have no vectors; the first step of a run.

    A stopped command goes on where it stopped. Example:

        medvrag embed --source pdfs --profile a100 --out runs/a100
    """
    from medvrag_core.runs.stage import read_stage
    from medvrag_core.systems.prepare import prepare_corpus, prepare_vectors

    workspace = Workspace(out)
    resolved = profile_for(workspace, profile, set_, ray=ray)
    with only_writer(out):
        require_corpus(workspace, source)
        prepare_corpus(workspace, source, resolved)
        vectors = prepare_vectors(workspace, resolved)
    if as_json:
        typer.echo(read_stage(out, "embedding", made_by="`medvrag embed`").model_dump_json(indent=1))
        return
    a_page = vectors.bytes / len(vectors)
    typer.echo(
        f"{out}: {len(vectors):,} pages, {vectors.offsets[-1]:,} vectors of {vectors.dim}, {a_page:,.0f} bytes a page"
    )


def run(
    questions: Annotated[Path, typer.Option(help="JSONL: id, question, options, answer, optional gold_pages.")],
    out: OutOption,
    source: SourceOption = None,
    profile: ProfileOption = None,
    system: SystemOption = "medvrag",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    arms: ArmsOption = None,
    module: ModuleOption = None,
    calls: Annotated[
        str | None, typer.Option(help="Model calls: only-missing (default), always, never, or only-cache (a replay).")
    ] = None,
    set_: SetOption = None,
    ray: RayOption = None,
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
    from medvrag_core.systems.base import find_system
    from medvrag_core.systems.prepare import prepare
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.report_text import report_text

    asked = read_questions(questions)[:limit]
    add_own(module, arms)
    find_system(system)
    workspace = Workspace(out)
    overrides = [*(set_ or []), *([f"calls.policy={calls}"] if calls else [])]
    resolved = profile_for(workspace, profile, overrides, ray=ray)
    with only_writer(out):
        require_corpus(workspace, source)
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


def retrieve(
    queries: Annotated[Path, typer.Option(help="JSONL with id and text.")],
    out: Annotated[Path, typer.Option(help="TREC run file to write.")],
    source: SourceOption = None,
    run_: Annotated[Path | None, typer.Option("--run", help="Folder of a finished run.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Pages a query.")] = 100,
    retriever: Annotated[
        str, typer.Option(help="stage1, exact, bm25, hybrid, filtered, a text arm (text_bm25 ...), or one of your own.")
    ] = "stage1",
    module: ModuleOption = None,
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
    add_own(module)
    search = find_retriever(retriever)
    if source is None and run_ is None:
        raise InputError("nothing to search", way_out="give --source DIR or --run RUN")
    workspace = Workspace(run_) if run_ is not None else _cached(source, profile_for(None, profile, set_))
    resolved = profile_for(workspace, profile, set_)
    with only_writer(workspace.root):
        require_corpus(workspace, source)
        if reads_text_alone(retriever):
            if source is not None:
                prepare_corpus(workspace, source, resolved)
        elif source is not None or not (workspace.index / "manifest.json").is_file():
            prepare(workspace, source, resolved)
        resources = Resources(workspace, resolved)
        write_trec(out, rank_all(search, resources, asked, k), tag=retriever)
    typer.echo(f"{out}: {len(asked)} queries, up to {k} pages each, retriever {retriever}")


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    run_: RunOption,
    option: Annotated[list[str], typer.Option(help="LABEL=text, at least two times.")],
    profile: ProfileOption = None,
    system: SystemOption = "medvrag",
    arms: ArmsOption = None,
    module: ModuleOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer one question and show every round: query, pages, findings, memory bank.

    Example:

        medvrag ask "Which test?" --option A=Fundoscopy --option B=Spirometry --run runs/mine
    """
    from medvrag_core.systems.answering import answer_one, answering_fingerprint, set_up
    from medvrag_core.systems.base import find_system
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.trace_text import trace_text

    add_own(module, arms)
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


def report(
    run_: RunOption,
    system: SystemOption = "medvrag",
    suspects: Annotated[
        bool, typer.Option("--suspects", help="Also without the questions whose text stands in pages of the corpus.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute the report of a run from what is stored, all three scorers included.

    With --suspects, figures over all questions stand beside those without the suspect ones; it needs a corpus that was
    checked against a question file (setting corpus.exclusion.questions).
    """
    from medvrag_core.corpus.screening import read_screening
    from medvrag_core.corpus.store import CorpusStore
    from medvrag_core.evaluation.outcomes import read_asked_endings
    from medvrag_core.evaluation.report import run_report
    from medvrag_core.evaluation.suspects import suspect_report
    from medvrag_core.views.report_text import report_text
    from medvrag_core.views.suspects_text import suspects_text

    workspace = Workspace(run_)
    answers, expected = read_asked_endings(workspace, system, made_by=run_first(system))
    if suspects:
        both = suspect_report(answers, read_screening(workspace.corpus), CorpusStore.open(workspace.corpus), expected)
        typer.echo(both.model_dump_json(indent=1) if as_json else suspects_text(both, run_))
        return
    made = run_report(answers, expected)
    typer.echo(made.model_dump_json(indent=1) if as_json else report_text(made, run_))


def convert(
    questions: Annotated[Path, typer.Argument(help="JSONL with _id, text and metadata (options, answer, doc, page).")],
    out: Annotated[Path, typer.Option(help="Question file to write.")],
) -> None:
    """Rewrite a question file in BEIR form as a question file for `medvrag run`."""
    from medvrag_core.evaluation.questions import read_questions, write_questions

    asked = read_questions(questions)
    write_questions(out, asked)
    typer.echo(f"{out}: {len(asked)} questions")


def require_corpus(workspace: Workspace, source: str | None) -> None:
    """Raises NotBuiltError for a run that has no corpus where no source is named to make it from."""
    if source is None and not workspace.corpus.is_dir():
        raise NotBuiltError(
            f"run '{workspace.root}' has no corpus yet",
            way_out="give --source DIR, a folder of PDFs, or --source pmc:QUERY",
        )


def _cached(source: str | None, profile: Profile) -> Workspace:
    from medvrag_core.corpus.sources import absolute_source

    base = Path(os.environ.get("MEDVRAG_CACHE", Path.home() / ".cache" / "medvrag"))
    key = sha256(f"{source and absolute_source(source)}\n{fingerprint(profile)}".encode()).hexdigest()[:16]
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
