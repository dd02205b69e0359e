from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import MismatchError
from medvrag_core.records import Query, Record, StageTime
from medvrag_core.runs.sealed import read_sealed, write_sealed


class Words(Record):
    words: dict[str, str]


@settings(max_examples=20, deadline=None)
@given(words=st.dictionaries(st.text(), st.text()))
def test_a_record_comes_back(words: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("sealed") / "record.json"
    write_sealed(path, Words(words=words))
    assert read_sealed(path, Words, way_out="") == Words(words=words)


def test_a_flipped_bit_in_any_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "hit.json"
    write_sealed(path, StageTime(step="Ä#p1", seconds=0.5))
    data = path.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(MismatchError, match=r"hit\.json: is damaged, or another version wrote it; do it again"):
            read_sealed(path, StageTime, way_out="do it again")


@pytest.mark.parametrize("change", [b"", b"\xff\xfe", b"[]", b'{"step":"a","seconds":1.0}', b"{" * 100])
def test_a_file_that_was_never_sealed_is_refused(tmp_path: Path, change: bytes) -> None:
    (tmp_path / "x.json").write_bytes(change)
    with pytest.raises(MismatchError, match=r"x\.json: is damaged"):
        read_sealed(tmp_path / "x.json", StageTime, way_out="")


@pytest.mark.parametrize("cut", [1, 2, 40, 90])
def test_a_file_cut_short_or_made_longer_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.json"
    write_sealed(path, StageTime(step="a", seconds=0.5))
    data = path.read_bytes()
    for changed in (data[:-cut], data[cut:], data + data[:cut]):
        path.write_bytes(changed)
        with pytest.raises(MismatchError, match="is damaged"):
            read_sealed(path, StageTime, way_out="")


def test_a_record_of_another_kind_names_the_field(tmp_path: Path) -> None:
    write_sealed(tmp_path / "x.json", Query(id="q", text="t"))
    with pytest.raises(MismatchError, match=r"x\.json: .*'step' is missing.*another version; do it again"):
        read_sealed(tmp_path / "x.json", StageTime, way_out="do it again")


def test_no_file_is_none_and_a_folder_is_refused(tmp_path: Path) -> None:
    assert read_sealed(tmp_path / "x.json", StageTime, way_out="") is None
    (tmp_path / "x.json").mkdir()
    with pytest.raises(MismatchError, match=r"x\.json: cannot be read"):
        read_sealed(tmp_path / "x.json", StageTime, way_out="")
