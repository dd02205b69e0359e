"""What a book needs besides its pages once it has an address: canonical links, a sitemap, a card for shared links."""

from __future__ import annotations

import html
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

from medvrag_core.corpus.showing import PagePicture
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError
from medvrag_core.runs.workspace import Workspace
from medvrag_core.views.markup import escape

if TYPE_CHECKING:
    from PIL import Image

TITLE = "MedVRAG, the book"
DESCRIPTION = (
    "Medical questions answered by looking at pages of papers: a system to read, step through, rerun and extend."
)
CARD = "_static/card.png"
CARD_SIZE = (1200, 630)
"""Pixels; the size that services expect of a large card."""

_SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
_NOT_LISTED = {"genindex.html", "search.html"}
_PAGE_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_INK, _SOFT, _BLUE, _PAPER = "#1f2328", "#59636e", "#0072b2", "#f6f8fa"


def publish_online(site: Path, address: str, picture: PagePicture | None = None) -> None:
    """Write canonical links and card tags into every page of ``site``, and ``sitemap.xml`` and the card beside them.

    Pages still fetch nothing: all of this is read by search engines and by services that show a link.

    Parameters
    ----------
    address : where the first page will be, such as ``https://example.org/book/``
    picture : the page of the corpus on the card; left out where its license does not allow that

    Raises
    ------
    InputError : the address is none
    """
    root = site_address(address)
    card = social_card(None if picture is None or picture.restricted else picture)
    (site / CARD).parent.mkdir(parents=True, exist_ok=True)
    card.save(site / CARD, optimize=True)
    found = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    pages = sorted(name for name in found if name not in _NOT_LISTED and not name.startswith("_static/"))
    for name in pages:
        text = found[name].read_text(encoding="utf-8")
        tags = _tags(root, name, text)
        found[name].write_text(text.replace("</head>", f"{tags}</head>", 1), encoding="utf-8")
    (site / "sitemap.xml").write_bytes(_sitemap([_url(root, name) for name in pages]))


def site_address(address: str) -> str:
    """The address with one slash at its end; InputError if it is not that of a site.

    >>> site_address("https://example.org/book")
    'https://example.org/book/'
    """
    parts = urlsplit(address.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(f"'{address}' is no address of a site", way_out="give one such as https://example.org/book/")
    return address.strip().rstrip("/") + "/"


def card_picture(run: Path) -> PagePicture | None:
    """A page of the run that a published book may show, rather not a title page; None where there is none."""
    folder = Workspace(run).corpus
    if not (folder / "manifest.json").is_file():
        return None
    store = CorpusStore.open(folder)
    pages = sorted(store.pages, key=lambda page: page.number == 1)
    pictures = (store.picture(page.page_id) for page in pages)
    return next((picture for picture in pictures if not picture.restricted), None)


def social_card(picture: PagePicture | None) -> Image.Image:
    """The card: title and description, beside them the page with its credit line. RGB, ``CARD_SIZE`` pixels."""
    from PIL import Image, ImageDraw, ImageFont

    card = Image.new("RGB", CARD_SIZE, _PAPER)
    draw = ImageDraw.Draw(card)
    draw.rectangle((0, 0, 16, CARD_SIZE[1]), fill=_BLUE)
    draw.text((72, 130), textwrap.fill(TITLE, 10), fill=_INK, font=ImageFont.load_default(78), spacing=14)
    draw.text((72, 360), textwrap.fill(DESCRIPTION, 40), fill=_SOFT, font=ImageFont.load_default(30), spacing=12)
    if picture is not None:
        with Image.open(picture.path) as opened:
            page = opened.convert("RGB")
        page.thumbnail((420, 540))
        left, top = 1150 - page.width, 36
        card.paste(page, (left, top))
        draw.rectangle((left - 1, top - 1, left + page.width, top + page.height), outline=_SOFT)
        credit = textwrap.shorten(picture.credit, 150, placeholder="…")
        draw.text((1150, top + page.height + 10), credit, fill=_SOFT, font=ImageFont.load_default(13), anchor="ra")
    return card


def _tags(root: str, name: str, text: str) -> str:
    found = _PAGE_TITLE.search(text)
    title = html.unescape(found[1]).strip().removesuffix(f" — {TITLE}") if found else TITLE
    told = {
        "og:type": "website",
        "og:site_name": TITLE,
        "og:title": title,
        "og:description": DESCRIPTION,
        "og:url": _url(root, name),
        "og:image": urljoin(root, CARD),
        "og:image:alt": f"{TITLE}: title, and a page of a paper",
    }
    metas = "".join(f'<meta property="{key}" content="{escape(value)}">\n' for key, value in told.items())
    return (
        f'<link rel="canonical" href="{escape(_url(root, name))}">\n'
        f'<meta name="description" content="{escape(DESCRIPTION)}">\n'
        f'<meta name="twitter:card" content="summary_large_image">\n{metas}'
    )


def _url(root: str, name: str) -> str:
    return root if name == "index.html" else urljoin(root, name)


def _sitemap(addresses: list[str]) -> bytes:
    ElementTree.register_namespace("", _SITEMAP)
    urls = ElementTree.Element(f"{{{_SITEMAP}}}urlset")
    for address in addresses:
        ElementTree.SubElement(ElementTree.SubElement(urls, f"{{{_SITEMAP}}}url"), f"{{{_SITEMAP}}}loc").text = address
    text: bytes = ElementTree.tostring(urls, encoding="utf-8", xml_declaration=True)
    return text
