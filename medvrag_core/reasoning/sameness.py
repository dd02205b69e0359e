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
    return _PAGE_ID.search(split_names(text, known)[1]) is not None


def split_names(text: str, known: Iterable[str]) -> tuple[list[str], str]:
    """The page ids of ``known`` that a text names, the longest first, and the rest of the text in lower case.

    >>> split_names("as P1#p2 and P1#p23 say", ["P1#p2", "P1#p5"])
    (['P1#p2'], 'as   and p1#p23 say')
    """
    rest, found = _spaced(text), []
    for page_id in sorted(filter(str.strip, known), key=len, reverse=True):
        rest, count = re.subn(rf"(?<![\w.\-]){re.escape(_spaced(page_id))}(?!\d)", " ", rest)
        if count:
            found.append(page_id)
    return found, rest


def page_of(evidence_id: str) -> str:
    """The page that a page id or a chunk id speaks of.

    >>> page_of("PMC1#p12"), page_of("PMC1#p12#c3")
    ('PMC1#p12', 'PMC1#p12')
    """
    found = re.match(r".+#p[0-9]+", evidence_id)
    return found.group() if found else evidence_id


def _spaced(text: str) -> str:
    return " ".join(text.casefold().split())
