"""i-MedRAG (arXiv 2408.00727): MedRAG that first asks follow-up queries, answers them, and reads the answers.

As in its released code four rounds of three queries, each answered from 32 snippets, and a last call that answers the
question from queries and answers. Unlike there a writer that asks for nothing, or cannot be read, ends the asking (the
code goes on, with three further turns for malformed output), a query is not asked twice, and an answer is made from the
snippets alone or is none.
"""

from __future__ import annotations

from collections.abc import Mapping

from medvrag_core.reasoning import follow_up_tasks as tasks
from medvrag_core.reasoning.composition import Pipeline
from medvrag_core.reasoning.follow_ups import Ask, FollowUp, run_follow_ups
from medvrag_core.reasoning.helper_calls import helper_versions
from medvrag_core.reasoning.stages import PresentNothing, Read
from medvrag_core.records import Question, Round
from medvrag_core.settings import Profile
from medvrag_core.systems.base import System, register
from medvrag_core.systems.medrag import RRF_2, Snippets
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.text_rag import version as version_of_chunks


class FollowUpSystem(System):
    """Rounds of queries, then the answer.

    Parameters
    ----------
    asking, answering, rounds : see :func:`~medvrag_core.reasoning.follow_ups.run_follow_ups`
    """

    def __init__(self, asking: Pipeline, answering: Pipeline, rounds: int) -> None:
        self.asking, self.answering, self.rounds = asking, answering, rounds

    def answer(self, question: Question) -> tuple[Round, ...]:
        """See :class:`System`."""
        return run_follow_ups(question, self.asking, self.answering, self.rounds)

    @property
    def composition(self) -> str:
        """See :class:`System`."""
        asked = f"{self.asking.described()}, {self.rounds} round{'s' * (self.rounds > 1)} at most"
        return f"{asked}; then {self.answering.described()}"


def version(profile: Profile) -> str:
    """What shapes the rankings of chunks, and what is done without a model."""
    return f"{version_of_chunks(profile)} {tasks.VERSION}".strip()


def prompts(profile: Profile) -> Mapping[str, str]:
    """The prompts of both tasks, where a model does them."""
    return helper_versions("ask", "follow_up") if profile.helper.name == "llm" else {}


@register(
    "i_medrag",
    "i-MedRAG: follow-up queries in rounds, each answered from its own chunks; the reader gets queries and answers",
    overrides=RRF_2,
    version=version,
    prompts=prompts,
)
def compose(resources: Resources) -> System:
    """Compose it with the helper model of the profile, or with what stands in for it."""
    settings, helper = resources.profile.i_medrag, resources.helper_chat
    loop = resources.profile.loop.model_copy(update={"max_rounds": 1})
    writer = tasks.PromptedQueries(helper) if helper else tasks.WordQueries()
    answerer = tasks.PromptedAnswers(helper) if helper else tasks.ExtractedAnswers()
    return FollowUpSystem(
        Pipeline(
            Ask(writer, settings.queries, blind=not settings.sees_options),
            FollowUp(Snippets(resources, settings.snippets), answerer, settings.snippets),
        ),
        Pipeline(PresentNothing(), Read(resources.reader, loop)),
        settings.rounds,
    )
