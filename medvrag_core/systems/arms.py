"""The paper's controlled sequence: five systems, each one step from the row above it (Table 1)."""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.records import Question, Trace
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.resources import Resources

CONTROLLED_SEQUENCE = ("no_rag", "text_rag", "page_single", "iterative_no_memory", "medvrag")


def run_arms(
    resources: Resources,
    questions: Sequence[Question],
    arms: Sequence[str] = CONTROLLED_SEQUENCE,
    *,
    progress: bool = True,
) -> dict[str, list[Trace]]:
    """Answer the same questions with every arm, sharing all opened stages; traces by name of the arm."""
    return {name: answer_all(name, resources, questions, progress=progress) for name in arms}
