"""Inline markup of the articles: *emphasis*, **strong**, and footnotes."""

from __future__ import annotations

import re
from html import escape

from typeset.fonts import has_glyph

_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_EMPHASIS = re.compile(r"\*(?=\S)(.+?)(?<=\S)\*")
_NOTE = re.compile(r"\s*\^\[([^\]]*)\]")
# Private characters stand for a raised number until the rest of the text is escaped.
_RAISED = re.compile("\ue000(\\d+)\ue001")


def plain(text: str) -> str:
    """``text`` without its markup.

    Examples
    --------
    >>> plain("a **strong** and an *odd* word")
    'a strong and an odd word'
    """
    return _EMPHASIS.sub(r"\1", _STRONG.sub(r"\1", text))


def lift_notes(text: str, first: int) -> tuple[str, list[str]]:
    """``text`` with a mark in place of each ``^[note]``, and the notes, which are numbered from ``first``.

    Examples
    --------
    >>> marked, notes = lift_notes("Give 5 mg ^[Once daily.] at night.", 3)
    >>> notes, markup(marked, "DemoSerif")
    (['Once daily.'], 'Give 5 mg<super size="5.6" rise="3.2">3</super> at night.')
    """
    notes: list[str] = []

    def mark(match: re.Match[str]) -> str:
        notes.append(match[1].strip())
        return f"\ue000{first + len(notes) - 1}\ue001"

    return _NOTE.sub(mark, text), notes


def markup(text: str, family: str) -> str:
    """``text`` as reportlab paragraph markup in ``family``; everything else in it is escaped."""

    def italic(match: re.Match[str]) -> str:
        # The italic faces have no Greek: such letters are set upright.
        letters = "".join(
            char if has_glyph(f"{family}-Italic", char) else f'</i><font name="{family}">{char}</font><i>'
            for char in match[1]
        )
        return f"<i>{letters}</i>"

    marked = _EMPHASIS.sub(italic, _STRONG.sub(r"<b>\1</b>", escape(text, quote=False)))
    return _RAISED.sub(r'<super size="5.6" rise="3.2">\1</super>', marked)
