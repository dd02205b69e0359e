"""Cleaning of text from text layers and OCR; numbers keep their meaning."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_SOFT_HYPHEN = "\u00ad"
_HYPHENS = "-\u2010\u2011"
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>")


def normalize(text: str) -> str:
    """NFKC without breaking numbers, soft hyphens and control characters removed, blanks made single.

    Superscripts, subscripts and fractions stay, because NFKC would turn ``10⁹/L`` into ``109/L``.

    >>> normalize("ef\ufb01cacy  of 10⁹/L \u00adcells")
    'efficacy of 10⁹/L cells'
    """
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    out = []
    for char in text:
        if char.isascii():
            out.append(char if char.isprintable() else " ")
        elif char == _SOFT_HYPHEN or unicodedata.category(char) in ("Cs", "Cn"):
            continue
        elif unicodedata.decomposition(char).startswith(_KEPT_FORMS):
            out.append(char)
        elif unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp"):
            out.append("" if unicodedata.category(char) == "Cf" else " ")
        else:
            out.append(char)
    return " ".join(unicodedata.normalize("NFC", "".join(_compatible(c) for c in out)).split())


def _compatible(char: str) -> str:
    if char.isascii() or unicodedata.decomposition(char).startswith(_KEPT_FORMS):
        return char
    return unicodedata.normalize("NFKC", char)


def join_lines(lines: Sequence[str], vocabulary: frozenset[str] = frozenset()) -> str:
    """Join the lines of a paragraph, closing words that were hyphenated at a line end.

    A hyphen stays before a digit or capital (``COVID-`` ``19``), and where ``vocabulary``, the words
    of the page, has the hyphenated form but not the closed one.

    >>> join_lines(["the aber-", "rant gene of COVID-", "19"])
    'the aberrant gene of COVID-19'
    """
    text = ""
    for line in lines:
        soft, line = line.rstrip().endswith(_SOFT_HYPHEN), normalize(line)
        if not line:
            continue
        if text and (text.endswith(_SOFT_HYPHEN) or (text[-1] in _HYPHENS and text[-2:-1].isalpha())):
            text = _close(text, line, vocabulary)
        else:
            text = f"{text} {line}" if text else line
        if soft:
            text += _SOFT_HYPHEN
    return text.removesuffix(_SOFT_HYPHEN)


def _close(text: str, line: str, vocabulary: frozenset[str]) -> str:
    if text.endswith(_SOFT_HYPHEN):
        return text[:-1] + line
    if not line[0].islower():
        return text + line
    head, tail = text[:-1].rsplit(maxsplit=1)[-1], re.split(r"[^\w]", line, maxsplit=1)[0]
    keep = f"{head}-{tail}".lower() in vocabulary and f"{head}{tail}".lower() not in vocabulary
    return text + line if keep else text[:-1] + line


def vocabulary_of(words: Iterable[str]) -> frozenset[str]:
    """Lower-cased words of a page without the punctuation around them."""
    return frozenset(word.strip(".,;:()[]\"'").lower() for word in words)


def readable_characters(text: str) -> int:
    """Number of letters and digits."""
    return sum(char.isalnum() for char in text)


def is_garbled(text: str) -> bool:
    """Whether a text layer is mostly not language: unmapped glyphs, private or control characters.

    >>> [is_garbled(x) for x in ("aspirin 75 mg daily", "(cid:12)(cid:44)(cid:3)", "\ufffd\ufffd\ufffd\ufffd ab")]
    [False, True, True]
    """
    solid = "".join(text.split())
    if not solid:
        return False
    if len(re.findall(r"\(cid:\d+\)", solid)) * 6 > len(solid) // 2:
        return True
    bad = sum(char == "\ufffd" or unicodedata.category(char) in ("Co", "Cc", "Cn", "Cs") for char in solid)
    return bad > 0.3 * len(solid)
