"""Static twins of the book's figures: each one as an SVG file, for print and for slides.

The twin is made by the plotly.js of the book itself, in the light colors, so that it is the figure and no copy of it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from medvrag_core.errors import NotBuiltError
from medvrag_core.runs.publish import write_text
from medvrag_core.views.publishing.chromium import find_browser, run_browser
from medvrag_core.views.publishing.errors import BookError

WIDTH = 760
"""Pixels of a twin, as wide as the text of the book."""
_FIGURE = re.compile(
    r'<figure class="medvrag-figure" aria-label="(?P<title>[^"]*)">.*?'
    r'<script type="application/json">(?P<json>[^<]*)</script>',
    re.S,
)
_TWIN = re.compile(r'<pre class="twin">data:image/svg\+xml,([^<]*)</pre>')
_PAGE = """<!doctype html><meta charset="utf-8"><script src="{plotly}"></script>
<script id="figures" type="application/json">[{figures}]</script><div id="twins"></div>
<script>
(async () => {{
  for (const {{ data, layout }} of JSON.parse(document.getElementById("figures").textContent)) {{
    const twin = document.createElement("pre");
    twin.className = "twin";
    const size = {{ width: {width}, height: layout.height || 380 }};
    twin.textContent = await Plotly.toImage({{ data, layout }}, {{ format: "svg", ...size }});
    document.getElementById("twins").append(twin);
  }}
}})();
</script>
"""


def write_figures(site: Path, out: Path, *, seconds: float = 180) -> list[Path]:
    """Write the twin of each figure of a built book; returns the files in the order of their pages.

    A file is named by its page, its number there and its title: ``03_filter-02-recall-by-retriever.svg``.

    Parameters
    ----------
    site : folder with the built pages
    out : folder for the files; others that lie there stay
    seconds : most that the browser may take for one page

    Raises
    ------
    NotBuiltError : there is no built book
    BookError : the browser did not draw a figure, or drew what is more than a picture
    MedvragError : there is no browser
    """
    if not (site / "index.html").is_file():
        raise NotBuiltError(f"{site}: holds no book", way_out="medvrag book build")
    browser, files = find_browser(), []
    with tempfile.TemporaryDirectory(prefix="medvrag-figures-") as folder:
        for page in sorted(site.glob("chapters/*.html")):
            found = list(_FIGURE.finditer(page.read_text(encoding="utf-8")))
            if not found:
                continue
            source = Path(folder) / page.name
            plotly = (site / "_static" / "plotly.min.js").resolve().as_uri()
            figures = ",".join(one["json"] for one in found)
            source.write_text(_PAGE.format(plotly=plotly, figures=figures, width=WIDTH), encoding="utf-8")
            drawn = run_browser(browser, source, Path(folder) / "profile", seconds, "--dump-dom").decode("utf-8")
            twins = [unquote(unescape(text)) for text in _TWIN.findall(drawn)]
            if len(twins) != len(found):
                raise BookError(f"{page.name}: {len(twins)} of {len(found)} figures were drawn", way_out="try again")
            for number, (one, svg) in enumerate(zip(found, twins, strict=True), start=1):
                path = out / f"{page.stem}-{number:02d}-{_slug(unescape(one['title']))}.svg"
                require_picture(svg, path.name)
                write_text(path, svg)
                files.append(path)
    return files


def require_picture(svg: str, name: str) -> None:
    """Raise BookError for what is no SVG, runs anything, or fetches anything.

    >>> require_picture('<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>', "x.svg")
    """
    try:
        root = ElementTree.fromstring(svg)
    except (ElementTree.ParseError, DefusedXmlException) as error:
        raise BookError(f"{name}: is no SVG ({error})") from None
    fault = next(_faults(root), None)
    if fault:
        raise BookError(f"{name}: {fault}")


def _faults(root: Element) -> Iterator[str]:
    for element in root.iter():
        tag = str(element.tag).rsplit("}", 1)[-1]
        if tag in ("script", "foreignObject"):
            yield f"holds <{tag}>"
        for key, value in element.attrib.items():
            attribute = key.rsplit("}", 1)[-1]
            if attribute.startswith("on"):
                yield f"holds {attribute}="
            if attribute == "href" and not value.startswith(("#", "data:image/")):
                yield f"leads to {value[:80]}"


def _slug(title: str) -> str:
    """A title as part of a file name.

    >>> _slug("Recall, by <b>retriever</b>"), _slug("∆")
    ('recall-by-retriever', 'figure')
    """
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"<[^>]*>", "", title).lower()).strip("-")[:60] or "figure"
