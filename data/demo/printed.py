"""What is printed on every page, words of raster figures and of scanned pages included.

The words come from the layout, not from reading pictures: the article is drawn once more with every figure as a drawing
and no page scanned. Pages and places are the same, since neither changes the size of anything.
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pymupdf
from typeset.layout import lay_out_article
from typeset.markup import plain
from typeset.parse import Paragraph, Source, TableBlock, read_article
from typeset.write import write_pdf

# Marks of footnotes are the only type below this size (points); a word and its mark are two things.
_SMALLEST = 5.8
_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Printed:
    """An article as it is printed: the page of each anchor and the normalized text of every page from 1."""

    anchors: Mapping[str, int]
    pages: Mapping[int, str]


def print_article(path: Path) -> Printed:
    """Lay an article out and take down its words; raises :class:`InputError` naming the file and the field at fault."""
    layout = lay_out_article(_readable(read_article(path)))
    with tempfile.TemporaryDirectory() as folder:
        write_pdf(layout, draft := Path(folder) / "article.pdf")
        with pymupdf.open(draft) as document:
            pages = {page.number + 1: normal(_text(page)) for page in document}
    return Printed(layout.anchors, pages)


def _readable(source: Source) -> Source:
    blocks = tuple(
        block if isinstance(block, Paragraph | TableBlock) else block.model_copy(update={"raster": False})
        for block in source.blocks
    )
    return source.model_copy(update={"head": source.head.model_copy(update={"scanned": False}), "blocks": blocks})


def _text(page: pymupdf.Page) -> str:
    lines = [
        "".join(span["text"] for span in line["spans"] if span["size"] >= _SMALLEST)
        for block in page.get_text("dict")["blocks"]
        for line in block.get("lines", ())
    ]
    return " ".join(lines)


def normal(text: str) -> str:
    """``text`` without markup, line breaks, and the breaks after hyphens and slashes; one kind of minus sign.

    Examples
    --------
    >>> normal("a *strong*  dose of piperacillin- tazobactam")
    'a strong dose of piperacillin-tazobactam'
    """
    text = unicodedata.normalize("NFC", plain(text)).replace("\u2212", "-")
    return re.sub(r"(?<=[-/\u2013]) ", "", " ".join(text.split()))


def holds(page: str, text: str) -> bool:
    """Whether a page (already normalized) prints ``text`` by itself, not as a part of a longer word or number.

    Examples
    --------
    >>> holds("Give 150 mg once.", "150 mg"), holds("Give 1,150 mg once.", "150 mg"), holds("a 2.5 dose", "2")
    (True, False, False)
    """
    wanted = normal(text)
    before = r"(?<![^\W_])(?<!\d[.,])" if wanted[:1].isalnum() else ""
    after = r"(?![^\W_])(?![.,]\d)" if wanted[-1:].isalnum() else ""
    return bool(wanted) and re.search(before + re.escape(wanted) + after, page) is not None


def words(text: str) -> list[str]:
    """Words and numbers of a text in lower case."""
    return _WORD.findall(normal(text).casefold())
