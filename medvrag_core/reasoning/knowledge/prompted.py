"""The four tasks done by language models; the wording of the prompts is ours, see ``prompts/helper_*.md``.

The released code (github.com/ll0ruc/MedRGAG) asks gpt-4o-mini to summarize, explore and select, and
Llama-3.1-8B-Instruct to write. Replies are JSON but for the documents. They are parsed strictly: what does not have the
form is ``unreadable`` and never mended, and numbers of documents that there are not are dropped and counted (the
released code takes them modulo the number of documents).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medvrag_core.models.base import ChatModel
from medvrag_core.models.reply_text import first_json, neutral
from medvrag_core.reasoning.helper_calls import ask_helper
from medvrag_core.reasoning.knowledge.base import (
    NONE_SELECTED,
    NOTHING_USEFUL,
    UNREADABLE,
    Explorer,
    Generator,
    Integrator,
    Summarizer,
)
from medvrag_core.reasoning.sameness import folded
from medvrag_core.records import EvidenceItem, Question, Step, Summary

SUMMARY_TOKENS, GAPS_TOKENS, DOCUMENT_TOKENS, SELECTION_TOKENS = 320, 256, 512, 768
"""Longest replies; the documents of the released code are cut at 256 tokens, ours are left out where they are cut."""
MAX_SUMMARY, MAX_GAP, MAX_DOCUMENT = 1_200, 120, 4_000
"""Most characters that are kept of each."""
MAX_SHOWN = 6_000
"""Most characters of a document in a prompt, so that ten fit; a longer page is judged by its beginning."""
_NEEDS = 8
_NOTHING_SAID = frozenset(map(folded, ("no useful information", "no useful information found", "none", "empty")))
_PLACEHOLDERS = frozenset(map(folded, ("the facts, or empty", "title")))
"""What stands in the prompts for what is to be said; small models give it back."""


class _Prompted:
    def __init__(self, model: ChatModel, at_once: int = 1) -> None:
        self.model, self.at_once = model, at_once


class PromptedSummarizer(_Prompted, Summarizer):
    """One call a document.

    Parameters
    ----------
    model : the door to the model; run it without thinking
    at_once : calls of one question at one time
    """

    def summarize(self, question: Question, document: EvidenceItem) -> Step:
        """See :class:`Summarizer`."""
        step = ask_helper(
            self.model,
            "summarize",
            about=document.evidence_id,
            max_tokens=SUMMARY_TOKENS,
            reply_schema=_SUMMARY,
            question=_asked(question),
            options=_options(question),
            document=neutral(document.text, MAX_SHOWN),
        )
        return _read(step, _summary)


class PromptedExplorer(_Prompted, Explorer):
    """One call; see :class:`PromptedSummarizer`."""

    def explore(self, question: Question, digest: Sequence[Summary], most: int) -> Step:
        """See :class:`Explorer`."""
        step = ask_helper(
            self.model,
            "explore",
            max_tokens=GAPS_TOKENS,
            reply_schema=_gaps_schema(most),
            question=_asked(question),
            options=_options(question),
            found="\n".join(f"- {neutral(summary.text)}" for summary in digest) or "(nothing useful was found)",
            most=str(most),
        )
        return _read(step, lambda value: _gaps(value, most))


class PromptedGenerator(_Prompted, Generator):
    """One call a document; the prompt has no place for options. See :class:`PromptedSummarizer`."""

    def generate(self, question: Question, point: str, number: int = 1, of: int = 1) -> Step:
        """See :class:`Generator`."""
        # Equal requests would bring the stored reply again, so each says which one it is.
        others = f" This is document {number} of {of}: take another part of it than the others do." if of > 1 else ""
        step = ask_helper(
            self.model,
            "generate",
            about=point,
            max_tokens=DOCUMENT_TOKENS,
            question=_asked(question),
            subject=point or f"What one has to know to answer the question.{others}",
        )
        text = neutral(step.text, MAX_DOCUMENT)
        return step.model_copy(update={"text": text, "reason": step.reason or ("" if text else UNREADABLE)})


class PromptedIntegrator(_Prompted, Integrator):
    """One call; documents are shown by number, so that a reply cannot invent one. See :class:`PromptedSummarizer`."""

    def select(self, question: Question, documents: Sequence[EvidenceItem], most: int) -> Step:
        """See :class:`Integrator`; flags count numbers that were dropped."""
        step = ask_helper(
            self.model,
            "select",
            max_tokens=SELECTION_TOKENS,
            reply_schema=_selection_schema(len(documents), most),
            question=_asked(question),
            options=_options(question),
            # A line each: what stands in a document cannot begin another one.
            documents="\n".join(f"{n}. {neutral(item.text, MAX_SHOWN)}" for n, item in enumerate(documents, start=1)),
            shown=str(len(documents)),
            most=str(most),
        )
        return _read(step, lambda value: _selection(value, documents, most))


@dataclass(frozen=True)
class Selection:
    """Numbers that a reply selects, in its order, and how many of its entries were dropped and why.

    Attributes
    ----------
    strangers : entries that are no number of a document
    repeated : numbers that came before
    beyond : numbers after the most that may be selected
    """

    numbers: tuple[int, ...]
    strangers: int = 0
    repeated: int = 0
    beyond: int = 0

    @property
    def flags(self) -> tuple[str, ...]:
        """What was dropped, counted."""
        counted = {"strangers": self.strangers, "repeated": self.repeated, "beyond": self.beyond}
        return tuple(f"{name}={count}" for name, count in counted.items() if count)


def parse_selection(listed: Sequence[Any], shown: int, most: int) -> Selection:
    """The numbers from 1 to ``shown`` in a list, each once, ``most`` at most.

    Nothing is mended: text, fractions and truth values are no numbers, and 13 of 10 documents is none of them.

    >>> parse_selection([7, 2, 13, 7, "4", 0, 1, 5], shown=10, most=3)
    Selection(numbers=(7, 2, 1), strangers=3, repeated=1, beyond=1)
    """
    valid = [n for n in listed if type(n) is int and 1 <= n <= shown]
    unique = list(dict.fromkeys(valid))
    return Selection(
        numbers=tuple(unique[:most]),
        strangers=len(listed) - len(valid),
        repeated=len(valid) - len(unique),
        beyond=max(0, len(unique) - most),
    )


# --- what a reply says --------------------------------------------------------------------


def _read(step: Step, parse: Callable[[Mapping[str, Any]], dict[str, Any] | None]) -> Step:
    """The step with what its reply says; a reply without the form keeps its text, for people to read."""
    if step.reason:
        return step
    # A mark such as [1] before the object is no reply.
    value = first_json(step.text[max(0, step.text.find("{")) :])
    said = parse(value) if isinstance(value, dict) else None
    if said is None:
        return step.model_copy(update={"reason": UNREADABLE})
    return step.model_copy(update=said | {"flags": (*step.flags, *said.get("flags", ()))})


def _summary(value: Mapping[str, Any]) -> dict[str, Any] | None:
    useful, text = value.get("useful"), value.get("summary", "")
    if not isinstance(useful, bool) or not isinstance(text, str):
        return None
    text = neutral(text, MAX_SUMMARY)
    if not useful or folded(text) in _NOTHING_SAID:
        return {"text": "", "reason": NOTHING_USEFUL}
    return {"text": text} if text and folded(text) not in _PLACEHOLDERS else None


def _gaps(value: Mapping[str, Any], most: int) -> dict[str, Any] | None:
    listed = value.get("missing")
    if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
        return None
    titles: dict[str, str] = {}
    for entry in listed:
        titles.setdefault(folded(entry), neutral(entry, MAX_GAP))
    if _PLACEHOLDERS & titles.keys():
        return None
    names = tuple(title for said, title in titles.items() if said and said not in _NOTHING_SAID)
    cut = {"flags": (f"beyond={len(names) - most}",)} if len(names) > most else {}
    return {"text": "", "names": names[:most], **cut}


def _selection(value: Mapping[str, Any], documents: Sequence[EvidenceItem], most: int) -> dict[str, Any] | None:
    listed = value.get("selected")
    if not isinstance(listed, list):
        return None
    chosen = parse_selection(listed, len(documents), most)
    names = tuple(documents[number - 1].evidence_id for number in chosen.numbers)
    return {
        "text": "; ".join(_needs(value.get("needs"))),
        "names": names,
        "flags": chosen.flags,
        "reason": "" if names else NONE_SELECTED,
    }


def _needs(listed: Any) -> list[str]:
    """The pieces of knowledge that a selection is said to rest on; told to people, nothing follows from them."""
    entries = listed if isinstance(listed, list) else []
    said = [entry.get("need") for entry in entries if isinstance(entry, dict)]
    return [neutral(need, MAX_GAP) for need in said if isinstance(need, str)][:_NEEDS]


# --- what is asked ------------------------------------------------------------------------


def _asked(question: Question) -> str:
    """The question, and below it the text that comes with it."""
    return f"{question.question}\n{question.context}".strip()


def _options(question: Question) -> str:
    return "\n".join(f"{neutral(k)}) {neutral(v)}" for k, v in question.options.items()) or "(not shown)"


_TEXT: dict[str, Any] = {"type": "string"}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    """Schema of an object with these fields and no others, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_SUMMARY = _object(useful={"type": "boolean"}, summary=_TEXT)


def _gaps_schema(most: int) -> dict[str, Any]:
    return _object(missing={"type": "array", "items": _TEXT, "maxItems": most})


def _selection_schema(shown: int, most: int) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": shown}, "maxItems": shown}
    needs = {"type": "array", "items": _object(need=_TEXT, documents=numbers), "maxItems": _NEEDS}
    return _object(needs=needs, selected=numbers | {"minItems": 1, "maxItems": min(most, shown)})
