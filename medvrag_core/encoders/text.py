"""One vector a passage, for the text-only arm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.errors import MedvragError
from medvrag_core.settings import TextSettings, fingerprint

BGE_QUERY_PREFIX = "Represent this sentence for searching relevant passages: "


class TextEncoder(ABC):
    """Encodes passages and queries into one space of unit vectors."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the same text would get another vector."""

    @abstractmethod
    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows, float32, shape (len(texts), d)."""

    @abstractmethod
    def encode_query(self, text: str) -> NDArray[np.float32]:
        """A unit vector, float32, shape (d,)."""


class BgeTextEncoder(TextEncoder):
    """BGE on transformers: [CLS] vector, the instruction on queries alone (the paper's text baseline).

    Needs the extra ``gpu``. Real code, not yet run on a GPU.
    """

    def __init__(self, settings: TextSettings, device: str = "cuda") -> None:
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise MedvragError("text encoder 'bge' needs transformers", way_out="install the extra 'gpu'") from None
        self._settings = settings
        self._device = device
        self._tokenizer: Any = AutoTokenizer.from_pretrained(settings.model)
        self._model: Any = AutoModel.from_pretrained(settings.model).to(device).eval()

    @property
    def fingerprint(self) -> str:
        """Settings and the query prefix."""
        return f"bge-{fingerprint(self._settings)}-prefix:{BGE_QUERY_PREFIX}"

    def encode_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See :class:`TextEncoder`; passages carry no prefix."""
        rows = [self._encode(texts[i : i + 32]) for i in range(0, len(texts), 32)]
        return np.concatenate(rows)

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`TextEncoder`."""
        vector: NDArray[np.float32] = self._encode([BGE_QUERY_PREFIX + text])[0]
        return vector

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        batch = self._tokenizer(list(texts), padding=True, truncation=True, max_length=512, return_tensors="pt")
        with torch.inference_mode():
            first = self._model(**batch.to(self._device)).last_hidden_state[:, 0]
        unit: NDArray[np.float32] = torch.nn.functional.normalize(first.float(), dim=1).cpu().numpy()
        return unit
