"""Calls that a system makes beside filter and reader: follow-up queries, summaries, documents and choices."""

from __future__ import annotations

from typing import Literal

from medvrag_core.evaluation.cost.run_size import rounds_a_question, summary_tokens
from medvrag_core.evaluation.cost.unit_costs import UnitCosts
from medvrag_core.models.checks.configured import CHARACTERS_PER_TOKEN, FILTER_TEXT_TOKENS, READER_TEXT_TOKENS
from medvrag_core.reasoning.follow_up_tasks import ANSWER_TOKENS, ASK_TOKENS
from medvrag_core.reasoning.knowledge.prompted import (
    DOCUMENT_TOKENS,
    GAPS_TOKENS,
    MAX_SHOWN,
    SELECTION_TOKENS,
    SUMMARY_TOKENS,
)
from medvrag_core.records import Record
from medvrag_core.settings import Profile
from medvrag_core.systems.base import find_system


class TaskCalls(Record):
    """One task that a model does beside reading and filtering.

    Attributes
    ----------
    task : its prompt is ``helper_<task>``
    role : whose model is asked
    calls : a question
    prompt, completion : tokens a call; the longest reply that is allowed, since no run tells of shorter ones
    """

    task: str
    role: Literal["helper", "generator"]
    calls: float
    prompt: int
    completion: int


def helper_calls(system: str, profile: Profile, costs: UnitCosts) -> tuple[TaskCalls, ...]:
    """The tasks of a system under a profile, in alphabetical order; none where it has no such task, or does it itself.

    Raises
    ------
    InputError : there is no system of that name

    >>> from medvrag_core.evaluation.cost.unit_costs import shipped_costs
    >>> from medvrag_core.profiles.load import load_profile
    >>> [(task.task, task.calls) for task in helper_calls("i_medrag", load_profile("a100"), shipped_costs())]
    [('ask', 4.0), ('follow_up', 12.0)]
    """
    entry = find_system(system)
    profile = entry.settle(profile)
    knowledge, follow, chunk = profile.medrgag, profile.i_medrag, profile.text.chunk_tokens
    in_the_loop = entry.make is find_system("medrgag_pages").make
    rounds = rounds_a_question(profile, costs) if in_the_loop else 1.0
    if in_the_loop:
        told = max(profile.loop.pages_shown, profile.loop.summaries_shown)
        a_document, shown = round(summary_tokens(profile)), profile.loop.pages_shown * MAX_SHOWN // CHARACTERS_PER_TOKEN
    else:
        told = knowledge.retrieved if knowledge.retrieval else 0
        a_document, shown = chunk, told * chunk
    written = knowledge.generated * DOCUMENT_TOKENS if knowledge.generation else 0
    text = FILTER_TEXT_TOKENS
    sizes: dict[str, tuple[float, int, int]] = {
        "ask": (follow.rounds, READER_TEXT_TOKENS, ASK_TOKENS),
        "follow_up": (follow.rounds * follow.queries, text + follow.snippets * chunk, ANSWER_TOKENS),
        "summarize": (rounds * told, text + a_document, SUMMARY_TOKENS),
        "explore": (rounds, text + told * SUMMARY_TOKENS, GAPS_TOKENS),
        "generate": (rounds * knowledge.generated, text, DOCUMENT_TOKENS),
        "select": (rounds, text + shown + written, SELECTION_TOKENS),
    }
    return tuple(
        TaskCalls(
            task=task,
            role="generator" if task == "generate" else "helper",
            calls=sizes[task][0],
            prompt=sizes[task][1],
            completion=sizes[task][2],
        )
        for task in sorted(entry.prompts(profile).keys() & sizes.keys())
    )
