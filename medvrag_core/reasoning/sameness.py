"""When two texts say the same, and which pages a text names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Words and numbers, and the signs that change what a medical sentence says; other punctuation does not count.
_MEANING = re.compile(r"\d+(?:[.,]\d+)*|[^\W_]+|[<>≤≥=+%±↑↓]|-(?=\s*\d)")
_PAGE_ID = re.compile(r"#p\d+", re.IGNORECASE)


def folded(text: str) -> str:
    """A text without letter case, Unicode form, spacing and punctuation.

    Comparison signs, arrows, plus and minus, percent and the points inside numbers stay, since they carry meaning.

    >>> folded("Dose: 5.0  mg/kg (daily).") == folded("dose 5.0 mg kg, DAILY")
    True
    >>> folded("eGFR < 30") == folded("eGFR > 30")
    False
    """
    plain = unicodedata.normalize("NFKC", text).casefold().replace("−", "-")
    return " ".join(_MEANING.findall(unicodedata.normalize("NFKC", plain)))


def names_other_pages(text: str, known: Iterable[str]) -> bool:
    """Whether a text names a page id that is none of ``known``.

    >>> names_other_pages("Screen yearly (page P1#p2)", ["P1#p2"]), names_other_pages("as P1#p23 says", ["P1#p2"])
    (False, True)
    """
    rest = _spaced(text)
    for page_id in sorted(map(_spaced, known), key=len, reverse=True):
        if page_id:
            rest = re.sub(rf"(?<![\w.\-]){re.escape(page_id)}(?!\d)", " ", rest)
    return _PAGE_ID.search(rest) is not None


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())
