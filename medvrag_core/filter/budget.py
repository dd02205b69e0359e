"""Shards by token budget: what one call of a model has room for (paper section 3.3).

The paper gives 256 summaries of about 120 tokens to a context of 32,768, which leaves some 2,000 tokens for everything
else; a few long summaries overflow it. So a shard is closed by whichever comes first, the count or the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from medvrag_core.filter.base import Candidate, Shard
from medvrag_core.models.reply_text import neutral

SUMMARY_CUT = "summary_cut"
SHORTEST = "…"
"""What is left of a summary that may not have a single word."""


@dataclass(frozen=True)
class Budget:
    """Room of one call.

    Attributes
    ----------
    room : tokens for summaries and reply together
    line : upper bound of the tokens of a summary as it stands in the prompt
    reply : tokens to keep free for the reply when so many summaries are shown; must not fall
    """

    room: int
    line: Callable[[str], int]
    reply: Callable[[int], int]

    def fits(self, tokens: int, summaries: int) -> bool:
        """Whether summaries of ``tokens`` in all leave enough for the reply."""
        return tokens + self.reply(summaries) <= self.room


def shards_in_budget(ordered: Sequence[Candidate], size: int, budget: Budget) -> list[Shard]:
    """Cut candidates, in their order, into shards of at most ``size`` that keep to the budget.

    A summary that alone is over the budget is cut, and its shard is flagged ``summary_cut``. The budget must hold
    :data:`SHORTEST`.
    """
    shards: list[Shard] = []
    part: list[Candidate] = []
    spent, cut = 0, False

    def close() -> None:
        shards.append(Shard(tuple(part), (SUMMARY_CUT,) if cut else ()))

    for candidate in ordered:
        tokens = budget.line(candidate.summary)
        too_long = not budget.fits(tokens, 1)
        if too_long:
            candidate = replace(candidate, summary=cut_summary(candidate.summary, budget))
            tokens = budget.line(candidate.summary)
        if part and (len(part) == size or not budget.fits(spent + tokens, len(part) + 1)):
            close()
            part, spent, cut = [], 0, False
        part.append(candidate)
        spent, cut = spent + tokens, cut or too_long
    if part:
        close()
    return shards


def cut_summary(summary: str, budget: Budget) -> str:
    """The beginning of a summary that is short enough to be alone in a call, ended by an ellipsis."""
    most = budget.room - budget.reply(1)
    text = neutral(summary)
    limit = len(text)
    while limit > 1 and (tokens := budget.line(text)) > most:
        # Tokens grow about evenly with the characters; one character less at least, so that it ends.
        limit = max(1, min(limit - 1, limit * max(most, 0) // tokens))
        text = neutral(text, limit)
    return text
