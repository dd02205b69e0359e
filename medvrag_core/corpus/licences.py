"""What a licence allows: the codes, links and sentences of articles brought into one form, and what follows from it.

Classes are those of PubMed Central (CC0, CC BY, BY-SA and BY-ND allow commercial use; the three with NC do not).
What a published book may show is narrower, see :func:`why_hidden`. None of this is legal advice.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Literal

from medvrag_core.errors import SettingsError
from medvrag_core.records import Article, LedgerEntry, Record

LicenceUse = Literal["commercial", "non-commercial", "none"]

UNKNOWN, TDM, CONFLICT = "", "TDM", "conflict"
_COMMERCIAL = ("CC0", "public domain", "CC BY", "CC BY-SA", "CC BY-ND")
_NON_COMMERCIAL = ("CC BY-NC", "CC BY-NC-SA", "CC BY-NC-ND")
_SHOWN = ("CC0", "public domain", "CC BY", "CC BY-SA")
_VERSIONS = ("1.0", "2.0", "2.1", "2.5", "3.0", "4.0")

_LINK = r"creativecommons\s*\.\s*org\s*/\s*(?:licenses|publicdomain)\s*/\s*[a-z-]+(?:\s*/\s*\d\.\d)?"
_CODE = r"\bCC[ -]?0\b|\bCC[ -]?BY\b(?:[ -](?:NC|SA|ND)\b)*(?:[ -]\d\.\d)?"
_NAME = (
    r"Creative\s+Commons\s+Attribution(?:[\s–-]*(?:Non[\s-]?Commercial|No[\s-]?Deriv(?:ative)?s?|Share[\s-]?Alike))*"
    r"(?:\s+\d\.\d)?"
)
_NAMED = re.compile(f"{_LINK}|{_CODE}|{_NAME}", re.IGNORECASE)
_PLACE = re.compile(r"creative\s*commons|open[- ]access article|licen[cs]ed?\b|\bCC[ -]?BY\b|\bCC0\b", re.IGNORECASE)
_BEFORE, _BEHIND, _MOST_CHARACTERS = 200, 500, 100_000
_NO_COMMERCE = re.compile(
    r"(?<!commercial and )(?<!commercial or )\bnon[- ]?commercial(?:ly)?\b"
    r"(?! (?:interest|relationship|entit|sponsor|fund|and commercial|or commercial))"
    r"|\bno commercial (?:use|exploitation|purpose|re-?use|reproduction|distribution)"
    r"|\bnot (?:be )?(?:used )?(?:for|allow|permit)\w* (?:any )?commercial"
    r"|\bcommercial (?:use|exploitation|re-?use)[^.]{0,40} (?:not|prohibited|forbidden|contact|requires? permission)",
    re.IGNORECASE,
)
_NO_CHANGE = re.compile(
    r"\bno[- ]?deriv(?:ative|ation)?s?\b|\bno modifications?\b|\bnot (?:be )?(?:altered|changed|modified|transformed)",
    re.IGNORECASE,
)


class Licence(Record):
    """A licence in one form.

    Attributes
    ----------
    code : such as ``CC BY-NC``, ``CC0``, ``TDM`` (text mining alone), ``conflict``; empty where it is not known
    version : of a Creative Commons licence, such as ``4.0``; empty where it is not told
    use : what it allows beside reading at home
    detail : of a conflict, what contradicts what
    """

    code: str
    version: str = ""
    use: LicenceUse
    detail: str = ""

    @property
    def label(self) -> str:
        """Code and version as they are printed; ``unknown`` where there is none."""
        return f"{self.code or 'unknown'} {self.version}".strip()

    @property
    def link(self) -> str:
        """Where the text of a Creative Commons licence stands; empty for others."""
        if self.code == "CC0":
            return "https://creativecommons.org/publicdomain/zero/1.0/"
        if not (self.code.startswith("CC BY") and self.version):
            return ""
        return f"https://creativecommons.org/licenses/{self.code[3:].lower()}/{self.version}/"


def parsed_licence(text: str) -> Licence:
    """A code or a link, in whatever way it is written.

    >>> parsed_licence("cc-by-nc-nd 4.0").label, parsed_licence("http://creativecommons.org/licenses/by/3.0/").label
    ('CC BY-NC-ND 4.0', 'CC BY 3.0')
    >>> parsed_licence("Creative Commons Attribution-ShareAlike").code, parsed_licence("all rights reserved").label
    ('CC BY-SA', 'unknown')
    """
    if text.strip().lower().startswith(CONFLICT):
        return Licence(code=CONFLICT, use="none", detail=text.strip()[len(CONFLICT) :].strip(" :()"))
    folded = re.sub(r"\s*([./])\s*", r"\1", text.casefold())
    words = set(re.findall(r"[a-z]+|\d", folded))
    if "publicdomain/zero" in folded or re.search(r"\bcc[ -]?0\b|\bcc[ -]?zero\b", folded):
        return _made("CC0", folded)
    if "publicdomain/mark" in folded or re.fullmatch(r"public[ -]?domain( mark)?( 1\.0)?", folded.strip()):
        return _made("public domain", "")
    if words == {"tdm"}:
        return _made(TDM, "")
    if not words & {"cc", "ccby", "creativecommons", "creative"}:
        return _made(UNKNOWN, "")
    return _made(_creative_commons(folded, words), folded)


def stated_licence(text: str) -> Licence:
    """What a licence sentence states; unknown where it names no licence, a conflict where it contradicts itself.

    >>> stated_licence("Distributed under CC BY 4.0. No commercial exploitation is permitted.").label
    'conflict'
    >>> stated_licence("Under the Creative Commons Attribution License 4.0; its data under CC0.").label
    'CC BY'
    """
    spoken = " ".join(text[:_MOST_CHARACTERS].split())
    found = sorted(map(parsed_licence, _NAMED.findall(spoken)), key=attrgetter("version"))
    named = {licence.code: licence for licence in found if licence.code}
    # Many articles are under CC BY, and their data under CC0.
    strictest = sorted(named.values(), key=lambda licence: (len(_elements(licence.code)), licence.code))
    if not strictest:
        return _made(UNKNOWN, "")
    if len({code for code in named if code.startswith("CC BY")}) > 1:
        return _conflict(strictest[0].label, strictest[-1].label)
    return _held_to(strictest[-1], spoken)


def licence_passages(text: str) -> str:
    """What stands near the places of a text that speak of a licence, as its licence sentence; empty where none does.

    So a paper about non-commercial software is not taken for one that forbids commercial use.

    >>> licence_passages("The authors declare no commercial interest.")
    ''
    """
    text = text[:_MOST_CHARACTERS]
    return " … ".join(text[max(0, m.start() - _BEFORE) : m.end() + _BEHIND] for m in _PLACE.finditer(text))


def agreed_licence(tag: str, sentence: str) -> Licence:
    """The licence of an article by its tag (code or link) and its licence sentence; where they disagree, a conflict.

    Where one of both says nothing the other counts (BC-36).

    >>> agreed_licence("CC BY", "No commercial exploitation.").use
    'none'
    >>> agreed_licence("CC BY-NC", "Open access article; non-commercial use is permitted.").label
    'CC BY-NC'
    """
    tagged, stated = parsed_licence(tag), stated_licence(sentence)
    if CONFLICT in (tagged.code, stated.code) or not tagged.code:
        return tagged if tagged.code == CONFLICT else stated
    if not stated.code:
        return _held_to(tagged, sentence)
    if stated.code != tagged.code:
        return _conflict(tagged.label, stated.label)
    return tagged if tagged.version else stated


def settled_article(article: Article, text: str, default: str = "") -> tuple[Article, tuple[LedgerEntry, ...]]:
    """The article with its licence in one form, and an entry for the ledger where its licence contradicts itself.

    Parameters
    ----------
    text : of its first and last pages, where licence sentences stand; an article whose source brought an attribution
        was held against its licence sentence there, and its pages are not asked
    default : licence of articles that state none

    Raises
    ------
    SettingsError : ``default`` is no licence
    """
    said = "" if article.attribution else licence_passages(text)
    licence = agreed_licence(article.licence, said)
    if licence.code == UNKNOWN and default:
        licence = parsed_licence(default)
        if licence.code == UNKNOWN:
            raise SettingsError(
                f"corpus.licence: '{default}' is no licence that is known here",
                way_out=f"write one of {', '.join((*_COMMERCIAL, *_NON_COMMERCIAL))}",
            )
    entries = []
    if licence.code == CONFLICT:
        entries.append(
            LedgerEntry(file=article.file, state="changed", reason="licence_conflict", detail=why_hidden(licence))
        )
    return article.model_copy(update={"licence": stored_text(licence)}), tuple(entries)


def stored_text(licence: Licence) -> str:
    """A licence as :class:`~medvrag_core.records.Article` stores it; :func:`parsed_licence` reads it back.

    >>> stored_text(agreed_licence("CC BY 4.0", "CC BY-NC 4.0"))
    'conflict: CC BY 4.0 against CC BY-NC 4.0'
    """
    if licence.code == CONFLICT:
        return f"{CONFLICT}: {licence.detail}"
    return licence.label if licence.code else ""


def why_hidden(licence: Licence) -> str:
    """Why pages under this licence are left out of a published book; empty where they may be shown.

    Shown are CC0, the public domain, CC BY and CC BY-SA, with attribution. A page taken out of an article, made smaller
    or marked may count as a derivative, so ND stays out whole; a book may be sold by others, so NC stays out.

    >>> why_hidden(parsed_licence("CC BY-SA 4.0")), why_hidden(parsed_licence("CC BY-NC"))
    ('', 'its licence, CC BY-NC, allows no commercial use')
    """
    if licence.code in _SHOWN:
        return ""
    if licence.code == CONFLICT:
        return (
            f"its licence contradicts itself ({licence.detail})" if licence.detail else "its licence contradicts itself"
        )
    if licence.code == TDM:
        return "its licence allows text mining alone"
    if not licence.code:
        return "its licence is not known"
    elements = _elements(licence.code)
    if "NC" in elements:
        return f"its licence, {licence.label}, allows no commercial use"
    return f"its licence, {licence.label}, allows no part or change of it to be handed on"


def credit_line(article: Article) -> str:
    """What is printed under every page of an article that is shown: whose it is, and under which licence."""
    licence = parsed_licence(article.licence)
    about = [article.title or article.article_id, article.journal, f"doi:{article.doi}" if article.doi else ""]
    told = article.attribution or ". ".join(part for part in about if part)
    link = article.licence_url or licence.link
    return f"{told.rstrip('. ')}. Licence: {licence.label}{f' ({link})' if link else ''}."


def _made(code: str, folded: str) -> Licence:
    version = ""
    if code.startswith("CC"):
        found = re.search(r"(?<![\d.])(\d\.\d)(?![\d.]*\d)", folded)
        version = found.group(1) if found and found.group(1) in _VERSIONS else ""
    use: LicenceUse = "commercial" if code in _COMMERCIAL else "non-commercial" if code in _NON_COMMERCIAL else "none"
    return Licence(code=code, version=version, use=use)


def _creative_commons(folded: str, words: set[str]) -> str:
    """The code of a Creative Commons licence; empty for combinations that do not exist."""
    flat = re.sub(r"[\s_–-]+", "", folded)
    if not (words & {"by", "ccby"} or "attribution" in flat):
        return UNKNOWN
    parts = ["BY"]
    parts += ["NC"] if "nc" in words or "noncommercial" in flat else []
    parts += ["SA"] if "sa" in words or "sharealike" in flat else []
    parts += ["ND"] if "nd" in words or "noderiv" in flat else []
    code = "CC " + "-".join(parts)
    return code if code in (*_COMMERCIAL, *_NON_COMMERCIAL) else UNKNOWN


def _elements(code: str) -> set[str]:
    return set(code.replace("CC ", "").split("-")) if code.startswith("CC BY") else set()


def _held_to(licence: Licence, spoken: str) -> Licence:
    """The licence, or a conflict where words forbid what it allows."""
    for element, forbids in (("NC", _NO_COMMERCE), ("ND", _NO_CHANGE)):
        found = forbids.search(spoken)
        if found and element not in _elements(licence.code):
            return _conflict(licence.label, f"“{found.group()}”")
    return licence


def _conflict(one: str, other: str) -> Licence:
    return Licence(code=CONFLICT, use="none", detail=f"{one} against {other}")
