"""Finds what a page would fetch from elsewhere when it is opened."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

_FETCHING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src",
             "embed": "src", "object": "data", "input": "src"}  # fmt: skip
_FETCHING_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "modulepreload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "manifest",
}
_REMOTE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
_REMOTE_CSS = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)


def external_requests(site: Path) -> list[str]:
    """Every remote script, style sheet, image or font that the pages of ``site`` ask for.

    Returns one ``file: address`` each, sorted; links that a reader may click do not count.
    """
    found: set[str] = set()
    for path in sorted(site.rglob("*.html")):
        parser = _Requests()
        parser.feed(path.read_text(encoding="utf-8", errors="replace"))
        found |= {f"{path.relative_to(site).as_posix()}: {address}" for address in parser.addresses}
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8", errors="replace")
        found |= {f"{path.relative_to(site).as_posix()}: {address}" for address in _REMOTE_CSS.findall(text)}
    return sorted(found)


class _Requests(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        address = values.get(_FETCHING.get(tag, ""), "")
        if tag == "link" and _FETCHING_LINKS & set(values.get("rel", "").lower().split()):
            address = values.get("href", "")
        if _REMOTE.match(address):
            self.addresses.append(address.strip())
        srcset = values.get("srcset", "")
        self.addresses += [part.split()[0] for part in srcset.split(",") if part.strip() and _REMOTE.match(part)]
        self.addresses += _REMOTE_CSS.findall(values.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.addresses += _REMOTE_CSS.findall(data)
