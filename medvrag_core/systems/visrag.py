"""VisRAG (arXiv 2410.10594): the best pages go to the reader as they were found, in one round without a filter."""

from __future__ import annotations

from collections.abc import Mapping

from medvrag_core.reasoning import weighted_selection
from medvrag_core.reasoning.composition import Stage
from medvrag_core.reasoning.joined_pages import RECIPE, JoinPages
from medvrag_core.reasoning.stages import KeepBest, Present, Read, Retrieve
from medvrag_core.reasoning.weighted_selection import WeighPages, page_reader
from medvrag_core.settings import Profile
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.resources import Resources


def version(profile: Profile) -> str:
    """How pages are joined, where they are."""
    return RECIPE if profile.visrag.generation == "joined_pages" else ""


def prompts(profile: Profile) -> Mapping[str, str]:
    """The prompt about one page, where a model is asked page by page; else the reader has its own prompts."""
    weighs = profile.visrag.generation == "weighted_selection" and profile.reader.name == "vlm"
    return {"weigh": weighted_selection.prompt_version()} if weighs else {}


@register("visrag", "VisRAG: the best pages to the reader, no filter, one round", version=version, prompts=prompts)
def compose(resources: Resources) -> System:
    """Retrieval by the page encoder of the profile, and one of three ways to an answer.

    VisRAG-Ret is the encoder of the profile ``visrag``.
    """
    settings, source = resources.profile.visrag, PageEvidence(resources)
    loop = resources.profile.loop.model_copy(update={"max_rounds": 1})
    found: tuple[Stage, ...] = (Retrieve(source), KeepBest(settings.pages), Present(source, settings.pages))
    if settings.generation == "weighted_selection":
        return Composed(loop, *found, WeighPages(page_reader(resources.reader)))
    reader = resources.reader
    if settings.generation == "joined_pages":
        pixels = resources.profile.reader_model.max_pixels if reader.needs_images else None
        found = (*found, JoinPages(resources.workspace.root / "joined", pixels))
    return Composed(loop, *found, Read(reader, loop))
