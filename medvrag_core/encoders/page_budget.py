"""How many vectors and bytes a page takes under the settings of an encoder, computed before anything is encoded.

The paper (section 3.1) gives three numbers that do not meet in ColQwen2.5: 300 DPI, about 103 vectors a page, and a PCA
from 768 to 128. Each reading of them is a combination of settings, and each costs what is computed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from medvrag_core.encoders.storage import bytes_a_vector
from medvrag_core.errors import SettingsError
from medvrag_core.models.image_tokens import TILE, resized
from medvrag_core.records import Record
from medvrag_core.settings import EncoderSettings

NATIVE_WIDTH = 128
"""Numbers in a vector of ColQwen2.5; its last layer maps 2,048 to 128."""
PAPERS = {"US Letter": (8.5, 11.0), "A4": (210 / 25.4, 297 / 25.4)}
"""Width and height in inches."""
PAPER_DPI = 300
PAPER_PAGES = 350_000


class PageBudget(Record):
    """What ColQwen2.5 makes of one page image.

    Attributes
    ----------
    pixels, shown : width and height as rendered, and as the model sees it
    patches : visual tokens
    vectors : what pooling leaves of them at most; clusters of equal patches may leave fewer
    dim : numbers in a vector
    bytes : of the stored vectors
    """

    pixels: tuple[int, int]
    shown: tuple[int, int]
    patches: int
    vectors: int
    dim: int
    bytes: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.shown[1] // TILE, self.shown[0] // TILE


class RenderedPage(Record):
    """A page of some paper at some resolution."""

    paper: str
    dpi: int
    budget: PageBudget


class Reading(Record):
    """One way to understand the paper, as the settings that express it, and what a page takes under them."""

    name: str
    settings: dict[str, int]
    pages: tuple[RenderedPage, ...] = ()

    @property
    def corpus_bytes(self) -> int:
        """Of the vectors of as many pages as the paper has, all as large as the largest here."""
        return PAPER_PAGES * max(page.budget.bytes for page in self.pages)


READINGS = (
    Reading(name="as the model is", settings={"pool_factor": 1}),
    Reading(name="merged (default)", settings={"pool_factor": 7}),
    Reading(name="shown small", settings={"pool_factor": 1, "max_visual_tokens": 128}),
    Reading(name="merged, rotated", settings={"pool_factor": 7, "pca_dim": NATIVE_WIDTH}),
    Reading(name="merged, halved", settings={"pool_factor": 7, "pca_dim": NATIVE_WIDTH // 2}),
)


def reading_budgets(settings: EncoderSettings) -> tuple[Reading, ...]:
    """Every reading with its pages at the paper's resolution; what it does not set is as in ``settings``."""
    return tuple(
        reading.model_copy(
            update={"pages": resolution_budgets(settings.model_copy(update=reading.settings), (PAPER_DPI,))}
        )
        for reading in READINGS
    )


def resolution_budgets(
    settings: EncoderSettings, resolutions: Sequence[int] = (72, 96, 150, PAPER_DPI)
) -> tuple[RenderedPage, ...]:
    """The same page rendered at several resolutions, each paper in turn."""
    return tuple(
        RenderedPage(paper=paper, dpi=dpi, budget=page_budget(settings, round(wide * dpi), round(high * dpi)))
        for paper, (wide, high) in PAPERS.items()
        for dpi in resolutions
    )


def page_budget(settings: EncoderSettings, width: int, height: int) -> PageBudget:
    """Patches, vectors and bytes of a page image of so many pixels.

    Raises
    ------
    SettingsError : the encoder is another than ``colqwen2.5``, whose rule for sizes this is

    >>> page = page_budget(EncoderSettings(name="colqwen2.5", pool_factor=7), 2550, 3300)
    >>> page.grid, page.patches, page.vectors
    ((31, 24), 744, 106)
    """
    if settings.name != "colqwen2.5":
        raise SettingsError(f"encoder.name: sizes of '{settings.name}' are not known", way_out="use colqwen2.5")
    shown = resized(width, height, max_pixels=settings.max_visual_tokens * TILE**2)
    patches = shown[0] * shown[1] // TILE**2
    vectors = max(1, patches // settings.pool_factor)
    dim = settings.pca_dim or NATIVE_WIDTH
    return PageBudget(
        pixels=(width, height),
        shown=shown,
        patches=patches,
        vectors=vectors,
        dim=dim,
        bytes=vectors * bytes_a_vector(dim, settings.storage),
    )
