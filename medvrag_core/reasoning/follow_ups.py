"""Rounds of follow-up queries before the answer (i-MedRAG, arXiv 2408.00727).

In every round a writer asks up to a few queries, each is searched by itself and answered from its best snippets alone,
and queries and answers join a history that grows. The reader answers once, from question, options and this history, and
gets no snippet. Nothing but the text of a follow-up query is ever searched with.

How a :class:`~medvrag_core.records.Round` tells it:

- A round of queries: ``query`` has its queries in one line, each between bars; ``stage1`` is the fused ranking of their
  searches; ``filter.kept`` and ``shown`` are the snippets that answers were made from, in this order, each once.
  ``steps`` are one ``ask`` and a ``follow_up`` for each query. ``history`` is what the writer was told. ``reply`` holds
  the queries, a line each, and no call: that of the writer is in its step.
- The last round is the reader's. It finds nothing; ``shown`` are the snippets behind the answers in its ``history``,
  all that the reader can have of a page. So a gold page behind an answer counts as shown when the reader errs.

A query that was asked before is not asked again, and its round is flagged ``query_stalled``. A writer that asks for
nothing new ends the asking: its round is kept, without a search, with the reason in ``parsed``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from medvrag_core.errors import ModelError
from medvrag_core.index.fusion import reciprocal_rank_fusion
from medvrag_core.models.reply_text import neutral
from medvrag_core.reasoning.composition import Pipeline, RoundState, Stage
from medvrag_core.reasoning.follow_up_tasks import NO_QUERY, FollowUpAnswerer, QueryWriter
from medvrag_core.reasoning.loop import RoundError, as_round
from medvrag_core.reasoning.next_query import queries_in
from medvrag_core.reasoning.prompts import QUERY_LINE
from medvrag_core.reasoning.sameness import folded
from medvrag_core.reasoning.source import EvidenceSource
from medvrag_core.reasoning.stages import without_options
from medvrag_core.records import (
    FilterDecision,
    ParsedReply,
    Question,
    ReaderInput,
    ReaderReply,
    Round,
    SearchResult,
    StageTime,
    Step,
)

BETWEEN = " | "
"""Between the queries of a round in one line."""
NO_ANSWER = "(no answer found)"


class Ask(Stage):
    """Follow-up queries for what is missing; those that were asked before are left out and flagged.

    Parameters
    ----------
    most : queries
    blind : the options are kept from the writer
    """

    needs: ClassVar = ("question", "history")
    makes: ClassVar = ("gaps", "reply", "parsed")

    def __init__(self, writer: QueryWriter, most: int, *, blind: bool = False) -> None:
        self.writer, self.most, self.blind = writer, most, blind

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        start = time.perf_counter()
        question = without_options(state.question) if self.blind else state.question
        step = self.writer.ask(question, state.history, self.most)
        took = StageTime(step="ask", seconds=time.perf_counter() - start)
        known = set(map(folded, queries_in(state.history)))
        fresh = tuple(query for query in step.names if folded(query) not in known)
        asked = ParsedReply(query_update=BETWEEN.join(fresh)) if fresh else ParsedReply(reason=step.reason or NO_QUERY)
        return state.made(
            gaps=fresh,
            reply=ReaderReply(text="\n".join(fresh), model=step.made_by),
            parsed=asked,
            steps=[step],
            times=[took],
            flags=["query_stalled"] * (len(fresh) < len(step.names)),
        )


class FollowUp(Stage):
    """Searches for each missing point by itself, and answers it from the best snippets of its search alone.

    Parameters
    ----------
    snippets : best of a search, for each answer
    """

    needs: ClassVar = ("question", "number", "history", "gaps")
    makes: ClassVar = ("found", "decision", "given")

    def __init__(self, source: EvidenceSource, answerer: FollowUpAnswerer, snippets: int) -> None:
        self.source, self.answerer, self.snippets = source, answerer, snippets

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        assert state.gaps is not None
        rankings: list[list[str]] = []
        steps: list[Step] = []
        times: list[StageTime] = []
        for query in state.gaps:
            found = self.source.search(query)
            rankings.append([hit.page_id for hit in found.hits])
            start = time.perf_counter()
            best = [self.source.evidence(name) for name in rankings[-1][: self.snippets]]
            steps.append(self.answerer.answer(query, best))
            times += [*found.times, StageTime(step="follow_up", seconds=time.perf_counter() - start)]
        fused = reciprocal_rank_fusion(rankings, sum(map(len, rankings)))
        read = {name for step in steps for name in step.names}
        kept = tuple(hit.page_id for hit in fused if hit.page_id in read)
        return state.made(
            found=SearchResult(hits=fused),
            decision=FilterDecision(kept=kept),
            given=ReaderInput(
                question=state.question,
                round=state.number,
                must_answer=False,
                evidence=tuple(map(self.source.evidence, kept)),
                query=BETWEEN.join(state.gaps),
                history=state.history,
            ),
            times=times,
            steps=steps,
            flags=dict.fromkeys(flag for step in steps for flag in step.flags),
        )


def run_follow_ups(question: Question, asking: Pipeline, answering: Pipeline, rounds: int) -> tuple[Round, ...]:
    """Up to ``rounds`` rounds of queries, and one of the reader.

    Parameters
    ----------
    asking : see :class:`Ask` and :class:`FollowUp`
    answering : must answer, from the history

    Raises
    ------
    RoundError
        A model failed; carries the finished rounds.
    RunStopped
        The run cannot go on, or was asked to stop.
    """
    done: list[Round] = []
    try:
        while len(done) < rounds and (not done or done[-1].query):
            asked = as_round(asking.run(_start(question, done)))
            done.append(asked.model_copy(update={"query": asked.parsed.query_update or ""}))
        last = as_round(answering.run(_start(question, done, must_answer=True)))
    except ModelError as error:
        raise RoundError(error, tuple(done)) from error
    behind = dict.fromkeys(name for round_ in done for step in _answered(round_) for name in step.names)
    return (*done, last.model_copy(update={"shown": tuple(behind)}))


def history_of(rounds: Sequence[Round]) -> str:
    """Queries and answers as lines; what comes from a model or a page can begin no line of its own.

    >>> history_of([])
    ''
    """
    lines: list[str] = []
    for round_ in rounds:
        for step in round_.steps:
            if step.kind == "follow_up":
                lines.append(f"{QUERY_LINE}{round_.number}: {neutral(step.about)}")
                lines += [f"- {neutral(line)}" for line in step.text.splitlines() or [NO_ANSWER]]
    return "\n".join(lines)


def _start(question: Question, done: Sequence[Round], *, must_answer: bool = False) -> RoundState:
    return RoundState(
        question=question,
        number=len(done) + 1,
        must_answer=must_answer,
        query=question.question,
        history=history_of(done),
    )


def _answered(round_: Round) -> list[Step]:
    return [step for step in round_.steps if step.kind == "follow_up" and step.text]
