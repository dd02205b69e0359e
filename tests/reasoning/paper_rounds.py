"""The stages of the paper's Algorithm 1 in the loop, as the tests of its parts run them."""

from __future__ import annotations

from medvrag_core.filter.base import PageFilter
from medvrag_core.reasoning.composition import Pipeline
from medvrag_core.reasoning.exhibit import Show, as_found
from medvrag_core.reasoning.loop import run_rounds
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.source import EvidenceSource
from medvrag_core.reasoning.stages import Filter, Present, Read, Retrieve
from medvrag_core.records import Question, Round
from medvrag_core.settings import LoopSettings


def paper_rounds(
    question: Question,
    source: EvidenceSource,
    page_filter: PageFilter,
    reader: Reader,
    loop: LoopSettings,
    show: Show = as_found,
) -> tuple[Round, ...]:
    stages = (
        Retrieve(source),
        Filter(source, page_filter),
        Present(source, loop.pages_shown, loop.summaries_shown, show),
        Read(reader, loop),
    )
    return run_rounds(question, Pipeline(*stages), loop)
