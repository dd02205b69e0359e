"""Turns the support of options into a ranking with probabilities, for all forms of question.

Questions that ask for the exception are inverted; yes / no / maybe is read from the polarity of the best
passage; "none" and "all of the above" are judged by the other options; without evidence a plain prior decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from medvrag_core.reasoning.passages import Passage, evidence_passages, tokenize
from medvrag_core.reasoning.support import QUESTION_WORDS, PassageIndex, Support, option_support, question_weights
from medvrag_core.records import ReaderInput

TEMPERATURE = 0.06
_SUPPORTED = 0.15

_INVERTED = re.compile(
    r"\bEXCEPT\b|\bNOT\b|\bLEAST\b|\bexcept\s*[:?]?\s*$|\ball of the following\b.*\bexcept\b|\bleast likely\b"
)
_NONE = re.compile(r"^none(?: of (?:the|these)(?: above| options)?)?$")
_ALL = re.compile(r"^(?:all|both) of (?:the|these)(?: above| options)?$|^all of them$")
_YES, _NO, _MAYBE = ("yes", "sim", "si", "sí", "true"), ("no", "nao", "não", "false"), ("maybe", "talvez", "unclear")
_NEGATED = re.compile(
    r"\b(?:no|not|neither|nor|without|lack(?:ed|s)?|fail(?:ed|s)?|absence of|unlikely|non-?significant|insignificant|"
    r"did not|does not|cannot)\b|\bn't\b",
    re.IGNORECASE,
)
_HEDGED = re.compile(
    r"\b(?:unclear|inconclusive|conflicting|controversial|remains? (?:to be|uncertain|unknown)|"
    r"further (?:studies|research)|insufficient|inconsistent|mixed|may or may not)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Judgement:
    """Outcome of one round.

    Attributes
    ----------
    ranking : labels, best first, ties in the order of the options
    probability : label -> share, summing to 1
    passage : label -> best supporting passage, None where there is none
    missing : words of the question that nothing shown holds, as written
    basis : how the ranking came about, in words
    """

    ranking: tuple[str, ...]
    probability: Mapping[str, float]
    passage: Mapping[str, Passage | None]
    missing: tuple[str, ...]
    basis: str


def judge(given: ReaderInput) -> Judgement:
    """Rank the options of a question by the evidence of one round."""
    question, options = given.question.question, given.question.options
    index = PassageIndex(evidence_passages(given))
    missing = missing_words(index, question)
    polarity = _polarity_labels(options)
    if polarity:
        support, basis = _by_polarity(index, question, polarity, options), "by the polarity of the closest passage"
    else:
        support, basis = _with_none_and_all(option_support(index, question, options), options), "best supported"
    scores = {label: s.score for label, s in support.items()}
    passages = {label: s.passage for label, s in support.items()}
    if not any(scores.values()):
        scores, basis = _prior(question, options), "closest in words to the question"
    elif _INVERTED.search(question) and not polarity:
        scores, basis = {label: -score for label, score in scores.items()}, "least supported, as the question asks"
    probability = softmax(scores, TEMPERATURE)
    order = sorted(options, key=lambda label: -scores[label])
    return Judgement(tuple(order), probability, passages, missing, basis)


def softmax(scores: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Shares that sum to 1.

    >>> softmax({"A": 0.3, "B": 0.3}, 0.1)
    {'A': 0.5, 'B': 0.5}
    """
    top = max(scores.values())
    weights = {label: math.exp((score - top) / temperature) for label, score in scores.items()}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def content_words(text: str) -> list[str]:
    """The words of a text that say what it is about, as written, each once.

    >>> content_words("What is the maximum daily dose of hydroxychloroquine?")
    ['maximum', 'daily', 'dose', 'hydroxychloroquine']
    """
    words = (w.strip(".,;:!?()[]{}\"'“”‘’") for w in text.split())
    return list(dict.fromkeys(w for w in words if any(t not in QUESTION_WORDS for t in tokenize(w))))


def missing_words(index: PassageIndex, question: str) -> tuple[str, ...]:
    """Words of the question that no passage holds, as written."""
    return tuple(word for word in content_words(question) if not any(index.seen(token) for token in tokenize(word)))


def _prior(question: str, options: Mapping[str, str]) -> dict[str, float]:
    """No evidence: the share of an option's words that the question uses; small, so that nothing looks decided."""
    asked = set(tokenize(question)) - QUESTION_WORDS
    shares = {}
    for label, text in options.items():
        words = set(tokenize(text)) - QUESTION_WORDS
        shares[label] = 0.01 * len(words & asked) / len(words) if words else 0.0
    return shares


def _with_none_and_all(support: dict[str, Support], options: Mapping[str, str]) -> dict[str, Support]:
    plain = {label: " ".join(re.findall(r"[a-z]+", text.casefold())) for label, text in options.items()}
    special = {label for label, text in plain.items() if _NONE.match(text) or _ALL.match(text)}
    others = [s for label, s in support.items() if label not in special]
    if not special or not others:
        return support
    strongest = max(others, key=lambda s: s.score)
    weakest = min(s.score for s in others)
    out = dict(support)
    for label in special:
        if _NONE.match(plain[label]):
            out[label] = Support(_SUPPORTED if strongest.score < _SUPPORTED else 0.0)
        else:
            together = weakest >= max(_SUPPORTED, 0.8 * strongest.score)
            out[label] = Support(strongest.score * 1.1 if together else 0.0, strongest.passage)
    return out


def _polarity_labels(options: Mapping[str, str]) -> dict[str, str]:
    """``yes`` / ``no`` / ``maybe`` -> label, where the options are exactly those; else empty."""
    out = {}
    for label, text in options.items():
        word = text.strip(" .").casefold()
        kind = "yes" if word in _YES else "no" if word in _NO else "maybe" if word in _MAYBE else ""
        if not kind or kind in out:
            return {}
        out[kind] = label
    return out if {"yes", "no"} <= set(out) else {}


def _by_polarity(
    index: PassageIndex, question: str, labels: Mapping[str, str], options: Mapping[str, str]
) -> dict[str, Support]:
    weights = question_weights(index, question)
    votes = {label: Support() for label in options}
    scored = [(index.relevance(n, weights), n) for n in index.with_any(weights)]
    for relevance, number in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:3]:
        passage = index.passages[number]
        kind = "no" if _NEGATED.search(passage.text) else "yes"
        if "maybe" in labels and _HEDGED.search(passage.text):
            kind = "maybe"
        old = votes[labels[kind]]
        votes[labels[kind]] = Support(old.score + relevance / 2, old.passage or passage)
    return votes
