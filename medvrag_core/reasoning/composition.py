"""How a system is put together: stages that say what they need and make, checked before anything runs.

One round is a :class:`RoundState` that goes through the stages of a :class:`Pipeline`. A stage reads fields that are
there from the start or that an earlier stage made, and returns the state with its own fields filled in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from medvrag_core.errors import CompositionError
from medvrag_core.reasoning.exhibit import Exhibit
from medvrag_core.records import (
    EvidenceItem,
    FilterDecision,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderInput,
    ReaderReply,
    SearchResult,
    StageTime,
    Step,
    Summary,
)


@dataclass(frozen=True)
class RoundState:
    """What is known in one round; None stands for what no stage made yet.

    Attributes
    ----------
    question, number, must_answer, query, bank, history : there from the start, see :class:`ReaderInput`
    found : stage 1
    decision : what is left of it
    exhibit : pages or chunks for the reader
    digest : what each item of the exhibit says about the question; items that say nothing are left out
    gaps : knowledge points that are still missing
    written : documents that were written for this question
    given, reply, parsed, refinement : what the reader got, what it said, and how that reads
    times, steps, flags : what every stage may add to
    """

    question: Question
    number: int
    must_answer: bool
    query: str
    bank: MemoryBank = field(default_factory=MemoryBank)
    history: str = ""
    found: SearchResult | None = None
    decision: FilterDecision | None = None
    exhibit: Exhibit | None = None
    digest: tuple[Summary, ...] | None = None
    gaps: tuple[str, ...] | None = None
    written: tuple[EvidenceItem, ...] | None = None
    given: ReaderInput | None = None
    reply: ReaderReply | None = None
    parsed: ParsedReply | None = None
    refinement: ReaderReply | None = None
    times: tuple[StageTime, ...] = ()
    steps: tuple[Step, ...] = ()
    flags: tuple[str, ...] = ()

    def made(
        self,
        *,
        times: Iterable[StageTime] = (),
        steps: Iterable[Step] = (),
        flags: Iterable[str] = (),
        **fields_made: Any,
    ) -> RoundState:
        """The state with fields filled in, and with more times, steps and flags."""
        return replace(
            self,
            times=(*self.times, *times),
            steps=(*self.steps, *steps),
            flags=(*self.flags, *flags),
            **fields_made,
        )


FROM_THE_START = ("question", "number", "must_answer", "query", "bank", "history")
_ADDED_TO = ("times", "steps", "flags")
_FIELDS = tuple(one.name for one in fields(RoundState))
MADE_BY_STAGES = tuple(name for name in _FIELDS if name not in (*FROM_THE_START, *_ADDED_TO))


class Stage(ABC):
    """One step of a round.

    Attributes
    ----------
    needs : fields of :class:`RoundState` that it reads
    makes : fields that it fills in every time
    may_make : fields that it fills in when there is a reason to; it changes no others, though it may add to ``times``,
        ``steps`` and ``flags``

    Raises
    ------
    ModelError : a model that it asks failed
    """

    needs: ClassVar[tuple[str, ...]]
    makes: ClassVar[tuple[str, ...]]
    may_make: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self, state: RoundState) -> RoundState:
        """The state with what this stage makes; called from several threads at a time."""

    @property
    def label(self) -> str:
        """As it is named to people."""
        return type(self).__name__


class Pipeline:
    """Stages one after another.

    Parameters
    ----------
    stages : in the order in which they run; the last of them must have made ``given``, ``reply`` and ``parsed``

    Raises
    ------
    CompositionError
        A stage needs what no stage before it makes, or names a field that there is not; or no stage replies.
    """

    ends_with: ClassVar[tuple[str, ...]] = ("given", "reply", "parsed")

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages
        there = set(FROM_THE_START)
        for stage in stages:
            for name in (*stage.needs, *stage.makes, *stage.may_make):
                if name not in (*FROM_THE_START, *MADE_BY_STAGES):
                    raise CompositionError(
                        f"stage {stage.label} speaks of '{name}'", way_out=f"fields are {', '.join(_FIELDS)}"
                    )
            for name in (*stage.makes, *stage.may_make):
                if name in FROM_THE_START:
                    raise CompositionError(
                        f"stage {stage.label} makes '{name}', which is there from the start",
                        way_out=f"make one of {', '.join(MADE_BY_STAGES)}",
                    )
            self._require(stage.needs, there, f"stage {stage.label}")
            there |= set(stage.makes)
        self._require(self.ends_with, there, "the end of the pipeline")

    def run(self, state: RoundState) -> RoundState:
        """The state after the last stage.

        Raises
        ------
        ModelError : a model failed
        CompositionError : a stage did not make what it says, or changed what it does not say
        """
        for stage in self.stages:
            after = stage.run(state)
            for name in (*FROM_THE_START, *MADE_BY_STAGES):
                before, now = getattr(state, name), getattr(after, name)
                if name in stage.makes and now is None:
                    raise CompositionError(f"stage {stage.label} did not make '{name}'")
                if name not in (*stage.makes, *stage.may_make) and now is not before:
                    raise CompositionError(f"stage {stage.label} changed '{name}'", way_out="name it in 'makes'")
            state = after
        return state

    def described(self) -> str:
        """The stages as one line, such as ``Retrieve > Filter > Show > Read``."""
        return " > ".join(stage.label for stage in self.stages)

    def _require(self, needed: Iterable[str], there: set[str], where: str) -> None:
        for name in needed:
            if name not in there:
                makers = sorted({kind.__name__ for kind in _kinds_of_stage() if name in getattr(kind, "makes", ())})
                way_out = f"put one of {', '.join(makers)} before it" if makers else "add a stage that makes it"
                raise CompositionError(f"{where} needs '{name}', which no stage before it makes", way_out=way_out)


def _kinds_of_stage() -> set[type[Any]]:
    """Every class of stages that was imported."""
    found: set[type[Any]] = set()
    waiting: list[type[Any]] = [Stage]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update(below)
        waiting.extend(below)
    return found
