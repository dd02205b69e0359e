"""The systems of the main results: whose each is, what it does, and where ours is not theirs.

The one list that chapter 09 and the README go by. What a system is made of is not written down here: it says so itself,
see :attr:`~medvrag_core.systems.base.System.composition`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.records import Question, Record, Trace
from medvrag_core.systems.base import find_system
from medvrag_core.systems.draws import drawn_order
from medvrag_core.systems.resources import Resources

REFERENCE = "medvrag"
"""The system that every other one is compared with."""

_MEDVRAG = "MedVRAG, Table 1 (arXiv 2604.27724)"
_VISRAG = "VisRAG (arXiv 2410.10594)"
_MEDRAG = "MedRAG (arXiv 2402.13178)"
_MEDRGAG = "MedRGAG (arXiv 2510.18297)"
_ABLATION = "MedRGAG, one of its ablations"
_SOURCES = "As medrgag."


class Compared(Record):
    """A system of the main results."""

    system: str
    source: str = Field(description="whose idea it is")
    idea: str
    here: str = Field(description="where ours is another one than theirs")


MAIN_RESULTS = (
    Compared(
        system="no_rag",
        source=_MEDVRAG,
        idea="The reader answers from what it knows.",
        here="The embedded reader knows no medicine, so it guesses.",
    ),
    Compared(
        system="text_rag",
        source=_MEDVRAG,
        idea="Chunks of text in place of pages, one round.",
        here="Chunks found by the dense encoder of the profile; the paper's is BGE, as in the arm text_bge.",
    ),
    Compared(system="page_single", source=_MEDVRAG, idea="Page images and summaries, one round.", here="As there."),
    Compared(
        system="iterative_no_memory",
        source=_MEDVRAG,
        idea="Several rounds, none of which knows what the others found.",
        here="As there.",
    ),
    Compared(
        system="medvrag",
        source=_MEDVRAG,
        idea="Several rounds with a memory bank.",
        here="The prompts are ours; the paper's stand in an appendix that was not at hand.",
    ),
    Compared(
        system="visrag",
        source=_VISRAG,
        idea="The best pages as several images, no filter, one round.",
        here="The page encoder of the profile; VisRAG-Ret is that of the profile visrag.",
    ),
    Compared(
        system="visrag_joined",
        source=_VISRAG,
        idea="The same pages side by side in one image.",
        here="As visrag. An embedded reader gets their texts one after another.",
    ),
    Compared(
        system="visrag_weighted",
        source=_VISRAG,
        idea="An answer from each page alone; that of the highest probability times retrieval weight wins.",
        here="As visrag. An embedded reader tells shares of its options in place of probabilities of a text.",
    ),
    Compared(
        system="evisrag",
        source="EVisRAG (arXiv 2510.09733)",
        idea="The evidence of every page is written down before the answer, which may be: insufficient.",
        here="Its form of a reply, for any model; its trained reader is not part of this.",
    ),
    Compared(
        system="medrag",
        source=_MEDRAG,
        idea="Many chunks, by fused rankings of words and of a dense encoder, one round.",
        here="The dense encoder of the profile in place of MedCPT, as in the arm medrag_rrf2; chunks of this corpus.",
    ),
    Compared(system="medrag_bm25", source=_MEDRAG, idea="The same by words alone.", here="Chunks of this corpus."),
    Compared(
        system="i_medrag",
        source="i-MedRAG (arXiv 2408.00727)",
        idea="Follow-up queries in rounds, each answered from its own chunks; the reader gets queries and answers.",
        here="A query is not asked twice, and a writer that asks for nothing ends the asking.",
    ),
    Compared(
        system="medrgag",
        source=_MEDRGAG,
        idea="Documents are written on what the chunks found lack, and the reader gets a choice of both.",
        here="Searches by the question alone, where the released code adds options. Sources are folders of the corpus.",
    ),
    Compared(system="medrgag_no_retrieval", source=_ABLATION, idea="Written documents alone.", here=_SOURCES),
    Compared(system="medrgag_no_generation", source=_ABLATION, idea="Chunks found alone.", here=_SOURCES),
    Compared(
        system="medrgag_no_completion",
        source=_ABLATION,
        idea="Documents are written for the question, whatever is missing.",
        here=_SOURCES,
    ),
    Compared(system="medrgag_no_selection", source=_ABLATION, idea="The reader gets all that there is.", here=_SOURCES),
    Compared(
        system="medrgag_pages",
        source="this project",
        idea="MedRGAG's stages over page images in MedVRAG's loop; what is missing joins the next query.",
        here="Neither paper tried it.",
    ),
)
"""In the order in which they are shown."""


def find_compared(names: str = "", *, leave_out: str = "") -> tuple[Compared, ...]:
    """The systems named, separated by commas, in the order of the list; all of them without a name, but for some.

    ``medvrag`` is always among them, since the others are compared with it.

    Raises InputError that lists the systems there are.

    >>> [compared.system for compared in find_compared("no_rag")]
    ['no_rag', 'medvrag']
    """
    known = [compared.system for compared in MAIN_RESULTS]
    asked, without = ([name.strip() for name in text.split(",") if name.strip()] for text in (names, leave_out))
    if unknown := [name for name in (*asked, *without) if name not in known]:
        raise InputError(f"'{unknown[0]}' is not in the main results", way_out=f"choose among {', '.join(known)}")
    wanted = set(asked or known) - set(without) | {REFERENCE}
    return tuple(compared for compared in MAIN_RESULTS if compared.system in wanted)


def names_of(compared: Sequence[Compared]) -> list[str]:
    """Names of systems, the reference first: it is answered first, whatever the order of the list."""
    return list({REFERENCE: None} | {one.system: None for one in compared})


def sample_of(questions: Sequence[Question], count: int, *, seed: int) -> list[Question]:
    """``count`` questions, or all for 0, in their order; the same for every system, run and order of the file.

    >>> asked = [Question(id=f"q{n}", question="?", options={"A": "x", "B": "y"}) for n in range(9)]
    >>> few = sample_of(asked, 3, seed=42)
    >>> len(few), few == sample_of(asked[::-1], 3, seed=42)[::-1], len(sample_of(asked, 0, seed=42))
    (3, True, 9)
    """
    chosen = set(drawn_order((question.id for question in questions), seed, "main results")[: count or None])
    return [question for question in questions if question.id in chosen]


def over_reference(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Every system over the reference, as pairs for :func:`~.statistics.contrasts.compare_arms`.

    >>> over_reference(["no_rag", "medvrag"])
    {'no_rag over medvrag': ('medvrag', 'no_rag')}
    """
    return {f"{name} over {REFERENCE}": (REFERENCE, name) for name in names if name != REFERENCE}


def compositions(resources: Resources, names: Sequence[str]) -> dict[str, str]:
    """The stages of every system under the profile of a run, as the system itself tells them."""
    return {name: find_system(name).compose(resources).composition for name in names}


def with_documents(traces: Iterable[Trace]) -> Trace:
    """The first trace in which the reader got a document that was written for the question; without any, the first.

    Raises InputError for no trace.
    """
    first = None
    for trace in traces:
        if any(round_.written for round_ in trace.rounds):
            return trace
        first = first or trace
    if first is None:
        raise InputError("there is no trace to show", way_out="answer questions first")
    return first
