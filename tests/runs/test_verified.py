from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from medvrag_core.errors import MismatchError
from medvrag_core.runs import verified
from medvrag_core.runs.publish import sha256_of
from medvrag_core.runs.sealed import read_sealed, write_sealed
from medvrag_core.runs.verified import NOTE, Note, digests, verify

NEVER_NS = 10**15


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are old enough for the note at once."""
    monkeypatch.setattr(verified, "SETTLED_NS", -NEVER_NS)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were hashed."""
    names: list[str] = []

    def noticed(path: Path) -> str:
        names.append(path.name)
        return sha256_of(path)

    monkeypatch.setattr(verified, "sha256_of", noticed)
    return names


def made(folder: Path) -> dict[str, str]:
    """Three files in two folders; a write after this falls into another tick of the file system's clock."""
    for name in ("a", "b", "part/c"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode() * 1_000)
    time.sleep(0.02)
    return {name: sha256_of(folder / name) for name in ("a", "b", "part/c")}


def test_what_did_not_change_is_read_once(tmp_path: Path, read: list[str]) -> None:
    files = made(tmp_path)
    verify(tmp_path, files, way_out="")
    assert sorted(read) == ["a", "b", "c"]
    read.clear()
    verify(tmp_path, files, way_out="")
    assert read == []
    verify(tmp_path, files, way_out="", full=True)
    assert sorted(read) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["a", "part/c"])
def test_a_flip_is_found_although_the_note_exists(tmp_path: Path, name: str) -> None:
    files = made(tmp_path)
    verify(tmp_path, files, way_out="")
    path = tmp_path / name
    before, data = path.stat(), bytearray(path.read_bytes())
    for place in (0, len(data) // 2, len(data) - 1):
        flipped = data.copy()
        flipped[place] ^= 1
        with path.open("rb+") as file:  # The same inode and length.
            file.write(flipped)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # A program can set mtime back.
        for _ in range(2):
            with pytest.raises(MismatchError, match=rf"{name}: is damaged, or another file; do it again"):
                verify(tmp_path, files, way_out="do it again")
    path.write_bytes(data)
    verify(tmp_path, files, way_out="")


def test_a_touched_file_is_read_again_and_accepted(tmp_path: Path, read: list[str]) -> None:
    files = made(tmp_path)
    verify(tmp_path, files, way_out="")
    read.clear()
    (tmp_path / "b").touch()
    for _ in range(2):
        verify(tmp_path, files, way_out="")
    assert read == ["b"]


def test_a_file_that_was_just_written_is_not_noted(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = made(tmp_path)
    verify(tmp_path, files, way_out="")
    read.clear()
    (tmp_path / "b").touch()
    with monkeypatch.context() as patch:
        patch.setattr(verified, "SETTLED_NS", NEVER_NS)
        for times in (1, 2, 3):
            verify(tmp_path, files, way_out="")
            assert read == ["b"] * times
    for _ in range(2):
        verify(tmp_path, files, way_out="")
    assert read == ["b"] * 4


def test_another_file_of_the_same_size_and_age_is_read(tmp_path: Path) -> None:
    files = made(tmp_path)
    (tmp_path / "part" / "c").replace(tmp_path / "aside")
    (tmp_path / "part" / "c").write_bytes(b"part/d" * 1_000)
    (tmp_path / "aside").replace(tmp_path / "part" / "c")
    verify(tmp_path, files, way_out="")
    shutil.copy2(tmp_path / "a", tmp_path / "part" / "c")
    with pytest.raises(MismatchError, match="part/c: is damaged"):
        verify(tmp_path, files, way_out="")


def test_the_note_says_nothing_about_another_digest(tmp_path: Path) -> None:
    files = made(tmp_path)
    verify(tmp_path, files, way_out="")
    with pytest.raises(MismatchError, match="b: is damaged, or another file"):
        verify(tmp_path, files | {"b": files["a"]}, way_out="")


def test_missing_and_extra_files_are_named(tmp_path: Path) -> None:
    files = made(tmp_path)
    (tmp_path / "part" / "d").write_text("more")
    with pytest.raises(MismatchError, match="part/d: is a file that the manifest does not know; do it again"):
        verify(tmp_path, files, way_out="do it again")
    (tmp_path / "part" / "d").rename(tmp_path / "d")
    with pytest.raises(MismatchError, match="d: is a file that the manifest does not know"):
        verify(tmp_path, files, way_out="")
    verify(tmp_path, {"part/c": files["part/c"]}, way_out="")
    (tmp_path / "d").unlink()
    with pytest.raises(MismatchError, match="part/e: is missing; do it again"):
        verify(tmp_path, files | {"part/e": files["a"]}, way_out="do it again")
    shutil.rmtree(tmp_path / "part")
    with pytest.raises(MismatchError, match="part/c: is missing"):
        verify(tmp_path, files, way_out="")
    with pytest.raises(MismatchError, match="none/a: is missing"):
        verify(tmp_path / "none", files, way_out="")


def test_a_folder_that_is_to_be_empty(tmp_path: Path) -> None:
    verify(tmp_path, {}, way_out="")
    (tmp_path / "a").write_text("more")
    with pytest.raises(MismatchError, match="a: is a file that the manifest does not know"):
        verify(tmp_path, {}, way_out="")


@pytest.mark.parametrize("damage", ["flip", "empty", "text", "folder"])
def test_a_note_that_cannot_be_read_means_reading_the_files(tmp_path: Path, read: list[str], damage: str) -> None:
    files = made(tmp_path)
    verify(tmp_path, files, way_out="")
    note = tmp_path / NOTE
    data = bytearray(note.read_bytes())
    data[-20] ^= 1
    note.write_bytes({"flip": bytes(data), "text": b'{"files": {}}'}.get(damage, b""))
    if damage == "folder":  # Nor can it be written: the files are read each time.
        note.unlink()
        note.mkdir()
    read.clear()
    verify(tmp_path, files, way_out="")
    assert sorted(read) == ["a", "b", "c"]
    read.clear()
    verify(tmp_path, files, way_out="")
    assert sorted(read) == (["a", "b", "c"] if damage == "folder" else [])


@pytest.mark.parametrize("field", range(5))
def test_each_part_of_a_note_counts(tmp_path: Path, read: list[str], field: int) -> None:
    files = made(tmp_path)
    verify(tmp_path, files, way_out="")
    note = read_sealed(tmp_path / NOTE, Note, way_out="")
    assert note is not None
    parts = note.files["a"].split()
    assert len(parts) == 5
    parts[field] = files["b"] if field == 0 else str(int(parts[field]) + 1)
    write_sealed(tmp_path / NOTE, Note(files=note.files | {"a": " ".join(parts)}))
    read.clear()
    verify(tmp_path, files, way_out="")
    assert read == ["a"]


def test_bytes_that_rot_without_a_write_are_found_by_a_full_check(tmp_path: Path) -> None:
    files = made(tmp_path)
    (tmp_path / "b").write_bytes(b"c" * 1_000)
    time.sleep(0.02)
    verify(tmp_path, files | {"b": sha256_of(tmp_path / "b")}, way_out="")
    note = read_sealed(tmp_path / NOTE, Note, way_out="")
    assert note is not None
    # As if the file had been right when it was noted.
    right = note.files["b"].replace(sha256_of(tmp_path / "b"), files["b"])
    write_sealed(tmp_path / NOTE, Note(files=note.files | {"b": right}))
    verify(tmp_path, files, way_out="")
    for full in (True, False):
        with pytest.raises(MismatchError, match="b: is damaged"):
            verify(tmp_path, files, way_out="", full=full)


def test_a_write_while_files_are_read_is_found_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path)

    def read_then_written(path: Path) -> str:
        digest = sha256_of(path)
        if path.name == "b":
            path.write_bytes(b"x" * path.stat().st_size)
        return digest

    with monkeypatch.context() as patch:
        patch.setattr(verified, "sha256_of", read_then_written)
        verify(tmp_path, files, way_out="")
    with pytest.raises(MismatchError, match="b: is damaged"):
        verify(tmp_path, files, way_out="")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path)

    def broken(path: Path) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(verified, "sha256_of", broken)
    with pytest.raises(MismatchError, match=r"a: cannot be read \(Input/output error\); do it again"):
        verify(tmp_path, files, way_out="do it again")


def test_a_folder_that_was_moved_keeps_its_note_and_a_copy_is_read(tmp_path: Path, read: list[str]) -> None:
    files = made(tmp_path / "here")
    verify(tmp_path / "here", files, way_out="")
    (tmp_path / "here").rename(tmp_path / "there")
    read.clear()
    verify(tmp_path / "there", files, way_out="")
    assert read == []
    shutil.copytree(tmp_path / "there", tmp_path / "copy")
    verify(tmp_path / "copy", files, way_out="")
    assert sorted(read) == ["a", "b", "c"]


def test_a_note_under_way_is_no_extra_file_and_counts_for_no_digest(tmp_path: Path) -> None:
    files = made(tmp_path)
    for name in (NOTE, f".{NOTE}.123.part", f"part/.{NOTE}.123.part"):
        (tmp_path / name).write_text("half")
    verify(tmp_path, files, way_out="")
    assert digests(tmp_path / "part") == {"c": files["part/c"]}
