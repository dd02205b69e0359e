"""Single bits flipped all over a store: each one is found, by a typed error that names the file."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from made_pages import HashEncoder, made_pages

from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MismatchError
from medvrag_core.runs import verified

FLIPS = 200


def opened(folder: Path) -> VectorStore:
    store = VectorStore.open(folder)
    store.load_encoder(HashEncoder())
    return store


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The note knows every file at once."""
    monkeypatch.setattr(verified, "SETTLED_NS", 0)


def test_200_flipped_bits_are_200_typed_errors(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    encode_corpus(made_pages(70), HashEncoder(), folder, corpus_fingerprint="c", storage="int8", progress=False)
    time.sleep(0.02)  # A flip falls into another tick of the file system's clock.
    whole = opened(folder).manifest
    files = [folder / "manifest.json", folder / "encoder" / "learned.npy", *(folder / name for name in whole.files)]
    assert len(files) == 2 + 1 + 2 * 3
    notes = [folder / verified.NOTE, folder / "encoder" / verified.NOTE]
    assert all(note.is_file() for note in notes)
    drawn = random.Random(6)
    for number in range(FLIPS):
        path = files[number % len(files)]
        data = path.read_bytes()
        flipped = bytearray(data)
        flipped[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(MismatchError, match=rf"{path.relative_to(folder).as_posix()}: is damaged"):
            opened(folder)
        path.write_bytes(data)
    assert opened(folder).manifest == whole


def test_flips_in_a_note_change_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    encode_corpus(made_pages(5), HashEncoder(), folder, corpus_fingerprint="c", progress=False)
    whole = opened(folder).manifest
    drawn = random.Random(7)
    for note in (folder / verified.NOTE, folder / "encoder" / verified.NOTE):
        for _ in range(10):
            data = bytearray(note.read_bytes())
            data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
            note.write_bytes(data)
            assert opened(folder).manifest == whole
