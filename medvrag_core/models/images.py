"""Page images on their way to a model: their size, their identity, their bytes."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from medvrag_core.errors import InputError
from medvrag_core.models.base import PageImage
from medvrag_core.models.image_tokens import MIN_PIXELS, resized

if TYPE_CHECKING:
    from PIL import Image

RECIPE = "rgb-lanczos-jpeg90"
"""How bytes are made of an image and a size; part of every call's key."""


def sized(path: Path, max_pixels: int, min_pixels: int = MIN_PIXELS) -> PageImage:
    """The image at ``path`` at the size to which a Qwen2.5-VL processor with these limits would bring it.

    So no server resizes it again, whatever its own limits, and its tokens are what is counted here. Only the head
    of the file is read. Raises InputError naming the file if it is missing or no image, and ValueError for a strip
    that no such model takes.

    Examples
    --------
    ``sized(Path("page.jpg"), 1_003_520)`` of a 2550 x 3300 page is 868 x 1120 pixels.
    """
    with _opened(path) as image:
        width, height = image.size
    width, height = resized(width, height, max_pixels=max_pixels, min_pixels=min_pixels)
    return PageImage(path=path, width=width, height=height)


def image_url(image: PageImage) -> str:
    """The image at its size as a ``data:`` URL, so that a server never fetches anything.

    Raises InputError naming the file if it is missing or no image.
    """
    with _opened(image.path) as opened:
        small = opened.convert("RGB")
        if small.size != (image.width, image.height):
            # Pillow's own import of the enum, kept inside since Pillow is slow to load.
            small = small.resize((image.width, image.height), resample=1)
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def image_identity(image: PageImage) -> str:
    """What stands for an image in the key of a call: digest of the stored file, size sent, and recipe.

    The file's bytes are the page's identity, so a replay on another computer need not encode the same JPEG.
    """
    stat = _stat(image.path)
    digest = _file_digest(str(image.path), stat[0], stat[1])
    return f"{digest}@{image.width}x{image.height}/{RECIPE}"


def decoded_bytes(image: PageImage) -> int:
    """Memory that an image takes on its way, in bytes: 3 a pixel, more than its base64 text needs."""
    return 3 * image.width * image.height


@lru_cache(maxsize=65_536)
def _file_digest(path: str, size: int, modified: int) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _stat(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        raise _missing(path) from None
    return found.st_size, found.st_mtime_ns


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            yield image
    except FileNotFoundError:
        raise _missing(path) from None
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: not a readable image ({' '.join(str(error).split())[:200]})") from None


def _missing(path: Path) -> InputError:
    return InputError(f"{path}: page image not found", way_out="build the corpus of this run again")
