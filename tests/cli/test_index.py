"""`medvrag index`, `index tune`, `index delete` and `index check` through the entry point, on a small run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.index.tune import Tuning, tuning_path
from medvrag_core.runs.verified import verify
from medvrag_core.runs.workspace import Workspace

Command = Callable[..., SimpleNamespace]


@pytest.fixture
def run(made_run: Workspace, tmp_path: Path) -> Path:
    """A copy of a run of five pages that has its index."""
    shutil.copytree(made_run.root, tmp_path / "run")
    return tmp_path / "run"


def files(run: Path) -> dict[Path, tuple[int, bytes]]:
    """Times and contents of an index, but for the note on when it was last verified."""
    found = (path for path in (run / "index").rglob("*") if path.is_file() and path.name != ".verified.json")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def queries(folder: Path) -> Path:
    path = folder / "queries.jsonl"
    lines = [
        {"id": "q1", "text": "dose of allopurinol"},
        {"id": "q2", "text": "ferritin"},
        {"id": "q3", "text": "rinse"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def retrieved(medvrag: Command, run: Path, folder: Path, mode: str = "exact") -> set[str]:
    """Pages that Stage 1 finds for any of the queries when it is asked for all there are."""
    out = folder / "found.trec"
    arguments = ("--queries", queries(folder), "-k", "100", "--out", out, "--retriever", "stage1")
    done = medvrag("retrieve", "--run", run, *arguments, "--set", f"index.mode={mode}")
    assert done.code == 0, done.err
    return {line.split()[2] for line in out.read_text().splitlines()}


# --- index -------------------------------------------------------------------------------


def test_without_a_run_it_says_what_is_missing(medvrag: Command) -> None:
    done = medvrag("index")
    assert (done.code, done.out) == (2, "")
    assert "no run is named; give --run and the folder of a run" in done.err


@pytest.mark.parametrize("verb", [("tune",), ("delete", "gout#p1"), ("check",)])
def test_a_verb_without_a_run_is_refused(medvrag: Command, verb: tuple[str, ...]) -> None:
    done = medvrag("index", *verb)
    assert done.code == 2
    assert "Missing option '--run'" in done.err


def test_a_folder_that_is_no_run_is_refused(medvrag: Command, tmp_path: Path) -> None:
    for arguments in ((), ("tune",), ("delete", "gout#p1"), ("check",)):
        verb, rest = arguments[:1], arguments[1:]
        done = medvrag("index", *verb, "--run", tmp_path / "none", *rest)
        assert done.code == 2, done.err
        assert "none" in done.err
        assert "Traceback" not in done.err
        assert not (tmp_path / "none").exists()


def test_it_builds_and_a_second_call_touches_nothing(medvrag: Command, run: Path) -> None:
    there = {path.relative_to(run): data for path, (_, data) in files(run).items()}
    shutil.rmtree(run / "index")
    done = medvrag("index", "--run", run)
    assert done.code == 0, done.err
    assert done.out.startswith(f"{run}: 5 pages indexed, 0 near-duplicates left out, ")
    assert done.out.rstrip().endswith("bytes a page; mode exact on cpu")
    made = files(run)
    assert {path.relative_to(run): data for path, (_, data) in made.items()} == there
    assert medvrag("index", "--run", run).code == 0
    assert files(run) == made
    record = json.loads(medvrag("index", "--run", run, "--json").out)
    assert (record["stage"], record["metrics"]["pages_indexed"], record["metrics"]["mode"]) == ("indexing", 5, "exact")
    assert files(run) == made


# --- index delete ------------------------------------------------------------------------


def test_deleted_pages_are_never_found_again(medvrag: Command, run: Path, tmp_path: Path) -> None:
    whole = retrieved(medvrag, run, tmp_path)
    assert {"gout#p1", "gout#p2", "anemia#p1"} <= whole
    done = medvrag("index", "delete", "--run", run, "gout#p1", "anemia#p1", "gout#p1")
    assert done.code == 0, done.err
    assert done.out == f"{run}: 2 pages deleted, 3 are left\n"
    left = whole - {"gout#p1", "anemia#p1"}
    for mode in ("exact", "fast", "paper"):
        assert retrieved(medvrag, run, tmp_path, mode) == left
    assert medvrag("index", "--run", run).out.startswith(f"{run}: 3 pages indexed")
    assert retrieved(medvrag, run, tmp_path) == left, "deleted pages stay deleted"


def test_a_page_that_is_not_there_is_refused_and_no_other_is_deleted(medvrag: Command, run: Path) -> None:
    before = files(run)
    done = medvrag("index", "delete", "--run", run, "gout#p1", "gout#p9")
    assert (done.code, done.out) == (2, "")
    assert "page 'gout#p9' is not in the index" in done.err
    assert files(run) == before
    assert medvrag("index", "delete", "--run", run, "gout#p1").code == 0
    again = medvrag("index", "delete", "--run", run, "gout#p1")
    assert again.code == 2
    assert "page 'gout#p1' is not in the index" in again.err


def test_no_page_is_no_command(medvrag: Command, run: Path) -> None:
    done = medvrag("index", "delete", "--run", run)
    assert done.code == 2
    assert "Missing argument 'pages'" in done.err


# --- index tune --------------------------------------------------------------------------


def test_the_curve_is_told_and_kept(medvrag: Command, run: Path, tmp_path: Path) -> None:
    done = medvrag("index", "tune", "--run", run, "--at", "2", "--recall", "1", "--queries", queries(tmp_path))
    assert done.code == 0, done.err
    assert done.out.startswith("mode fast: 3 queries of ")
    assert ", 5 pages, recall of the best 2 of exact search (" in done.out
    kept = Tuning.from_json(tuning_path(run / "index", "fast").read_text(), source="kept")
    rows = done.out.splitlines()[2:-1]
    assert all(f"shortlist {p.changed['shortlist']}" in row for p, row in zip(kept.points, rows, strict=True))
    last = done.out.splitlines()[-1]
    if kept.chosen is None:
        assert last.startswith("no setting reaches 1; the highest is ")
    else:
        assert (
            last == f"use: --set index.mode=fast --set index.shortlist={kept.points[kept.chosen].changed['shortlist']}"
        )


def test_json_is_what_is_kept_and_page_summaries_are_the_queries(medvrag: Command, run: Path) -> None:
    done = medvrag("index", "tune", "--run", run, "--mode", "paper", "--at", "100", "--json")
    assert done.code == 0, done.err
    found = Tuning.from_json(done.out, source="stdout")
    assert (found.mode, found.queries, found.pages, found.at, found.wanted) == ("paper", 5, 5, 100, 0.99)
    assert Tuning.from_json(tuning_path(run / "index", "paper").read_text(), source="kept") == found
    assert not tuning_path(run / "index", "fast").exists()


def test_settings_that_it_tells_to_use_can_be_used(medvrag: Command, run: Path, tmp_path: Path) -> None:
    told = medvrag("index", "tune", "--run", run, "--at", "5", "--recall", "1").out.splitlines()[-1]
    options = told.removeprefix("use: ").split()
    arguments = ("--queries", queries(tmp_path), "-k", "5", "--out", tmp_path / "found.trec")
    done = medvrag("retrieve", "--run", run, *arguments, *options)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mode", "exact"), "Invalid value for '--mode'"),
        (("--recall", "1.2"), "Invalid value for '--recall'"),
        (("--at", "0"), "Invalid value for '--at'"),
        (("--queries", "none.jsonl"), "none.jsonl"),
    ],
)
def test_what_cannot_be_tuned_is_refused(medvrag: Command, run: Path, arguments: tuple[str, ...], words: str) -> None:
    done = medvrag("index", "tune", "--run", run, *arguments)
    assert done.code == 2
    assert words in done.err


def test_a_file_without_a_query_is_refused(medvrag: Command, run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    done = medvrag("index", "tune", "--run", run, "--queries", tmp_path / "empty.jsonl")
    assert done.code == 2
    assert "quer" in done.err
    assert not tuning_path(run / "index", "fast").exists()


def test_the_kept_curve_is_shown_without_a_search(medvrag: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = medvrag("index", "tune", "--run", run, "--kept")
    assert (none.code, none.out) == (2, "")
    assert "mode 'fast' was not tuned; run `medvrag index tune`" in none.err
    told = medvrag("index", "tune", "--run", run, "--at", "2")
    monkeypatch.setattr("medvrag_core.index.tune.open_index", None)
    assert medvrag("index", "tune", "--run", run, "--kept").out == told.out


# --- check -------------------------------------------------------------------------------


def test_check_reads_everything_anew(medvrag: Command, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def verified(folder: Path, wanted: dict[str, str], *, full: bool = False, **rest: object) -> None:
        asked.append(full)
        verify(folder, wanted, full=full, **rest)  # type: ignore[arg-type]

    for module in ("medvrag_core.encoders.vectors", "medvrag_core.index.build"):
        monkeypatch.setattr(f"{module}.verify", verified)
    done = medvrag("index", "check", "--run", run)
    assert (done.code, done.out) == (0, f"{run}: vectors and index are whole\n")
    assert asked == [True] * 3, "vectors, what their encoder learned, index"


@pytest.mark.parametrize("part", ["vectors/shard-00000", "vectors/encoder", "index"])
def test_check_names_what_is_damaged(part: str, medvrag: Command, run: Path) -> None:
    path = next((run / part).rglob("*.npy"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    done = medvrag("index", "check", "--run", run)
    assert (done.code, done.out) == (2, "")
    assert str(path) in done.err
