"""The verb that lays the best of several arms beside another arm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medvrag_core.cli.given import JsonOption, asked_endings, evaluation_of
from medvrag_core.errors import NotBuiltError
from medvrag_core.evaluation.statistics.estimands import Arm, Estimand, arm_of, find_set_rule
from medvrag_core.runs.workspace import Workspace


def best(
    run_: Annotated[Path, typer.Option("--run", help="Folder of a run in which all arms answered.")],
    among: Annotated[
        list[str] | None,
        typer.Option(help="A candidate; repeatable. Default: every text arm of the run, iterative ones too."),
    ] = None,
    against: Annotated[str, typer.Option(help="The arm that the best one is laid beside.")] = "page_single",
    estimand: Annotated[Estimand, typer.Option(help="The mean that ranks the candidates.")] = "macro",
    sets: Annotated[
        str, typer.Option(help="dataset (as questions name it); one; prefix (ids as set:id); or a JSON file.")
    ] = "dataset",
    as_json: JsonOption = False,
) -> None:
    """Choose the best arm on one half of the questions, and compare it with another arm on the other half.

    The halves go by the ids, so no answer has a say in them. Example:

        medvrag best --run runs/mine --against page_single
    """
    from medvrag_core.evaluation.statistics.best_arm import best_arm
    from medvrag_core.evaluation.statistics.contrasts import rules_of
    from medvrag_core.systems.answering import systems_with_traces
    from medvrag_core.systems.retrievers import text_arms
    from medvrag_core.views.best_arm_text import best_arm_text

    workspace, rule = Workspace(run_), find_set_rule(sets)
    names = among or [name for name in systems_with_traces(workspace) if name in text_arms()]
    if not names:
        raise NotBuiltError(
            f"run '{run_}' holds answers of no text arm", way_out="run one: medvrag run --system text_bm25"
        )

    def answers_of(name: str) -> Arm:
        return arm_of([asked_endings(workspace, name)], rule)

    rules = rules_of(evaluation_of(workspace))
    found = best_arm([answers_of(name) for name in dict.fromkeys(names)], answers_of(against), rules, estimand=estimand)
    typer.echo(found.model_dump_json(indent=1) if as_json else best_arm_text(found))
