"""The lenient scorer: a diagnostic that also reads prose, wrappers and look-alike letters.

It starts from the strict parser and goes on only where that found nothing: an answer block that names several labels,
denies one or names a label that no option has stays unread. Then, in this order: the same text with look-alike letters
and markup folded (``from_folded``), an answer block that is never closed (``from_unclosed_tag``), the last statement
such as ``answer: C`` or ``I would pick B`` (``from_statement``), and a line of its own (``from_line``).

A letter counts only as a capital that stands alone; "A" and "I" as words do not (cases BC-03 and BC-04). Letters that
are merely mentioned (vitamin C, hepatitis B) are never taken.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping

from medvrag_core.models.reply_text import MAX_CHARACTERS, without_reasoning
from medvrag_core.reasoning.replies import parse_reply

_Read = tuple[str | None, str]

_FIRM = frozenset({"several_labels", "negated", "label_out_of_range"})
"""Reasons that end the search: the reply did say something, and it was no single option."""

_MAX_STATEMENT = 400
_MAX_STATEMENTS = 50
# Cyrillic and Greek capitals that look like Latin ones, and characters without width.
_LOOK_ALIKES = str.maketrans(
    dict(zip("АВСЕНІЈΑΒΕΗΙ", "ABCEHIJABEHI", strict=True))
    | dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad", "")
)
_MARKUP = re.compile(r"</?(?:b|i|u|em|strong|code|span|p|br)\s{0,2}/?>", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"<\s{0,4}(/?)\s{0,4}answer\s{0,4}>", re.IGNORECASE)

_WORD_AFTER = r"(?!['’\w])(?!\s+(?!(?:because|since|as|is|due|based|given|which|and|or|but)\b)[a-z0-9])"
_LETTER = rf"(?:[B-HJ-Z](?!['’\w])|[AI]{_WORD_AFTER}|\d{{1,2}}(?![\w.%]))"
_STATES = r"""["'*_]{0,4}\s{0,4}(?:(?:is|(?:would|should|must|seems\ to)\ be)\b\s{0,4}:?|[:=]|[-–]\s)"""
_CUE = re.compile(
    rf"""
    \banswer(?:[ _]choice)?(?:\ to\ (?:the|this)\ question)?{_STATES}
    | \b(?:correct|best|final|right|my)\s(?:option|choice|pick){_STATES}
    | \b(?:pick|choose|chose|select|go\ with|opt\ for|settle\ on)\b
    | \\boxed\s{{0,4}}(?=\{{)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LETTER_FIRST = re.compile(
    rf"(?<![\w'’])(?<![A-Z][,/]\s)(?<!\bor\s)(?<!\band\s)(?P<letter>{_LETTER})[)*_]{{0,4}}\s(?:is|seems|would\sbe)\s(?:the\s)?"
    r"(?:correct|right|(?:best|(?:most\s)?(?:likely|appropriate))\s(?:answer|option|choice))\b"
)
_OPENING = re.compile(
    r"(?:(?:definitely|clearly|probably|(?:most\s)?likely|therefore|thus)[\s,:]{1,3})?"
    r"[\s*_`$\"'“‘(\[{]{0,12}(?:\\(?:text|textbf|mathbf|mathrm)\s{0,2}\{)?(?:(?:the\s)?(?:option|choice|letter)\s{1,2})?"
    rf"[*_(\"'\[]{{0,4}}(?P<letter>{_LETTER})",
    re.IGNORECASE,
)
_ANOTHER = re.compile(
    r"[\s)*_\]\"'}]{0,6}(?:[,/&+|>;→]\s{0,2}(?:and\s|or\s)?|(?:and|or)\s(?:maybe\s|possibly\s|perhaps\s)?)(?:option\s)?[(*\"'\[]{0,3}"
    rf"(?P<letter>{_LETTER})"
)
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|never|cannot|neither|wrong|incorrect)|n['’]t)\W{1,3}(?:\w{1,12}\W{1,2}){0,2}$", re.IGNORECASE
)
_DENIAL = re.compile(rf"\s{{0,3}}(?:definitely |certainly |clearly )?not\s(?:option\s)?(?P<letter>{_LETTER})")


def read_leniently(text: str, options: Mapping[str, str], *, cut: bool = False) -> _Read:
    r"""The label that a reply names in any readable form, and from where it comes or why there is none.

    Parameters
    ----------
    text : the reply, untrusted
    options : label -> text
    cut : the token limit ended the reply, so its last sentence or open answer block may have gone on

    Examples
    --------
    >>> options = {"A": "retinal toxicity", "B": "hearing loss", "C": "renal failure"}
    >>> read_leniently("I would pick B, a safe choice in renal failure.", options)
    ('B', 'from_statement')
    >>> read_leniently("Answer:\n\nAnswer: C", options)
    ('C', 'from_statement')
    >>> read_leniently("I cannot tell from these pages.", options)
    (None, 'no_tag')
    """
    label, reason = _strictly(text, options)
    if label is not None or reason in _FIRM:
        return label, reason
    text = _folded(text[-MAX_CHARACTERS:])
    options = {name: _folded(said) for name, said in options.items()}
    label, reason = _strictly(text, options)
    if label is not None or reason in _FIRM:
        return label, "from_folded" if label is not None else reason
    spoken = without_reasoning(text)
    if reason == "not_an_option":
        # A block that says something in other words is read, and nothing outside of it.
        found = _stated(_last_block(spoken, options), options)
        return found if found is not None else (None, reason)
    if cut:
        # What was being said may have gone on ("B" as "B or C"): only finished sentences before it count.
        before = [m.start() for m in _ANSWER_TAG.finditer(spoken)][-1:] if reason == "unclosed_tag" else []
        spoken = "".join(re.findall(r"[^.!?\n]*[.!?\n]", spoken[: before[0]] if before else spoken))
    elif reason == "unclosed_tag":
        label, _ = _named(_ANSWER_TAG.split(spoken)[-1], options)
        if label is not None:
            return label, "from_unclosed_tag"
    return _stated(spoken, options) or _line(spoken, options) or (None, reason)


def _strictly(text: str, options: Mapping[str, str]) -> _Read:
    parsed = parse_reply(text, options, must_answer=True)
    return parsed.label, parsed.reason


def _named(content: str, options: Mapping[str, str]) -> _Read:
    """The option that a piece of text names under the strict rule for answer blocks."""
    return _strictly(f"<answer>{_ANSWER_TAG.sub(' ', content)}</answer>", options)


def _folded(text: str) -> str:
    return _MARKUP.sub("", unicodedata.normalize("NFKC", html.unescape(text)).translate(_LOOK_ALIKES))


def _last_block(spoken: str, options: Mapping[str, str]) -> str:
    """Content of the last answer block that is not a placeholder, as the strict parser chooses it."""
    blocks: list[str] = []
    start: int | None = None
    for tag in _ANSWER_TAG.finditer(spoken):
        if not tag.group(1):
            start = tag.end()
        elif start is not None:
            blocks.append(spoken[start : tag.start()])
            start = None
    return next((b for b in reversed(blocks) if _named(b, options)[1] != "placeholder"), "")


# --- statements -----------------------------------------------------------------------------


def _stated(text: str, options: Mapping[str, str]) -> _Read | None:
    """What the last statement of an answer says; None where there is no statement."""
    denied: set[str] = set()
    for letter, rest, doubted in _statements(text):
        if not doubted and (denial := _DENIAL.match(rest)):
            denied.add(denial["letter"].upper())
            continue
        label, reason = (letter, "") if letter else _what_follows(rest, options)
        if label is None and not reason:
            continue
        if doubted:
            denied.update(filter(None, [label]))
        elif label in denied:
            return None, "negated"
        elif label is None:
            return None, reason
        else:
            own = {name.casefold(): name for name in options}.get(label.casefold())
            return (own, "from_statement") if own is not None else (None, "label_out_of_range")
    return (None, "negated") if denied else None


def _statements(text: str) -> Iterator[tuple[str, str, bool]]:
    """From last to first: the letter where it stands before the cue, what follows the cue, and whether it is denied."""
    found = [(m.start(), m.end(), "") for m in _CUE.finditer(text)]
    found += [(m.start(), m.end(), m["letter"]) for m in _LETTER_FIRST.finditer(text)]
    for start, end, letter in sorted(found, reverse=True)[:_MAX_STATEMENTS]:
        rest = "" if letter else text[end : end + _MAX_STATEMENT].lstrip().partition("\n")[0]
        yield letter, rest, _DENIED_BEFORE.search(text[max(0, start - 40) : start]) is not None


def _what_follows(rest: str, options: Mapping[str, str]) -> _Read:
    """The label that a statement begins with; no reason where it states nothing that could be an option."""
    opening = _OPENING.match(rest)
    label, reason = _named(rest, options)
    if opening is None or not _is_label(opening["letter"]):
        if label is None:
            label, reason = _named(re.split(r"(?<=[.;,])\s", rest, maxsplit=1)[0], options)
        return (label, "") if label is not None else (None, reason if reason in _FIRM else "")
    if label is not None:
        return label, ""
    another = _ANOTHER.match(rest, opening.end())
    letter = opening["letter"]
    known = {name.casefold() for name in options}
    if another and another["letter"].casefold() in known:
        return None, "several_labels"
    after = rest[opening.end() :].strip(" \t)*_]\"'}.:-–")
    if any(
        after.casefold() == said.casefold() for name, said in options.items() if name.casefold() != letter.casefold()
    ):
        return None, "several_labels"
    return letter, ""


def _is_label(letter: str) -> bool:
    return letter.isdigit() or letter.isupper()


def _line(text: str, options: Mapping[str, str]) -> _Read | None:
    """A label or option text on the first or the last line, by itself or with its text."""
    lines = [line for line in text.strip().split("\n") if line.strip()]
    if not lines:
        return None
    labels = {label for line in (lines[0], lines[-1]) if (label := _named(line[:_MAX_STATEMENT], options)[0])}
    if len(labels) > 1:
        return None, "several_labels"
    return (labels.pop(), "from_line") if labels else None
