"""EVisRAG (arXiv 2510.09733): VisRAG's retrieval, and a reader that writes down the evidence of every page."""

from __future__ import annotations

from collections.abc import Mapping

from medvrag_core.reasoning import observed_replies
from medvrag_core.reasoning.observed_replies import Observe, observer
from medvrag_core.reasoning.stages import KeepBest, Present, Retrieve
from medvrag_core.settings import Profile
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.resources import Resources


def version(profile: Profile) -> str:
    """That of the embedded counterpart, where no model is asked."""
    return "" if profile.reader.name == "vlm" else observed_replies.VERSION


def prompts(profile: Profile) -> Mapping[str, str]:
    """The prompt that asks for the four blocks, where a model is asked."""
    return {"observe": observed_replies.prompt_version()} if profile.reader.name == "vlm" else {}


@register("evisrag", "EVisRAG: evidence of each page, then an answer or none", version=version, prompts=prompts)
def compose(resources: Resources) -> System:
    """As many pages as VisRAG gets (``visrag.pages``), in one round."""
    settings, source = resources.profile.visrag, PageEvidence(resources)
    loop = resources.profile.loop.model_copy(update={"max_rounds": 1})
    return Composed(
        loop,
        Retrieve(source),
        KeepBest(settings.pages),
        Present(source, settings.pages),
        Observe(observer(resources.reader)),
    )
