"""What a renderer must give of a document and its pages; PyMuPDF and PDFium stand behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.lines import PageLines, Rectangle


class RefusedError(Exception):
    """A file that cannot be used; ``reason`` is the code for the ledger."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


class OpenedPage(Protocol):
    """One page as it is displayed: ``width`` and ``height`` in points, after ``rotation`` (degrees)."""

    width: float
    height: float
    rotation: int

    def render(self, dpi: float, clip: Rectangle | None = None) -> NDArray[np.uint8]:
        """Pixels, uint8 of shape (height, width, 3), of the page or of ``clip`` (points of the displayed page).

        They may lie in memory of the page: not to be used after :meth:`close`.
        """

    def text_layer(self) -> PageLines:
        """Lines in the extractor's order, in a frame where text runs to the right."""

    def close(self) -> None:
        """Free what the page holds."""


class OpenedDocument(Protocol):
    """A document with at least one page; ``metadata`` may hold ``title`` and ``subject``."""

    page_count: int
    is_repaired: bool
    metadata: Mapping[str, str]

    def page(self, number: int) -> OpenedPage:
        """Page ``number``, from 1."""

    def close(self) -> None:
        """Free what the document holds."""
