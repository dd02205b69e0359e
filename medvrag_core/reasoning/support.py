"""How well passages support each option of a question: the solver behind the embedded readers.

The classic information-retrieval solver: an option is as good as the one passage that holds both what sets
the option apart and what the question asks about, close together.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medvrag_core.models.reply_text import neutral
from medvrag_core.reasoning.passages import Passage, PassageKind, tokenize

# Words that carry the form of a question and not its subject (English, Portuguese, Spanish).
QUESTION_WORDS = frozenset(
    tokenize(
        "a an and are as at be been but by did do does for from had has have how if in into is it its many most much "
        "of on one or such than that the their then there these they this those to was were what when where which "
        "while who whom whose why will with according find found following same best likely "
        "o os as um uma de do da dos das em no na nos nas que qual quais foi por para com e el la los las del se y en"
    )
)
# Titles in a list of references hold many names and years and state nothing; summaries are cut from pages.
KIND_WEIGHT: Mapping[PassageKind, float] = {"reference": 0.25, "summary": 0.8}

# Share of a question word's weight by where it stands, measured on the even questions of the page set.
_PLAIN, _NEAR_TOKENS, _BEHIND = 0.75, 20.0, 1.5
_CONTEXT, _NEXT, _CLOSE, _PAGE, _ARTICLE = 0.6, 0.4, 0.3, 0.2, 0.12
_FLOOR = 0.05


@dataclass(frozen=True)
class Support:
    """Support of one option: a score from 0 to about 1 and the passage that gives it (None: no passage does)."""

    score: float = 0.0
    passage: Passage | None = None


class PassageIndex:
    """Passages with the word statistics that scoring needs.

    Parameters
    ----------
    passages : those of one page together and in reading order
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = list(passages)
        self.words = [frozenset(p.tokens) for p in self.passages]
        self._postings: dict[str, list[int]] = defaultdict(list)
        self._by_page: dict[str, set[str]] = defaultdict(set)
        self._by_article: dict[str, set[str]] = defaultdict(set)
        for number, (passage, words) in enumerate(zip(self.passages, self.words, strict=True)):
            for word in words:
                self._postings[word].append(number)
            self._by_page[passage.page_id] |= words | passage.context_tokens
            self._by_article[article_of(passage.page_id)] |= words

    def seen(self, word: str) -> bool:
        """Whether any passage holds the word."""
        return word in self._postings

    def idf(self, word: str) -> float:
        """Inverse document frequency over the passages; words not seen weigh most."""
        n = len(self._postings.get(word, ()))
        return math.log(1.0 + (len(self.passages) - n + 0.5) / (n + 0.5))

    def with_any(self, words: Iterable[str]) -> list[int]:
        """Numbers of the passages that hold at least one of the words, ascending."""
        return sorted({number for word in words for number in self._postings.get(word, ())})

    def relevance(self, number: int, weights: Mapping[str, float], span: tuple[int, int] | None = None) -> float:
        """Share of the question's weight that a passage and its surroundings hold, 0 to 1.

        A word counts most beside ``span`` (first and last token of the option), in front of it more than
        behind; less in the caption or heads of the passage, in its neighbors, on its page, in its article.
        """
        total = sum(weights.values())
        if not total:
            return 0.0
        passage = self.passages[number]
        places = (
            (passage.context_tokens, _CONTEXT),
            (self._around(number, (-1, 1)), _NEXT),
            (self._around(number, (-3, -2, 2, 3)), _CLOSE),
            (self._by_page[passage.page_id], _PAGE),
            (self._by_article[article_of(passage.page_id)], _ARTICLE),
        )
        held = 0.0
        for word, weight in weights.items():
            if word in self.words[number]:
                gap = _gap(passage.tokens, word, span)
                held += weight * (_PLAIN + (1.0 - _PLAIN) * math.exp(-gap / _NEAR_TOKENS))
            else:
                held += weight * next((share for words, share in places if word in words), 0.0)
        return held / total

    def _around(self, number: int, steps: Iterable[int]) -> set[str]:
        passage = self.passages[number]
        found: set[str] = set()
        for step in steps:
            if 0 <= number + step < len(self.passages):
                other = self.passages[number + step]
                if other.page_id == passage.page_id and other.order == passage.order + step:
                    found |= self.words[number + step]
        return found


def article_of(page_id: str) -> str:
    """``PMC1#p3`` -> ``PMC1``; an id without a page stands for itself."""
    return page_id.partition("#p")[0]


def question_weights(index: PassageIndex, question: str) -> dict[str, float]:
    """Weights of the words of a question that some passage holds.

    Squared, since the rare words of a long question (a place, a drug, a subgroup) single out the passage.
    """
    words = dict.fromkeys(t for t in tokenize(question) if t not in QUESTION_WORDS and t != "%")
    return {t: index.idf(t) ** 2 for t in words if index.seen(t)}


def option_weights(index: PassageIndex, options: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Weights of the words of each option; a word that options share tells them less apart and weighs less."""
    words = {k: dict.fromkeys(t for t in tokenize(text) if t not in QUESTION_WORDS) for k, text in options.items()}
    shared = Counter(t for tokens in words.values() for t in tokens)
    out: dict[str, dict[str, float]] = {}
    for label, tokens in words.items():
        own = {t: index.idf(t) * (1 - (shared[t] - 1) / len(options)) ** 2 for t in tokens if shared[t] < len(options)}
        out[label] = own or {t: index.idf(t) for t in tokens or tokenize(options[label])}
    return out


def option_support(index: PassageIndex, question: str, options: Mapping[str, str]) -> dict[str, Support]:
    """Support of every option, in the order of the options."""
    asked = question_weights(index, question)
    return {label: _best(index, own, asked) for label, own in option_weights(index, options).items()}


def _best(index: PassageIndex, own: dict[str, float], asked: dict[str, float]) -> Support:
    total = sum(own.values())
    if not total:
        return Support()
    subject = {t: w for t, w in asked.items() if t not in own} or asked
    best = Support()
    for number in index.with_any(own):
        passage = index.passages[number]
        span = _tightest(passage.tokens, own)
        held = [t for t in own if t in index.words[number]]
        spread = (span[1] - span[0] + 1) / len(held)
        cover = sum(own[t] for t in held) / total * (1.0 if spread <= 2 else max(0.5, 2.0 / spread))
        score = cover**2 * (_FLOOR + index.relevance(number, subject, span)) * KIND_WEIGHT.get(passage.kind, 1.0)
        if score > best.score:
            best = Support(score, passage)
    return best


def _gap(tokens: Sequence[str], word: str, span: tuple[int, int] | None) -> float:
    """Tokens between the nearest occurrence of a word and the option; behind the option counts more."""
    if span is None:
        return 0.0
    first, last = span
    return min(
        float(first - i) if i < first else 0.0 if i <= last else _BEHIND * (i - last + 1)
        for i, token in enumerate(tokens)
        if token == word
    )


def _tightest(tokens: Sequence[str], own: Mapping[str, float]) -> tuple[int, int]:
    """First and last position of the shortest stretch that holds every own word the passage has."""
    positions = [i for i, t in enumerate(tokens) if t in own]
    need = len({tokens[i] for i in positions})
    best, left = (positions[0], positions[-1]), 0
    inside: Counter[str] = Counter()
    for right in positions:
        inside[tokens[right]] += 1
        while inside[tokens[positions[left]]] > 1:
            inside[tokens[positions[left]]] -= 1
            left += 1
        if len(inside) == need and right - positions[left] < best[1] - best[0]:
            best = (positions[left], right)
    return best


def best_passages(index: PassageIndex, question: str, options: Mapping[str, str], characters: int) -> list[Passage]:
    """Passages most worth showing to a small model, best first, ``characters`` long together at most.

    A passage is worth what it holds of the question, and more where it also holds words of some option.
    """
    asked = question_weights(index, question)
    owns = [own for own in option_weights(index, options).values() if sum(own.values())]
    scored = []
    for number in index.with_any([*asked, *(word for own in owns for word in own)]):
        held = max(
            (sum(w for t, w in own.items() if t in index.words[number]) / sum(own.values()) for own in owns), default=0
        )
        kind = KIND_WEIGHT.get(index.passages[number].kind, 1.0)
        scored.append(((0.4 + 0.6 * held) * index.relevance(number, asked) * kind, number))
    chosen: list[Passage] = []
    for _, number in sorted(scored, key=lambda pair: (-pair[0], pair[1])):
        length = len(shown_text(index.passages[number]))
        if length <= characters:
            chosen.append(index.passages[number])
            characters -= length
        if characters < 40:
            break
    return chosen


def shown_text(passage: Passage) -> str:
    """A passage to be read on its own: a table row comes with its caption."""
    if passage.kind == "row" and passage.context:
        return f"{neutral(passage.context, 120)}: {neutral(passage.text, 380)}"
    return neutral(passage.text, 500)
