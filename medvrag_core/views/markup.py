"""Text from pages, files and models on its way into HTML: escaped, and nothing in it stays invisible."""

from __future__ import annotations

import html
import re

# Controls that reorder or hide text (bidi, zero-width, C0 and C1) without leaving a mark.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def escape(value: object) -> str:
    r"""HTML-safe text for element content and quoted attributes alike.

    Characters that reorder or hide text are replaced by their code point in brackets, so that a
    page cannot show one thing and say another.

    >>> escape("<b>&'")
    '&lt;b&gt;&amp;&#x27;'
    >>> escape("a\u202eb")
    'a[U+202E]b'
    """
    return html.escape(_INVISIBLE.sub(lambda found: f"[U+{ord(found.group()):04X}]", str(value)), quote=True)


class HtmlBlock:
    """A finished piece of HTML that notebooks and the book show as it is."""

    def __init__(self, html_text: str) -> None:
        self.html = html_text

    def _repr_html_(self) -> str:
        return self.html

    def __str__(self) -> str:
        return self.html


def paragraph(text: str) -> HtmlBlock:
    """A sentence that was computed, as a paragraph of a chapter.

    >>> paragraph("p < 0.05").html
    '<p>p &lt; 0.05</p>'
    """
    return HtmlBlock(f"<p>{escape(text)}</p>")
