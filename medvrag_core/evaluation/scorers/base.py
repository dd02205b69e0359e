"""Three scorers of one reply: strict (the headline), MIRAGE-compatible and lenient (both only beside it).

*strict* is the parser that the loop itself uses, :func:`~medvrag_core.reasoning.replies.parse_reply`: reasoning is
removed, the last answer block must name exactly one option, and a reply that did not end by itself is no answer (paper
section 3.4). *mirage* behaves as the public MIRAGE script (:mod:`~medvrag_core.evaluation.scorers.mirage`). That script
knows its own format alone and would hand out a letter for every reply of ours; so a reply with an answer block is shown
to it as what the last block holds. *lenient* also reads prose (:mod:`~medvrag_core.evaluation.scorers.lenient`) and
shows how many right answers a format costs.

Reason codes, beside those of the strict parser: ``truncated``, ``refused``, ``aborted`` (the reply did not end by
itself), ``no_reply`` (``reply`` is null: a fault, not a reply), ``fallback`` (MIRAGE's letter for an unreadable reply),
and ``from_...`` codes that say from where the lenient scorer has its label.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from pydantic import Field

from medvrag_core.evaluation.scorers.lenient import read_leniently
from medvrag_core.evaluation.scorers.mirage import mirage_letter
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.records import Record

ScorerName = Literal["strict", "mirage", "lenient"]
SCORERS: tuple[ScorerName, ...] = get_args(ScorerName)
FileScorer = ScorerName | Literal["relaxed"]
"""Scorers of files of replies; ``relaxed`` is for questions without options, which runs do not have."""

UNFINISHED = frozenset({"truncated", "refused", "aborted"})
"""Reasons of replies that did not end by themselves; reports count them apart from unparsed ones."""

_ENDED_BY_ITSELF = frozenset({"", "stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed"})
_ANSWER_BLOCK = re.compile(r"<\s{0,4}answer\s{0,4}>([^<]*)", re.IGNORECASE)
_ENDS = {
    "length": "truncated",
    "max_tokens": "truncated",
    "model_length": "truncated",
    "truncated": "truncated",
    "content_filter": "refused",
    "refusal": "refused",
    "refused": "refused",
    "safety": "refused",
    "empty": "empty",
}


class ReplyToScore(Record):
    """One raw reply with what a scorer may look at.

    ``reply`` is null where a fault left none. ``reasoning`` is what the server put into a field of its own; it is no
    part of the answer.
    """

    id: str
    reply: str | None
    options: dict[str, str] = Field(description="label -> text")
    gold: str | None = None
    finish_reason: str | None = None
    reasoning: str | None = None


class ScoredReply(Record):
    """What a scorer made of a reply; ``correct`` is null without gold, and false where no label could be read."""

    id: str
    label: str | None
    reason: str = Field(description="empty, or why there is no label or how it came about")
    correct: bool | None


def score_reply(reply: ReplyToScore, scorer: ScorerName) -> ScoredReply:
    """Score one reply.

    >>> unreadable = ReplyToScore(id="q", reply="I cannot tell.", options={"A": "x", "B": "y"}, gold="A")
    >>> [score_reply(unreadable, s).label for s in ("strict", "mirage", "lenient")]
    [None, 'A', None]
    """
    label, reason = _READERS[scorer](reply)
    return ScoredReply(
        id=reply.id, label=label, reason=reason, correct=None if reply.gold is None else label == reply.gold
    )


def could_not_read(scored: ScoredReply) -> bool:
    """Whether a reply that ended by itself named no option, also where a letter was handed out all the same."""
    if scored.reason in UNFINISHED or scored.reason == "no_reply":
        return False
    return scored.label is None or scored.reason == "fallback"


def _strict(reply: ReplyToScore) -> tuple[str | None, str]:
    if reply.reply is None:
        return None, "no_reply"
    end = end_of(reply.finish_reason)
    if end:
        return None, end
    parsed = parse_reply(reply.reply, reply.options, must_answer=True)
    return parsed.label, parsed.reason


def _mirage(reply: ReplyToScore) -> tuple[str | None, str]:
    if reply.reply is None:
        return None, "no_reply"
    blocks = _ANSWER_BLOCK.findall(reply.reply)
    letter, found = mirage_letter(blocks[-1] if blocks else reply.reply)
    if letter in reply.options:
        return letter, "" if found else "fallback"
    # The script knows A to D whatever the options are; a letter of no option is wrong there as well.
    return (None, "label_out_of_range") if found else (next(iter(reply.options)), "fallback")


def _lenient(reply: ReplyToScore) -> tuple[str | None, str]:
    end = end_of(reply.finish_reason)
    label, reason = read_leniently(reply.reply or "", reply.options, cut=end == "truncated")
    if not (reply.reply or "").strip() and (reply.reasoning or "").strip():
        # Some servers put the whole reply there although thinking is off (case BC-15).
        label, reason = read_leniently(reply.reasoning or "", reply.options, cut=end == "truncated")
        reason = "from_reasoning_field" if label is not None else "empty"
    if label is None and reply.reply is None:
        return None, "no_reply"
    return label, reason if label is not None else end or reason


_READERS = {"strict": _strict, "mirage": _mirage, "lenient": _lenient}


def end_of(finish_reason: str | None) -> str:
    """How a reply that did not end by itself ended; empty where it did, or where nothing is known."""
    said = (finish_reason or "").strip().casefold()
    return "" if said in _ENDED_BY_ITSELF else _ENDS.get(said, "aborted")
