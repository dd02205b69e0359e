"""Image limits and shrunken pages (case BC-38)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Make = Callable[..., Any]


def test_fewer_images_than_the_run_sends_fails_with_the_settings(examined: Make, script: Any) -> None:
    script.images = 4
    checks = examined()
    assert checks.having("failed") == ["images"]
    assert "at most 4 images" in checks["images"].found and "sends 10" in checks["images"].found
    for setting in ("loop.pages_shown", "reader_model.max_images", "--limit-mm-per-prompt"):
        assert setting in checks["images"].change
    # A user may allow fewer; that is said, and no failure.
    allowed = examined(max_images=4)["images"]
    assert allowed.state == "ok" and "only 4 of the 10 pages" in allowed.found
    assert "only" not in examined(loop__pages_shown=4)["images"].found


def test_no_images_at_all(examined: Make, script: Any) -> None:
    script.images = 0
    assert examined(max_images=0).having("skipped") == ["images", "pixels"]
    assert examined().having("failed") == ["images", "pixels"]


def test_a_model_that_sees_nothing_is_named(examined: Make, script: Any) -> None:
    script.status["/v1/chat/completions"] = (500, "image input is not supported")
    assert "reader_model.model" in examined()["images"].change


@pytest.mark.parametrize("images", [1, 2])
def test_pages_that_the_server_makes_smaller(examined: Make, script: Any, images: int) -> None:
    script.max_pixels = 602_112
    checks = examined(max_images=images)
    assert checks.having("failed") == ["pixels"]
    assert "reader_model.max_pixels" in checks["pixels"].change and "--mm-processor-kwargs" in checks["pixels"].change
    assert examined(max_images=images, max_pixels=602_112).having("failed") == []


def test_images_that_the_server_leaves_out(examined: Make, script: Any) -> None:
    script.images_seen = 1
    checks = examined()
    assert checks.having("failed") == ["pixels"] and "leaves images out" in checks["pixels"].found


def test_other_families_count_in_ways_of_their_own(examined: Make, script: Any) -> None:
    script.model, script.max_pixels = "llava", 100_352
    assert examined(model="llava")["pixels"].state == "unknown"
