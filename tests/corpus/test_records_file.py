"""Records of a file read one by one are those of the file read whole, and cost no memory until they are asked for."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.corpus import records_file
from medvrag_core.corpus.records_file import KEPT, KeyedRecords, RecordsFile
from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.records import Record


class Note(Record):
    """A small record."""

    name: str
    text: str = ""


def written(folder: Path, notes: list[Note], *, newline: str = "\n") -> Path:
    path = folder / "notes.jsonl"
    path.write_text("\n".join(note.to_json() for note in notes) + newline * bool(notes), encoding="utf-8")
    return path


@settings(deadline=None)
@given(
    notes=st.lists(st.builds(Note, name=st.text(max_size=5), text=st.text(max_size=40)), max_size=30),
    newline=st.sampled_from(["", "\n"]),
    piece=st.integers(1, 64),
    cut=st.slices(30),
)
def test_it_is_the_list(
    tmp_path_factory: pytest.TempPathFactory, notes: list[Note], newline: str, piece: int, cut: slice
) -> None:
    path = written(tmp_path_factory.mktemp("f"), notes, newline=newline)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_file, "_PIECE", piece)
        found = RecordsFile(path, Note)
    assert (len(found), list(found), found) == (len(notes), notes, notes)
    assert found[cut] == tuple(notes[cut])
    assert [found[place] for place in range(-len(notes), len(notes))] == notes * 2
    for outside in (len(notes), -len(notes) - 1):
        with pytest.raises(IndexError):
            found[outside]
    by_name = KeyedRecords(found, lambda note: note.name)
    assert by_name == {note.name: note for note in notes}


def test_what_is_not_asked_for_takes_eight_bytes(tmp_path: Path) -> None:
    count = 5 * KEPT
    path = written(tmp_path, [Note(name=f"n{number}", text="word " * 100) for number in range(count)])
    tracemalloc.start()
    found = RecordsFile(path, Note)
    assert sum(len(note.text) for note in found) == 500 * count
    assert found[count - 1].name == f"n{count - 1}"
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    strings_of_pydantic = 1_000_000  # It keeps 16,384 short ones, whatever is read.
    assert 8 * count <= held < 16 * count + strings_of_pydantic < 500 * count / 5


def test_a_file_that_was_replaced_is_read_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, [Note(name="before")])
    found = RecordsFile(path, Note)
    (tmp_path / "fresh").write_text(Note(name="x").to_json())
    (tmp_path / "fresh").replace(path)
    assert found[0].name == "before"


def test_faults_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match=r"nothing\.jsonl: is missing"):
        RecordsFile(tmp_path / "nothing.jsonl", Note)
    path = written(tmp_path, [Note(name="a"), Note(name="b")])
    path.write_text(path.read_text().replace('"b"', '"b'))
    found = RecordsFile(path, Note)
    assert found[0].name == "a"
    with pytest.raises(InputError, match=r"notes\.jsonl"):
        found[1]
