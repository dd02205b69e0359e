"""Title and identifiers of an article as its first page shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from medvrag_core.corpus.job import FrontMatter
from medvrag_core.corpus.lines import PageLines
from medvrag_core.corpus.text import join_lines, normalize, vocabulary_of


def front_matter(metadata: Mapping[str, str], page: PageLines) -> FrontMatter:
    """Title and identifiers from the first page, its metadata title only if the page shows it too."""
    text = normalize(" ".join(line.text for line in page.lines))
    title = normalize(metadata.get("title") or "")
    shown = vocabulary_of(text.split())
    words = [word.strip(".,;:()").lower() for word in title.split()]
    if len(words) < 3 or sum(word in shown for word in words) < 0.8 * len(words):
        title = _largest_text(page)
    doi = re.search(r"\b10\.\d{4,9}/[-._;()/:A-Za-z0-9]+", f"{metadata.get('subject') or ''} {text}")
    pmid = re.search(r"\bPMID:?\s*(\d{4,9})\b", text)
    licence = re.search(r"creativecommons\.org/licenses/([a-z-]+)/(\d\.\d)", text.replace(" ", ""))
    return FrontMatter(
        title=title[:400],
        doi=doi.group().rstrip(".;:)(").lower() if doi else "",
        pmid=pmid.group(1) if pmid else "",
        licence=f"CC {licence.group(1).upper()} {licence.group(2)}" if licence else "",
    )


def _largest_text(page: PageLines) -> str:
    top = [x for x in page.lines if x.box[1] - page.frame[1] < 0.6 * page.height and len(x.text.strip()) > 3]
    for size in sorted({round(line.size, 1) for line in top}, reverse=True):
        title = join_lines([line.text for line in top if abs(line.size - size) < 0.6])
        if len(title.split()) >= 4:
            return title
    return ""
