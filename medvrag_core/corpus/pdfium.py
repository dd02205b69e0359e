"""Documents as PDFium opens them (pypdfium2, Apache-2.0 or BSD): the renderer without PyMuPDF's licence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.lines import PageLines, Rectangle
from medvrag_core.corpus.opened import OpenedDocument, OpenedPage, RefusedError
from medvrag_core.corpus.pdfium_text import read_text_layer


def prepare() -> None:
    """Load the library."""
    import pypdfium2

    del pypdfium2


def open_document(path: Path) -> OpenedDocument:
    """Open a PDF file; raises RefusedError for one that needs a password or has no page."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "assword" in str(error):
            raise RefusedError("encrypted", "needs a password") from None
        raise
    if len(document) < 1:
        raise RefusedError("no_pages", "no page can be found")
    return _Document(document)


class _Document:
    is_repaired = False  # PDFium repairs in silence

    def __init__(self, document: Any) -> None:
        self._document = document
        self.page_count = len(document)
        self.metadata: Mapping[str, str] = {
            key.lower(): str(value) for key, value in document.get_metadata_dict().items()
        }

    def page(self, number: int) -> OpenedPage:
        return _Page(self._document[number - 1])

    def close(self) -> None:
        self._document.close()


class _Page:
    def __init__(self, page: Any) -> None:
        self._page = page
        self.width, self.height = page.get_size()
        self.rotation = int(page.get_rotation()) % 360

    def render(self, dpi: float, clip: Rectangle | None = None) -> NDArray[np.uint8]:
        crop = (0.0, 0.0, 0.0, 0.0)
        if clip is not None:  # what is cut off: left, bottom, right, top
            crop = (max(clip[0], 0), max(self.height - clip[3], 0), max(self.width - clip[2], 0), max(clip[1], 0))
        bitmap = self._page.render(scale=dpi / 72, crop=crop, rev_byteorder=True, may_draw_forms=False)
        try:
            return np.ascontiguousarray(bitmap.to_numpy()[:, :, :3]).copy()
        finally:
            bitmap.close()

    def text_layer(self) -> PageLines:
        return read_text_layer(self._page)

    def close(self) -> None:
        self._page.close()
