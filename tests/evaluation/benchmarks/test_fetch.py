"""Fetching from a real server on loopback that sends good files, wrong ones, too little, too much, or nothing."""

from __future__ import annotations

import gzip
import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks import fetch as fetching
from medvrag_core.evaluation.benchmarks.fetch import FetchedFile, fetch
from medvrag_core.evaluation.benchmarks.registry import Benchmark, DataFile, find_benchmark, load_registry

GOOD = b"{'one': 'question'}\n" * 5_000


class Handler(BaseHTTPRequestHandler):
    """Answers by path; ``server.asked`` lists what was asked."""

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].strip("/")
        self.server.asked.append(name)  # type: ignore[attr-defined]
        self.server.headers = dict(self.headers)  # type: ignore[attr-defined]
        {
            "good": lambda: self.send(GOOD),
            "good.gz": lambda: self.send(gzip.compress(GOOD)),
            "other": lambda: self.send(b"X" + GOOD[1:]),
            "short": lambda: self.send(GOOD[:-7]),
            "long": lambda: self.send(GOOD + b"!"),
            "cut": lambda: self.send(GOOD[:-7], promised=len(GOOD)),
            "cut.gz": lambda: self.send(gzip.compress(GOOD)[:-9]),
            "junk.gz": lambda: self.send(GOOD),
            "tail.gz": lambda: self.send(gzip.compress(GOOD) + b"more"),
            "bomb.gz": lambda: self.send(gzip.compress(b"\0" * 50_000_000)),
            "wide.gz": lambda: self.send(gzip.compress(b"", 0) * 20_000),
            "endless": self.endless,
            "packs": lambda: self.send(gzip.compress(GOOD), more={"Content-Encoding": "gzip"}),
            "moved": lambda: self.send(b"", 302, more={"Location": "/good"}),
            "away": lambda: self.send(b"", 302, more={"Location": "http://example.org/good"}),
            "file": lambda: self.send(b"", 302, more={"Location": "file:///etc/hostname"}),
            "round": lambda: self.send(b"", 302, more={"Location": "/round"}),
            "broken": lambda: self.send(b"no", 503),
        }.get(name, lambda: self.send(b"no such page", 404))()

    def send(self, body: bytes, status: int = 200, promised: int | None = None, more: dict[str, str] = {}) -> None:  # noqa: B006
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body) if promised is None else promised)} | more).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(GOOD)
                self.server.sent += len(GOOD)  # type: ignore[attr-defined]
        except OSError:
            pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        self.sent = 0


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def wanted(origin: str, *paths: str, content: bytes = GOOD) -> Benchmark:
    digest = hashlib.sha256(content).hexdigest()
    files = tuple(DataFile(file=f"set/{path}", path=path, bytes=len(content), sha256=digest) for path in paths)
    return Benchmark(name="set", title="t", sets={}, licence="MIT", origin=origin, files=files)


@pytest.fixture
def origin(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/"


def refused(benchmark: Benchmark, to: Path, word: str, source: Path | None = None) -> str:
    """The message; nothing may be left behind, not even a part."""
    with pytest.raises(InputError, match=word) as fault:
        list(fetch(benchmark, to, source))
    assert [path for path in to.rglob("*") if path.is_file()] == []
    assert str(fault.value).count("; ") >= 1, "says the way out"
    return str(fault.value)


@pytest.mark.parametrize("path", ["good", "good.gz", "moved"])
def test_a_good_file_arrives_whole(path: str, origin: str, server: Server, tmp_path: Path) -> None:
    (done,) = fetch(wanted(origin, path), tmp_path)
    assert done == FetchedFile(path=str(tmp_path / "set" / path), state="fetched", bytes=len(GOOD))
    assert (tmp_path / "set" / path).read_bytes() == GOOD
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [path]
    assert server.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("short", r"ends after 99,993 of 100,000 bytes|broke off"),
        ("cut", r"ends after 99,993 of 100,000 bytes|broke off"),
        ("long", "sends more than expected"),
        ("endless", "sends more than expected"),
        ("cut.gz", "not a whole gzip file"),
        ("junk.gz", "not a whole gzip file"),
        ("tail.gz", "not a whole gzip file"),
        ("bomb.gz", "sends more than expected"),
        ("wide.gz", "sends more than expected"),
        ("packs", r"the server packed the file \(gzip\)"),
        ("missing", "status 404"),
        ("broken", "status 503"),
        ("away", r"/away leads to http://example.org/good: only https is fetched"),
        ("file", "file:///etc/hostname. is not allowed"),
        ("round", "status 302"),
    ],
)
def test_anything_else_leaves_nothing_behind(path: str, word: str, origin: str, tmp_path: Path) -> None:
    assert origin in refused(wanted(origin, path), tmp_path, word)


def test_another_content_is_told_with_both_hashes(origin: str, tmp_path: Path) -> None:
    message = refused(wanted(origin, "other"), tmp_path, "is another file than the registry describes")
    assert hashlib.sha256(GOOD).hexdigest() in message
    assert hashlib.sha256(b"X" + GOOD[1:]).hexdigest() in message


def test_no_more_is_read_than_was_promised(origin: str, server: Server, tmp_path: Path) -> None:
    refused(wanted(origin, "endless"), tmp_path, "more than expected")
    # What the sockets buffer is sent without being read.
    assert server.sent < 20_000_000


def test_a_bomb_is_not_unpacked_further_than_the_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = 0
    read = gzip.GzipFile.read

    def counting(self: gzip.GzipFile, size: int = -1) -> bytes:
        nonlocal unpacked
        block = read(self, size)
        unpacked += len(block)
        return block

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    (tmp_path / "from" / "set").mkdir(parents=True)
    (tmp_path / "from" / "set" / "q.jsonl.gz").write_bytes(gzip.compress(b"\0" * 50_000_000))
    refused(wanted("https://x.invalid/", "q.jsonl"), tmp_path / "to", "sends more than expected", tmp_path / "from")
    assert 0 < unpacked <= len(GOOD) + 1


def test_what_is_there_is_not_fetched_again(origin: str, server: Server, tmp_path: Path) -> None:
    several = wanted(origin, "good", "missing", "moved")
    with pytest.raises(InputError, match="404"):
        list(fetch(several, tmp_path))
    assert server.asked == ["good", "missing"]
    several = wanted(origin, "good", "moved")
    assert [done.state for done in fetch(several, tmp_path)] == ["there already", "fetched"]
    assert server.asked == ["good", "missing", "moved", "good"], "a redirect asks twice"
    assert [done.state for done in fetch(several, tmp_path)] == ["there already"] * 2


def test_a_file_of_ones_own_is_never_written_over(origin: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "good").write_bytes(b"mine")
    with pytest.raises(InputError, match="is there with another content") as fault:
        list(fetch(wanted(origin, "good"), tmp_path))
    for content in (b"mine", GOOD):
        assert hashlib.sha256(content).hexdigest() in str(fault.value)
    assert (tmp_path / "set" / "good").read_bytes() == b"mine" and server.asked == []
    (tmp_path / "set" / "moved").mkdir()
    with pytest.raises(InputError, match="it is no file"):
        list(fetch(wanted(origin, "moved"), tmp_path))


@pytest.mark.parametrize("url", ["http://example.org/", "ftp://127.0.0.1/", "file:///etc/", "data:,x", "gopher://x/"])
def test_only_https_leaves_the_machine(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("a connection was made"))
    refused(wanted(url, "good"), tmp_path, "only https is fetched")


def test_no_server_and_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        refused(wanted(f"http://127.0.0.1:{port}/", "good"), tmp_path, r"no answer \(.*refused.*--from")
        taken.listen()
        monkeypatch.setattr(fetching, "TIMEOUT_S", 0.1)
        refused(wanted(f"http://127.0.0.1:{port}/", "good"), tmp_path, r"no answer \(timed out\)")


def test_a_proxy_is_not_asked_about_loopback(origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert [done.state for done in fetch(wanted(origin, "good"), tmp_path)] == ["fetched"]


@given(content=st.binary(min_size=1, max_size=300), packed=st.booleans(), change=st.integers(0, 299))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_folder_stands_in_for_the_network(
    content: bytes, packed: bool, change: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, to = tmp_path_factory.mktemp("from"), tmp_path_factory.mktemp("to")
    (folder / "set").mkdir()
    benchmark = wanted("https://x.invalid/", "q", content=content)
    place = change % len(content)
    wrong = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    for written, good in ((wrong, False), (content[:-1], False), (content + b"\n", False), (content, True)):
        name = "q.gz" if packed else "q"
        (folder / "set" / name).write_bytes(gzip.compress(written) if packed else written)
        if good:
            assert [done.state for done in fetch(benchmark, to, folder)] == ["copied"]
            assert (to / "set" / "q").read_bytes() == content
        else:
            refused(benchmark, to, "another file|ends after|sends more", folder)


def test_a_folder_that_lacks_the_file(tmp_path: Path) -> None:
    refused(wanted("https://x.invalid/", "q"), tmp_path / "to", "q: no such file, nor one packed", tmp_path)


def test_all_registered_files_come_out_of_the_real_folder(real: Path, tmp_path: Path) -> None:
    for benchmark in load_registry():
        assert {done.state for done in fetch(benchmark, tmp_path, real)} == {"copied"}
    mmlu = find_benchmark(load_registry(), "mmlu")
    assert sum(path.stat().st_size for path in (tmp_path / "mmlu").iterdir()) == mmlu.size
