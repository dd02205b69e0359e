"""MedRGAG's stages over page images in MedVRAG's loop: a combination that neither paper tried."""

from __future__ import annotations

from medvrag_core.errors import SettingsError
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.reasoning.knowledge import embedded
from medvrag_core.reasoning.knowledge.stages import AskForGaps
from medvrag_core.reasoning.stages import Filter, Present, Read, Retrieve
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.medrgag import knowledge_stages, prompts
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.resources import Resources


@register(
    "medrgag_pages",
    "page images and documents written on what they lack; what is missing joins the next query",
    version=lambda profile: embedded.VERSION,
    prompts=prompts,
)
def compose(resources: Resources) -> System:
    """Stages 1 and 2 of MedVRAG, then those of MedRGAG on page summaries, in the loop with its memory bank.

    In the option-blind arm no stage before the reader sees the options either, since what is missing joins the query.
    With a helper model each round takes a call for every page of which the reader gets image or summary.

    Raises
    ------
    SettingsError
        ``medrgag.retrieval`` is off: these are the pages that are found.
    """
    profile, loop, source = resources.profile, resources.profile.loop, PageEvidence(resources)
    if not profile.medrgag.retrieval:
        raise SettingsError("'medrgag.retrieval': medrgag_pages is about pages found", way_out="use medrgag instead")
    completes = profile.medrgag.generation and profile.medrgag.completion
    return Composed(
        loop,
        Retrieve(source),
        Filter(source, MapReduceFilter(resources.ranker, profile.filter)),
        Present(source, loop.pages_shown, loop.summaries_shown),
        *knowledge_stages(resources, blind=loop.refinement == "option_blind"),
        Read(resources.reader, loop),
        *([AskForGaps()] if completes else []),
    )
