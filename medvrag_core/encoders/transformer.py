"""BGE, MedCPT, Contriever, SPECTER and cross-encoders on transformers.

They need the extra ``gpu``, though a CPU runs them too, slowly.

Weights are data: no code that lies beside them is run. Nothing here was run on a GPU yet; tests run these classes
on tiny models of random weights.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.extra import gpu_packages
from medvrag_core.encoders.identity import weights_digest
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.text import TextEncoder
from medvrag_core.errors import MedvragError, SettingsError
from medvrag_core.settings import TextSettings

log = logging.getLogger(__name__)

VERSION = 1
_AT_ONCE = 32
_PASSAGE_TOKENS = 512


@dataclass(frozen=True)
class Recipe:
    """How an encoder wants its texts, beside its weights.

    Attributes
    ----------
    query_prefix : stands before every query and before no passage
    query_tokens : longest query; a passage may have 512
    titles : how the title goes with the text of a passage: not at all; as the first of a pair; joined to it by the
        separator token; or as a sentence before it. A text without a title stands alone, but in a pair
    nearest : how vectors are compared: ``cosine``, the ``dot`` product, or ``distance`` (Euclidean, the least is best)
    pooling : the last hidden state of [CLS], or the mean over all tokens
    """

    query_prefix: str
    query_tokens: int
    titles: Literal["none", "pair", "separated", "sentence"]
    nearest: Literal["cosine", "dot", "distance"]
    pooling: Literal["cls", "mean"] = "cls"


RECIPES: dict[str, Recipe] = {
    "bge": Recipe("Represent this sentence for searching relevant passages: ", 512, "none", "cosine"),
    "medcpt": Recipe("", 64, "pair", "dot"),
    "contriever": Recipe("", 512, "sentence", "dot", "mean"),
    "specter": Recipe("", 512, "separated", "distance"),
}
"""From the model cards of BAAI/bge-large-en-v1.5 (the paper's text baseline), and of ncbi/MedCPT-Query-Encoder and
ncbi/MedCPT-Article-Encoder; the other two as MedRAG uses facebook/contriever and allenai/specter (``src/utils.py``)."""


class TransformerTextEncoder(TextEncoder):
    """One vector a text, under the recipe of ``settings.encoder``; weights are opened on first use.

    Where the recipe ranks by distance, vectors have one number more, so that the dot product ranks all the same: for a
    query q and a passage p, (q, 1)·(p, -|p|²/2) = (|q|² - |q - p|²) / 2.
    """

    def __init__(self, settings: TextSettings) -> None:
        self._name = settings.encoder
        self._recipe = RECIPES[settings.encoder]
        self._device = settings.device
        self._query_weights = settings.model
        # The recipe of pairs is the one whose passages have an encoder of their own.
        self._passage_weights = settings.passage_model if self._recipe.titles == "pair" else settings.model

    @property
    def fingerprint(self) -> str:
        """Weights of both sides and the recipe; the device does not count."""
        return f"{self._name}-{VERSION} {self._weights_told} {self._recipe}"

    def encode_passages(self, texts: Sequence[str], titles: Sequence[str] = ()) -> NDArray[np.float32]:
        """See :class:`TextEncoder`."""
        rows, cut = self._encode(
            self._passage_model, self._columns(texts, titles or [""] * len(texts)), _PASSAGE_TOKENS
        )
        self.passages_cut += cut
        if self._recipe.nearest != "distance":
            return rows
        halves = -0.5 * np.square(rows).sum(axis=1, keepdims=True, dtype=np.float32)
        return np.concatenate([rows, halves], axis=1)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`TextEncoder`."""
        prefixed = [self._recipe.query_prefix + text]
        rows, _ = self._encode(self._query_model, [prefixed], self._recipe.query_tokens)
        vector: NDArray[np.float32] = rows[0]
        return np.append(vector, np.float32(1.0)) if self._recipe.nearest == "distance" else vector

    def _columns(self, texts: Sequence[str], titles: Sequence[str]) -> list[Sequence[str]]:
        if self._recipe.titles == "pair":
            return [titles, texts]
        if self._recipe.titles == "none":
            return [texts]
        joined = self._joined_by_separator if self._recipe.titles == "separated" else _as_sentence
        return [[joined(title, text) if title else text for title, text in zip(titles, texts, strict=True)]]

    def _joined_by_separator(self, title: str, text: str) -> str:
        return f"{title}{self._passage_model.tokenizer.sep_token}{text}"

    @cached_property
    def _weights_told(self) -> str:
        return f"{_told(self._query_weights)} {_told(self._passage_weights)}"

    @cached_property
    def _query_model(self) -> Pretrained:
        return open_pretrained("AutoModel", self._query_weights, self._device, field="text.model")

    @cached_property
    def _passage_model(self) -> Pretrained:
        if self._passage_weights == self._query_weights:
            return self._query_model
        return open_pretrained("AutoModel", self._passage_weights, self._device, field="text.passage_model")

    def _encode(self, opened: Pretrained, columns: list[Sequence[str]], tokens: int) -> tuple[NDArray[np.float32], int]:
        rows, cut = opened.run(columns, tokens, _mean_of_tokens if self._recipe.pooling == "mean" else _first_token)
        return (unit_rows(rows) if self._recipe.nearest == "cosine" else rows), cut


class CrossEncoder:
    """Scores a query and a passage read together, such as ncbi/MedCPT-Cross-Encoder and BAAI/bge-reranker-large.

    Weights are opened on first use. A query and a chunk of 512 tokens are more than the 512 that such a model reads:
    the chunk loses its end. That is told once.
    """

    def __init__(self, settings: TextSettings) -> None:
        self._told = False
        self._weights = settings.rerank_model
        self._device = settings.device

    @property
    def fingerprint(self) -> str:
        """Weights; the device does not count."""
        return f"cross_encoder-{VERSION} {self._weights_told}"

    def scores(self, query: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """One score a passage, higher is better, float32, shape (len(passages),); pairs are cut at 512 tokens."""
        columns = [[query] * len(passages), passages]
        rows, cut = self._model.run(columns, _PASSAGE_TOKENS, lambda output, mask: output.logits)
        if cut and not self._told:
            self._told = True
            log.warning(
                "%s reads %d tokens of query and chunk together: %d of %d chunks lost their ends to this query, and "
                "others will; a lower text.chunk_tokens leaves room for queries",
                *(self._weights, _PASSAGE_TOKENS, cut, len(passages)),
            )
        return rows[:, 0]

    @cached_property
    def _weights_told(self) -> str:
        return _told(self._weights)

    @cached_property
    def _model(self) -> Pretrained:
        opened = open_pretrained(
            "AutoModelForSequenceClassification", self._weights, self._device, field="text.rerank_model"
        )
        if opened.model.config.num_labels != 1:
            raise SettingsError(
                f"text.rerank_model: '{self._weights}' gives {opened.model.config.num_labels} scores a pair",
                way_out="name a cross-encoder that gives one, such as ncbi/MedCPT-Cross-Encoder",
            )
        return opened


@dataclass(frozen=True)
class Pretrained:
    """A tokenizer with its model on a device."""

    name: str
    tokenizer: Any
    model: Any
    device: str

    def run(
        self, columns: Sequence[Sequence[str]], tokens: int, pick: Callable[[Any, Any], Any]
    ) -> tuple[NDArray[np.float32], int]:
        """Rows that ``pick`` takes from the output, float32, shape (n, d), computed 32 texts (or pairs) at once.

        Beside them, how many of the n were longer than ``tokens``.

        Parameters
        ----------
        columns : one list of n texts, or two for pairs
        tokens : longer texts are cut, in a pair the longer one first
        pick : from the output of the model and the attention mask to a tensor of shape (batch, d)

        Raises
        ------
        MedvragError : the model gave a number that is not finite
        """
        import torch

        parts, cut = [], 0
        for batch in _batches(columns):
            given = self.tokenizer(*batch, padding=True, truncation=True, max_length=tokens, return_tensors="pt")
            cut += sum(bool(encoding.overflowing) for encoding in given.encodings)
            with torch.inference_mode():
                placed = given.to(self.device)
                parts.append(pick(self.model(**placed), placed["attention_mask"]).float().cpu().numpy())
        if not parts:
            return np.zeros((0, self.model.config.hidden_size), dtype=np.float32), 0
        rows: NDArray[np.float32] = np.concatenate(parts)
        if not np.isfinite(rows).all():
            raise MedvragError(f"'{self.name}' gave numbers that are not finite", way_out="check its weights")
        return rows, cut


def open_pretrained(
    kind: Literal["AutoModel", "AutoModelForSequenceClassification"], name: str, device: str, *, field: str
) -> Pretrained:
    """Tokenizer and model of a hub id, of ``id@revision`` or of a folder, in float32 and without dropout.

    Raises
    ------
    SettingsError : ``field`` names nothing, weights of another kind of model, or a device that is not there
    MedvragError : a package or the weights are missing
    """
    if not name:
        raise SettingsError(f"{field}: names no weights", way_out="set it to a hub id or to a folder")
    with gpu_packages(f"{field}: '{name}'"):
        import torch
        import transformers
    try:
        # A folder may have the sign in its name.
        bare, _, revision = (name, "", "") if Path(name).is_dir() else name.partition("@")
        pinned = {"revision": revision} if revision else {}
        tokenizer = transformers.AutoTokenizer.from_pretrained(bare, **pinned)
        # Weights in PyTorch's own form are pickles, and nothing from outside is unpickled.
        model, loaded = getattr(transformers, kind).from_pretrained(
            bare, dtype=torch.float32, output_loading_info=True, use_safetensors=True, **pinned
        )
    except (OSError, ValueError) as error:
        raise MedvragError(
            f"{field}: the weights '{name}' cannot be opened ({str(error).strip().splitlines()[0]})",
            way_out="give the folder that holds them, or a hub id that was fetched (`hf download ID`); "
            "weights must be safetensors",
        ) from None
    # transformers fills what the file lacks with random numbers and only warns. [CLS] does not go through the pooler.
    lacking = [key for key in loaded["missing_keys"] if kind != "AutoModel" or not key.startswith("pooler.")]
    if lacking:
        raise SettingsError(
            f"{field}: '{name}' lacks {len(lacking)} weights of an {kind}, for example {sorted(lacking)[0]}",
            way_out="name weights that were trained for this use",
        )
    try:
        return Pretrained(name, tokenizer, model.to(device).eval(), device)
    except (AssertionError, RuntimeError) as error:
        raise SettingsError(
            f"text.device: '{device}' cannot be used ({str(error).strip().splitlines()[0]})", way_out="set it to cpu"
        ) from None


def _first_token(output: Any, mask: Any) -> Any:
    return output.last_hidden_state[:, 0]


def _mean_of_tokens(output: Any, mask: Any) -> Any:
    """Mean over the tokens of each text, the padding left out."""
    weights = mask[..., None].to(output.last_hidden_state.dtype)
    return (output.last_hidden_state * weights).sum(dim=1) / weights.sum(dim=1)


def _as_sentence(title: str, text: str) -> str:
    """Title and text as MedRAG gives them to Contriever.

    >>> _as_sentence("Is gout treated?", "Yes.")
    'Is gout treated? Yes.'
    """
    return f"{title}. {text}".replace("..", ".").replace("?.", "?")


def _told(weights: str) -> str:
    """What tells weights from others: the name, and for a folder, whose name says nothing, the digest of its files."""
    files = list(Path(weights).glob("*.safetensors")) if weights and Path(weights).is_dir() else []
    return f"{weights} {weights_digest(files)}" if files else weights


def _batches(columns: Sequence[Sequence[str]]) -> Iterator[list[list[str]]]:
    for start in range(0, len(columns[0]), _AT_ONCE):
        yield [list(column[start : start + _AT_ONCE]) for column in columns]
