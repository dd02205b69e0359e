"""How well each option of a question is supported by passages: the solver behind the embedded readers.

The classic information-retrieval solver: an option is as good as the passage that holds both what sets the
option apart and what the question asks about, close together.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medvrag_core.reasoning.passages import Passage, tokenize

# Words that carry the form of a question and not its subject.
QUESTION_WORDS = frozenset(
    tokenize(
        "a an and are as at be been but by did do does for from had has have how if in into is it its many most much of "
        "on one or such than that the their then there these they this those to was were what when where which while "
        "who whom whose why will with according find found following same best likely did "
        "o os as um uma de do da dos das em no na nos nas que qual quais foi por para com e el la los las del se y en"
    )
)
KIND_WEIGHT = {"reference": 0.25}
TEMPERATURE = 0.12
_NEAR = 8.0


@dataclass(frozen=True)
class Support:
    """Support of one option: a score >= 0 and the passage that gives most of it (None: no passage does)."""

    label: str
    score: float
    passage: Passage | None


class PassageIndex:
    """Passages with the statistics that scoring needs.

    Parameters
    ----------
    passages : in reading order within a page
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = list(passages)
        self._sets = [frozenset(p.tokens) for p in self.passages]
        self._frequency = Counter(t for p, s in zip(self.passages, self._sets, strict=True) for t in s)
        self._postings: dict[str, list[int]] = defaultdict(list)
        for number, tokens in enumerate(self._sets):
            for token in tokens:
                self._postings[token].append(number)
        self._by_page: dict[str, set[str]] = defaultdict(set)
        self._by_article: dict[str, set[str]] = defaultdict(set)
        for passage, tokens in zip(self.passages, self._sets, strict=True):
            self._by_page[passage.page_id] |= tokens | passage.context_tokens
            self._by_article[article_of(passage.page_id)] |= tokens

    def idf(self, token: str) -> float:
        """Inverse document frequency over the passages; tokens not seen weigh most."""
        n = self._frequency[token]
        return math.log(1.0 + (len(self.passages) - n + 0.5) / (n + 0.5))

    def seen(self, token: str) -> bool:
        """Whether any passage holds the token."""
        return self._frequency[token] > 0

    def with_any(self, tokens: Iterable[str]) -> list[int]:
        """Numbers of the passages that hold at least one of the tokens, ascending."""
        return sorted({number for token in tokens for number in self._postings.get(token, ())})

    def relevance(self, number: int, weights: Mapping[str, float], anchors: Sequence[int] = ()) -> float:
        """Share of the question's weight that a passage and its surroundings hold, 0 to 1.

        A word counts fully near an anchor (position of an option word), less elsewhere in the passage, less in
        its caption or heads, its neighbors, its page, its article.
        """
        total = sum(weights.values())
        if not total:
            return 0.0
        passage = self.passages[number]
        near = self._sets[number]
        around: set[str] = set()
        wide: set[str] = set()
        for step in (-1, 1, -2, 2, -3, 3):
            other = number + step
            if 0 <= other < len(self.passages) and self.passages[other].page_id == passage.page_id:
                (around if abs(step) == 1 else wide).update(self._sets[other])
        page, article = self._by_page[passage.page_id], self._by_article[article_of(passage.page_id)]
        held = 0.0
        for token, weight in weights.items():
            if token in near:
                gap = min((abs(a - p) for p, t in enumerate(passage.tokens) if t == token for a in anchors), default=0)
                held += weight * (0.6 + 0.4 * math.exp(-gap / _NEAR))
            elif token in passage.context_tokens:
                held += weight * 0.6
            elif token in around:
                held += weight * 0.4
            elif token in wide:
                held += weight * 0.3
            elif token in page:
                held += weight * 0.2
            elif token in article:
                held += weight * 0.12
        return held / total


def article_of(page_id: str) -> str:
    """``PMC1#p3`` -> ``PMC1``; an id without a page stands for itself."""
    return page_id.partition("#p")[0]


def question_weights(index: PassageIndex, question: str) -> dict[str, float]:
    """Weights of the words of a question that some passage holds."""
    words = dict.fromkeys(t for t in tokenize(question) if t not in QUESTION_WORDS and t != "%")
    return {t: index.idf(t) for t in words if index.seen(t)}


def option_weights(index: PassageIndex, options: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Weights of the words of each option; a word shared with other options tells less apart and weighs less."""
    words = {label: dict.fromkeys(t for t in tokenize(text) if t not in QUESTION_WORDS) for label, text in options.items()}
    shared = Counter(t for tokens in words.values() for t in tokens)
    out: dict[str, dict[str, float]] = {}
    for label, tokens in words.items():
        own = {t: index.idf(t) * (1.0 - (shared[t] - 1) / len(options)) ** 2 for t in tokens if shared[t] < len(options)}
        out[label] = own or {t: index.idf(t) for t in tokens or tokenize(options[label])}
    return out


def option_support(index: PassageIndex, question: str, options: Mapping[str, str]) -> list[Support]:
    """Support of every option, in the order of the options."""
    asked = question_weights(index, question)
    return [
        _best(index, label, own, asked, options[label]) for label, own in option_weights(index, options).items()
    ]


def _best(index: PassageIndex, label: str, own: dict[str, float], asked: dict[str, float], text: str) -> Support:
    total = sum(own.values())
    if not total:
        return Support(label, 0.0, None)
    subject = {t: w for t, w in asked.items() if t not in own} or asked
    phrase = [t for t in tokenize(text) if t in own]
    found: list[tuple[float, int]] = []
    for number in index.with_any(own):
        passage = index.passages[number]
        positions = [i for i, t in enumerate(passage.tokens) if t in own]
        cover = sum(w for t, w in own.items() if t in index._sets[number]) / total
        anchors = _tightest(passage.tokens, positions, own)
        if len(phrase) > 1 and anchors:
            spread = (anchors[-1] - anchors[0] + 1) / max(1, len(set(phrase)))
            cover *= 1.0 if spread <= 2 else max(0.5, 2.0 / spread)
        score = cover**2 * (0.05 + index.relevance(number, subject, anchors)) * KIND_WEIGHT.get(passage.kind, 1.0)
        found.append((score, number))
    if not found:
        return Support(label, 0.0, None)
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    score = found[0][0] + 0.15 * sum(s / rank for rank, (s, _) in enumerate(found[1:4], 2))
    return Support(label, score, index.passages[found[0][1]])


def _tightest(tokens: Sequence[str], positions: list[int], own: Mapping[str, float]) -> list[int]:
    """Positions of the shortest stretch that holds all the own words this passage has."""
    need = len({tokens[p] for p in positions})
    best: list[int] = []
    for start in range(len(positions)):
        seen: set[str] = set()
        for stop in range(start, len(positions)):
            seen.add(tokens[positions[stop]])
            if len(seen) == need:
                if not best or positions[stop] - positions[start] < best[-1] - best[0]:
                    best = positions[start : stop + 1]
                break
    return best


def probabilities(scores: Sequence[float], temperature: float = TEMPERATURE) -> list[float]:
    """Softmax of scores.

    >>> [round(p, 2) for p in probabilities([0.5, 0.5])]
    [0.5, 0.5]
    """
    top = max(scores)
    weights = [math.exp((s - top) / temperature) for s in scores]
    return [w / sum(weights) for w in weights]


_INVERTED = re.compile(r"\b(?:EXCEPT|NOT|LEAST)\b|\b(?:all|each) of the following\b.*\bexcept\b|\bleast likely\b|\bfalse\b")


def is_inverted(question: str) -> bool:
    """Whether the question asks for the option that the evidence does not support.

    >>> is_inverted("Which of these is NOT a sign of sepsis?"), is_inverted("Was it not effective?")
    (True, False)
    """
    return _INVERTED.search(question) is not None
