"""Read an article: front matter, paragraphs, headings, bullets, table and figure blocks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from medvrag_core.errors import InputError
from medvrag_core.records import Record, describe_validation_error
from medvrag_core.strict_json import read_text
from typeset.figure_kinds import AnyFigure, Number, Span, read_figure
from typeset.fonts import unprintable
from typeset.markup import lift_notes

_ANCHOR = re.compile(r"^\[#([a-z0-9][a-z0-9-]*)\]\s*")
_FENCE = re.compile(r"^```(\w+)\s*$")
# Prose keys whose plain value may hold ": ", which YAML would read as a nested mapping.
_PROSE = re.compile(
    r"^(\s*(?:- )?)(title|running|caption|note|question|rationale|x_label|y_label|unanswerable|bridge)"
    r":\s+([^\s\"'>|\[{].*?)\s*$"
)


class Paragraph(Record):
    """Running text, a heading (``level`` 2 or 3) or one bullet item."""

    role: Literal["text", "heading", "bullet"]
    text: str
    level: int = 0
    anchor: str = ""


class TableBlock(Record):
    """A table; ``number`` is given by the order in the article.

    One that is turned (``rotate``) has a page of its own; a long one (``breaks``) may run over columns and pages.
    """

    anchor: str
    caption: str
    columns: tuple[str, ...] = Field(min_length=2)
    rows: tuple[tuple[str, ...], ...] = Field(min_length=1)
    widths: tuple[Number, ...] = ()
    span: Span = "column"
    note: str = ""
    rotate: bool = False
    breaks: bool = False
    number: int = 0


Block = Paragraph | TableBlock | AnyFigure


class Head(Record):
    """Front matter of an article."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    running: str
    abstract: str
    keywords: tuple[str, ...] = Field(min_length=1)
    form: Literal["review", "guideline", "trial", "cases", "protocol", "handbook"] = "review"
    year: int | None = Field(None, ge=1900, le=2100)
    columns: int = Field(2, ge=1, le=2)
    paper: Literal["journal", "a4", "letter"] = "journal"
    scanned: bool = False
    references: tuple[str, ...] = ()


class Source(Record):
    """A parsed article: its front matter and its blocks in reading order."""

    file: str
    head: Head
    blocks: tuple[Block, ...]


def load_yaml(text: str, source: str) -> Any:
    """Read YAML with every scalar kept as the text that was written (``no``, ``1.0`` and ``12:30`` stay themselves).

    Raises :class:`InputError` naming ``source`` and the line.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _PROSE.match(line)
        following = lines[number + 1] if number + 1 < len(lines) else ""
        indent = len(match[1]) if match else 0
        continued = following.strip() != "" and len(following) - len(following.lstrip()) > indent
        if match and ": " in match[3] and not continued:
            value = re.sub(r"\s+#.*$", "", match[3])
            lines[number] = f"{match[1]}{match[2]}: {json.dumps(value, ensure_ascii=False)}"
    try:
        # BaseLoader builds strings, lists and mappings only; the records convert numbers and switches.
        return yaml.load("\n".join(lines), Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1} of the block" if mark else ""
        raise InputError(
            f"{source}{where}: not valid YAML ({getattr(error, 'problem', error)})",
            way_out='put values that hold ": " or a comma inside quotes',
        ) from None


def read_article(path: Path) -> Source:
    """Read one article file; raises :class:`InputError` naming the file and the field or line."""
    text = read_text(path).replace("\r\n", "\n")
    parts = re.split(r"^---\s*$", text, maxsplit=2, flags=re.MULTILINE)
    if len(parts) != 3 or parts[0].strip():
        raise InputError(f"{path.name}: front matter is missing", way_out="begin the file with --- fields ---")
    if missing := unprintable(text):
        raise InputError(
            f"{path.name}: character '{missing}' (U+{ord(missing):04X}) is not in the fonts",
            way_out="write it another way",
        )
    try:
        head = Head.model_validate(load_yaml(parts[1], f"{path.name}, front matter"))
    except ValidationError as error:
        raise InputError(f"{path.name}, front matter: {describe_validation_error(error)}") from None
    if head.id != path.stem:
        raise InputError(f"{path.name}, front matter: field 'id' is '{head.id}'", way_out=f"write id: {path.stem}")
    blocks = tuple(_blocks(parts[2].split("\n"), path.name))
    _check_anchors(blocks, path.name)
    if any("^[" in text for text in (parts[1], *map(_text_without_notes, blocks))):
        raise InputError(
            f"{path.name}: a footnote ^[...] stands outside of paragraphs and bullets, or has no end",
            way_out="move it into a paragraph; a note cannot hold the sign ]",
        )
    return Source(file=path.name, head=head, blocks=blocks)


def _text_without_notes(block: Block) -> str:
    if isinstance(block, Paragraph) and block.role != "heading":
        return lift_notes(block.text, 1)[0]
    return block.model_dump_json()


def _check_anchors(blocks: tuple[Block, ...], file: str) -> None:
    seen: set[str] = set()
    for block in blocks:
        if block.anchor in seen:
            raise InputError(f"{file}: anchor '{block.anchor}' is used twice", way_out="give each block its own anchor")
        if block.anchor:
            seen.add(block.anchor)


def _blocks(lines: list[str], file: str) -> list[Block]:
    blocks: list[Block] = []
    counts = {"table": 0, "figure": 0}
    prose: list[str] = []
    fence, body = "", list[str]()

    def flush() -> None:
        if prose:
            blocks.append(_prose_block(prose))
            prose.clear()

    for line in lines:
        if fence:
            if line.strip() == "```":
                counts[fence] += 1
                blocks.append(_fenced(fence, "\n".join(body), counts[fence], file))
                fence, body = "", []
            else:
                body.append(line)
        elif match := _FENCE.match(line):
            flush()
            fence = match[1]
            if fence not in counts:
                raise InputError(f"{file}: unknown block ```{fence}", way_out="use ```table or ```figure")
        elif not line.strip():
            flush()
        elif line.startswith(("## ", "### ", "- ")):
            flush()
            prose.append(line)
            if line.startswith("#"):
                flush()
        else:
            prose.append(line)
    flush()
    if fence:
        raise InputError(f"{file}: a ```{fence} block is not closed", way_out="end it with ```")
    return blocks


def _prose_block(lines: list[str]) -> Paragraph:
    text = " ".join(line.strip() for line in lines)
    role: Literal["text", "heading", "bullet"] = "text"
    level = 0
    if text.startswith("#"):
        marks, text = text.split(" ", 1)
        role, level = "heading", len(marks)
    elif text.startswith("- "):
        role, text = "bullet", text[2:]
    match = _ANCHOR.match(text)
    anchor = match[1] if match else ""
    return Paragraph(role=role, level=level, anchor=anchor, text=_ANCHOR.sub("", text))


def _fenced(kind: str, body: str, number: int, file: str) -> Block:
    where = f"{file}, {kind} {number}"
    data = load_yaml(body, where)
    if not isinstance(data, dict):
        raise InputError(f"{where}: the block holds no fields")
    data["number"] = str(number)
    try:
        if kind == "figure":
            return read_figure(data, where)
        table = TableBlock.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {describe_validation_error(error)}") from None
    for position, row in enumerate(table.rows, 1):
        if len(row) != len(table.columns):
            raise InputError(
                f"{where}, field 'rows': row {position} has {len(row)} cells, "
                f"the table has {len(table.columns)} columns",
                way_out="put cells that hold a comma inside quotes",
            )
    if table.widths and len(table.widths) != len(table.columns):
        raise InputError(f"{where}, field 'widths': {len(table.widths)} widths for {len(table.columns)} columns")
    return table
