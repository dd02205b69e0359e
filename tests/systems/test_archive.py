"""Exports of calls: the same bytes each time, read back whole or refused, and safe to open (promises P7, P18)."""

from __future__ import annotations

import hashlib
import json
import lzma
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.models.store import CallStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems import archive as archives
from medvrag_core.systems.answering import read_traces
from medvrag_core.systems.archive import archived_traces, export_calls, import_calls
from medvrag_core.systems.canonical import canonical_trace
from medvrag_core.systems.replay import replay

Line = dict[str, Any]


@pytest.fixture(scope="module")
def exported(paid_run: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "calls.jsonl.xz"
    export_calls(paid_run, out)
    return out


def unpacked(archive: Path) -> list[Line]:
    return [json.loads(line) for line in lzma.decompress(archive.read_bytes()).splitlines()]


def packed(out: Path, lines: list[Line], *, tail: bytes = b"") -> Path:
    """An archive of these lines whose end line is right, so that only their content is at fault."""
    body = b"".join(json.dumps(line, sort_keys=True, ensure_ascii=False).encode() + b"\n" for line in lines)
    end = {"kind": "end", "lines": len(lines), "sha256": hashlib.sha256(body).hexdigest()}
    out.write_bytes(lzma.compress(body + json.dumps(end).encode() + b"\n" + tail))
    return out


def content(store: Path) -> list[str]:
    with CallStore(store) as opened:
        return [call.model_dump_json() for call in opened.calls()] + [str(row) for row in opened.token_counts()]


@pytest.fixture
def filled(paid_run: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    """A run with half of the calls of ``paid_run``; a failed import must leave it as it is."""
    run = Workspace(tmp_path / "filled")
    with CallStore(paid_run.calls) as source, CallStore(run.calls) as target:
        for number, call in enumerate(source.calls()):
            if number % 2:
                target.put(call)
    before = content(run.calls)
    yield run
    assert content(run.calls) == before


def test_the_same_run_gives_the_same_bytes(paid_run: Workspace, exported: Path, tmp_path: Path) -> None:
    header = export_calls(paid_run, tmp_path / "again.xz")
    assert (tmp_path / "again.xz").read_bytes() == exported.read_bytes()
    lines = unpacked(exported)
    assert header.calls == sum(line["kind"] == "call" for line in lines) > 10
    assert (header.run_id, header.systems) == ("paid", ("medvrag",))
    assert all(line["call"]["seconds"] == 0.0 for line in lines if line["kind"] == "call")


def test_the_order_of_calls_does_not_change_the_bytes(paid_copy: Workspace, exported: Path, tmp_path: Path) -> None:
    with CallStore(paid_copy.calls) as store:
        kept = list(store.calls())
        counts = list(store.token_counts())
    paid_copy.calls.unlink()
    random.Random(3).shuffle(kept)
    with CallStore(paid_copy.calls) as store:
        for call in kept:
            store.put(call.model_copy(update={"seconds": 7.0}))
        for row in reversed(counts):
            store.put_token_digest(*row)
    export_calls(paid_copy, tmp_path / "again.xz")
    assert (tmp_path / "again.xz").read_bytes() == exported.read_bytes()


def test_import_and_export_are_inverse(paid_copy: Workspace, exported: Path, tmp_path: Path) -> None:
    paid_copy.calls.unlink()
    report = import_calls(exported, paid_copy)
    assert report.calls == report.new_calls > 10 and report.different_calls == 0
    assert report.traces == 3 and report.token_counts > 0
    export_calls(paid_copy, tmp_path / "again.xz")
    assert (tmp_path / "again.xz").read_bytes() == exported.read_bytes()
    again = import_calls(exported, paid_copy)
    assert (again.calls, again.new_calls, again.different_calls) == (report.calls, 0, 0)


def test_an_empty_run_replays_from_an_import(
    paid_run: Workspace, made_run: Workspace, exported: Path, tmp_path: Path
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "run"))
    import_calls(exported, run)
    report = replay(run, load_profile(str(paid_run.profile)), "medvrag", archived_traces(exported), progress=False)
    assert (report.identical, report.different) == (3, ())


def test_archived_traces_are_those_of_the_run(paid_run: Workspace, exported: Path) -> None:
    mine = read_traces(paid_run, "medvrag", made_by="the run")
    assert list(map(canonical_trace, archived_traces(exported))) == list(map(canonical_trace, mine))


def test_other_replies_are_kept_and_counted_and_faults_give_way(
    paid_run: Workspace, exported: Path, tmp_path: Path
) -> None:
    run = Workspace(tmp_path / "other")
    with CallStore(paid_run.calls) as source:
        first, second, third, *_ = source.calls()
    mine = first.model_copy(update={"reply": first.reply.model_copy(update={"text": "mine"})})
    tried = second.model_copy(update={"reply": second.reply.model_copy(update={"attempts": 5})})
    failed = third.model_copy(update={"outcome": "unavailable", "reply": third.reply.model_copy(update={"text": ""})})
    with CallStore(run.calls) as store:
        for call in (mine, tried, failed):
            store.put(call)
    report = import_calls(exported, run)
    assert report.different_calls == 1 and report.new_calls == report.calls - 2
    with CallStore(run.calls) as store:
        assert store.get(first.key) == mine
        assert store.get(second.key) == tried
        known = store.get(third.key)
        assert known is not None and known.reply == third.reply


def test_a_store_keeps_its_own_token_counts(exported: Path, tmp_path: Path) -> None:
    row = next(line for line in unpacked(exported) if line["kind"] == "tokens")
    run = Workspace(tmp_path / "run")
    with CallStore(run.calls) as store:
        store.put_token_digest(row["counter"], row["text"], 999)
    import_calls(exported, run)
    with CallStore(run.calls) as store:
        assert (row["counter"], row["text"], 999) in list(store.token_counts())


# --- damage -----------------------------------------------------------------------------


def refused(archive: Path, run: Workspace, match: str | None = None, error: type[Exception] = InputError) -> None:
    with pytest.raises(error, match=match) as caught:
        import_calls(archive, run)
    assert str(archive) in str(caught.value)
    with pytest.raises(error):
        archived_traces(archive)


@pytest.mark.parametrize("share", range(20))
def test_a_file_that_was_cut_is_refused(exported: Path, filled: Workspace, tmp_path: Path, share: int) -> None:
    data = exported.read_bytes()
    cut = tmp_path / "cut.xz"
    cut.write_bytes(data[: len(data) * share // 20])
    refused(cut, filled)
    cut.write_bytes(data[: -1 - share])
    refused(cut, filled)


def test_a_flipped_bit_is_noticed(exported: Path, filled: Workspace, tmp_path: Path) -> None:
    data = exported.read_bytes()
    draw = random.Random(20261130)
    flipped = tmp_path / "flipped.xz"
    for _ in range(50):
        place, bit = draw.randrange(len(data)), 1 << draw.randrange(8)
        flipped.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
        refused(flipped, filled)


def test_an_import_that_fails_makes_no_store(exported: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.xz"
    cut.write_bytes(exported.read_bytes()[:-20])
    run = Workspace(tmp_path / "new")
    refused(cut, run)
    assert not run.root.exists()


def test_a_full_disk_leaves_the_store_as_it_was(
    exported: Path, filled: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = archives._lines
    passes = []

    def failing(archive: Path) -> Iterator[Any]:
        passes.append(archive)
        for number, line in enumerate(real(archive)):
            if len(passes) > 1 and number > 5:
                raise OSError(28, "No space left on device")
            yield line

    monkeypatch.setattr(archives, "_lines", failing)
    with pytest.raises(OSError, match="No space left"):
        import_calls(exported, filled)


def test_lines_after_the_end_are_refused(exported: Path, filled: Workspace, tmp_path: Path) -> None:
    *lines, _ = unpacked(exported)
    hidden = json.dumps(next(line for line in lines if line["kind"] == "call")).encode() + b"\n"
    refused(packed(tmp_path / "tail.xz", lines, tail=hidden), filled, "follows the end")
    refused(packed(tmp_path / "tail.xz", lines, tail=b"{}"), filled, "goes on after its end")
    second = tmp_path / "two.xz"
    second.write_bytes(exported.read_bytes() * 2)
    refused(second, filled, "goes on after its end")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no archive",
        lzma.compress(b""),
        lzma.compress(b"\n"),
        lzma.compress(b"{}\n"),
        lzma.compress(b"[1]\n"),
        lzma.compress(b"\xff\xfe\n"),
        lzma.compress(b'{"kind": "end", "lines": 0, "sha256": ""}\n'),
        lzma.compress(b'{"kind": ["medvrag-calls"]}\n'),
        lzma.compress(b"[" * 1_000_000 + b"\n"),
        lzma.compress(b'{"kind": "call"}\n'),
        lzma.compress(b'{"kind": "medvrag-calls", "format": 1}\n'),
    ],
    ids=range(12),
)
def test_what_is_no_archive_is_refused(data: bytes, filled: Workspace, tmp_path: Path) -> None:
    (tmp_path / "x.xz").write_bytes(data)
    refused(tmp_path / "x.xz", filled)


def test_what_is_no_file_is_refused(filled: Workspace, tmp_path: Path) -> None:
    refused(tmp_path / "nothing.xz", filled, "no such archive")
    refused(tmp_path, filled, "no such archive")


@pytest.mark.parametrize("version", [2, 0, "1", None, 10**30])
def test_another_format_is_named(exported: Path, filled: Workspace, tmp_path: Path, version: Any) -> None:
    header, *lines, _ = unpacked(exported)
    changed = packed(tmp_path / "new.xz", [header | {"format": version, "new_field": 1}, *lines])
    refused(changed, filled, rf"has format {str(version)[:20]}, this version reads 1", MismatchError)


# --- content that lies ------------------------------------------------------------------


def first(lines: list[Line], kind: str) -> Line:
    return next(line for line in lines if line["kind"] == kind)


def with_request(line: Line, **changes: Any) -> None:
    call = line["call"]
    call["request"] = json.dumps(json.loads(call["request"]) | changes, sort_keys=True, separators=(",", ":"))


def own_key(line: Line) -> None:
    line["call"]["key"] = hashlib.sha256(line["call"]["request"].encode()).hexdigest()


LIES: dict[str, Callable[[list[Line]], Any]] = {
    "request changed": lambda lines: with_request(first(lines, "call"), model="another"),
    "key changed": lambda lines: first(lines, "call")["call"].update(key="0" * 64),
    "purpose changed": lambda lines: first(lines, "call")["call"].update(purpose="refine"),
    "prompt changed": lambda lines: first(lines, "call")["call"].update(prompt_version="000000000000"),
    "model changed": lambda lines: first(lines, "call")["call"].update(model="another"),
    "outcome unknown": lambda lines: first(lines, "call")["call"].update(outcome="bribed"),
    "reply is text": lambda lines: first(lines, "call")["call"].update(reply="<answer>A</answer>"),
    "reply half": lambda lines: first(lines, "call")["call"]["reply"].pop("text"),
    "field unknown": lambda lines: first(lines, "call").update(extra=1),
    "call missing": lambda lines: lines.remove(first(lines, "call")),
    "call twice": lambda lines: lines.insert(1, first(lines, "call")),
    "half a character": lambda lines: first(lines, "call")["call"].update(problem="\ud800"),
    "tokens are text": lambda lines: first(lines, "tokens").update(tokens="many"),
    "tokens below zero": lambda lines: first(lines, "tokens").update(tokens=-1),
    "tokens beyond SQLite": lambda lines: first(lines, "tokens").update(tokens=2**70),
    "tokens not a digest": lambda lines: first(lines, "tokens").update(text="a text"),
    "trace without rounds": lambda lines: first(lines, "trace")["trace"].pop("rounds"),
    "rounds are a number": lambda lines: first(lines, "trace")["trace"].update(rounds=5),
    "rounds of numbers": lambda lines: first(lines, "trace")["trace"].update(rounds=[1, 2]),
    "trace is a list": lambda lines: first(lines, "trace").update(trace=[]),
    "outcome of a trace": lambda lines: first(lines, "trace")["trace"].update(outcome="great"),
    "kind unknown": lambda lines: lines.insert(1, {"kind": "command", "run": "reboot"}),
    "second header": lambda lines: lines.insert(1, lines[0]),
    "header counts wrong": lambda lines: lines[0].update(calls=1),
    "header without run": lambda lines: lines[0].pop("run_id"),
}


@pytest.mark.parametrize("lie", LIES)
def test_content_that_lies_is_refused(lie: str, exported: Path, filled: Workspace, tmp_path: Path) -> None:
    *lines, _ = unpacked(exported)
    LIES[lie](lines)
    out = tmp_path / "lie.xz"
    if lie == "half a character":
        body = b"".join(json.dumps(line, sort_keys=True).encode() + b"\n" for line in lines)
        end = {"kind": "end", "lines": len(lines), "sha256": hashlib.sha256(body).hexdigest()}
        out.write_bytes(lzma.compress(body + json.dumps(end).encode() + b"\n"))
    else:
        packed(out, lines)
    refused(out, filled)


def test_a_request_that_is_no_json_is_refused(exported: Path, filled: Workspace, tmp_path: Path) -> None:
    header, *_ = unpacked(exported)
    call = first(unpacked(exported), "call")
    for request in ("no json", "[1]", "null"):
        call["call"]["request"] = request
        own_key(call)
        refused(packed(tmp_path / "x.xz", [header | {"calls": 1}, call]), filled, "is not what it says")


HOSTILE = "../../../outside/\x1b[31m$(touch pwned)"


def test_a_hostile_path_in_any_field_stays_text(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    header, *lines, _ = unpacked(exported)
    header |= {"run_id": HOSTILE, "systems": [HOSTILE]}
    for line in lines:
        if line["kind"] == "call":
            line["call"]["purpose"] = line["call"]["model"] = line["call"]["revision"] = HOSTILE
            line["call"]["prompt_version"] = line["call"]["problem"] = line["call"]["reply"]["model"] = HOSTILE
            with_request(line, purpose=HOSTILE, model=HOSTILE, revision=HOSTILE, prompt_version=HOSTILE)
            own_key(line)
        elif line["kind"] == "tokens":
            line["counter"] = HOSTILE
        elif line["kind"] == "trace":
            line["trace"]["system"] = line["trace"]["profile"] = line["trace"]["question"]["id"] = HOSTILE
    calls = sorted((x for x in lines if x["kind"] == "call"), key=lambda x: x["call"]["key"])
    # All requests become different ones, but two may fall together; the archive wants each key once.
    calls = [c for n, c in enumerate(calls) if n == 0 or c["call"]["key"] != calls[n - 1]["call"]["key"]]
    counts = list({x["text"]: x for x in lines if x["kind"] == "tokens"}.values())
    rest = [x for x in lines if x["kind"] == "trace"]
    hostile = packed(home / "hostile.xz", [header | {"calls": len(calls)}, *calls, *counts, *rest])
    run = Workspace(home / "run")
    assert import_calls(hostile, run).new_calls == len(calls)
    assert {t.system for t in archived_traces(hostile)} == {HOSTILE}
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        "home/hostile.xz",
        "home/run/calls.sqlite",
    ]


BOMB = """
import resource, sys
from pathlib import Path
from medvrag_core.errors import InputError
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.archive import import_calls
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    import_calls(Path(sys.argv[1]), Workspace(Path(sys.argv[2])))
except InputError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, error)
"""


def bomb(out: Path, piece: bytes, megabytes: int) -> Path:
    with lzma.open(out, "wb", preset=0) as file:
        file.write(b"[")
        block = piece * (1_000_000 // len(piece))
        for _ in range(megabytes):
            file.write(block)
        file.write(b"{}]\n")
    return out


@pytest.mark.parametrize(
    ("piece", "megabytes", "problem"),
    [
        (b"x", 400, "more than 16,000,000 bytes"),
        (b"{},", 15, "does not belong"),
        (b"[", 15, "no JSON"),
        (b'{"kind":"x"}\n', 100, "no JSON"),
        (b"\n", 100, "no JSON"),
    ],
)
def test_a_file_that_unpacks_to_too_much_is_refused_in_little_memory(
    tmp_path: Path, piece: bytes, megabytes: int, problem: str
) -> None:
    path = bomb(tmp_path / "bomb.xz", piece, megabytes)
    command = [sys.executable, "-c", BOMB, str(path), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    used, _, told = done.stdout.partition(" ")
    assert problem in told
    assert int(used) < 300, "megabytes beyond those of the imports"


def test_a_dictionary_larger_than_any_export_needs_is_refused(filled: Workspace, tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
    (tmp_path / "wide.xz").write_bytes(lzma.compress(b"{}\n", filters=filters))
    refused(tmp_path / "wide.xz", filled, "cannot be read")


# --- export -----------------------------------------------------------------------------


def test_an_export_that_cannot_be_made_says_why_and_leaves_nothing(
    paid_run: Workspace, made_run: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="made no model calls"):
        export_calls(made_run, tmp_path / "x.xz")
    (tmp_path / "folder.xz").mkdir()
    with pytest.raises(InputError, match=r"folder\.xz: cannot be written"):
        export_calls(paid_run, tmp_path / "folder.xz")
    monkeypatch.setattr(archives, "MAX_LINE", 500)
    with pytest.raises(InputError, match="more than an archive holds"):
        export_calls(paid_run, tmp_path / "x.xz")
    assert [p.name for p in tmp_path.iterdir()] == ["folder.xz"]
