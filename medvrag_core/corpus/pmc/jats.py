"""What the head of a JATS file tells about its article: names, dates, ids, and the licence by tag and by sentence.

The file is untrusted: its size is capped, entities are refused, nothing is fetched, and reading stops behind ``front``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import BytesIO
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from medvrag_core.corpus.licences import Licence, stored_text
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.corpus.source import SourceFacts
from medvrag_core.records import Record

LARGEST = 64 << 20
"""Bytes of a JATS file."""
_LONGEST = 400
_AUTHORS_NAMED = 3
_HREF = "{http://www.w3.org/1999/xlink}href"
_NO_TEXT = frozenset({"xref", "fn"})
_ELECTRONIC = ("epub", "electronic", "ppub", "print", "collection", "epub-ppub", "")
# Directions, and what steers terminals: none of it belongs into a line that is printed.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


class JatsHead(Record):
    """Facts of one article; a text is empty, a list is short of what the file does not tell.

    ``licence_link`` is the address in the licence tag, ``licence_sentence`` its words with every address in them.
    ``retracted`` tells that the file points to the notice of its own retraction.
    """

    title: str = ""
    journal: str = ""
    published: str = ""
    article_type: str = ""
    doi: str = ""
    pmid: str = ""
    pmcid: str = ""
    authors: tuple[str, ...] = ()
    licence_link: str = ""
    licence_sentence: str = ""
    retracted: bool = False


def read_jats(data: bytes) -> JatsHead:
    """Facts in the head of a JATS file.

    Raises
    ------
    RefusedError : ``damaged_jats``: too large, no XML, with entities of its own, or without a ``front``
    """
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    if len(data) > LARGEST:
        raise RefusedError("damaged_jats", f"larger than {LARGEST >> 20} MiB")
    kind = ""
    try:
        for event, element in iterparse(BytesIO(data), events=("start", "end"), forbid_dtd=False):
            name = _name(element)
            if event == "start" and name == "article" and not kind:
                kind = element.get("article-type", "") or "article"
            elif event == "end" and name == "front" and kind:
                return _head(element, "" if kind == "article" else kind)
    except DefusedXmlException as error:
        raise RefusedError("damaged_jats", f"refused: {type(error).__name__}") from None
    except (ParseError, ValueError, LookupError) as error:
        raise RefusedError("damaged_jats", f"no XML ({' '.join(str(error).split())[:100]})") from None
    raise RefusedError("damaged_jats", "no article with a front")


def attribution(head: JatsHead, address: str) -> str:
    """One printable line that names an article: authors, title, journal, date and where it is.

    >>> attribution(JatsHead(title="On X", journal="J", published="2018-07", authors=("Ada L",)), "https://e.org/1")
    'Ada L. On X. J, 2018. https://e.org/1'
    """
    named = ", ".join(head.authors[:_AUTHORS_NAMED]) + (", et al" if len(head.authors) > _AUTHORS_NAMED else "")
    place = ", ".join(filter(None, (head.journal, head.published[:4])))
    doi = f"https://doi.org/{head.doi}" if head.doi else ""
    return printable_line(". ".join(part.rstrip(". ") for part in (named, head.title, place, doi, address) if part))


def facts_of(head: JatsHead, licence: Licence, address: str) -> SourceFacts:
    """What the record of an article takes from its JATS file."""
    return SourceFacts(
        title=head.title,
        doi=head.doi,
        pmid=head.pmid,
        licence=stored_text(licence),
        journal=head.journal,
        published=head.published,
        article_type=head.article_type,
        licence_url=head.licence_link if head.licence_link.startswith("http") else licence.link,
        attribution=attribution(head, address),
        source_url=address,
    )


def printable_line(text: str, longest: int = 1_000) -> str:
    r"""A text on one line, without characters that change how the rest is shown.

    >>> printable_line("a\n b\u202ec")
    'a bc'
    """
    return " ".join(_UNPRINTABLE.sub("", " ".join(text.split())).split())[:longest]


def _head(front: Element, kind: str) -> JatsHead:
    meta = front.find("{*}article-meta")
    if meta is None:
        raise RefusedError("damaged_jats", "no article-meta in its front")
    ids = {x.get("pub-id-type", ""): _text(x) for x in meta.findall("{*}article-id")}
    pmc = re.fullmatch(r"(?:PMC)?([0-9]{1,9})", ids.get("pmcid") or ids.get("pmc") or "")
    pmid = re.fullmatch(r"[0-9]{1,9}", ids.get("pmid", ""))
    link, sentence = _licence(meta)
    related = {x.get("related-article-type", "") for x in meta.iter() if _name(x) == "related-article"}
    return JatsHead(
        title=_text(meta.find("{*}title-group/{*}article-title")),
        journal=_text(front.find("{*}journal-meta//{*}journal-title")),
        published=_date(meta.findall("{*}pub-date")),
        article_type=printable_line(kind, 60),
        doi=ids.get("doi", "").lower(),
        pmid=pmid.group() if pmid else "",
        pmcid=f"PMC{int(pmc.group(1))}" if pmc else "",
        authors=tuple(filter(None, map(_author, meta.findall("{*}contrib-group/{*}contrib[@contrib-type='author']")))),
        licence_link=link,
        licence_sentence=sentence,
        retracted="retraction-forward" in related,
    )


def _licence(meta: Element) -> tuple[str, str]:
    """Address of the licence tag, and all licence sentences with the addresses that stand in them."""
    link, sentences = "", []
    for licence in meta.findall("{*}permissions/{*}license"):
        named = licence.find("{*}license_ref")
        link = link or licence.get(_HREF, "") or _text(named)
        words = []
        for part in licence:
            if part is not named and isinstance(part.tag, str):
                words += [_text(part, 5_000), *(x.get(_HREF, "") for x in part.iter() if x.get(_HREF))]
        sentences.append(" ".join(words) or _text(licence, 5_000))
    return printable_line(link, 200), printable_line(" ".join(sentences), 5_000)


def _author(contributor: Element) -> str:
    collective = _text(contributor.find(".//{*}collab"))
    places = ("{*}name", "{*}name-alternatives/{*}name", "{*}string-name")
    name = next((found for place in places if (found := contributor.find(place)) is not None), contributor)
    family, given = _text(name.find("{*}surname")), _text(name.find("{*}given-names"))
    initials = "".join(word[0] for word in re.split(r"[\s.-]+", given) if word)
    return f"{family} {initials}".strip()[:100] or collective[:100]


def _date(dates: list[Element]) -> str:
    """The first date of publication that stands in the order of :data:`_ELECTRONIC`, as far as it is told."""

    def rank(date: Element) -> int:
        kind = date.get("pub-type") or date.get("publication-format") or ""
        return _ELECTRONIC.index(kind) if kind in _ELECTRONIC else len(_ELECTRONIC)

    for date in sorted(dates, key=rank):
        year, month, day = (_text(date.find(f"{{*}}{part}")) for part in ("year", "month", "day"))
        if re.fullmatch(r"[0-9]{4}", year):
            parts = [year]
            for value, most in ((month, 12), (day, 31)):
                if not (value.isascii() and value.isdigit() and 1 <= int(value[:4]) <= most):
                    break
                parts.append(f"{int(value):02d}")
            return "-".join(parts)
    return ""


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: Element | None, longest: int = _LONGEST) -> str:
    return "" if element is None else printable_line("".join(_pieces(element)), longest)


def _pieces(element: Element) -> Iterable[str]:
    """Texts below an element, without those of footnotes; a stack, since depth is the file's choice."""
    stack: list[Any] = [element]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part.tag, str) and _name(part) not in _NO_TEXT:
            yield " " if _name(part) == "break" else part.text or ""
            for child in reversed(part):
                stack += [child.tail or "", child]
