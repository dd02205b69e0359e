"""Reads replies strictly: an answer is the label that the last answer block names, or nothing.

The same parser serves embedded readers and vision-language models. It never guesses: a reply that does
not name exactly one option is unparsed, with a reason code, and counts as wrong (paper section 3.4).

Reason codes: ``empty``, ``no_tag``, ``unclosed_tag``, ``placeholder``, ``label_out_of_range``,
``several_labels``, ``negated``, ``not_an_option``. The loop adds ``truncated`` and ``refused`` for calls that the
model ended without a reply.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from medvrag_core.models.reply_text import first_json, neutral, without_reasoning
from medvrag_core.records import ParsedReply

log = logging.getLogger(__name__)

MAX_QUERY = 500
MAX_FINDINGS = 20
MAX_FINDING = 400
MAX_NOTE = 1_000
_MAX_ANSWER = 1_000

_ANSWER_PLACEHOLDERS = frozenset(
    {"letter", "label", "option", "option letter", "option label", "the letter", "your answer", "answer", "x", "text"}
)
_QUERY_PLACEHOLDERS = frozenset({"query", "your query", "refined query", "new query", "refined search query", "text"})
_NOTE_PLACEHOLDERS = frozenset({"fact (page id)", "what is still missing and why"})
_WRAPPERS = " \t\r\n*_`~$\"'“”‘’«»()[]{}<>.:;,!?\\"
_LEAD = re.compile(
    r"^(?:the\s+)?(?:(?:correct|final|best)\s+)?(?:answer|option|choice)(?:\s+is)?\s*[:=]?\s+(?=\S)", re.I
)
_BOXED = re.compile(r"\\(?:boxed|text|textbf|mathbf|mathrm)\s*")
_LABEL_AND_TEXT = re.compile(
    r"^[(\[*_\s]{0,6}([A-Za-z]|\d{1,2})[*_]{0,3}\s{0,3}(?:[)\].:]|[-–—](?=\s))[*_]{0,3}\s*(\S.*)$", re.S
)
_TEXT_AND_LABEL = re.compile(r"^(\S.*?)\s*[(\[]([A-Za-z]|\d{1,2})[)\]][.\s]*$", re.S)
_DENIAL = re.compile(r"\b(?:wrong|incorrect|false|untrue|(?:ruled|rule) out|excluded|unlikely|unsupported)\b", re.I)
_NEGATION = re.compile(r"\b(?:not|neither|nor|never|cannot|except|isn't|rather than|instead of)\b", re.I)


def parse_reply(text: str, options: Mapping[str, str], must_answer: bool = False) -> ParsedReply:
    """Read one reply.

    A valid answer wins over a query. Reasoning is removed first, the last answer block decides, blocks that
    only repeat the format (``<answer>LETTER</answer>``) are skipped.

    Parameters
    ----------
    text : the reply as the reader gave it
    options : label -> text
    must_answer : the round demanded an answer; a query instead gets the reason ``no_tag``

    Examples
    --------
    >>> parse_reply("It is <answer>**b**</answer>", {"A": "yes", "B": "no"}).label
    'B'
    >>> parse_reply("I would pick B.", {"A": "yes", "B": "no"}).reason
    'no_tag'
    >>> parse_reply('<query_update>renal dose</query_update><notes>{"findings": "eGFR 40"}</notes>', {}).findings
    ('eGFR 40',)
    """
    spoken = without_reasoning(text)
    findings, note = _notes(spoken)
    label, reason = _answer(spoken, options)
    if label is not None:
        return ParsedReply(label=label, findings=findings, notes=note)
    query = _query(spoken)
    if query is not None and not must_answer:
        # An answer block that cannot be read beside a readable query: the reader is not done, so it may ask.
        return ParsedReply(query_update=query, findings=findings, notes=note)
    if not spoken.strip():
        reason = "unclosed_tag" if text.strip() else "empty"
    return ParsedReply(query_update=query, findings=findings, notes=note, reason=reason)


# --- tags ---------------------------------------------------------------------------------


def tagged(text: str, name: str) -> tuple[list[str], str | None]:
    """Contents of closed blocks, and what follows a last opening tag that is never closed (else None).

    An opening tag inside an open block starts the block anew, so a reply that quotes the format is read right.
    """
    closed: list[str] = []
    start: int | None = None
    for tag in re.finditer(rf"<(/?)\s{{0,4}}{name}\s{{0,4}}>", text, re.IGNORECASE):
        if not tag.group(1):
            start = tag.end()
        elif start is not None:
            closed.append(text[start : tag.start()])
            start = None
    return closed, None if start is None else text[start:]


def _is_placeholder(content: str, words: frozenset[str]) -> bool:
    folded = _folded(content)
    return folded in words or (not folded and any(c in content for c in ".…?_"))


# --- answers ------------------------------------------------------------------------------


def _answer(text: str, options: Mapping[str, str]) -> tuple[str | None, str]:
    closed, unclosed = tagged(text, "answer")
    outcome: tuple[str | None, str] = (None, "unclosed_tag" if unclosed is not None else "no_tag")
    for content in reversed(closed):
        label, reason = _option_named(content, options)
        if label is not None:
            return label, ""
        if reason != "placeholder":
            return None, reason
        outcome = (None, reason)
    return outcome


def _option_named(content: str, options: Mapping[str, str]) -> tuple[str | None, str]:
    """The one option that a block names, or why there is none."""
    content = unicodedata.normalize("NFKC", content).strip()
    if not content:
        return None, "empty"
    if len(content) > _MAX_ANSWER:
        return None, "not_an_option"
    labels = {label.casefold(): label for label in options}
    bare = _folded(_LEAD.sub("", _BOXED.sub("", content)))
    if bare in labels:
        return labels[bare], ""
    spoken = (_plain(content), _plain(_LEAD.sub("", content)))
    by_text = [label for label, text in options.items() if _plain(text) and _plain(text) in spoken]
    if by_text:
        return (by_text[0], "") if len(by_text) == 1 else (None, "several_labels")
    if _is_placeholder(content, _ANSWER_PLACEHOLDERS):
        return None, "placeholder"
    if re.fullmatch(r"[a-z]|\d{1,2}", bare):
        return None, "label_out_of_range"
    return _label_with_text(_LEAD.sub("", content), options, labels)


def _label_with_text(content: str, options: Mapping[str, str], labels: Mapping[str, str]) -> tuple[str | None, str]:
    named = _labels_in(content, labels)
    if _NEGATION.search(content) and named and not _LABEL_AND_TEXT.match(content):
        return None, "negated"
    for pattern, label_group, text_group in ((_LABEL_AND_TEXT, 1, 2), (_TEXT_AND_LABEL, 2, 1)):
        found = pattern.match(content)
        if not found:
            continue
        label, rest = found.group(label_group).casefold(), _plain(found.group(text_group))
        if label not in labels:
            return None, "label_out_of_range"
        if rest == _plain(options[labels[label]]):
            return labels[label], ""
        if any(rest == _plain(text) for text in options.values()):
            return None, "several_labels"
        if _denies(rest) and not _denies(_plain(options[labels[label]])):
            return None, "negated"
        if label_group == 1 and not (_labels_in(found.group(text_group), labels, strict=True) - {labels[label]}):
            return labels[label], ""
    return None, "several_labels" if len(named) > 1 else "not_an_option"


def _denies(text: str) -> bool:
    """Whether a text says that something is not so; an option of which this is true may be answered with its text."""
    return bool(_NEGATION.search(text.replace("’", "'")) or _DENIAL.search(text))


def _labels_in(text: str, labels: Mapping[str, str], *, strict: bool = False) -> set[str]:
    """Labels standing alone as capitals; ``strict`` wants a sign that a label is meant, since "A" and "I" are words."""
    pattern = (
        r"(?:\b(?:or|and|option|nor)\s+|[/,(&]\s*|^)([A-Z])\b(?!['’\w])|\b([A-Z])[)\]:]"
        if strict
        else r"(?<![\w'’])([A-Z])(?![\w'’])()"
    )
    found = {(a or b).casefold() for a, b in re.findall(pattern, text)}
    return {labels[name] for name in found if name in labels}


def _folded(text: str) -> str:
    """A label or placeholder without letter case and without anything that may be wrapped around it."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().strip(_WRAPPERS).split())


def _plain(text: str) -> str:
    """Option text without letter case, Unicode form, quotes, emphasis and final period.

    Signs that carry meaning stay: ``<5`` is not ``>5``, and ``.5 mg`` is not ``5 mg``.
    """
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().translate(_DASHES).split())
    return folded.strip(" *_`\"'“”‘’«»").rstrip(" .,;:!")


_DASHES = {ord(c): "-" for c in "‐‑‒–—−"}


# --- queries and notes --------------------------------------------------------------------


def _query(text: str) -> str | None:
    closed, unclosed = tagged(text, "query_update")
    if unclosed is not None:
        closed.append(re.split(r"<\s{0,4}/?\s{0,4}notes", unclosed, maxsplit=1, flags=re.IGNORECASE)[0])
    for content in reversed(closed):
        if not _is_placeholder(content, _QUERY_PLACEHOLDERS):
            query = neutral(content, MAX_QUERY)
            if query:
                return query
    return None


def _notes(text: str) -> tuple[tuple[str, ...], str]:
    """Findings and note; JSON where it can be found, else the plain text becomes the note."""
    closed, unclosed = tagged(text, "notes")
    content = (closed[-1] if closed else unclosed or "").strip()
    if not content:
        return (), ""
    value = first_json(content)
    if isinstance(value, list):
        value = {"findings": value}
    if not isinstance(value, dict):
        return (), neutral(content, MAX_NOTE)
    raw = value.get("findings", value.get("key_findings", ()))
    if isinstance(raw, str | int | float):
        log.info("notes held one finding in place of a list")
        raw = [raw]
    findings = [neutral(str(item), MAX_FINDING) for item in raw if _is_fact(item)] if isinstance(raw, list) else []
    kept = tuple(dict.fromkeys(f for f in findings if f and f.casefold() not in _NOTE_PLACEHOLDERS))[:MAX_FINDINGS]
    note = value.get("note", value.get("notes", ""))
    said = neutral(note, MAX_NOTE) if isinstance(note, str) else ""
    return kept, "" if said.casefold() in _NOTE_PLACEHOLDERS else said


def _is_fact(item: Any) -> bool:
    return isinstance(item, str | int | float) and not isinstance(item, bool)
