from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.records import RunRecord
from medvrag_core.runs.lock import only_writer
from medvrag_core.runs.publish import abandoned, sha256_of, whole_file, whole_folder, write_text
from medvrag_core.runs.stage import read_stage, record_stage, require_same_settings, save_settings
from medvrag_core.runs.workspace import open_run
from medvrag_core.settings import LoopSettings


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_place_where_no_file_can_stand_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is a folder; give the name of a file"):
        write_text(tmp_path, "x")
    write_text(tmp_path / "file", "x")
    with pytest.raises(InputError, match=r"b\.txt: cannot be written .*; choose another place"):
        write_text(tmp_path / "file" / "a" / "b.txt", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with pytest.raises(RuntimeError), whole_folder(path) as fresh:
        (fresh / "x").write_text("1")
        raise RuntimeError
    assert not path.exists()
    for text in ("1", "2"):
        with whole_folder(path) as fresh:
            (fresh / "x").write_text(text)
        assert (path / "x").read_text() == text


def test_what_a_process_has_under_way_is_abandoned_when_it_is_gone(tmp_path: Path) -> None:
    code = "import os, sys, pathlib; from medvrag_core.runs.publish import whole_folder\n"
    code += "with whole_folder(pathlib.Path(sys.argv[1])): os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "f")], check=True)
    (left,) = tmp_path.iterdir()
    assert abandoned(left)
    with whole_folder(tmp_path / "g") as mine:
        assert not abandoned(mine)
    assert not abandoned(tmp_path / ".f.draft.part"), "nothing of ours is named so"


def test_another_machine_with_the_same_process_number_gets_in_nobodys_way(tmp_path: Path) -> None:
    code = "import socket, sys, os; socket.gethostname = lambda: 'another'; os.getpid = lambda: int(sys.argv[2])\n"
    code += "import pathlib; from medvrag_core.runs.publish import whole_folder\n"
    code += "with whole_folder(pathlib.Path(sys.argv[1])): os._exit(0)"
    path = tmp_path / "f"
    with whole_folder(path) as mine:
        (mine / "x").write_text("mine")
        subprocess.run([sys.executable, "-c", code, str(path), str(os.getpid())], check=True)
    assert (path / "x").read_text() == "mine"
    (theirs,) = tmp_path.glob(".*")
    assert not abandoned(theirs), "whether it lives cannot be seen from here"
    os.utime(theirs, (0, 0))
    assert abandoned(theirs)


@pytest.mark.slow
def test_p3_a_killed_writer_never_leaves_a_torn_file(tmp_path: Path) -> None:
    path = tmp_path / "big.txt"
    script = (
        "from pathlib import Path; from medvrag_core.runs.publish import write_text\n"
        f"n = 0\nwhile True:\n    n += 1\n    write_text(Path({str(path)!r}), str(n % 10) * 3_000_000)\n"
    )
    for attempt in range(8):
        child = subprocess.Popen([sys.executable, "-c", script])
        time.sleep(0.5 + attempt * 0.037)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if path.exists():
            text = path.read_text()
            assert len(text) == 3_000_000
            assert len(set(text)) == 1
    assert path.exists()


def test_p16_one_writer_a_run_and_a_dead_one_frees_it(tmp_path: Path) -> None:
    script = (
        "import time; from pathlib import Path; from medvrag_core.runs.lock import only_writer\n"
        f"with only_writer(Path({str(tmp_path)!r})):\n    print('held', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    with pytest.raises(InputError, match="another process"), only_writer(tmp_path):
        pass
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with only_writer(tmp_path):
        pass


class TestStage:
    def test_a_record_round_trips_and_names_its_files(self, tmp_path: Path) -> None:
        with record_stage(tmp_path, "indexing", profile="cpu", settings=LoopSettings()) as stage:
            write_text(tmp_path / "x.bin", "data")
            stage.add(tmp_path / "x.bin")
            stage.measure(pages=3)
        record = read_stage(tmp_path, "indexing", made_by="02")
        assert record.artefacts[0].sha256 == sha256_of(tmp_path / "x.bin")
        assert record.metrics == {"pages": 3}
        assert RunRecord.from_json(record.to_json()) == record

    def test_a_failed_stage_leaves_no_record(self, tmp_path: Path) -> None:
        with (
            pytest.raises(RuntimeError),
            record_stage(tmp_path, "indexing", profile="cpu", settings=LoopSettings()),
        ):
            raise RuntimeError
        with pytest.raises(NotBuiltError, match="run notebook 02_indexing first"):
            read_stage(tmp_path, "indexing", made_by="notebook 02_indexing")

    def test_p5_other_settings_are_refused_by_field(self, tmp_path: Path) -> None:
        save_settings(tmp_path, LoopSettings())
        require_same_settings(tmp_path, LoopSettings(), way_out="x")
        with pytest.raises(MismatchError, match=r"max_rounds: 3 -> 2.*start anew"):
            require_same_settings(tmp_path, LoopSettings(max_rounds=2), way_out="start anew")

    def test_a_setting_that_the_run_did_not_know_counts_as_its_default(self, tmp_path: Path) -> None:
        (tmp_path / "settings.json").write_text('{"max_rounds": 3, "memory": true}')
        require_same_settings(tmp_path, LoopSettings(), way_out="x")
        with pytest.raises(MismatchError, match=r"memory: bank -> none; pages_shown: 10 -> 0"):
            require_same_settings(tmp_path, LoopSettings(memory="none", pages_shown=0), way_out="x")
        (tmp_path / "settings.json").write_text('{"max_rounds": 3, "removed_since": 1}')
        with pytest.raises(MismatchError, match=r"removed_since: 1 -> None"):
            require_same_settings(tmp_path, LoopSettings(), way_out="x")


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "..\\x"])
def test_a_run_id_cannot_leave_the_folder(run_id: str) -> None:
    with pytest.raises(InputError, match="plain name"):
        open_run(run_id)
