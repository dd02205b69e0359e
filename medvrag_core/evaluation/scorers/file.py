"""Scores a file of replies line by line: JSONL in, JSONL out, however long it is."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scorers.base import (
    UNFINISHED,
    FileScorer,
    ReplyToScore,
    ScoredReply,
    could_not_read,
    score_reply,
)
from medvrag_core.evaluation.scorers.relaxed import FreeTextReply, score_free_text
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.runs.publish import whole_file
from medvrag_core.strict_json import strict_json

R = TypeVar("R", ReplyToScore, FreeTextReply)
_HELP = "a line needs id, reply and options (label to text); gold, finish_reason and reasoning are optional"
_FREE_HELP = "a line needs id and reply; gold (a text, a number, or a list of them) and finish_reason are optional"


class ScoredFile(Record):
    """What came out of a file of replies.

    Every reply without a label is in exactly one of ``unparsed``, ``unfinished`` and ``no_reply``; letters that the
    MIRAGE rule handed out to unreadable replies are in ``unparsed`` as well.
    """

    scorer: FileScorer
    replies: int = Field(ge=1)
    with_gold: int = Field(description="replies with a gold label; `accuracy` is a share of these")
    correct: int
    accuracy: float | None = Field(description="null where no reply has gold")
    unparsed: int = Field(description="replies in which the scorer found no option")
    unparsed_rate: float = Field(description="of all replies")
    unfinished: int = Field(description="replies that were cut, refused or aborted and have no label")
    no_reply: int = Field(description="lines whose reply is null")
    reasons: dict[str, int] = Field(description="replies by reason code, the plain readings left out")


def score_file(replies: Path, scorer: FileScorer, out: Path) -> ScoredFile:
    """Score every line of ``replies`` and publish ``out``, whole or not at all.

    Lines for ``relaxed`` are :class:`~medvrag_core.evaluation.scorers.relaxed.FreeTextReply`, for the others
    :class:`~medvrag_core.evaluation.scorers.base.ReplyToScore`.

    Raises
    ------
    InputError : the file is missing, holds no line or is ``out`` itself; a line is not UTF-8, no JSON object, or has
        a field that is missing or unusable; an id repeats. Line and field are named, and ``out`` is left as it was
    """
    if out.exists() and replies.exists() and out.samefile(replies):
        raise InputError(f"--out {out}: is the file of replies itself", way_out="choose another name")
    reasons: Counter[str] = Counter()
    count = with_gold = correct = unparsed = unfinished = no_reply = 0
    with whole_file(out) as temporary, temporary.open("w", encoding="utf-8") as target:
        for scored in _scored(replies, scorer):
            target.write(scored.to_json() + "\n")
            count += 1
            with_gold += scored.correct is not None
            correct += scored.correct is True
            unparsed += could_not_read(scored)
            unfinished += scored.reason in UNFINISHED
            no_reply += scored.reason == "no_reply"
            reasons[scored.reason] += 1
        if not count:
            raise InputError(f"{replies}: holds no line", way_out=_FREE_HELP if scorer == "relaxed" else _HELP)
    del reasons[""]
    return ScoredFile(
        scorer=scorer,
        replies=count,
        with_gold=with_gold,
        correct=correct,
        accuracy=correct / with_gold if with_gold else None,
        unparsed=unparsed,
        unparsed_rate=unparsed / count,
        unfinished=unfinished,
        no_reply=no_reply,
        reasons=dict(sorted(reasons.items())),
    )


def _scored(replies: Path, scorer: FileScorer) -> Iterator[ScoredReply]:
    if scorer == "relaxed":
        yield from map(score_free_text, read_free_text(replies))
    else:
        yield from (score_reply(reply, scorer) for reply in read_replies(replies))


def read_replies(path: Path) -> Iterator[ReplyToScore]:
    """One reply a line, one line in memory; raises what :func:`score_file` raises for lines.

    Fields of other names are ignored unless they look like a misspelt known one.
    """
    return _lines(path, ReplyToScore, _HELP, _check_options)


def read_free_text(path: Path) -> Iterator[FreeTextReply]:
    """The same for replies to questions without options."""
    return _lines(path, FreeTextReply, _FREE_HELP, _check_gold)


def _lines(path: Path, kind: type[R], usage: str, check: Callable[[R, str], None]) -> Iterator[R]:
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out="give the path of a .jsonl file")
    seen: dict[str, int] = {}
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, start=1):
            if not raw.strip():
                continue
            where = f"{path}, line {number}"
            reply = _reply(_object(raw, where, usage), where, kind, usage)
            check(reply, where)
            if reply.id in seen:
                raise InputError(f"{where}: field 'id': '{reply.id}' was already used on line {seen[reply.id]}")
            seen[reply.id] = number
            yield reply


def _object(raw: bytes, where: str, usage: str) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text (byte {error.start})", way_out="save the file as UTF-8") from None
    data = strict_json(text, where, way_out="write one object a line")
    if not isinstance(data, dict):
        raise InputError(f"{where}: must be a JSON object, found {type(data).__name__}", way_out=usage)
    return data


def _reply(data: dict[str, Any], where: str, kind: type[R], usage: str) -> R:
    known = list(kind.model_fields)
    for name in [name for name in data if name not in known]:
        near = [n for n in difflib.get_close_matches(name, known, n=1, cutoff=0.85) if n not in data]
        if near:
            raise InputError(f"{where}: unknown field '{name}'", way_out=f"did you mean '{near[0]}'?")
        del data[name]
    if isinstance(data.get("id"), int) and not isinstance(data["id"], bool):
        # Numbers are common as ids; they mean their digits.
        data["id"] = str(data["id"])
    try:
        reply = kind.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {describe_validation_error(error)}", way_out=usage) from None
    if not reply.id.strip() or not reply.id.isprintable():
        raise InputError(f"{where}: field 'id': {reply.id!r} is no usable id", way_out="use printable characters")
    return reply


def _check_gold(reply: FreeTextReply, where: str) -> None:
    if reply.gold is not None and not all(text.strip() for text in reply.gold or ("",)):
        raise InputError(f"{where}: field 'gold' holds no text", way_out="leave it out for a question without gold")


def _check_options(reply: ReplyToScore, where: str) -> None:
    labels = list(reply.options)
    if len(labels) < 2:
        raise InputError(f"{where}: field 'options' holds {len(labels)} option(s)", way_out="give at least 2")
    for label in labels:
        if not label or label != label.strip() or not label.isprintable():
            raise InputError(f"{where}: field 'options': label {label!r} is blank, padded or not printable")
    if len({label.casefold() for label in labels}) < len(labels):
        raise InputError(f"{where}: field 'options': two labels differ in letter case alone")
    if reply.gold is not None and reply.gold not in labels:
        raise InputError(f"{where}: field 'gold': '{reply.gold}' is not among the options {', '.join(labels)}")
