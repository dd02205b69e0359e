"""The built book as one PDF: each page printed by Chromium without a window, then put together with bookmarks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymupdf

from medvrag_core.errors import NotBuiltError
from medvrag_core.runs.publish import whole_file
from medvrag_core.views.publishing.chromium import find_browser, run_browser
from medvrag_core.views.publishing.errors import BookError

_TITLE = re.compile(r"<h1>(.*?)<a |<h1>(.*?)</h1>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


def print_book(site: Path, pages: Sequence[str], out: Path, *, seconds: float = 180) -> int:
    """Print pages of a built book into one PDF; returns its number of sheets.

    Links between pages of the book lead to their sheets, and no path of this machine stays in the file.

    Parameters
    ----------
    site : folder with the built pages
    pages : names without their ending, in order, such as ``chapters/03_filter``
    seconds : most that the browser may take for one page

    Raises
    ------
    NotBuiltError : a page was not built
    BookError : the browser did not print a page
    MedvragError : there is no browser
    """
    browser = find_browser()
    for name in pages:
        if not (site / f"{name}.html").is_file():
            raise NotBuiltError(f"{site}: holds no page {name}.html", way_out="medvrag book build")
    whole, first, bookmarks = pymupdf.open(), dict[Path, int](), []
    found: list[tuple[int, dict[str, Any]]] = []
    with tempfile.TemporaryDirectory(prefix="medvrag-pdf-") as folder:
        for place, name in enumerate(pages):
            source, part = site / f"{name}.html", Path(folder) / f"{place}.pdf"
            _print(browser, source, part, Path(folder) / "profile", seconds)
            start = first[source.resolve()] = whole.page_count
            bookmarks.append([1, _title(source), start + 1])
            with pymupdf.open(part) as printed:
                whole.insert_pdf(printed, links=False)
                found += [(start + k, link) for k in range(printed.page_count) for link in printed[k].get_links()]
    for sheet, link in found:
        _add_link(whole[sheet], link, first)
    whole.set_toc(bookmarks)
    whole.set_metadata({"title": "MedVRAG, the book"})
    with whole_file(out) as target:
        whole.save(target, garbage=3, deflate=True)
    return int(whole.page_count)


def _print(browser: str, source: Path, target: Path, profile: Path, seconds: float) -> None:
    run_browser(browser, source, profile, seconds, "--no-pdf-header-footer", f"--print-to-pdf={target}")
    if not target.is_file():
        raise BookError(f"{source.name}: the browser printed nothing")


def _title(source: Path) -> str:
    found = _TITLE.search(source.read_text(encoding="utf-8"))
    return unescape(_TAG.sub("", found[1] or found[2])).strip() if found else source.stem


def _add_link(sheet: pymupdf.Page, link: dict[str, Any], first: dict[Path, int]) -> None:
    """Links to pages of the book become links to their sheets; those to other files of this machine are dropped."""
    if link["kind"] == pymupdf.LINK_URI and urlsplit(link["uri"]).scheme in ("http", "https"):
        sheet.insert_link({"kind": pymupdf.LINK_URI, "from": link["from"], "uri": link["uri"]})
    target = first.get(Path(unquote(link["file"]))) if link["kind"] == pymupdf.LINK_LAUNCH else None
    if target is not None:
        sheet.insert_link({"kind": pymupdf.LINK_GOTO, "from": link["from"], "page": target, "to": pymupdf.Point(0, 0)})
