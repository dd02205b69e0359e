"""EVisRAG's form of a reply: observe every page, write down its evidence, think, then answer or say "insufficient".

EVisRAG (VisRAG 2.0, arXiv 2510.09733) is VisRAG's retrieval with a reader that was trained to reply in four blocks. The
form is here, for any model behind the door; the wording of the prompt is ours. What is read of a reply:

- the answer block decides as it does everywhere, see :mod:`medvrag_core.reasoning.replies`; "insufficient to answer" in
  it means no answer, with the reason ``insufficient``, so that abstaining can be told from replies that say nothing;
- the evidence of a page is its own line in the evidence block. Where the form of a reply is broken no line is given to
  any page, the round has the flag ``form_broken``, and a legible answer still counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from medvrag_core.models.reply_text import MAX_CHARACTERS, neutral, without_reasoning
from medvrag_core.reasoning.composition import RoundState, Stage
from medvrag_core.reasoning.evidence_reader import quoted
from medvrag_core.reasoning.judge import judge
from medvrag_core.reasoning.prompts import filled, options_text, version_of
from medvrag_core.reasoning.reader import Reader
from medvrag_core.reasoning.replies import parse_reply, tagged
from medvrag_core.reasoning.sameness import folded
from medvrag_core.reasoning.stages import ENDED_BY_MODEL, as_seen, parsed_reply, reader_input, timed
from medvrag_core.reasoning.vlm_reader import ReaderCall, VlmReader
from medvrag_core.records import ParsedReply, ReaderInput, ReaderReply, Record, StageTime, Step

VERSION = "observed-1"
"""Of the embedded counterpart."""
NOTHING = "no relevant information"
"""What the line of a page says that holds nothing for the question."""
INSUFFICIENT = "insufficient to answer"
"""What the answer block holds when the evidence does not suffice."""

_ABSTENTIONS = frozenset({INSUFFICIENT, "insufficient to answer the question"})
"""Both spellings that EVisRAG's own evaluation takes for an abstention."""
_BLOCKS = ("observe", "evidence", "think", "answer")
_TAG = re.compile(rf"<(/?)\s{{0,4}}({'|'.join(_BLOCKS)})\s{{0,4}}>", re.IGNORECASE)
_LINE = re.compile(r"^[ \t]*\[(\d{1,3})\][ \t]*:", re.MULTILINE)
_MAX_EVIDENCE = 2_000

Observer = Callable[[ReaderInput], ReaderReply]
"""Replies to the pages of a round in the four blocks."""


class ObservedReply(Record):
    """A reply in four blocks, as it was read.

    Attributes
    ----------
    evidence : what each page holds for the question, in the order of the pages; empty text for nothing. None at all
        where the form is broken
    fault : how the form is broken, a code: ``blocks`` (one is missing, stands twice, out of order or inside another,
        or text stands outside of them), ``no_line`` (a page has none), ``two_lines`` (a page has several),
        ``foreign_line`` (of a page that there is not), ``loose_text`` (in front of the first line); empty where not
    """

    evidence: tuple[str, ...] = ()
    fault: str = ""


def observer(reader: Reader) -> Observer:
    """How a reader replies in this form: a model in a call of its own, an embedded reader by its passages."""
    if isinstance(reader, VlmReader):
        return partial(reader.ask, ReaderCall("observe", prompt_version(), "", observe_prompt))
    return EmbeddedObserver(reader)


def prompt_version() -> str:
    """Digest of the template."""
    return version_of("evisrag")


def observe_prompt(given: ReaderInput) -> str:
    """The user turn that asks for the four blocks."""
    return filled("evisrag", given, options=options_text(given.question))


def observed(text: str, pages: int) -> ObservedReply:
    r"""Read the evidence of each of so many pages from a reply; nothing is guessed.

    >>> said = "<observe>two pages</observe><evidence>[1]: 5 mg\n[2]: no relevant information</evidence>"
    >>> observed(said + "<think>so A</think><answer>A</answer>", 2).evidence
    ('5 mg', '')
    >>> observed("It is <answer>A</answer>", 2).fault
    'blocks'
    """
    block = _evidence_block(text[-MAX_CHARACTERS:])
    if block is None:
        return ObservedReply(fault="blocks")
    marks = list(_LINE.finditer(block))
    if block[: marks[0].start() if marks else len(block)].strip():
        return ObservedReply(fault="loose_text")
    numbers = [int(mark.group(1)) for mark in marks]
    if any(not 1 <= number <= pages for number in numbers):
        return ObservedReply(fault="foreign_line")
    if len(set(numbers)) < len(numbers):
        return ObservedReply(fault="two_lines")
    ends = [*(mark.start() for mark in marks), len(block)][1:]
    lines = {
        number: neutral(block[mark.end() : end], _MAX_EVIDENCE)
        for number, mark, end in zip(numbers, marks, ends, strict=True)
    }
    if len(lines) < pages or not all(lines.values()):
        return ObservedReply(fault="no_line")
    ordered = [lines[number] for number in range(1, pages + 1)]
    return ObservedReply(evidence=tuple("" if folded(line) == NOTHING else line for line in ordered))


def _evidence_block(text: str) -> str | None:
    """What stands in the evidence block of a reply that is exactly the four blocks in order; None for any other."""
    tags = list(_TAG.finditer(text))
    wanted = [(closing, name) for name in _BLOCKS for closing in ("", "/")]
    if [(tag.group(1), tag.group(2).lower()) for tag in tags] != wanted:
        return None
    ends = [0, *(tag.end() for tag in tags[1::2])]
    starts = [*(tag.start() for tag in tags[::2]), len(text)]
    if any(text[end:start].strip() for end, start in zip(ends, starts, strict=True)):
        return None
    return text[tags[2].end() : tags[3].start()]


def abstained(text: str, said: ParsedReply) -> bool:
    """Whether a reply that names no option says in its last answer block that the evidence does not suffice."""
    if said.reason != "not_an_option":
        return False
    closed, _ = tagged(without_reasoning(text), "answer")
    return bool(closed) and folded(closed[-1]) in _ABSTENTIONS


class Observe(Stage):
    """The reader's turn in EVisRAG's form; a step tells what each page holds.

    Parameters
    ----------
    observe : replies in the four blocks
    """

    needs: ClassVar = ("question", "number", "must_answer", "query", "bank", "history", "exhibit")
    makes: ClassVar = ("given", "reply", "parsed")

    def __init__(self, observe: Observer) -> None:
        self.observe = observe

    def run(self, state: RoundState) -> RoundState:
        """See :class:`Stage`."""
        given = reader_input(state).model_copy(update={"must_answer": True})
        times: list[StageTime] = []
        reply = timed("observe", self.observe, given, times)
        said = parsed_reply(reply, given)
        if abstained(reply.text, said):
            said = ParsedReply(reason="insufficient")
        given = as_seen(given, reply)
        steps: tuple[Step, ...] = ()
        flags = list(reply.flags)
        if reply.finish_reason not in ENDED_BY_MODEL:
            found = observed(reply.text, len(given.evidence))
            flags += ["form_broken"] if found.fault else []
            steps = tuple(_steps([item.evidence_id for item in given.evidence], found, reply.model))
        return state.made(given=given, reply=reply, parsed=said, times=times, steps=steps, flags=flags)


def _steps(pages: Iterable[str], found: ObservedReply, model: str) -> Iterable[Step]:
    """What each page holds; the call itself stands in the reply of the round."""
    for place, page in enumerate(pages):
        text = found.evidence[place] if found.evidence else ""
        yield Step(
            kind="observe",
            about=page,
            text=text,
            made_by=model,
            reason=found.fault or ("" if text else "nothing_relevant"),
        )


class EmbeddedObserver:
    """An embedded reader in the four blocks: the evidence of a page is its passage that supports an option best.

    It abstains when no passage of any page supports an option, where the reader itself would fall back to the words of
    the question; else it answers as the reader does. Nothing is written that is on no page.

    Parameters
    ----------
    reader : its answer, name and shares of the options are those of the reply
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __call__(self, given: ReaderInput) -> ReaderReply:
        """Deterministic; raises what the reader raises."""
        reply = self.reader.read(given)
        evidence = [_best_passage(given, place) for place in range(len(given.evidence))]
        lines = [f"[{place}]: {text or NOTHING}" for place, text in enumerate(evidence, 1)]
        label = parse_reply(reply.text, given.question.options, must_answer=True).label
        held = sum(map(bool, evidence))
        answer = label if held and label is not None else INSUFFICIENT
        told = [
            f"<observe>{len(lines)} pages, read as text</observe>",
            *("<evidence>", *lines, "</evidence>"),
            f"<think>{held} of {len(lines)} pages hold a passage that supports an option.</think>",
            f"<answer>{answer}</answer>",
        ]
        return reply.model_copy(update={"text": "\n".join(told)})


def _best_passage(given: ReaderInput, place: int) -> str:
    """The passage of one page alone that supports an option best, quoted with its page; empty where none does."""
    alone = judge(given.model_copy(update={"evidence": given.evidence[place : place + 1], "summaries": ()}))
    passages = [alone.passage[label] for label in alone.ranking]
    return next((quoted(passage) for passage in passages if passage is not None), "")
