"""The backbone alone: the reader sees the question and nothing else (paper Table 1, first controlled row)."""

from __future__ import annotations

from medvrag_core.reasoning.stages import PresentNothing, Read
from medvrag_core.systems.base import Composed, System, register
from medvrag_core.systems.resources import Resources


@register("no_rag", "backbone only, no retrieval")
def compose(resources: Resources) -> System:
    """One forced answer without evidence."""
    loop = resources.profile.loop.model_copy(update={"max_rounds": 1})
    return Composed(loop, PresentNothing(), Read(resources.reader, loop))
