"""What a reader's browser loads for each page of the built book."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from medvrag_core.records import Record
from medvrag_core.views.tables import byte_text

HEAVY = 2_000_000
"""Bytes of one page with its pictures, above which the build says so; what all pages share comes once."""
_SOURCE = re.compile(r'<(?P<tag>img|script|link)\b[^>]*?\b(?:src|href)="(?P<target>[^"#?]+)', re.S)


class PageSize(Record):
    """One page: its HTML, the pictures it shows, and the scripts and styles that all pages share, in bytes."""

    page: str
    html: int
    pictures: int
    shared: int

    @property
    def own(self) -> int:
        """What this page adds for a reader who has seen another one."""
        return self.html + self.pictures


class BookSizes(Record):
    """All pages, the heaviest first, and the whole site with the files of the inspector."""

    pages: tuple[PageSize, ...]
    site: int
    files: int

    @property
    def heavy(self) -> tuple[PageSize, ...]:
        """Pages above :data:`HEAVY`."""
        return tuple(page for page in self.pages if page.own > HEAVY)


def sizes_text(sizes: BookSizes, most: int = 5) -> str:
    """The heaviest pages and the whole site, and which pages are too heavy, for the terminal."""
    rows = [
        f"  {byte_text(page.own):>8}  {page.page}"
        + (f", of these {byte_text(page.pictures)} pictures" * bool(page.pictures))
        for page in sizes.pages[:most]
    ]
    shared = max((page.shared for page in sizes.pages), default=0)
    heavy = [f"  above {byte_text(HEAVY)}: {page.page}; show fewer or smaller pictures there" for page in sizes.heavy]
    head = f"{len(sizes.pages)} pages; {byte_text(shared)} of scripts and styles that they share; the heaviest:"
    return "\n".join([head, *rows, *heavy, f"  {byte_text(sizes.site):>8}  the whole site, {sizes.files:,} files"])


def book_sizes(site: Path) -> BookSizes:
    """Measure a built site; what is loaded later, as cases of the inspector are, counts for the site alone."""
    files = [path for path in site.rglob("*") if path.is_file()]
    pages = [_page(path, site) for path in files if path.suffix == ".html"]
    return BookSizes(
        pages=tuple(sorted(pages, key=lambda page: (-page.own, page.page))),
        site=sum(path.stat().st_size for path in files),
        files=len(files),
    )


def _page(path: Path, site: Path) -> PageSize:
    text = path.read_text(encoding="utf-8")
    loaded: dict[str, set[Path]] = {"img": set(), "script": set(), "link": set()}
    for found in _SOURCE.finditer(text):
        if found["target"].startswith("data:"):  # a picture within the page counts as HTML
            continue
        target = (path.parent / unquote(found["target"])).resolve()
        linked = found["tag"] != "link" or target.suffix == ".css"
        if linked and target.is_file() and target.is_relative_to(site.resolve()):
            loaded[found["tag"]].add(target)
    size = {tag: sum(one.stat().st_size for one in targets) for tag, targets in loaded.items()}
    return PageSize(
        page=path.relative_to(site).as_posix(),
        html=len(text.encode()),
        pictures=size["img"],
        shared=size["script"] + size["link"],
    )
