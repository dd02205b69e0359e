"""One vector a passage, for the text-only arms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TextEncoder(ABC):
    """Encodes passages and queries into one space in which the dot product ranks.

    Attributes
    ----------
    passages_cut : how many passages so far were longer than the model reads, so that their ends had no say
    """

    passages_cut: int = 0

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the same text would get another vector; known without opening the weights."""

    @abstractmethod
    def encode_passages(self, texts: Sequence[str], titles: Sequence[str] = ()) -> NDArray[np.float32]:
        """Rows, float32, shape (len(texts), d).

        ``titles`` are those of the articles, one a text, empty where there is none; encoders that were not trained
        with titles do not look at them.
        """

    @abstractmethod
    def encode_query(self, text: str) -> NDArray[np.float32]:
        """A vector, float32, shape (d,)."""
