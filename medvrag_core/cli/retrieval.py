"""Verbs about retrieval measured as such: recall of each stage, labels by a judge, agreement of two raters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, RunOption, SystemOption, asked_endings, profile_for, profile_of
from medvrag_core.errors import InputError
from medvrag_core.runs.workspace import Workspace

PartlyOption = Annotated[bool, typer.Option("--partly", help="Count partly relevant pages as relevant.")]


def retrieval(
    run_: RunOption,
    system: SystemOption = "medvrag",
    any_round: Annotated[bool, typer.Option("--any-round", help="All rounds together, not the first alone.")] = False,
    at: Annotated[list[int] | None, typer.Option(min=1, help="Depths beside the profile's; else 10 and 100.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Search again, in every mode of the index.")] = False,
    labels: Annotated[Path | None, typer.Option(help="Relevance labels in place of gold pages.")] = None,
    people: Annotated[Path | None, typer.Option(help="People's labels, to correct the judge's in --labels.")] = None,
    rater: Annotated[str | None, typer.Option(help="Whose labels, where --labels holds several raters'.")] = None,
    partly: PartlyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Recall of each stage: among the candidates, kept by the filter, shown to the reader; and what the filter lost.

    Example:

        medvrag retrieval --run runs/mine --exact
    """
    from medvrag_core.evaluation.labels.relevance import read_labels
    from medvrag_core.evaluation.retrieval.report import stage_report
    from medvrag_core.systems.answering import each_trace
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.retrieval_text import stage_report_text

    if people is not None and labels is None:
        raise InputError("--people corrects the labels of a judge", way_out="give those with --labels")
    workspace = Workspace(run_)
    endings = asked_endings(workspace, system)
    profile = profile_of(workspace)
    report = stage_report(
        each_trace(workspace, system, [ending.question.id for ending in endings]),
        profile,
        rounds="any" if any_round else "first",
        labels=None if labels is None else read_labels(labels, rater=rater),
        people=None if people is None else read_labels(people),
        partly=partly,
        cuts=at or (10, 100),
        search=Resources(workspace, profile) if exact else None,
    )
    typer.echo(report.model_dump_json(indent=1) if as_json else stage_report_text(report))


def judge(
    run_: RunOption,
    out: Annotated[Path, typer.Option(help="Label file to write (JSONL).")],
    system: SystemOption = "medvrag",
    pool: Annotated[str, typer.Option(help="Pages to judge: the first of stage1, of kept, or of both.")] = "both",
    depth: Annotated[int, typer.Option(min=1, help="How many of each.")] = 10,
    show: Annotated[str, typer.Option(help="What the judge sees of a page: its text or its summary.")] = "text",
    profile: Annotated[str | None, typer.Option(help="Profile that names the judge. Default: the run's own.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Override, e.g. --set judge_model.model=M.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Let a language model label pages as relevant, for questions without gold pages; goes on where it stopped.

    The calls are kept in the run, so nothing is paid twice. Exit code 3: some calls failed, run again. Example:

        medvrag judge --run runs/mine --out labels.jsonl --profile a100
    """
    from medvrag_core.evaluation.labels.judge import judge_pages, judge_tasks, judging_pool
    from medvrag_core.evaluation.labels.relevance import write_labels
    from medvrag_core.runs.lock import only_writer
    from medvrag_core.systems.answering import each_trace
    from medvrag_core.systems.resources import Resources
    from medvrag_core.views.retrieval_text import judge_text

    workspace = Workspace(run_)
    endings = asked_endings(workspace, system)
    questions = [ending.question for ending in endings]
    resolved = profile_for(workspace, profile, set_)
    if not (resolved.judge_model.model and resolved.judge_model.base_url):
        raise InputError(
            f"profile '{resolved.name}' does not name a judge and its address",
            way_out="give --set judge_model.model=NAME --set judge_model.base_url=URL, or --profile with one",
        )
    with only_writer(run_):
        resources = Resources(workspace, resolved)
        try:
            pages = judging_pool(each_trace(workspace, system, [q.id for q in questions]), pool, depth)
            tasks = judge_tasks(questions, pages, resources.store, show=show)
            labels, report = judge_pages(
                resources.chat(resolved.judge_model),
                tasks,
                at_once=resolved.calls.in_flight,
                stop=lambda: resources.limits.stop("stopped"),
            )
            asked = resources.tally()
        finally:
            resources.close()
        write_labels(out, labels)
    typer.echo(report.model_dump_json(indent=1) if as_json else judge_text(report, out, asked))
    if report.failed:
        raise typer.Exit(3)


def agreement(
    a: Annotated[Path, typer.Argument(help="Label file of a rater, or of a judge.")],
    b: Annotated[Path, typer.Argument(help="Label file of another rater; people, where A is a judge.")],
    rater_a: Annotated[str | None, typer.Option(help="Whose labels, where A holds several raters'.")] = None,
    rater_b: Annotated[str | None, typer.Option(help="Whose labels, where B holds several raters'.")] = None,
    correct: Annotated[bool, typer.Option("--correct", help="Correct A's share of relevant pages by B.")] = False,
    partly: PartlyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two raters: raw agreement, how common relevant pages are, Cohen's kappa, each with its interval.

    Example:

        medvrag agreement labels.jsonl people.jsonl --correct
    """
    from medvrag_core.evaluation.labels.agreement import agreement as compare
    from medvrag_core.evaluation.labels.corrected import RaterComparison, corrected_share
    from medvrag_core.evaluation.labels.relevance import read_labels
    from medvrag_core.settings import EvaluationSettings
    from medvrag_core.views.retrieval_text import raters_text

    settings = EvaluationSettings()
    first, second = read_labels(a, rater=rater_a), read_labels(b, rater=rater_b)
    found = RaterComparison(
        agreement=compare(first, second, settings, partly=partly),
        correction=corrected_share(first, second, settings, partly=partly) if correct else None,
    )
    typer.echo(found.model_dump_json(indent=1) if as_json else raters_text(found))
