"""Question text in page text, word for word or nearly so (paper section 3.1: word for word, and MMLU-Med alone).

Two tests, on text from which typesetting was taken (:func:`~medvrag_core.corpus.folded_text.folded_words`):

- ``verbatim``: all letters and digits of the question stand in the page in their order, blanks aside, so that words
  broken in two or run together do not hide it;
- ``near``: of the question's runs of eight words, a share of at least ``near`` (0.8) stands in the page.

Questions of fewer than 25 letters and digits say too little to be evidence, and are not sought. Text is compared page
by page: of a question that runs over the end of a page, neither test finds less than that share on one of the two.

Both tests look a page up in an index of all questions, so that a page costs much the same for ten questions and for ten
thousand: the hash of each run of 25 letters of the page among the beginnings of questions, which are then compared
letter by letter, and the hash of each run of eight words among those of questions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.folded_text import folded_words
from medvrag_core.corpus.known_questions import KnownQuestion
from medvrag_core.records import Page, Record

SHORTEST = 25
"""Letters and digits of a question, and of the runs by which verbatim text is found."""
RUN = 8
"""Words of a shingle."""
_BASE = np.uint64(0x9E3779B97F4A7C15)


class QuestionHit(Record):
    """A page that holds the text of a question.

    Attributes
    ----------
    question : id, after the name of its set where it has one (``mmlu/anatomy-000``)
    text : digest of the folded question, by which a question is known again under any id
    how : which test found it
    share : of the question's runs of eight words that stand in the page
    """

    question: str
    text: str
    page_id: str
    how: Literal["verbatim", "near"]
    share: float


def text_digest(question: str) -> str:
    """Sixteen hex digits that two questions share whose letters and digits are the same.

    >>> text_digest("Is it so?") == text_digest("is  it so") != text_digest("is it not so")
    True
    """
    return hashlib.sha256("".join(folded_words(question)).encode()).hexdigest()[:16]


def is_sought(question: str) -> bool:
    """Whether a question is long enough to be evidence."""
    return sum(map(len, folded_words(question))) >= SHORTEST


class QuestionFinder:
    """Finds many questions in one page after another.

    Parameters
    ----------
    questions : to be sought; those that are too short are passed over
    near : share of a question's runs of eight words from which a page holds it nearly word for word
    """

    def __init__(self, questions: Sequence[KnownQuestion], near: float) -> None:
        self._near = near
        self._questions = [question for question in questions if is_sought(question.text)]
        words = [folded_words(question.text) for question in self._questions]
        self._letters = ["".join(each).encode("utf-32-le") for each in words]
        starts = [_letter_hashes(letters)[:1] for letters in self._letters]
        self._starts, self._starters = _sorted_index(starts)
        self._number: dict[str, int] = {}
        runs = [
            np.unique(self._runs([self._number.setdefault(w, len(self._number) + 1) for w in each])) for each in words
        ]
        self._counts = np.array([len(run) for run in runs], dtype=np.int64)
        self._run_hashes, self._owners = _sorted_index(runs)

    def hits(self, page: Page) -> list[QuestionHit]:
        """Questions whose text the page holds, in their order."""
        words = folded_words(page.text)
        if not self._questions or not words:
            return []
        held = np.zeros(len(self._questions), dtype=np.int64)
        page_runs = np.unique(self._runs([self._number.get(word, 0) for word in words]))
        np.add.at(held, self._owners[_places(self._run_hashes, page_runs)], 1)
        shares = held / np.maximum(self._counts, 1)
        letters = "".join(words).encode("utf-32-le")
        begun = self._starters[_places(self._starts, np.unique(_letter_hashes(letters)))]
        verbatim = {number for number in begun.tolist() if _stands_in(self._letters[number], letters)}
        near = np.flatnonzero((held > 0) & (shares >= self._near))
        return [
            QuestionHit(
                question=self._questions[number].name,
                text=text_digest(self._questions[number].text),
                page_id=page.page_id,
                how="verbatim" if number in verbatim else "near",
                share=float(shares[number]),
            )
            for number in sorted(verbatim | set(near.tolist()))
        ]

    @staticmethod
    def _runs(words: list[int]) -> NDArray[np.uint64]:
        """Hash of each run of eight words; two runs of other words have the same with a chance of about 2^-64."""
        return _hashes(np.array(words, dtype=np.uint64), RUN)


def find_questions(pages: Iterable[Page], questions: Sequence[KnownQuestion], near: float) -> Iterator[QuestionHit]:
    """Every hit in ``pages``, page by page; memory holds the questions and one page."""
    finder = QuestionFinder(questions, near)
    for page in pages:
        yield from finder.hits(page)


def _letter_hashes(letters: bytes) -> NDArray[np.uint64]:
    return _hashes(np.frombuffer(letters, dtype="<u4").astype(np.uint64), SHORTEST)


def _hashes(tokens: NDArray[np.uint64], length: int) -> NDArray[np.uint64]:
    """Polynomial hash of each run of ``length`` tokens, modulo 2^64, over mixed tokens."""
    count = len(tokens) - length + 1
    if count < 1:
        return np.zeros(0, dtype=np.uint64)
    mixed = (tokens + np.uint64(1)) * _BASE
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    found = np.zeros(count, dtype=np.uint64)
    for offset in range(length):
        found = found * _BASE + mixed[offset : offset + count]
    return found


def _sorted_index(hashes: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All hashes sorted, and the number of the question that each belongs to."""
    every = np.concatenate([np.zeros(0, dtype=np.uint64), *hashes])
    owner = np.repeat(np.arange(len(hashes)), [len(each) for each in hashes])
    order = np.argsort(every, kind="stable")
    return every[order], owner[order]


def _places(index: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places in a sorted index that hold any of the ``wanted`` hashes."""
    first, last = np.searchsorted(index, wanted, side="left"), np.searchsorted(index, wanted, side="right")
    counts = last - first
    begins = np.cumsum(counts) - counts
    return np.repeat(first - begins, counts) + np.arange(int(counts.sum()))


def _stands_in(needle: bytes, letters: bytes) -> bool:
    """Whether letters of four bytes stand in others, at the border of a letter."""
    at = letters.find(needle)
    while at >= 0 and at % 4:
        at = letters.find(needle, at + 1)
    return at >= 0
