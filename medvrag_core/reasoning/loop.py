"""The loop of paper Algorithm 1: rounds of a pipeline, until answered or out of rounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from medvrag_core.errors import ModelError
from medvrag_core.models.outcomes import failure_kind
from medvrag_core.reasoning.composition import Pipeline, RoundState
from medvrag_core.reasoning.memory import MAX_FINDINGS, new_findings, remember
from medvrag_core.reasoning.prompts import history_text
from medvrag_core.reasoning.sameness import folded
from medvrag_core.records import FilterDecision, MemoryBank, ParsedReply, Question, Round
from medvrag_core.settings import LoopSettings


class RoundError(ModelError):
    """A round could not be finished.

    Attributes
    ----------
    rounds : what was finished before
    kind : how the call failed, see :func:`~medvrag_core.models.outcomes.failure_kind`
    """

    def __init__(self, cause: ModelError, rounds: tuple[Round, ...]) -> None:
        again = "run again: finished questions are kept, this one is asked anew"
        super().__init__(cause.problem, way_out=cause.way_out or again)
        self.rounds = rounds
        self.kind = failure_kind(cause)


def run_rounds(question: Question, pipeline: Pipeline, settings: LoopSettings) -> tuple[Round, ...]:
    """Answer one question in at most ``settings.max_rounds`` rounds.

    Round 1 searches with the question alone, never with its options (MIRAGE's rule). A round that
    neither answers nor asks ends the loop, since asking the same thing again would be a re-roll; so does a
    reply that the model cut short, refused or left empty. The last round must answer; a query it asks for instead
    is not followed.

    Flags of a round: those of its stages, such as ``filter_fallback`` (a filter call gave no ranking) and
    ``foreign_page_id`` (a new finding names a page that was not shown in the round); ``query_stalled`` (it asks for a
    query that was asked before); ``same_pages`` (it showed exactly the pages of the round before); ``bank_full``
    (findings were left out of the bank).

    Raises
    ------
    RoundError
        A model failed; carries the finished rounds.
    RunStopped
        The run cannot go on, or was asked to stop.
    """
    progress = Progress(question, query=question.question)
    while not progress.ended:
        progress = next_round(progress, pipeline, settings)
    return progress.rounds


@dataclass(frozen=True)
class Progress:
    """Where a question stands between two rounds.

    Attributes
    ----------
    query : what the next round searches with
    bank : what the finished rounds left in the memory bank
    rounds : finished ones
    ended : there is no next round
    """

    question: Question
    query: str
    bank: MemoryBank = field(default_factory=MemoryBank)
    rounds: tuple[Round, ...] = ()
    ended: bool = False


def next_round(progress: Progress, pipeline: Pipeline, settings: LoopSettings) -> Progress:
    """One round more; :func:`run_rounds` is this until it has ended, and raises the same.

    A query that was put in the place of the one asked for is searched with like any other.
    """
    rounds, bank, number = progress.rounds, progress.bank, len(progress.rounds) + 1
    state = RoundState(
        question=progress.question,
        number=number,
        must_answer=number == settings.max_rounds,
        query=progress.query,
        bank=bank if settings.memory == "bank" else MemoryBank(),
        # The bank that is not shown still says how long the history may be.
        history=history_text(rounds, bank) if settings.memory == "history" else "",
    )
    try:
        done = as_round(pipeline.run(state))
    except ModelError as error:
        raise RoundError(error, rounds) from error
    wanted, flags = done.parsed.query_update, list(done.flags)
    if rounds and set(done.shown) == set(rounds[-1].shown):
        flags.append("same_pages")
    asked = {folded(query) for query in (*(earlier.query for earlier in rounds), progress.query)}
    if wanted is not None and folded(wanted) in asked:
        flags.append("query_stalled")
    goes_on = done.parsed.label is None and wanted is not None and number < settings.max_rounds
    if goes_on and len(bank.key_findings) + len(new_findings(bank, done.parsed.findings)) > MAX_FINDINGS:
        flags.append("bank_full")
    rounds = (*rounds, done.model_copy(update={"flags": tuple(dict.fromkeys(flags))}))
    if not goes_on or wanted is None:
        return replace(progress, rounds=rounds, ended=True)
    bank = remember(bank, number, done.parsed.findings, done.parsed.notes)
    return replace(progress, query=wanted, bank=bank, rounds=rounds)


def verdict(rounds: tuple[Round, ...]) -> ParsedReply:
    """What the last round says; a query in place of a demanded answer is no answer."""
    return rounds[-1].parsed


def as_round(state: RoundState) -> Round:
    """The record of a round that went through a pipeline."""
    assert state.given is not None and state.reply is not None and state.parsed is not None
    return Round(
        number=state.number,
        query=state.query,
        stage1=() if state.found is None else state.found.hits,
        filter=state.decision or FilterDecision(kept=()),
        shown=tuple(
            name
            for item in state.given.evidence
            if not item.written_by
            for name in item.stands_for or (item.evidence_id,)
        ),
        summaries_shown=tuple(s.page_id for s in state.given.summaries),
        bank_before=state.bank,
        history=state.history,
        reply=state.reply,
        parsed=state.parsed,
        refinement=state.refinement,
        times=state.times,
        flags=state.flags,
        steps=state.steps,
        written=tuple(item for item in state.given.evidence if item.written_by),
    )
