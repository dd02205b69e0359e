"""What every control arm is compared with, what the comparison asks, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.evaluation.endings import Answered
from medvrag_core.evaluation.statistics.contrasts import Contrast, contrast_family, rules_of
from medvrag_core.evaluation.statistics.estimands import arm_of
from medvrag_core.evaluation.statistics.shares import Share, share_of
from medvrag_core.records import Record
from medvrag_core.settings import EvaluationSettings


class Control(Record):
    """A control arm against the arm from which it differs in one thing."""

    arm: str
    reference: str
    asks: str = Field(description="the question that the comparison answers")
    if_equal: str = Field(description="what it means where no difference is found and equivalence is shown")


class ControlResult(Record):
    """One comparison of the family: ``changed`` counts other answers, right or wrong, the contrast right ones."""

    control: Control
    changed: Share = Field(description="questions that get another option, or end another way")
    contrast: Contrast


CONTROLS = tuple(
    Control(arm=arm, reference=reference, asks=asks, if_equal=if_equal)
    for arm, reference, asks, if_equal in (
        ("summaries_only", "medvrag", "Are pages needed, or do their summaries do?", "summaries carry the answers"),
        ("images_only", "medvrag", "Do summaries add anything to the pages?", "summaries can go"),
        ("page_text", "medvrag", "Does the image of a page add anything to its words?", "images can go"),
        ("blank_pages", "medvrag", "How much is answered without any evidence?", "evidence is not used"),
        ("random_pages", "medvrag", "Is it the pages found, or any pages?", "retrieval is not used"),
        ("other_question_pages", "medvrag", "Do sensible pages on another matter do as well?", "retrieval is not used"),
        ("blank_pages", "no_rag", "Does the frame of pages and rounds alone change answers?", "the frame is harmless"),
        ("shuffled_options", "medvrag", "Do the labels of the options matter?", "no bias to a label"),
        ("medvrag_option_blind", "medvrag", "Does seeing the options steer the search?", "options can stay hidden"),
        ("plain_history", "medvrag", "Does the bank do more than as much plain text?", "the bank's form is idle"),
        ("plain_history", "iterative_no_memory", "Does plain text do more than no memory?", "memory is idle"),
        ("fixed_two_rounds", "page_single", "Is a second round worth it where all take it?", "iterating is idle"),
        ("fixed_two_rounds", "medvrag", "Does it matter who decides when to stop?", "two rounds for all will do"),
        ("single_on_iterated", "medvrag", "What does one round say where more were taken?", "iterating is idle"),
        ("cited_removed", "uncited_removed", "Do answers rest on the pages they cite?", "citations are decoration"),
    )
)


def find_controls(names: str = "", *, leave_out: str = "") -> tuple[Control, ...]:
    """The comparisons of the arms named, separated by commas; all of them without a name; but for those to leave out.

    An arm can be impossible: there is no forced single round where no question took two.

    Raises InputError that lists the arms there are.
    """
    known = dict.fromkeys(control.arm for control in CONTROLS)
    asked, without = ([name.strip() for name in text.split(",") if name.strip()] for text in (names, leave_out))
    if unknown := [name for name in (*asked, *without) if name not in known]:
        raise InputError(f"'{unknown[0]}' is no control arm", way_out=f"choose among {', '.join(known)}")
    wanted = set(asked or known) - set(without)
    return tuple(control for control in CONTROLS if control.arm in wanted)


def arms_of(controls: Sequence[Control]) -> list[str]:
    """Every arm that these comparisons need, ``medvrag`` first, since some lean on its answers."""
    references = dict.fromkeys(control.reference for control in controls)
    return list({"medvrag": None} | references | dict.fromkeys(control.arm for control in controls))


def control_results(
    arms: Mapping[str, Sequence[Answered]], controls: Sequence[Control], settings: EvaluationSettings
) -> list[ControlResult]:
    """Every comparison on the questions that its control arm was asked; p-values are adjusted over all of them.

    Parameters
    ----------
    arms : answers by arm; a reference may have been asked more questions than its control

    Raises
    ------
    InputError : an arm is missing, or a reference has not answered a question of its control
    """
    made, pairs = {}, {}
    for control in controls:
        name = f"{control.arm} over {control.reference}"
        a, b = (_answers(arms, arm) for arm in (control.reference, control.arm))
        asked = {answer.question.id for answer in b}
        # Keyed by comparison, since a reference takes part with other questions in each.
        made[f"{name}, a"] = arm_of([[answer for answer in a if answer.question.id in asked]])
        made[f"{name}, b"] = arm_of([b])
        pairs[name] = (f"{name}, a", f"{name}, b")
    contrasts = contrast_family(made, pairs, rules_of(settings), family="controls")
    results = []
    for control, (name, (a_key, b_key)) in zip(controls, pairs.items(), strict=True):
        other = int(np.sum(made[a_key].labels != made[b_key].labels))
        changed = share_of(other, contrasts[name].n, confidence=settings.confidence)
        results.append(ControlResult(control=control, changed=changed, contrast=contrasts[name]))
    return results


def _answers(arms: Mapping[str, Sequence[Answered]], name: str) -> Sequence[Answered]:
    if name not in arms:
        raise InputError(f"no answers of arm '{name}'", way_out=f"run it on the same questions: --system {name}")
    return arms[name]
