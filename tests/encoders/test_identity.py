from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from medvrag_core.encoders.identity import EncoderIdentity, weights_digest
from medvrag_core.errors import InputError

COLQWEN = EncoderIdentity(
    encoder="colqwen2.5", version=3, model="vidore/colqwen2.5-v0.2", revision="6f6fcdf", weights="ab",
    processor={"max_visual_tokens": 768}, query_prefix="Query: ", augmentation_tokens=10, pooling="ward at most 103",
    projection="", dtype="bfloat16", dim=128, more={"attention": "sdpa"},
)  # fmt: skip
OTHER = {
    "encoder": "colqwen3", "version": 4, "model": "m", "revision": "main", "weights": "cd",
    "processor": {"max_visual_tokens": 1024}, "query_prefix": "", "augmentation_tokens": 0, "pooling": "none",
    "projection": "pca", "dtype": "float32", "dim": 64, "more": {"attention": "eager"},
}  # fmt: skip


def test_every_field_is_tried() -> None:
    assert OTHER.keys() == EncoderIdentity.model_fields.keys()


@pytest.mark.parametrize("field", OTHER)
def test_each_field_changes_the_fingerprint_and_is_named_with_both_values(field: str) -> None:
    changed = COLQWEN.model_copy(update={field: OTHER[field]})
    assert changed.fingerprint != COLQWEN.fingerprint
    [told] = COLQWEN.differences(changed)
    before, after = getattr(COLQWEN, field), OTHER[field]
    if isinstance(before, dict):
        [before], [after] = before.values(), after.values()  # type: ignore[attr-defined]
    assert told.startswith(field)
    assert told.endswith(f": {before!r} -> {after!r}")


def test_the_same_encoder_read_back_is_the_same() -> None:
    again = EncoderIdentity.from_json(COLQWEN.to_json())
    assert again == COLQWEN and again.fingerprint == COLQWEN.fingerprint and COLQWEN.differences(again) == []


def test_kinds_of_extra_values_survive_the_way_through_a_file() -> None:
    more = {"a": True, "b": 1, "c": 1.0, "d": "1"}
    given = COLQWEN.model_copy(update={"more": more})
    read = EncoderIdentity.from_json(given.to_json())
    assert [type(value) for value in read.more.values()] == [bool, int, float, str]
    assert read.fingerprint == given.fingerprint


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError):
        EncoderIdentity(encoder="e", version=1, model="m", dim=1, device="cuda")  # type: ignore[call-arg]


def test_weights_are_told_by_name_and_content_alone(tmp_path: Path) -> None:
    for folder, texts in {"a": ("1", "2"), "b": ("1", "2"), "c": ("2", "1")}.items():
        (tmp_path / folder).mkdir()
        for name, text in zip(("x.safetensors", "y.safetensors"), texts, strict=True):
            (tmp_path / folder / name).write_text(text)
    digests = [weights_digest((tmp_path / folder).iterdir()) for folder in "abc"]
    assert digests[0] == digests[1] != digests[2]
    assert weights_digest(sorted((tmp_path / "a").iterdir(), reverse=True)) == digests[0]
    with pytest.raises(InputError, match="no file of weights"):
        weights_digest([])
