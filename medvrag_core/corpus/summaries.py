"""Extractive page summaries of about 120 tokens; sentences of the page, so nothing can be invented.

The paper lets Qwen2.5-VL-7B write summaries offline (section 3.1). A summary here names the article,
then takes headings, captions and table heads, then sentences that are central to the page and
differ from each other (maximal marginal relevance over TF-IDF).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.models.tokens import EstimatedTokens
from medvrag_core.records import Page, PageLayout, Summary
from medvrag_core.runs.publish import whole_file
from medvrag_core.settings import CorpusSettings

METHOD = "extractive-1"
_WORD = re.compile(r"[^\W_]+(?:[.,/%-]?[^\W_]+)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÀ-Ý0-9])")
_LONGEST_CAPTION = 30
_DIVERSITY = 0.5


class Extracts:
    """Extractive summaries of the pages of one corpus; terms that few of its pages have count more.

    Parameters
    ----------
    limit : most words and numbers of a summary
    """

    def __init__(self, store: CorpusStore, limit: int) -> None:
        self._store, self._limit, self._tokens = store, limit, EstimatedTokens()
        frequency: Counter[str] = Counter()
        pages = 0
        for page in store.pages:
            frequency.update(set(_terms(page.text)))
            pages += 1
        self._rarity = {term: math.log(1 + pages / count) for term, count in frequency.items()}
        self._titles = {article.article_id: article.title for article in store.articles}

    def of(self, page: Page) -> Summary:
        """The summary of one page; the same corpus gives the same text."""
        title = self._titles.get(page.article_id, "")
        text = summarize(page, self._store.layout_of(page), title, self._rarity, self._limit)
        return Summary(page_id=page.page_id, text=text, method=METHOD, tokens=self._tokens.count(text))


def summarize_pages(store: CorpusStore, settings: CorpusSettings) -> None:
    """Write the extract of every page of the store, deterministically."""
    extracts = Extracts(store, settings.summary_tokens)
    write_summaries(store.folder, map(extracts.of, store.pages))


def write_summaries(folder: Path, summaries: Iterable[Summary]) -> None:
    """Publish ``summaries.jsonl``."""
    with whole_file(folder / "summaries.jsonl") as temporary, temporary.open("w", encoding="utf-8") as handle:
        handle.writelines(summary.to_json() + "\n" for summary in summaries)


def shortened(text: str, limit: int) -> str:
    """A text in at most ``limit`` words and numbers: cut behind a sentence, or within one that is too long by itself.

    >>> shortened("Start low. Go slow. Then 5 mg.", 4), shortened("One two three four.", 2)
    ('Start low. Go slow.', 'One two ...')
    """
    ends = [match.start() for match in _SENTENCE.finditer(text)]
    kept = [end for end in (*ends, len(text)) if _length(text[:end]) <= limit]
    return text[: kept[-1]].rstrip() if kept else _cut(text, limit)


def summarize(page: Page, layout: PageLayout, title: str, rarity: dict[str, float], limit: int) -> str:
    """Summary of one page in at most ``limit`` words and numbers.

    Parameters
    ----------
    rarity : inverse document frequency by lower-case term
    """
    parts: list[str] = []
    room = limit
    heads = [f"{title}, page {page.number}."] if title else []
    heads += [region.text for region in layout.regions if region.kind == "heading"][:3]
    heads += [_cut(region.text, _LONGEST_CAPTION) for region in layout.regions if region.kind == "caption"][:4]
    heads += _table_heads(layout)[:2]
    for head in heads:
        head = _cut(head, max(0, room - limit // 4))
        if head and head not in parts:
            parts.append(head)
            room -= _length(head)
    body = " ".join(region.text for region in layout.regions if region.kind == "text") or page.text
    for sentence in central_sentences(body, rarity):
        if _length(sentence) <= room:
            parts.append(sentence)
            room -= _length(sentence)
        if room < 6:
            break
    return " ".join(parts) if parts else "This page holds no text that could be read."


def central_sentences(text: str, rarity: dict[str, float], most: int = 8) -> list[str]:
    """Sentences in order of choice: near the page's TF-IDF vector, far from those chosen before."""
    sentences = [s.strip() for s in _SENTENCE.split(text) if 5 <= _length(s) <= 60]
    vectors = [_weights(s, rarity) for s in sentences]
    page = _weights(text, rarity)
    chosen: list[int] = []
    while len(chosen) < min(most, len(sentences)):
        best = max(
            (i for i in range(len(sentences)) if i not in chosen),
            key=lambda i: (
                _cosine(vectors[i], page)
                - _DIVERSITY * max((_cosine(vectors[i], vectors[j]) for j in chosen), default=0.0),
                -i,
            ),
        )
        chosen.append(best)
    return [sentences[i] for i in chosen]


def _table_heads(layout: PageLayout) -> list[str]:
    """First row of each table: rows that follow another row directly are its body."""
    heads, before = [], ""
    for region in layout.regions:
        if region.kind == "table_row" and before != "table_row":
            heads.append("Table: " + region.text.replace(" | ", ", "))
        before = region.kind
    return heads


def _terms(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _weights(text: str, rarity: dict[str, float]) -> dict[str, float]:
    counts = Counter(_terms(text))
    weights = {term: count * rarity.get(term, 0.0) for term, count in counts.items()}
    norm = math.sqrt(sum(w * w for w in weights.values())) or 1.0
    return {term: w / norm for term, w in weights.items()}


def _cosine(a: dict[str, float], b: dict[str, float]) -> float:
    small, large = (a, b) if len(a) < len(b) else (b, a)
    return sum(weight * large.get(term, 0.0) for term, weight in small.items())


def _length(text: str) -> int:
    return len(_WORD.findall(text))


def _cut(text: str, words: int) -> str:
    ends: Sequence[int] = [match.end() for match in _WORD.finditer(text)]
    return text.strip() if len(ends) <= words else (text[: ends[words - 1]].strip() + " ..." if words > 0 else "")
