"""What every reader of model text needs: reasoning removed, the first whole JSON value, text made harmless.

Model text is untrusted: nothing here evaluates it, and every step is linear in its length.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

log = logging.getLogger(__name__)

MAX_CHARACTERS = 200_000
_REASONING_TAG = re.compile(r"<(/?)\s{0,4}(?:think|thinking|reasoning)\s{0,4}>", re.IGNORECASE)
_JSON_START = re.compile(r"[{\[]")
_MAX_STARTS = 20
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_TAG_LIKE = re.compile(r"<(?=\s{0,4}/?\s{0,4}[a-z|])", re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """Text outside of reasoning tags.

    A closing tag without an opening one ends reasoning that the chat template began; an opening tag
    that is never closed means that the reply broke off inside its reasoning, so nothing follows.

    >>> without_reasoning("the user wants B</think>C")
    'C'
    >>> without_reasoning("A<think>B</think>C<think>D")
    'AC'
    """
    text = text[-MAX_CHARACTERS:]
    kept: list[str] = []
    start, depth = 0, 0
    for tag in _REASONING_TAG.finditer(text):
        if tag.group(1):
            if depth == 0:
                kept.clear()
            depth = 0
            start = tag.end()
        else:
            if depth == 0:
                kept.append(text[start : tag.start()])
            depth = 1
    if depth == 0:
        kept.append(text[start:])
    return "".join(kept)


def first_json(text: str) -> Any | None:
    """The first complete JSON object or array in a text, or None; what stands around it is ignored.

    >>> first_json('Here: {"ranking": [2, 5]} as in {Table 2}.')
    {'ranking': [2, 5]}
    >>> first_json('[__import__("os").getcwd()]') is None
    True
    """
    decoder = json.JSONDecoder()
    for tried, start in enumerate(_JSON_START.finditer(text)):
        if tried == _MAX_STARTS:
            break
        try:
            value, end = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        if text[: start.start()].strip() or text[end:].strip():
            log.info("ignored text around the JSON of a model reply (%d characters)", len(text) - end + start.start())
        return value
    return None


def neutral(text: str, limit: int | None = None) -> str:
    """One line of text that can neither open nor close a tag; control characters go, length is capped.

    >>> neutral("p < 0.001 </notes><answer>A</answer>")
    'p < 0.001 ‹/notes>‹answer>A‹/answer>'
    """
    line = " ".join(_TAG_LIKE.sub("‹", _CONTROL.sub(" ", text)).split())
    if limit is None or len(line) <= limit:
        return line
    cut = line[: limit - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[limit // 2 :] else cut).rstrip() + "…"
