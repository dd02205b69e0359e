"""The embedded CPU page encoder: some twenty vectors a page, from the words on it and where they stand.

It reads words (text layer or OCR), not pixels, so it cannot test what the paper claims about pixels; it
is a baseline that runs on any laptop behind the interface of ColQwen2.5. Each patch is a run of words that
stand in one block of the layout: a paragraph or a part of it, a caption, a table (see :mod:`.patches`). Its vector has
two parts inside one dot product:

- *dense*: the mean of contextual MiniLM token vectors, centered on the corpus and projected by PCA;
- *lexical*: a hashed sketch of the patch's stems and numbers, and of pairs of them that stand side by side, weighted
  by rarity, so that doses, codes, abbreviations and phrases count as exact terms.

A query has a vector for each of its words, weighted by rarity, and one for all of them together: the words find
what they ask for anywhere on the page, the whole finds the one block that says most of it. A short query asks more by
meaning, a long one more by exact terms.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.minilm import NAME, WEIGHTS_SHA256, WIDTH, Tokens, load_minilm, unit_rows
from medvrag_core.encoders.patches import layout_patches
from medvrag_core.errors import NotBuiltError, SettingsError
from medvrag_core.records import Box, PageLayout, PageVectors
from medvrag_core.settings import EncoderSettings

VERSION = 4
WHOLE_QUERY = "(whole query)"
_QUESTION_WORDS = frozenset({"did", "do", "does", "how", "what", "when", "where", "which", "who", "why"})
_SAMPLE_PAGES = 128
_SKETCH_ENTRIES = 4
_TERM = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*|[^\W\d_]+")
_WHOLE_PAGE: Box = (0.0, 0.0, 1.0, 1.0)


class EmbeddedEncoder(PageEncoder):
    """See the module. Rows have ``dim`` dense and ``lexical_dim`` lexical entries and unit length.

    Parameters
    ----------
    settings : sizes and weights
    tokens_of : token vectors of the words of a page, for benchmarks that encode one corpus in many ways
    """

    def __init__(self, settings: EncoderSettings, *, tokens_of: Callable[[PageLayout], Tokens] | None = None) -> None:
        if settings.model != NAME:
            raise SettingsError(f"encoder.model: '{settings.model}' is not embedded", way_out=f"use '{NAME}'")
        if settings.dim > WIDTH:
            raise SettingsError(f"encoder.dim: {settings.dim} is more than the {WIDTH} of {NAME}")
        self.settings = settings
        self.dim = settings.dim + settings.lexical_dim
        self._mean = np.zeros(WIDTH, dtype=np.float32)
        self._projection = np.eye(WIDTH, settings.dim, dtype=np.float32)
        self._pages = 0
        self._frequency: dict[str, int] = {}
        self._sample: dict[str, Tokens] = {}
        self._tokens_of = tokens_of or page_tokens

    @property
    def identity(self) -> EncoderIdentity:
        """See :class:`PageEncoder`."""
        told = self.settings
        return EncoderIdentity(
            encoder=told.name,
            version=VERSION,
            model=told.model,
            weights=WEIGHTS_SHA256,
            query_prefix=told.query_prefix,
            pooling=f"layout, {told.words_per_patch} words a patch, at most {told.vectors_per_page}",
            projection=f"PCA to {told.dim} fitted on the corpus",
            dim=self.dim,
            more={
                "lexical_dim": told.lexical_dim,
                "lexical_weight": told.lexical_weight,
                "whole_query": told.whole_query,
                "balance_words": told.balance_words,
                "pair_weight": told.pair_weight,
            },
        )

    # --- fitted state ---------------------------------------------------------------------

    def fit(self, pages: Iterable[PageInput]) -> None:
        """Count in how many pages each term stands; learn mean and PCA from up to 128 pages spread over the corpus.

        Memory holds every different term, and with ``pair_weight`` every different pair, until all pages are counted.
        """
        given = list(pages) if not isinstance(pages, Sequence) else pages
        step = max(1, math.ceil(len(given) / _SAMPLE_PAGES))
        frequency: Counter[str] = Counter()
        self._sample = {}
        for number, page in enumerate(given):
            frequency.update(self._told(word.text for word in page.layout.words).keys())
            if number % step == 0:
                self._sample[page.page.page_id] = self._tokens_of(page.layout)
        # Most pairs stand on one page; :meth:`_rarity` takes a pair that is not here for one of these.
        kept = (found for found in frequency.items() if found[1] > 1 or " " not in found[0])
        self._pages, self._frequency = len(given), dict(sorted(kept))
        rows = [t.vectors for t in self._sample.values() if len(t.vectors)]
        if rows:
            sample = np.concatenate(rows)
            self._mean = sample.mean(axis=0)
            centered = unit_rows(sample - self._mean).astype(np.float64)
            _, directions = np.linalg.eigh(centered.T @ centered)
            self._projection = _signed(directions[:, ::-1][:, : self.settings.dim]).astype(np.float32)

    def save(self, folder: Path) -> None:
        """Write mean, projection and document frequencies."""
        np.save(folder / "mean.npy", self._mean)
        np.save(folder / "projection.npy", self._projection)
        counts = {"pages": self._pages, "frequency": self._frequency}
        (folder / "terms.json").write_text(json.dumps(counts), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote; NotBuiltError names the folder if it is not there."""
        if not (folder / "terms.json").is_file():
            raise NotBuiltError(
                f"{folder}: no state of the encoder", way_out="run notebook 02_indexing or `medvrag run`"
            )
        self._mean = np.load(folder / "mean.npy", allow_pickle=False)
        self._projection = np.load(folder / "projection.npy", allow_pickle=False)
        counts = json.loads((folder / "terms.json").read_text(encoding="utf-8"))
        self._pages, self._frequency = counts["pages"], counts["frequency"]

    # --- encoding -------------------------------------------------------------------------

    def encode_pages(self, pages: Iterable[PageInput]) -> Iterator[PageVectors]:
        """See :class:`PageEncoder`; a page without words gets one vector for the whole page."""
        for page in pages:
            tokens = self._sample.pop(page.page.page_id, None) or self._tokens_of(page.layout)
            yield self._encode_page(page.layout, tokens)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """One row a word (its word pieces averaged), and a last one for the query as a whole.

        Row lengths are weights that average to 1: the whole has the share ``whole_query`` of their sum, the words share
        the rest by rarity. Stop words and punctuation only count if nothing else is there.
        """
        words, tokens, keep = self._query_rows(text)
        if not keep:
            return self._joined(np.zeros((1, WIDTH), dtype=np.float32), [Counter()])
        means = np.stack([tokens.vectors[tokens.word_of == w].mean(axis=0) for w in keep])
        told = [Counter(terms(words[w])) for w in keep]
        rows = self._joined(
            np.concatenate([means, means.mean(axis=0, keepdims=True)]),
            [*told, self._told(words[w] for w in keep)],
            parts=self._query_parts(len(keep)),
        )
        rarity = np.array([max(map(self._rarity, counts), default=1.0) for counts in told])
        whole = self.settings.whole_query
        shares = np.append((1 - whole) * rarity / rarity.sum(), whole)
        weighted: NDArray[np.float32] = rows * (len(rows) * shares[:, None]).astype(np.float32)
        return weighted

    def query_words(self, text: str) -> tuple[str, ...]:
        """See :class:`PageEncoder`; the words as they stand in the query, then a name for the whole.

        A dash stands for a query without words.
        """
        words, _, keep = self._query_rows(text)
        return (*(words[w] for w in keep), WHOLE_QUERY) if keep else ("–",)

    def _query_rows(self, text: str) -> tuple[list[str], Tokens, list[int]]:
        """All words of a query with their tokens, and the places of the words that get a row."""
        words = (self.settings.query_prefix + text).split()
        tokens = load_minilm().encode_words(words)
        encoded = set(tokens.word_of.tolist())
        return words, tokens, [w for w in sorted(encoded) if terms(words[w])] or sorted(encoded)

    def _encode_page(self, layout: PageLayout, tokens: Tokens) -> PageVectors:
        patches = layout_patches(layout, words=self.settings.words_per_patch, at_most=self.settings.vectors_per_page)
        patch_of_word = np.repeat(np.arange(len(patches)), [b - a for a, b in patches]).astype(np.int64)
        if not len(tokens.vectors):
            blank = self._joined(np.zeros((1, WIDTH), dtype=np.float32), [Counter()])
            return PageVectors(layout.page_id, blank, np.array([_WHOLE_PAGE], dtype=np.float32), np.arange(1))
        patch_of_token = patch_of_word[tokens.word_of]
        sums = np.zeros((len(patches), WIDTH), dtype=np.float32)
        np.add.at(sums, patch_of_token, tokens.vectors)
        counts = np.bincount(patch_of_token, minlength=len(patches))
        filled = counts > 0
        means: NDArray[np.float32] = (sums[filled] / counts[filled, None]).astype(np.float32)
        words = [layout.words[a:b] for (a, b), has in zip(patches, filled, strict=True) if has]
        rows = self._joined(means, [self._told(word.text for word in run) for run in words])
        boxes = np.array([_hull([word.box for word in run]) for run in words], dtype=np.float32)
        return PageVectors(layout.page_id, rows, boxes, np.arange(len(rows)))

    def _told(self, words: Iterable[str]) -> Counter[str]:
        """Terms of words in their order, and pairs of terms that follow each other, joined by a space."""
        found = [term for word in words for term in terms(word)]
        told = Counter(found)
        if self.settings.pair_weight:
            told.update(f"{first} {second}" for first, second in pairwise(found))
        return told

    @property
    def _page_parts(self) -> tuple[float, float]:
        """Lengths of the dense and the lexical part of a page's row."""
        lexical = self.settings.lexical_weight
        return math.sqrt(1 - lexical * lexical), lexical

    def _query_parts(self, words: int) -> tuple[float, float]:
        """The same of a query's rows, so that ``words / (words + balance_words)`` of the dot product is lexical."""
        dense, lexical = self._page_parts
        if not dense or not lexical:
            return dense, lexical
        return self.settings.balance_words / dense, words / lexical

    def _joined(
        self,
        vectors: NDArray[np.float32],
        told: Sequence[Counter[str]],
        *,
        parts: tuple[float, float] | None = None,
    ) -> NDArray[np.float32]:
        """Dense and lexical part side by side, float32, shape (n, dim), unit rows; ``parts`` says how long each is."""
        dense = unit_rows(unit_rows(vectors - self._mean) @ self._projection)
        lexical = unit_rows(np.stack([self._sketch(counts) for counts in told]))
        of_dense, of_lexical = parts or self._page_parts
        rows = np.concatenate([of_dense * dense, of_lexical * lexical], axis=1).astype(np.float32)
        # A row without any known term has no lexical part; it must not count less than the others.
        return unit_rows(rows)

    def _sketch(self, counts: Counter[str]) -> NDArray[np.float32]:
        """Count sketch of rarity-weighted terms, float32, shape (lexical_dim,)."""
        sketch = np.zeros(self.settings.lexical_dim, dtype=np.float32)
        if not len(sketch):
            return sketch
        for term, count in counts.items():
            places, signs = _places(term, self.settings.lexical_dim)
            weight = self.settings.pair_weight if " " in term else 1.0
            sketch[places] += signs * (weight * self._rarity(term) * math.sqrt(count))
        return sketch

    def _rarity(self, term: str) -> float:
        """Inverse document frequency as in BM25."""
        seen = self._frequency.get(term, 1 if " " in term else 0)
        return math.log(1 + (self._pages - seen + 0.5) / (seen + 0.5))


@lru_cache(maxsize=100_000)
def terms(word: str) -> tuple[str, ...]:
    """Stems and numbers in a word as printed, without stop words.

    >>> terms("(IL-6),"), terms("Monitoring"), terms("2.5"), terms("the")
    (('il', '6'), ('monitor',), ('2.5',), ())
    """
    from bm25s.stopwords import STOPWORDS_EN

    found = []
    for term in _TERM.findall(word.lower()):
        if term not in STOPWORDS_EN and term not in _QUESTION_WORDS:
            found.append(_stem(term) if term.isalpha() and len(term) > 3 else term)
    return tuple(found)


def _stem(term: str) -> str:
    return str(_stemmer().stemWord(term))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@lru_cache(maxsize=200_000)
def _places(term: str, dim: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Entries and signs of a term in the sketch, the same on every machine."""
    digest = hashlib.blake2b(term.encode(), digest_size=8 * _SKETCH_ENTRIES).digest()
    numbers = np.frombuffer(digest, dtype="<u8")
    # Each entry falls into its own quarter of the sketch, so entries of one term never collide.
    quarter = dim // _SKETCH_ENTRIES
    places = (numbers % np.uint64(quarter)).astype(np.int64) + quarter * np.arange(_SKETCH_ENTRIES)
    signs = np.where((numbers >> np.uint64(63)) == 1, 1.0, -1.0).astype(np.float32)
    return places, signs / np.float32(math.sqrt(_SKETCH_ENTRIES))


def page_tokens(layout: PageLayout) -> Tokens:
    """Token vectors of the words of a page in reading order."""
    return load_minilm().encode_words([word.text for word in layout.words])


def _hull(boxes: Sequence[Box]) -> Box:
    columns = list(zip(*boxes, strict=True))
    return (min(columns[0]), min(columns[1]), max(columns[2]), max(columns[3]))


def _signed(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give each direction the sign that makes its largest entry positive, so that PCA is repeatable."""
    largest = np.abs(directions).argmax(axis=0)
    signed: NDArray[np.float64] = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    return signed
