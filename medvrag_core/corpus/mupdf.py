"""Documents as PyMuPDF opens them, the renderer by default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvrag_core.corpus.lines import PageLines, Rectangle
from medvrag_core.corpus.opened import OpenedDocument, OpenedPage, RefusedError
from medvrag_core.corpus.textlayer import read_text_layer

_PAGES_A_STORE = 8
"""Pages after which MuPDF's store (decoded fonts and images) is emptied: it tells nobody how large it is."""


def prepare() -> None:
    """Load the library and silence it."""
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)


def open_document(path: Path) -> OpenedDocument:
    """Open a PDF file; raises RefusedError for one that needs a password or has no page."""
    import pymupdf

    document = pymupdf.open(path, filetype="pdf")
    if document.needs_pass and not document.authenticate(""):
        raise RefusedError("encrypted", "needs a password")
    if document.page_count < 1:
        raise RefusedError("no_pages", "no page can be found" + (" after repair" if document.is_repaired else ""))
    return _Document(document)


class _Document:
    def __init__(self, document: Any) -> None:
        self._document = document
        self.page_count: int = document.page_count
        self.is_repaired = bool(document.is_repaired)
        self.metadata: Mapping[str, str] = {key: str(value or "") for key, value in (document.metadata or {}).items()}

    def page(self, number: int) -> OpenedPage:
        return _Page(self._document.load_page(number - 1))

    def close(self) -> None:
        import pymupdf

        self._document.close()
        pymupdf.TOOLS.store_shrink(100)  # the next file begins as in a child of its own


class _Page:
    def __init__(self, page: Any) -> None:
        self._page = page
        self._list = page.get_displaylist()  # OCR may ask for pixels again
        self._rendered: list[Any] = []
        self.width, self.height = float(page.rect.width), float(page.rect.height)
        self.rotation = int(page.rotation) % 360

    def render(self, dpi: float, clip: Rectangle | None = None) -> NDArray[np.uint8]:
        import pymupdf

        pixels = self._list.get_pixmap(matrix=pymupdf.Matrix(dpi / 72, dpi / 72), clip=clip, alpha=0)
        self._rendered.append(pixels)  # the array below is no copy and owns nothing
        return np.frombuffer(pixels.samples_mv, dtype=np.uint8).reshape(pixels.height, pixels.width, 3)

    def text_layer(self) -> PageLines:
        return read_text_layer(self._page)

    def close(self) -> None:
        import pymupdf

        if self._page.number % _PAGES_A_STORE == _PAGES_A_STORE - 1:
            pymupdf.TOOLS.store_shrink(100)
