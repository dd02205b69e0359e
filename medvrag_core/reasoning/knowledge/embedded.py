"""The tasks done without a model: deterministic, fast, and extractive, so that every system runs everywhere.

They say nothing that a page does not say, so they stand in for the machinery of MedRGAG and not for its knowledge:
what its authors gain from what a model knows by itself cannot be seen on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from medvrag_core.reasoning.judge import content_words, missing_words
from medvrag_core.reasoning.knowledge.base import (
    NONE_SELECTED,
    NOTHING_FOUND,
    NOTHING_USEFUL,
    Explorer,
    Generator,
    Integrator,
    Summarizer,
)
from medvrag_core.reasoning.passages import Passage, split_text, tokenize
from medvrag_core.reasoning.source import EvidenceSource
from medvrag_core.reasoning.support import QUESTION_WORDS, PassageIndex, best_passages, option_support, shown_text
from medvrag_core.records import EvidenceItem, Question, Step, Summary

VERSION = "knowledge-1"
"""Raised whenever one of these would do another thing with the same input."""
EXTRACT = "extract of the corpus"
"""Who wrote a document that holds sentences of the corpus alone."""

_SUMMARY_CHARACTERS = 400
_SUPPORTED, _HALF = 0.15, 0.5
"""Support of an option as the embedded reader counts it; the share of a question's words that makes a text useful."""
_SENTENCES = 3
_CHUNKS = 8
_EXTRACT_CHARACTERS = 4_000


class ExtractingSummarizer(Summarizer):
    """The passages that say most about question and options.

    A document is useful when it supports an option, or holds at least half of what the question is about.
    """

    def summarize(self, question: Question, document: EvidenceItem) -> Step:
        """See :class:`Summarizer`."""
        index = PassageIndex(split_text(document.text, document.page_id))
        step = Step(kind="summarize", about=document.evidence_id, made_by=VERSION)
        if not _useful(index, question):
            return step.model_copy(update={"reason": NOTHING_USEFUL})
        best = best_passages(index, question.question, question.options, _SUMMARY_CHARACTERS)
        return _extracted(step, best, NOTHING_USEFUL)


class WordExplorer(Explorer):
    """Runs of words of the question that nothing found holds, in its order; the options are not looked at.

    >>> told = Summary(page_id="p#p1", text="The daily dose is 5 mg.", method="test")
    >>> asked = Question(id="q", question="Which daily dose of chloroquine damages the retina?", options={})
    >>> WordExplorer().explore(asked, [told], 3).names
    ('chloroquine damages retina',)
    """

    def explore(self, question: Question, digest: Sequence[Summary], most: int) -> Step:
        """See :class:`Explorer`."""
        passages = [passage for summary in digest for passage in split_text(summary.text, summary.page_id)]
        missing = set(missing_words(PassageIndex(passages), question.question))
        runs = groupby(content_words(question.question), key=missing.__contains__)
        names = tuple(" ".join(words) for lacks, words in runs if lacks)
        return Step(kind="explore", names=names[:most], made_by=VERSION)


class ExtractingGenerator(Generator):
    """Sentences of the corpus on a point, a few a document, told as what they are: :data:`EXTRACT`.

    A document on a point holds those that say a word of it, the closest to the question first. Documents for the
    question as a whole take its best sentences in turn, so that no two are alike. ``names`` of a step are the pages
    that the sentences stand on.

    Parameters
    ----------
    source : searched with point and question
    """

    def __init__(self, source: EvidenceSource) -> None:
        self.source = source

    def generate(self, question: Question, point: str, number: int = 1, of: int = 1) -> Step:
        """See :class:`Generator`."""
        subject = f"{point} {question.question}".strip()
        found = self.source.search(subject).hits[:_CHUNKS]
        items = map(self.source.evidence, (hit.page_id for hit in found))
        index = PassageIndex([passage for item in items for passage in split_text(item.text, item.page_id)])
        best = _each_once(best_passages(index, subject, {}, _EXTRACT_CHARACTERS))
        if point:
            best = [passage for passage in best if _words([point]) & set(passage.tokens)]
        taken = best[(number - 1) * _SENTENCES : number * _SENTENCES]
        step = Step(kind="generate", about=point, names=tuple(dict.fromkeys(p.page_id for p in taken)), made_by=EXTRACT)
        return _extracted(step, taken, NOTHING_FOUND)


class CoveringIntegrator(Integrator):
    """Few documents that hold the words of question and options: again and again the one that adds most of them.

    Of two that add as many the first is taken. Words that no document holds are no need, and a document that adds none
    is left out.
    """

    def select(self, question: Question, documents: Sequence[EvidenceItem], most: int) -> Step:
        """See :class:`Integrator`."""
        needs = _words([question.question, *question.options.values()])
        held = {item.evidence_id: needs & _words([item.text]) for item in documents}
        names: list[str] = []
        missing = set().union(*held.values()) if held else set()
        while missing and len(names) < most:
            name = max(held, key=lambda one: len(held[one] & missing))
            names.append(name)
            missing -= held[name]
        return Step(kind="select", names=tuple(names), made_by=VERSION, reason="" if names else NONE_SELECTED)


def _useful(index: PassageIndex, question: Question) -> bool:
    words = content_words(question.question)
    missing = missing_words(index, question.question)
    if words and len(missing) <= (1 - _HALF) * len(words):
        return True
    supports = option_support(index, question.question, question.options).values()
    return any(support.score >= _SUPPORTED for support in supports)


def _extracted(step: Step, passages: Sequence[Passage], otherwise: str) -> Step:
    text = " ".join(map(shown_text, passages))
    return step.model_copy(update={"text": text, "reason": "" if text else otherwise})


def _each_once(passages: Iterable[Passage]) -> list[Passage]:
    """Passages of overlapping chunks, those of the same words once."""
    return list({passage.tokens: passage for passage in reversed(list(passages))}.values())[::-1]


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in tokenize(text) if word not in QUESTION_WORDS}
