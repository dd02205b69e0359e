"""VisRAG's weighted selection: an answer from each page alone, and the one of the highest confidence (equations 4, 5).

The confidence in the answer ``a`` of page ``d`` is P(a|q,d) times lambda(q,d). P is the reciprocal of the perplexity of
the answer, so exp of the mean log-probability of its tokens; lambda is the softmax of the retrieval scores of the pages
asked. Three things that decide how the two weigh against each other:

- P is over all tokens of the reply, here the tags around the label too. A model that keeps to the form is sure of them,
  and so a reply of n tokens of which one makes the choice has about the n-th root of the choice's own probability.
  VisRAG asks for the bare letter, so its P is spread wider.
- Lambda is the softmax of scores as they are, at temperature 1. Cosines, as VisRAG-Ret has them, lie between -1 and 1,
  so that no page has more than e^2 times the weight of another, and mostly all have nearly the same. The score of late
  interaction here is the sum of two means of cosines, which is as flat; one that sums over query vectors, as it is
  mostly written, may differ by whole numbers from page to page, and lambda would then give most to the first.
- VisRAG's code decodes with beams, and takes the probability of the best beam; here it is that of the reply as sampled.

An embedded reader tells no probability of a text. Its share of the option that it names stands for P.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from medvrag_core.errors import CompositionError
from medvrag_core.reasoning.composition import RoundState, Stage
from medvrag_core.reasoning.prompts import filled, options_text, version_of
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.stages import parsed_reply, reader_input, timed
from medvrag_core.reasoning.vlm_reader import ReaderCall, VlmReader
from medvrag_core.records import EvidenceItem, ParsedReply, ReaderInput, ReaderReply, StageTime, Step

PageReader = Callable[[ReaderInput], ReaderReply]
"""Answers from the one page of a round."""


def page_reader(reader: Reader) -> PageReader:
    """How a reader answers from one page: a model in a call of its own that tells probabilities, others as ever."""
    if not isinstance(reader, VlmReader):
        return reader.read
    return partial(reader.ask, ReaderCall("weigh", prompt_version(), "", weigh_prompt, logprobs=True))


def prompt_version() -> str:
    """Digest of the template."""
    return version_of("weigh")


def weigh_prompt(given: ReaderInput) -> str:
    """The user turn about one page; it asks for the label alone."""
    return filled("weigh", given, options=options_text(given.question))


def retrieval_weights(scores: Sequence[float]) -> list[float]:
    """Lambda of equation 5: the softmax of finite scores.

    >>> retrieval_weights([3.0, 3.0])
    [0.5, 0.5]
    """
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / sum(weights) for weight in weights]


def answer_probability(reply: ReaderReply, label: str) -> float | None:
    """P(a|q,d): the reciprocal of the perplexity of a reply, or the share that its reader gives the label.

    None where the reply tells neither.
    """
    if reply.mean_logprob is not None:
        return math.exp(reply.mean_logprob)
    return reply.option_scores.get(label)


class WeighPages(Stage):
    """An answer from each page of the exhibit, one page at a time, and the one of the highest confidence.

    Of equal confidences the better rank wins. A page whose reply names no option takes no part; where none does, the
    round has no answer, for the reason of the first page. The reply of the round is that of the page that won, with
    all pages that were sent; the steps tell about every page, and those of the others hold what their calls cost.

    Parameters
    ----------
    read : answers from one page
    """

    needs: ClassVar = ("question", "number", "must_answer", "query", "bank", "history", "found", "exhibit")
    makes: ClassVar = ("given", "reply", "parsed")

    def __init__(self, read: PageReader) -> None:
        self.read = read

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`; raises CompositionError for a page that was shown and not found."""
        given = reader_input(state).model_copy(update={"must_answer": True})
        if not given.evidence:
            nothing = ReaderReply(text="", finish_reason="empty")
            return state.made(given=given, reply=nothing, parsed=ParsedReply(reason="no_page"))
        weights = retrieval_weights(_scores(state, given.evidence))
        times: list[StageTime] = []
        replies = [
            timed("weigh", self.read, given.model_copy(update={"evidence": (page,)}), times) for page in given.evidence
        ]
        pages = [
            _Page(item.evidence_id, reply, *_answer(reply, given), weight)
            for item, reply, weight in zip(given.evidence, replies, weights, strict=True)
        ]
        # The first of equals: the best rank, also where no page takes part and all are equal.
        best = max(range(len(pages)), key=lambda place: (pages[place].confidence, -place))
        steps = [_step(page) for page in pages]
        steps[best] = _uncharged(steps[best])
        seen = tuple(page for reply in replies for page in reply.seen)
        return state.made(
            given=given,
            reply=replies[best].model_copy(update={"seen": seen}),
            parsed=pages[best].said,
            times=[StageTime(step="weigh", seconds=sum(time.seconds for time in times))],
            steps=steps,
            flags=[flag for reply in replies for flag in reply.flags],
        )


@dataclass(frozen=True)
class _Page:
    """A page with its answer; ``said`` names no option where it takes no part."""

    name: str
    reply: ReaderReply
    said: ParsedReply
    probability: float
    weight: float

    @property
    def confidence(self) -> float:
        return -1.0 if self.said.label is None else self.probability * self.weight


def _answer(reply: ReaderReply, given: ReaderInput) -> tuple[ParsedReply, float]:
    said = parsed_reply(reply, given)
    if said.label is None:
        return said, 0.0
    share = answer_probability(reply, said.label)
    return (ParsedReply(reason="no_probability"), 0.0) if share is None else (said, share)


def _scores(state: RoundState, pages: Sequence[EvidenceItem]) -> list[float]:
    assert state.found is not None
    found = {hit.page_id: hit.score for hit in state.found.hits}
    for page in pages:
        if page.evidence_id not in found:
            raise CompositionError(
                f"stage WeighPages was shown '{page.evidence_id}', which the search did not find",
                way_out="put no stage before it that changes the pages",
            )
    return [found[page.evidence_id] for page in pages]


def _step(page: _Page) -> Step:
    reply, label = page.reply, page.said.label
    weighed = f"probability {page.probability:.6g}, weight {page.weight:.6g}, product {page.confidence:.6g}"
    return Step(
        kind="weigh",
        about=page.name,
        text=reply.text if label is None else weighed,
        names=() if label is None else (label,),
        made_by=reply.model,
        reason=page.said.reason,
        call=reply.call,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        attempts=reply.attempts,
        flags=reply.flags,
    )


def _uncharged(step: Step) -> Step:
    """A step without its call, which stands in the reply of the round, so that nothing is counted twice."""
    return step.model_copy(update={"call": "", "prompt_tokens": 0, "completion_tokens": 0, "attempts": 1, "flags": ()})
