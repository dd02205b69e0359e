"""Inline markup of the articles: *emphasis* and **strong**."""

from __future__ import annotations

import re
from html import escape

from typeset.fonts import has_glyph

_STRONG = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_EMPHASIS = re.compile(r"\*(?=\S)(.+?)(?<=\S)\*")


def plain(text: str) -> str:
    """``text`` without its markup.

    Examples
    --------
    >>> plain("a **strong** and an *odd* word")
    'a strong and an odd word'
    """
    return _EMPHASIS.sub(r"\1", _STRONG.sub(r"\1", text))


def markup(text: str, family: str) -> str:
    """``text`` as reportlab paragraph markup in ``family``; everything else in it is escaped."""

    def italic(match: re.Match[str]) -> str:
        # The italic faces have no Greek: such letters are set upright.
        letters = "".join(
            char if has_glyph(f"{family}-Italic", char) else f'</i><font name="{family}">{char}</font><i>'
            for char in match[1]
        )
        return f"<i>{letters}</i>"

    return _EMPHASIS.sub(italic, _STRONG.sub(r"<b>\1</b>", escape(text, quote=False)))
