"""The two type families of the demo journal, taken from small font packages of the Python index."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont

from medvrag_core.errors import NotBuiltError

SERIF = "DemoSerif"
SANS = "DemoSans"
_STYLES = {"": "Regular", "-Bold": "Bold", "-Italic": "It", "-BoldItalic": "BoldIt"}
_PACKAGES = {
    SERIF: ("font_source_serif_pro", "SourceSerifPro", "font-source-serif-pro"),
    SANS: ("font_source_sans_pro", "SourceSansPro", "font-source-sans-pro"),
}


def font_files() -> list[Path]:
    """Paths of the eight font files in use; raises :class:`NotBuiltError` naming the package that is missing."""
    files: list[Path] = []
    for module, stem, package in _PACKAGES.values():
        # The packages' own __init__ modules are not run: only the files beside them are wanted.
        spec = importlib.util.find_spec(module)
        if spec is None or not spec.submodule_search_locations:
            raise NotBuiltError(f"the font package {package} is missing", way_out=f"run: pip install {package}")
        folder = Path(next(iter(spec.submodule_search_locations))) / "files"
        files += [folder / f"{stem}-{suffix}.ttf" for suffix in _STYLES.values()]
    return files


@cache
def register() -> None:
    """Make the families known to reportlab; calling it again does nothing."""
    paths = iter(font_files())
    for family in _PACKAGES:
        for ending in _STYLES:
            pdfmetrics.registerFont(TTFont(family + ending, str(next(paths))))
        pdfmetrics.registerFontFamily(
            family,
            normal=family,
            bold=f"{family}-Bold",
            italic=f"{family}-Italic",
            boldItalic=f"{family}-BoldItalic",
        )


def has_glyph(font: str, character: str) -> bool:
    """Whether ``font`` (a registered name) can print ``character``."""
    register()
    return ord(character) in pdfmetrics.getFont(font).face.charToGlyph


def unprintable(text: str) -> str:
    """The first character of ``text`` that an upright face of the journal lacks, or an empty string."""
    for character in text:
        if character in "\n\t":
            continue
        if not (has_glyph(SERIF, character) and has_glyph(SANS, character)):
            return character
    return ""
