"""Splits page text into passages that can support an option: sentences, table rows, captions.

A row keeps the caption and the column heads above it as its ``context``, so that a number deep in a table
is still read as what it is a number of.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from medvrag_core.reasoning.table_rows import CELL_BREAK, split_cells, with_heads
from medvrag_core.records import MemoryBank, ReaderInput

PassageKind = Literal["sentence", "row", "caption", "reference", "summary", "finding"]

_TOKEN = re.compile(r"\d+(?:[.,·]\d+)*|[^\W\d_]+\d*[^\W\d_]*|%")
_THOUSANDS = re.compile(r"(?<=\d)[ \u2009\u202f](?=\d{3}(?!\d))")
_HYPHENATED = re.compile(r"-[\u00ad]?\n(?=[a-zà-ÿ])")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-ZÀ-Ý0-9])")
_ABBREVIATION = re.compile(r"(?:\b(?:Figs?|Tab|al|vs|e\.g|i\.e|Dr|No|cf|ca|approx|resp|Eq|Ref|spp?)|\b[A-Z])\.$")
_CAPTION = re.compile(
    r"^(?:supplementary |additional )?(?:fig(?:ure|ura)?|table|tabela|tabla|quadro|chart|box|scheme)\b\.? *[\dIVX]+",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"(?:19|20)\d\d;\s*\d+|\bdoi\s*[:.]|doi\.org/|\b\d+\s*\(\d+\)\s*:\s*e?\d+|\bpp\.\s*\d|\bvol\.\s*\d", re.IGNORECASE
)
_WORDS_PER_REFERENCE = 60
_ROUND = re.compile(r"^\s*\[Round \d+\]\s*", re.IGNORECASE)
_SOURCE = re.compile(r"\s*\(page ([^\s()]{1,120})\)\s*$")
_QUOTED = re.compile(r'[^"\n]{1,400} \(page [^\s()]{1,120}\)')
_CELL_WORDS = 6
QUESTION_CONTEXT = "context"
"""Stands for a page id in passages out of the text that comes with a question; no page has an id without ``#p``."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NUMBERS = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
)
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS.split(), 2)}
_ROW_BREAK = re.compile(r" \| |\t")


@dataclass(frozen=True)
class Passage:
    """A stretch of page text small enough to be quoted as one finding.

    Attributes
    ----------
    text : the passage with single spaces
    context : caption, column heads or heading that belong to it, not repeated in ``text``
    order : position on its page, from 0; neighbors in reading order differ by one
    tokens, context_tokens : normalized by :func:`tokenize`; those of a table row hold its column heads, each
        before its cell
    """

    page_id: str
    kind: PassageKind
    text: str
    context: str
    order: int
    tokens: tuple[str, ...] = field(repr=False)
    context_tokens: frozenset[str] = field(repr=False)


def tokenize(text: str) -> list[str]:
    """Words folded to a light stem, numbers kept exactly, percent signs kept.

    A decimal comma and a raised point read as a decimal point, thousands separators vanish.

    >>> tokenize("Doses of 1,500 mg (≤ 5,3%) reduced IL-6")
    ['dose', 'of', '1500', 'mg', '5.3', '%', 'reduc', 'il', '6']
    """
    folded = unicodedata.normalize("NFKC", text.replace("·", ".")).casefold().replace("\u00ad", "")
    folded = "".join(c for c in unicodedata.normalize("NFD", folded) if not unicodedata.combining(c))
    return [_normalized(token) for token in _TOKEN.findall(_THOUSANDS.sub("", folded))]


def evidence_passages(given: ReaderInput) -> list[Passage]:
    """All that one round shows, as passages: pages, summaries of pages not shown, and what is told of rounds before."""
    shown = {item.page_id for item in given.evidence}
    out = [passage for item in given.evidence for passage in split_text(item.text, item.page_id)]
    # Evidence as a page is, but no search ever sees it.
    out.extend(split_text(given.question.context, QUESTION_CONTEXT))
    for summary in given.summaries:
        if summary.page_id not in shown:
            out.extend(replace(p, kind="summary") for p in split_text(summary.text, summary.page_id))
    return out + bank_passages(given.bank) + history_passages(given.history)


def bank_passages(bank: MemoryBank) -> list[Passage]:
    """Findings of earlier rounds; each keeps the page id that it ends with.

    >>> bank = MemoryBank(iteration=1, key_findings=("[Round 1] Screen at 5 years (page PMC1#p3)",))
    >>> [(p.page_id, p.text) for p in bank_passages(bank)]
    [('PMC1#p3', 'Screen at 5 years')]
    """
    return _findings(bank.key_findings)


def history_passages(history: str) -> list[Passage]:
    """What the plain history of earlier rounds quotes from pages; its queries and notes are no evidence.

    >>> told = 'Query of round 1: dose? Reply of round 1: ‹notes>{"findings": ["5 mg daily (page P1#p2)"], "note": "?"}'
    >>> [(p.page_id, p.text) for p in history_passages(told)]
    [('P1#p2', '5 mg daily')]
    """
    return _findings(_QUOTED.findall(history))


def _findings(texts: Iterable[str]) -> list[Passage]:
    out = []
    for number, finding in enumerate(texts, 1):
        text = _ROUND.sub("", finding)
        source = _SOURCE.search(text)
        page_id = source.group(1) if source else "memory bank"
        # Orders far apart: findings are not neighbors, so none lends another its words.
        out.append(
            _passage(page_id, "finding", text[: source.start()] if source else text, "", 1_000_000 + 100 * number)
        )
    return out


@lru_cache(maxsize=512)
def split_text(text: str, page_id: str) -> tuple[Passage, ...]:
    """Passages of one page, in reading order.

    Parameters
    ----------
    text : lines as laid out; a blank line separates blocks; table rows stand on one line with cells split by
        ``|`` or a tab, or as one cell a line
    page_id : copied into every passage
    """
    out: list[Passage] = []
    caption = ""

    def add(kind: PassageKind, content: str, context: str = "", read: str = "") -> None:
        if tokenize(content):
            out.append(_passage(page_id, kind, content, context, len(out), read))

    for block in _blocks(text):
        if _CAPTION.match(block[0]):
            caption = _joined(block)[:400]
            for sentence in _sentences(_joined(block)):
                add("caption", sentence, caption if sentence != caption else "")
        elif _is_table(block):
            rows = _rows(block)
            for row, read in zip(rows, with_heads(rows), strict=True):
                add("row", CELL_BREAK.join(row), caption, read)
        else:
            prose = _joined(block)
            listed = len(_REFERENCE.findall(prose)) * _WORDS_PER_REFERENCE > len(prose.split())
            for sentence in _sentences(prose):
                add("reference" if listed or _REFERENCE.search(sentence) else "sentence", sentence)
    return tuple(out)


def _passage(page_id: str, kind: PassageKind, text: str, context: str, order: int, read: str = "") -> Passage:
    text = " ".join(_CONTROL.sub(" ", text).split())
    return Passage(page_id, kind, text, context, order, tuple(tokenize(read or text)), frozenset(tokenize(context)))


def _normalized(token: str) -> str:
    if token[0].isdigit():
        whole = re.sub(r",(?=\d{3}(?!\d))", "", token)
        return whole.replace(",", ".")
    if token in _NUMBER_WORDS:
        return _NUMBER_WORDS[token]
    return _stem(token) if token.isalpha() and token.isascii() else token


def _stem(word: str) -> str:
    if len(word) <= 4:
        return word[:-1] if len(word) == 4 and word.endswith("s") and word[-2] not in "sui" else word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    for suffix in ("ing", "ed"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            word = word[: -len(suffix)]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def _blocks(text: str) -> list[list[str]]:
    """Runs of lines between blank lines; a caption and a change between prose and cells also cut."""
    blocks: list[list[str]] = []
    for chunk in re.split(r"\n[ \t]*\n", _HYPHENATED.sub("", text)):
        current: list[str] = []
        for line in (line.strip() for line in chunk.split("\n")):
            if not line:
                continue
            if current and _CAPTION.match(line) and line[0].isupper():
                blocks.append(current)
                current = []
            current.append(line)
        if current:
            blocks.extend(_cut_cells(current))
    return _merged_cells(blocks)


def _cell_like(line: str) -> bool:
    return bool(_ROW_BREAK.search(line)) or (len(line.split()) <= _CELL_WORDS and not line.endswith((".", ",", ";")))


def _cut_cells(lines: list[str]) -> list[list[str]]:
    """Cut where four or more cell-like lines in a row begin or end."""
    flags = [_cell_like(line) for line in lines]
    out: list[list[str]] = []
    start = 0
    while start < len(lines):
        stop = start
        while stop < len(lines) and flags[stop] == flags[start]:
            stop += 1
        run = lines[start:stop]
        short_run = flags[start] and len(run) < 4
        if out and (short_run or (not flags[start] and not _run_of_cells(out[-1]))):
            out[-1].extend(run)
        else:
            out.append(run)
        start = stop
    return out


def _run_of_cells(lines: list[str]) -> bool:
    return len(lines) >= 4 and all(_cell_like(line) for line in lines)


def _merged_cells(blocks: list[list[str]]) -> list[list[str]]:
    """Join neighboring blocks of cells: renderers cut one table into a block a row or a column."""
    out: list[list[str]] = []
    for block in blocks:
        cells = all(_cell_like(line) for line in block) and not _CAPTION.match(block[0])
        joins = cells and out and all(_cell_like(line) for line in out[-1]) and not _CAPTION.match(out[-1][0])
        if joins:
            out[-1].extend([*block])
        else:
            out.append(list(block))
    return out


def _is_table(block: list[str]) -> bool:
    return _rows_on_lines(block) or _run_of_cells(block)


def _rows_on_lines(block: list[str]) -> bool:
    """Whether most lines are whole rows; a lone running head set with wide gaps does not make a table."""
    return 2 * sum(_ROW_BREAK.search(line) is not None for line in block) > len(block)


def _rows(block: list[str]) -> list[list[str]]:
    """Rows as cells. Cells on lines of their own are put together: words after a number open a row."""
    if _rows_on_lines(block):
        return [split_cells(line) for line in block]
    rows: list[list[str]] = [[]]
    for cell in block:
        opens = not re.match(r"^[\W\d]*$", cell) and any(re.match(r"^[<>≤≥~(]*\d", c) for c in rows[-1])
        if opens or len(rows[-1]) >= 12:
            rows.append([])
        rows[-1].append(cell)
    return rows


def _sentences(text: str) -> list[str]:
    parts: list[str] = []
    for part in _SENTENCE_END.split(text):
        if parts and (_ABBREVIATION.search(parts[-1]) or len(parts[-1]) < 12):
            parts[-1] += " " + part
        else:
            parts.append(part)
    return parts


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())
