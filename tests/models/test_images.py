"""Page images on their way to a model, over real files."""

from __future__ import annotations

import base64
import io
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.errors import InputError
from medvrag_core.models.base import PageImage
from medvrag_core.models.image_tokens import TILE, resized
from medvrag_core.models.images import decoded_bytes, image_identity, image_url, sized


def picture(path: Path, width: int = 60, height: int = 90, color: str = "red") -> Path:
    Image.new("RGB", (width, height), color).save(path)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.integers(30, 400), st.integers(30, 400), st.integers(10_000, 60_000), st.integers(0, 9_000_000))
def test_what_is_sent_is_not_resized_again_whatever_limits_the_server_has(
    tmp_path: Path, width: int, height: int, cap: int, more: int
) -> None:
    found = sized(picture(tmp_path / "p.png", width, height), cap)
    assert found.width * found.height <= cap and found.width % TILE == found.height % TILE == 0
    assert resized(found.width, found.height, max_pixels=cap + more) == (found.width, found.height)
    # Whole tiles change the shape a little, each side by less than two tiles.
    scale = (found.width * found.height / (width * height)) ** 0.5
    assert abs(width * scale - found.width) < 2 * TILE and abs(height * scale - found.height) < 2 * TILE


def test_the_example_of_a_letter_page(tmp_path: Path) -> None:
    found = sized(picture(tmp_path / "p.jpg", 2550, 3300), 1_003_520)
    assert (found.width, found.height) == (868, 1120)
    assert decoded_bytes(found) == 3 * 868 * 1120


def test_the_url_holds_a_jpeg_of_just_that_size(tmp_path: Path) -> None:
    picture(tmp_path / "p.png")
    for size in ((60, 90), (30, 45)):
        url = image_url(PageImage(path=tmp_path / "p.png", width=size[0], height=size[1]))
        head, _, body = url.partition(",")
        assert head == "data:image/jpeg;base64"
        with Image.open(io.BytesIO(base64.b64decode(body, validate=True))) as sent:
            assert (sent.format, sent.size) == ("JPEG", size)


def test_the_identity_follows_the_bytes_and_the_size_and_not_the_place(tmp_path: Path) -> None:
    one, copy = picture(tmp_path / "one.png"), picture(tmp_path / "copy.png")
    page = sized(one, 10_000)
    assert image_identity(page) == image_identity(page.model_copy(update={"path": copy}))
    assert image_identity(page) != image_identity(page.model_copy(update={"width": 30}))
    before = image_identity(page)
    picture(one, color="blue")
    os.utime(one, ns=(1, 1))  # a file that was made anew has another time
    assert image_identity(page) != before


@pytest.mark.parametrize("content", [None, b"", b"not an image", b"\x89PNG\r\n\x1a\n broken"])
def test_a_missing_or_broken_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "page 7.png"
    if content is not None:
        path.write_bytes(content)
    for use in (lambda: sized(path, 10_000), lambda: image_url(PageImage(path=path, width=9, height=9))):
        with pytest.raises(InputError, match=r"page 7\.png"):
            use()
    if content is None:
        with pytest.raises(InputError, match=r"page 7\.png"):
            image_identity(PageImage(path=path, width=9, height=9))


def test_a_bomb_is_refused_by_its_head_alone(tmp_path: Path) -> None:
    """An image of 60,000 x 60,000 pixels in a small file; nothing of that size may be allocated."""
    small = io.BytesIO()
    Image.new("L", (8, 8)).save(small, "PNG")
    data = bytearray(small.getvalue())
    data[16:24] = (60_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    path = tmp_path / "bomb.png"
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=r"bomb\.png"):
        sized(path, 10_000)


def test_a_file_that_breaks_off_is_named_when_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "half.jpg"
    Image.effect_noise((200, 200), 80).save(path)
    path.write_bytes(path.read_bytes()[:3_000])
    page = sized(path, 10_000)
    with pytest.raises(InputError, match=r"half\.jpg"):
        image_url(page)
