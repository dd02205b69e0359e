"""Verbs about differences between arms: one contrast in full, and what a run could find before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medvrag_core.cli.given import JsonOption, evaluation_of, run_first, sizes, traces_of
from medvrag_core.cli.score import checked_scorer
from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.load import MIRAGE_SIZES
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.statistics.estimands import Arm, find_set_rule
from medvrag_core.runs.workspace import Workspace

if TYPE_CHECKING:
    from medvrag_core.evaluation.statistics.sensitivity import Runs

PlanOption = Annotated[Path | None, typer.Option("--preregistration", help="YAML file of the pre-registration.")]


def compare(
    run_a: Annotated[Path, typer.Argument(help="Folder of a run, or an export of one.")],
    run_b: Annotated[Path, typer.Argument(help="Folder of a run, or an export of one; may be the same.")],
    system: Annotated[str, typer.Option(help="Arm A, and arm B unless --other names one.")] = "medvrag",
    other: Annotated[str | None, typer.Option(help="Arm B.")] = None,
    also_a: Annotated[list[Path] | None, typer.Option(help="A further run (seed) of arm A; repeatable.")] = None,
    also_b: Annotated[list[Path] | None, typer.Option(help="A further run (seed) of arm B; repeatable.")] = None,
    sets: Annotated[
        str, typer.Option(help="dataset (as questions name it); one; prefix (ids as set:id); or a JSON file.")
    ] = "dataset",
    scorer: Annotated[str, typer.Option(help="strict (the headline), mirage or lenient.")] = "strict",
    preregistration: PlanOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two arms in full: counts, both means over sets, intervals, tests, adjusted tests, equivalence.

    Below stands the same under each scorer, over the questions that all arms answered, and with near-duplicate
    questions as one. Confidence, resamples and seed are those of the profile of RUN_A, or as registered. Two runs of
    one system under the same settings are an A/A run and give the flip rate. Example:

        medvrag compare runs/mine runs/mine --system text_rag --other page_single
    """
    from medvrag_core.evaluation.statistics.contrasts import Contrast, contrast, registered_contrast, rules_of
    from medvrag_core.evaluation.statistics.preregistration import read_preregistration
    from medvrag_core.evaluation.statistics.sensitivity import Clusters, with_variants
    from medvrag_core.views.contrast_text import contrast_text

    rule = find_set_rule(sets)
    registered = read_preregistration(preregistration) if preregistration is not None else None
    places = ([run_a, *(also_a or [])], [run_b, *(also_b or [])])
    _refuse_repeats([(p.resolve(), n) for side, n in zip(places, (system, other or system), strict=True) for p in side])
    notes: list[str] = []
    runs: dict[str, Runs] = {
        key: [_asked(place, name, notes) for place in side]
        for key, side, name in zip("AB", places, (system, other or system), strict=True)
    }
    if registered is not None:
        family = registered.content.family_of(system, other or system)
        needed = {arm for pair in registered.content.families.get(family or "", {}).values() for arm in pair}
        runs |= _others(places, sorted(needed - {system, other or system}), notes)

    def compared(arms: Mapping[str, Arm], clusters: Clusters | None) -> list[Contrast]:
        a, b, *others = arms.values()
        if registered is None:
            return [contrast(a, b, rules_of(evaluation_of(Workspace(run_a))), clusters=clusters)]
        return [registered_contrast(a, b, {arm.name: arm for arm in others}, registered, clusters=clusters)]

    (found,) = with_variants(runs, compared, set_of=rule, scorer=checked_scorer(scorer))
    found = found.model_copy(
        update={
            "source_a": ", ".join(map(str, places[0])),
            "source_b": ", ".join(map(str, places[1])),
            "departures": (*found.departures, *notes),
        }
    )
    typer.echo(found.model_dump_json(indent=1) if as_json else contrast_text(found))


def power(
    set_size: Annotated[list[str] | None, typer.Option(help="name=questions; default: the paper's four sets.")] = None,
    discordance: Annotated[
        list[float] | None, typer.Option(help="Share of questions on which the arms differ; default 0.06 to 0.20.")
    ] = None,
    difference: Annotated[float, typer.Option(help="True difference in points to plan for.")] = 1.0,
    target: Annotated[float, typer.Option(help="Power wanted.")] = 0.8,
    alpha: Annotated[float | None, typer.Option(help="Default 0.05, or as registered.")] = None,
    tests: Annotated[int | None, typer.Option(help="Tests in the family; default 1, or as registered.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of every arm; default 1, or as registered.")] = None,
    flip_rate: Annotated[float, typer.Option(help="Of an A/A run, as `medvrag compare` prints it.")] = 0.0,
    preregistration: PlanOption = None,
    template: Annotated[bool, typer.Option("--template", help="Print a pre-registration to fill in.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say before a run what it could find: power, and the smallest differences that it would detect.

    Example:

        medvrag power --discordance 0.10 --seeds 3 --flip-rate 0.05
    """
    from medvrag_core.evaluation.statistics import preregistration as plans
    from medvrag_core.evaluation.statistics.power import plan_power
    from medvrag_core.views.contrast_text import power_text

    if template:
        typer.echo(plans.template(), nl=False)
        return
    registered = plans.read_preregistration(preregistration) if preregistration is not None else None
    planned, level, runs, family = MIRAGE_SIZES, 0.05, 1, 1
    if registered is not None:
        content = registered.content
        planned, level, runs = content.sets, content.alpha, content.seeds
        family = max(map(len, content.families.values()))
    made = plan_power(
        sizes(set_size, "--set-size") if set_size else planned,
        discordance or [0.06, 0.10, 0.15, 0.20],
        difference=difference,
        target=target,
        alpha=level if alpha is None else alpha,
        tests=family if tests is None else tests,
        seeds=runs if seeds is None else seeds,
        flips=flip_rate,
        preregistration=registered.sha256 if registered is not None else "",
    )
    typer.echo(made.model_dump_json(indent=1) if as_json else power_text(made))


def _refuse_repeats(runs: Sequence[tuple[Path, str]]) -> None:
    """A run compared with itself would show a noise of zero."""
    for number, (place, name) in enumerate(runs):
        if (place, name) in runs[:number]:
            raise InputError(f"{place}: the run of '{name}' is given twice", way_out="give each run once, or --other")


def _asked(place: Path, system: str, notes: list[str]) -> Sequence[Answered]:
    """Answers to the questions asked last; what is not whole about them goes into ``notes``."""
    from medvrag_core.evaluation.outcomes import read_asked_endings

    answers: Sequence[Answered]
    if place.is_dir():
        answers, asked = read_asked_endings(Workspace(place), system, made_by=run_first(system))
        if asked is not None and len(answers) < asked:
            notes.append(f"{place}, {system}: {asked - len(answers)} of {asked} questions have no outcome yet")
    else:
        answers = traces_of(place, system)
    failed = sum(answer.outcome == "error" for answer in answers)
    if failed:
        notes.append(f"{place}, {system}: {failed} questions ended in an error and count as wrong")
    return answers


def _others(places: Sequence[Sequence[Path]], systems: Sequence[str], notes: list[str]) -> dict[str, Runs]:
    """Further arms of a family, where all run folders of one side hold them."""
    from medvrag_core.systems.answering import systems_with_traces

    found: dict[str, Runs] = {}
    for system in systems:
        for side in places:
            if all(place.is_dir() and system in systems_with_traces(Workspace(place)) for place in side):
                found[f"other arm {system}"] = [_asked(place, system, notes) for place in side]
                break
    return found
