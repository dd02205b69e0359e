"""Checks of page images: how many the server takes, and whether it sees them at the size they are sent (BC-38)."""

from __future__ import annotations

import base64
import io
import math
import re

from medvrag_core.models.checks.base import Finding, Role
from medvrag_core.models.image_tokens import MARKS, TILE, image_tokens
from medvrag_core.models.outcomes import CallError

_LIMIT = re.compile(r"at most (\d{1,6}) image", re.IGNORECASE)
_TINY = 2 * TILE
_PAGE_SHAPE = 11 / 8.5
_ASK = "Reply with the word seen."


def check_images(role: Role) -> Finding:
    """Whether the server takes as many images as the run will send; pages left out by ``max_images`` are named."""
    wanted, sent = role.pages_wanted, role.pages_sent
    fewer = (
        f"; only {sent} of the {wanted} pages of 'loop.pages_shown' are sent, since '{role.name}.max_images' is"
        f" {role.settings.max_images}, and each reply lists those that were"
        if sent < wanted
        else ""
    )
    if not sent:
        return Finding("skipped", f"no page image is sent: '{role.name}.max_images' is 0")
    try:
        role.ask(_ASK, pictures=(picture(_TINY, _TINY),) * sent, max_tokens=1)
    except CallError as error:
        if limit := _LIMIT.search(error.problem):
            return Finding(
                "failed",
                f"the server takes at most {limit[1]} images in one prompt, the run sends {sent}",
                f"lower 'loop.pages_shown' or '{role.name}.max_images' to {limit[1]}, or raise the server's limit"
                f" (vLLM: --limit-mm-per-prompt '{{\"image\": {sent}}}')",
            )
        return role.failed(error, error.way_out or "serve a model that sees images, and name it in 'model'")
    return Finding("ok", f"{sent} image(s) in one prompt are taken{fewer}")


def check_pixels(role: Role) -> Finding:
    """Whether a page of ``max_pixels`` costs the tokens that its size means; fewer mean that the server shrinks it.

    One image more must add exactly its tiles and its two marks, which holds for Qwen2.5-VL alone.
    """
    settings = role.settings
    if not role.pages_sent:
        return Finding("skipped", f"no page image is sent: '{role.name}.max_images' is 0")
    if not counts_as_qwen(settings.model):
        return Finding("unknown", f"how many tokens an image costs {settings.model} is not known here")
    width, height = page_size(settings.max_pixels)
    pixels = {"max_pixels": settings.max_pixels, "min_pixels": settings.min_pixels}
    wanted = image_tokens(width, height, **pixels) + MARKS
    page, more = picture(width, height), min(2, role.pages_sent)
    try:
        counts = [role.ask(_ASK, pictures=(page,) * number, max_tokens=1).prompt_tokens for number in (more - 1, more)]
    except CallError as error:
        return role.failed(error)
    before, after = counts
    if before is None or after is None:
        return Finding("unknown", "the server tells no token counts, so nothing shows at which size it sees pages")
    grown = after - before
    found = f"an image of {width} x {height} pixels adds {grown:,} tokens, its size means {wanted:,}"
    if grown == wanted:
        return Finding("ok", found)
    if grown <= 0:
        return Finding("failed", f"{found}: the server leaves images out", "serve a model that sees images")
    flag = f"vLLM: --mm-processor-kwargs '{{\"max_pixels\": {settings.max_pixels}}}'"
    if grown < wanted:
        seen = max(1, grown - MARKS) * TILE**2
        return Finding(
            "failed",
            f"{found}: the server makes pages smaller",
            f"lower '{role.name}.max_pixels' to about {seen}, or raise the server's ({flag})",
        )
    return Finding(
        "failed",
        f"{found}: the server enlarges pages, or is of another family of models",
        f"correct '{role.name}.min_pixels' and '{role.name}.max_pixels' to the server's ({flag})",
    )


def counts_as_qwen(model: str) -> bool:
    """Whether images cost a model what :mod:`medvrag_core.models.image_tokens` says.

    >>> counts_as_qwen("Qwen/Qwen2.5-VL-32B-Instruct"), counts_as_qwen("Qwen/Qwen3-VL-8B"), counts_as_qwen("llava")
    (True, False, False)
    """
    name = model.casefold()
    return re.search(r"qwen2(?:\.5)?-?vl", name) is not None


def page_size(max_pixels: int) -> tuple[int, int]:
    """Width and height of a US Letter page just within ``max_pixels``.

    >>> page_size(1_003_520)
    (880, 1138)
    """
    width = math.floor(math.sqrt(max_pixels / _PAGE_SHAPE))
    return width, math.floor(width * _PAGE_SHAPE)


def picture(width: int, height: int) -> str:
    """A gray image as a ``data:`` URL."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (200, 200, 200)).save(buffer, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
