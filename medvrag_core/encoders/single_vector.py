"""Encoders that give a page one vector: what VisRAG-Ret and DSE have in common.

Their vector stands for the whole page, so its box is the whole page and a heatmap has nothing to show. With one row on
either side the two-way score of late interaction (paper section 3.2) is twice the cosine, so every index ranks these
pages as their authors do, by cosine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.base import PageInput
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.errors import MedvragError, SettingsError
from medvrag_core.records import PageVectors

if TYPE_CHECKING:
    from PIL.Image import Image

_LARGEST_TURN = {"float32": 1e-3, "bfloat16": 0.15}
"""Distance of two unit vectors that may lie between a page encoded alone and the same page in a batch."""


@dataclass(frozen=True)
class ReadyPage:
    """A page resized and cut for the model.

    Attributes
    ----------
    page_id : its id
    images : uint8, each of shape (height, width, 3)
    tokens : positions it takes in a batch
    """

    page_id: str
    images: tuple[NDArray[np.uint8], ...]
    tokens: int


T = TypeVar("T", bound=ReadyPage)


class SingleVectorEncoder(BatchedPageEncoder[T]):
    """One vector a page and a query, from :meth:`embed_pages` and :meth:`embed_query`.

    Attributes
    ----------
    dim : width of a vector after the cut of ``settings.nested_dim``
    """

    made_by: EncoderIdentity

    @property
    def identity(self) -> EncoderIdentity:
        """See :class:`PageEncoder`."""
        return self.made_by

    @abstractmethod
    def prepare(self, page_id: str, image: Image) -> T:
        """Resize and cut an RGB image. Called in several threads at once."""

    @abstractmethod
    def embed_pages(self, ready: Sequence[T]) -> NDArray[np.float32]:
        """Vectors of any length of pages, float32, shape (pages, width)."""

    @abstractmethod
    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Vector of any length of a query without its prefix, float32, shape (width,)."""

    def load_page(self, page: PageInput) -> T:
        """See :class:`BatchedPageEncoder`."""
        from PIL import Image

        with Image.open(page.image) as opened:
            return self.prepare(page.page.page_id, opened.convert("RGB"))

    def page_size(self, ready: T) -> int:
        """See :class:`BatchedPageEncoder`."""
        return ready.tokens

    def encode_batch(self, ready: Sequence[T]) -> list[PageVectors]:
        """See :class:`BatchedPageEncoder`."""
        whole_page = np.array([[0, 0, 1, 1]], dtype=np.float32)
        return [
            PageVectors(page.page_id, vector[None], whole_page, np.zeros(1, dtype=np.int64))
            for page, vector in zip(ready, self._unit(self.embed_pages(ready)), strict=True)
        ]

    def encode_query(self, text: str) -> NDArray[np.float32]:
        """See :class:`PageEncoder`; one row."""
        return self._unit(self.embed_query(text)[None])

    def query_words(self, text: str) -> tuple[str, ...]:
        """The whole query, which its one row stands for."""
        return (text,)

    def check_batches(self) -> None:
        """That a page gets the same vector alone and beside a larger one; raises MedvragError where padding counts."""
        from PIL import Image

        small = self.prepare("a small page", Image.linear_gradient("L").resize((112, 84)).convert("RGB"))
        large = self.prepare("a larger page", Image.radial_gradient("L").resize((896, 1204)).convert("RGB"))
        alone, beside = (self._unit(self.embed_pages(pages))[0] for pages in ([small], [small, large]))
        turned = float(np.linalg.norm(alone - beside))
        if turned > _LARGEST_TURN[self.identity.dtype]:
            raise MedvragError(
                f"'{self.settings.model}' gives a page another vector in a batch than alone "
                f"(they lie {turned:.3f} apart)",
                way_out="set encoder.batch_size to 1 and encoder.self_check to false, and report it",
            )

    def _unit(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The first ``dim`` numbers of each row, at unit length."""
        if not np.isfinite(vectors).all():
            raise MedvragError(f"'{self.settings.model}' gave vectors that are not finite", way_out="check its weights")
        return unit_rows(vectors[:, : self.dim])


def cut_width(nested_dim: int, width: int, model: str, *, nested: bool) -> int:
    """How many numbers of a vector are kept.

    Parameters
    ----------
    nested_dim : of the settings; 0 keeps all
    width : of the model's vectors
    nested : the model was trained so that the first numbers alone make a vector (Matryoshka)

    Raises
    ------
    SettingsError : the vector is shorter, or was not trained to be cut

    >>> cut_width(0, 1536, "m", nested=True), cut_width(512, 1536, "m", nested=True)
    (1536, 512)
    """
    if not nested_dim:
        return width
    if not nested or nested_dim > width:
        fault = f"has vectors of {width} numbers" if nested else "was not trained to be cut"
        raise SettingsError(
            f"encoder.nested_dim is {nested_dim}, but '{model}' {fault}", way_out="set it to 0, which keeps all"
        )
    return nested_dim


def without_tokens(text: str, tokens: Iterable[str]) -> str:
    """A text in which no special token of a model can be read: a query must not open an image or end a turn.

    >>> without_tokens("gout<|image_pad|>", ["<|image_pad|>"])
    'gout '
    """
    for token in tokens:
        text = text.replace(token, " ")
    return text
