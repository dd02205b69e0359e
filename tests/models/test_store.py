"""The call store: content-addressed, durable, checked (promises P1 to P4, P7, P18, P19)."""

from __future__ import annotations

import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.models.base import ChatRequest, Message
from medvrag_core.models.images import sized
from medvrag_core.models.store import CallStore, StoredCall, call_key, canonical_request
from medvrag_core.records import CallOutcome, ReaderReply
from medvrag_core.settings import WHERE_FIELDS, ModelSettings

MODEL = ModelSettings(base_url="http://127.0.0.1:1/v1", model="m", revision="r1")
ASK = ChatRequest(purpose="reader", prompt_version="v1", messages=(Message(role="user", text="hello"),))


def call(text: str = "hello", outcome: CallOutcome = "complete") -> StoredCall:
    request = ASK.model_copy(update={"messages": (Message(role="user", text=text),)})
    canonical = canonical_request(MODEL, request)
    reply = ReaderReply(text=f"reply to {text}", model="m", prompt_tokens=3, completion_tokens=2)
    return StoredCall(
        key=call_key(canonical),
        purpose="reader",
        prompt_version="v1",
        model="m",
        revision="r1",
        request=canonical,
        outcome=outcome,
        reply=reply,
    )


def test_what_is_put_comes_back_whole(tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        store.put(call("a"))
        store.put(call("b", "truncated"))
        assert store.get(call("a").key) == call("a")
        assert store.get("0" * 64) is None
    with CallStore(tmp_path / "calls.sqlite") as again:
        assert len(again) == 2 and again.outcomes() == {"complete": 1, "truncated": 1}
        assert list(again.calls()) == sorted([call("a"), call("b", "truncated")], key=lambda c: c.key)
        assert [(g.purpose, g.calls) for g in again.prompts()] == [("reader", 2)]


SHAPING: dict[str, Any] = {
    "model": "n",
    "revision": "r2",
    "temperature": 0.7,
    "top_p": 0.5,
    "repetition_penalty": 1.1,
    "max_tokens": 7,
    "seed": 1,
    "thinking": True,
}


@pytest.mark.parametrize(("field", "value"), SHAPING.items())
def test_whatever_shapes_a_reply_shapes_its_key(field: str, value: Any) -> None:
    assert canonical_request(MODEL, ASK) != canonical_request(MODEL.model_copy(update={field: value}), ASK)


@pytest.mark.parametrize(
    "change",
    [
        {"purpose": "refine"},
        {"prompt_version": "v2"},
        {"max_tokens": 5},
        {"reply_schema": {"type": "object"}},
        {"logprobs": True},
        {"messages": (Message(role="system", text="hello"),)},
        {"messages": (Message(role="user", text="hello "),)},
    ],
)
def test_the_request_shapes_the_key(change: dict[str, Any]) -> None:
    assert canonical_request(MODEL, ASK) != canonical_request(MODEL, ASK.model_copy(update=change))


def test_keys_of_calls_made_before_log_probabilities_stay() -> None:
    """A published call store must still be found by its keys."""
    assert call_key(canonical_request(MODEL, ASK)) == "a23842398fd560ed3028e6d955dff06495670efa3e01e3edac15e5a7dfeaccdb"


def test_every_other_setting_leaves_the_key_alone() -> None:
    """A field added to ModelSettings must be named here, in SHAPING or in WHERE_FIELDS."""
    # These work through the request: which pages, at which size, with which schema; or only on how a reply is judged.
    through_the_request = {"context_tokens", "tokenizer", "max_images", "min_pixels", "max_pixels", "json_schema"}
    judging = {"usage", "reported_as", "server"}
    assert set(ModelSettings.model_fields) == SHAPING.keys() | set(WHERE_FIELDS) | through_the_request | judging
    elsewhere = MODEL.model_copy(update={"base_url": "http://127.0.0.1:2/v1", "timeout_s": 1.0, "key_env": "X"})
    assert canonical_request(MODEL, ASK) == canonical_request(elsewhere, ASK)


def test_an_image_counts_by_its_content_and_size_and_not_by_its_path(tmp_path: Path) -> None:
    def key(name: str, color: str, pixels: int) -> str:
        path = tmp_path / name
        Image.new("RGB", (60, 80), color).save(path)
        message = Message(role="user", text="x", images=(sized(path, pixels),))
        return canonical_request(MODEL, ASK.model_copy(update={"messages": (message,)}))

    assert key("a.png", "red", 9_999) == key("b.png", "red", 9_999)
    assert key("c.png", "red", 9_999) != key("d.png", "blue", 9_999)
    assert key("e.png", "red", 9_999) != key("f.png", "red", 1_000)


@given(st.text(), st.text())
def test_different_texts_have_different_keys(one: str, other: str) -> None:
    def key(text: str) -> str:
        return canonical_request(MODEL, ASK.model_copy(update={"messages": (Message(role="user", text=text),)}))

    assert (key(one) == key(other)) == (one == other)


def test_token_counts_are_kept_and_come_before_the_call_that_needed_them(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    store = CallStore(path)
    store.put_token_count("c", "some text", 2)
    assert store.token_count("c", "some text") == 2 and store.token_count("d", "some text") is None
    store.put(call())
    with sqlite3.connect(path) as other:  # no close and no flush: what a kill would leave
        assert other.execute("SELECT tokens FROM token_counts").fetchall() == [(2,)]


def test_threads_share_a_store(tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:

        def write(start: int) -> None:
            for n in range(start, start + 20):
                store.put(call(str(n)))

        threads = [threading.Thread(target=write, args=(n * 20,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store) == 160


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_store
from medvrag_core.models.store import CallStore
store = CallStore(Path(sys.argv[1]))
n = len(store)
while True:
    store.put(test_store.call(f"call {n}"))
    print(n, flush=True)
    n += 1
"""


@pytest.mark.slow
def test_p1_kill_9_loses_nothing_that_was_told(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    told = -1
    for turn in range(12):
        command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        told = int(writer.stdout.readline())
        time.sleep(0.02 * (turn % 5))
        os.kill(writer.pid, signal.SIGKILL)
        told = max([told, *(int(line) for line in writer.stdout.read().split())])
        writer.wait()
        with CallStore(path) as store:
            assert told + 1 <= len(store) <= told + 2
            assert all(stored.reply.text.startswith("reply to call") for stored in store.calls())
    assert told > 12


def test_a_file_that_is_no_call_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other, newer = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    text.write_text("not a database, but long enough to be looked at as one" * 40)
    with pytest.raises(InputError, match="cannot be used as a call store"):
        CallStore(text)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    with pytest.raises(InputError, match="no call store"):
        CallStore(other)
    with sqlite3.connect(other) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    CallStore(newer).close()
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(MismatchError, match="schema 99"):
        CallStore(newer)


@pytest.mark.parametrize("column", ["request", "reply"])
def test_p7_a_damaged_call_is_an_error_and_never_a_reply(tmp_path: Path, column: str) -> None:
    path = tmp_path / "calls.sqlite"
    with CallStore(path) as store:
        store.put(call())
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE calls SET {column} = ?", (b"\x00garbage",))
    with CallStore(path) as store, pytest.raises(InputError, match=r"calls\.sqlite"):
        store.get(call().key)


def test_p7_a_changed_letter_in_a_reply_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with CallStore(path) as store:
        store.put(call())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE calls SET reply = replace(reply, 'reply to hello', 'reply to jello')")
    with CallStore(path) as store, pytest.raises(InputError, match="digest"):
        list(store.calls())


def test_s9_nothing_is_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "marker"),))

    path = tmp_path / "calls.sqlite"
    with CallStore(path) as store:
        store.put(call())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE calls SET request = ?, reply = ?", (pickle.dumps(Bomb()), pickle.dumps(Bomb()).hex()))
    with CallStore(path) as store, pytest.raises(InputError):
        store.get(call().key)
    assert not (tmp_path / "marker").exists()


def test_a_full_disk_is_a_clear_error_and_what_was_stored_stays(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "calls.sqlite")
    store.put(call("kept"))
    store._db.execute("PRAGMA max_page_count = 12")
    with pytest.raises(InputError, match="full"):
        for n in range(500):
            store.put(call(f"{n}" + os.urandom(3_000).hex()))
    assert store.get(call("kept").key) == call("kept")


def test_opening_a_store_to_read_it_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    with CallStore(path) as store:
        store.put(call("a"))
    before = path.read_bytes()
    with CallStore(path) as store:
        assert store.get(call("a").key) == call("a")
        assert list(store.token_counts()) == []
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["calls.sqlite"]


def test_token_counts_may_come_up_while_a_call_is_kept(tmp_path: Path) -> None:
    with CallStore(tmp_path / "calls.sqlite") as store:
        faults: list[BaseException] = []

        def counting(which: int) -> None:
            try:
                for number in range(3_000):
                    store.put_token_digest("c", f"{which}-{number}", number)
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=counting, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            store.put(call("a"))
        assert not faults
        assert sum(1 for _ in store.token_counts()) == 9_000


def test_missing_calls_are_put_together_or_not_at_all(tmp_path: Path) -> None:
    def breaking() -> Any:
        yield call("new")
        raise RuntimeError("cut")

    with CallStore(tmp_path / "calls.sqlite") as store:
        store.put(call("known"))
        store.put(call("failed", "timeout"))
        with pytest.raises(RuntimeError):
            store.put_missing(breaking(), [])
        with pytest.raises(RuntimeError):
            store.put_missing([call("new")], ((str(n), "t", n) for n in _then_break()))
        assert len(store) == 2 and list(store.token_counts()) == []
        given = [call("known"), call("failed"), call("failed", "refused"), call("new")]
        assert store.put_missing(given, [("c", "t", 1), ("c", "t", 2)]) == (2, 1)
        assert store.outcomes() == {"complete": 3} and list(store.token_counts()) == [("c", "t", 1)]


def _then_break() -> Any:
    yield 1
    raise RuntimeError("cut")
