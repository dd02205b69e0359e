"""Pages as a scanner would give them: gray pictures, slightly turned, with the grain of paper."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pymupdf
from PIL import Image

SCAN_DPI = 150
LARGEST_BYTES = 190_000
"""Largest picture of a page; a PDF writes it as text and so a quarter larger."""
_PAPER = 246
_GRAIN = 5
_LEAST_DEGREES, _MOST_DEGREES = 0.2, 0.9


def scans(pdf: bytes, name: str) -> list[bytes]:
    """A gray JPEG of every page of a PDF.

    Angle and grain come from generators that ``name`` and the page number seed, so that the same pages look the same.
    """
    with pymupdf.open(stream=pdf, filetype="pdf") as document:  # type: ignore[no-untyped-call]
        pages = [page.get_pixmap(dpi=SCAN_DPI, colorspace=pymupdf.csGRAY) for page in document]
    return [_scan(pixels, f"{name} {number}") for number, pixels in enumerate(pages, 1)]


def angle_of(name: str, page: int) -> float:
    """Degrees by which a page lies askew in its scan, to either side but never straight."""
    return _angle(np.random.default_rng(_seed(f"{name} {page}")))


def _seed(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def _angle(generator: np.random.Generator) -> float:
    degrees = generator.uniform(_LEAST_DEGREES, _MOST_DEGREES)
    return float(degrees if generator.integers(2) else -degrees)


def _scan(pixels: pymupdf.Pixmap, name: str) -> bytes:
    generator = np.random.default_rng(_seed(name))
    page = Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)
    turned = page.rotate(_angle(generator), resample=Image.Resampling.BICUBIC, fillcolor=255)
    # Ink and paper lose contrast, and every pixel gets a little grain.
    gray = np.asarray(turned, dtype=np.int32) * (_PAPER - 30) // 255 + 30
    grain = generator.integers(-_GRAIN, _GRAIN + 1, size=gray.shape)
    picture = Image.fromarray(np.clip(gray + grain, 0, 255).astype(np.uint8))
    for quality in range(55, 10, -5):
        target = io.BytesIO()
        picture.save(target, format="JPEG", quality=quality, optimize=True)
        if target.tell() <= LARGEST_BYTES:
            break
    return target.getvalue()
