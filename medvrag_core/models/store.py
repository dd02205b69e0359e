"""The call store: every model call of a run, addressed by its content, in one SQLite file.

A call's key is a digest of all that shapes its reply, so the same call is never paid for twice, whichever system,
round or question asks it, and a run can be answered again with no model at all. Replies are JSON; nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from medvrag_core.errors import InputError, MismatchError
from medvrag_core.models.base import ChatRequest
from medvrag_core.models.images import image_identity
from medvrag_core.models.outcomes import FINAL
from medvrag_core.records import CallOutcome, ReaderReply, Record
from medvrag_core.settings import ModelSettings

SCHEMA = 1
_APPLICATION_ID = 0x4D564347  # "MVCG"
_TABLES = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT PRIMARY KEY,
    purpose TEXT NOT NULL,
    prompt_version TEXT NOT NULL,
    model TEXT NOT NULL,
    revision TEXT NOT NULL,
    request BLOB NOT NULL,
    outcome TEXT NOT NULL,
    problem TEXT NOT NULL,
    reply TEXT NOT NULL,
    digest TEXT NOT NULL,
    seconds REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS calls_by_prompt ON calls (purpose, prompt_version);
CREATE TABLE IF NOT EXISTS token_counts (
    counter TEXT NOT NULL, text TEXT NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (counter, text)
) WITHOUT ROWID;
"""
_PUT_CALL = "INSERT OR REPLACE INTO calls VALUES (?,?,?,?,?,?,?,?,?,?,?)"


class StoredCall(Record):
    """One call as it is kept.

    ``request`` is the canonical JSON behind the key. ``reply`` has the text of a complete reply, or what a cut or
    refused one said so far; its token counts hold what a failed call cost. ``seconds`` is the wall-clock time of the
    call, all tries together.
    """

    key: str
    purpose: str
    prompt_version: str
    model: str
    revision: str
    request: str
    outcome: CallOutcome
    problem: str = ""
    reply: ReaderReply
    seconds: float = 0.0


class PromptGroup(Record):
    """Calls of one purpose that were made with one version of its prompt."""

    purpose: str
    prompt_version: str
    calls: int


def canonical_request(model: ModelSettings, request: ChatRequest) -> str:
    """All that shapes the reply of a call, as JSON with sorted keys.

    Images stand as the digest of their stored file with the size at which they are sent. The address of the server is
    no part of it, and neither is anything about tries and time limits. A wish for log-probabilities is named only where
    there is one: a reply that was stored without them cannot stand for one with them, and older keys stay as they are.
    """
    sampling = {
        "temperature": model.temperature,
        "top_p": model.top_p,
        "repetition_penalty": model.repetition_penalty,
        "max_tokens": min(request.max_tokens or model.max_tokens, model.max_tokens),
        "seed": model.seed,
        "thinking": model.thinking,
    }
    content: dict[str, Any] = {
        "model": model.model,
        "revision": model.revision,
        "sampling": sampling,
        "purpose": request.purpose,
        "prompt_version": request.prompt_version,
        "reply_schema": request.reply_schema,
        "messages": [
            {"role": m.role, "text": m.text, "images": [image_identity(i) for i in m.images]} for m in request.messages
        ],
    }
    if request.logprobs:
        content["logprobs"] = True
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def call_key(canonical: str) -> str:
    """The key of a call: SHA-256 of its canonical request."""
    return hashlib.sha256(canonical.encode()).hexdigest()


class CallStore:
    """Reads and writes calls; one writer a run, any number of threads.

    A call that was written is there after ``kill -9`` and after a power cut (write-ahead log, full sync).

    Parameters
    ----------
    path : the SQLite file, made if it is missing

    Raises
    ------
    InputError
        The file is no call store, or it is damaged.
    MismatchError
        It was written by another version of this package.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._closed = False
        self._new_counts: dict[tuple[str, str], int] = {}
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30.0)
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{path}: cannot be used as a call store ({error})",
                way_out="restore it from an export, or delete it and ask again",
            ) from None

    def _prepare(self) -> None:
        found = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        empty = not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty and found != _APPLICATION_ID:
            raise InputError(f"{self.path}: is an SQLite file, but no call store", way_out="name another file")
        if not empty and version != SCHEMA:
            raise MismatchError(
                f"{self.path}: has schema {version}, this version reads {SCHEMA}",
                way_out="export it with the version that wrote it, and import the export here",
            )
        self._db.execute("PRAGMA synchronous=FULL")
        if empty:  # Nothing is written to a store that is only read: a replay leaves its bytes as they are.
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(
                f"BEGIN; {_TABLES} PRAGMA application_id={_APPLICATION_ID}; PRAGMA user_version={SCHEMA}; COMMIT;"
            )

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM calls")[0][0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, key: str) -> StoredCall | None:
        """The call with this key, whatever its outcome."""
        rows = self._rows("SELECT * FROM calls WHERE key = ?", key)
        return _call(rows[0], self.path) if rows else None

    def put(self, call: StoredCall) -> None:
        """Keep a call; it takes the place of an older one with its key.

        Token counts that came up before it are kept in the same transaction.
        """
        self._transact([_row(call)])

    def put_missing(self, calls: Iterable[StoredCall], counts: Iterable[tuple[str, str, int]]) -> tuple[int, int]:
        """Keep calls and token counts that are not there yet, all in one transaction or none.

        A call that ended by a fault of the server gives way to one that the model ended. Returns how many calls were
        new, and how many have another reply here, which stays.
        """
        new = other = 0
        try:
            with self._lock:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    for call in calls:
                        rows = self._db.execute("SELECT * FROM calls WHERE key = ?", (call.key,)).fetchall()
                        known = _call(rows[0], self.path) if rows else None
                        if known is None or (known.outcome not in FINAL and call.outcome in FINAL):
                            self._db.execute(_PUT_CALL, _row(call))
                            new += 1
                        elif (known.outcome, _said(known.reply)) != (call.outcome, _said(call.reply)):
                            other += 1
                    self._db.executemany("INSERT OR IGNORE INTO token_counts VALUES (?,?,?)", counts)
                    self._db.execute("COMMIT")
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
        except sqlite3.DatabaseError as error:
            raise self._fault(error) from None
        return new, other

    def calls(self) -> Iterator[StoredCall]:
        """All calls by key, read one after another."""
        after = ""
        while rows := self._rows("SELECT * FROM calls WHERE key > ? ORDER BY key LIMIT 64", after):
            yield from (_call(row, self.path) for row in rows)
            after = rows[-1][0]

    def prompts(self) -> list[PromptGroup]:
        """How many calls there are of each purpose and prompt version."""
        rows = self._rows("SELECT purpose, prompt_version, count(*) FROM calls GROUP BY 1, 2 ORDER BY 1, 2")
        return [PromptGroup(purpose=p, prompt_version=v, calls=n) for p, v, n in rows]

    def keys_with_prompt(self, purpose: str, prompt_version: str) -> set[str]:
        """Keys of the calls of one purpose and prompt version."""
        sql = "SELECT key FROM calls WHERE purpose = ? AND prompt_version = ?"
        return {row[0] for row in self._rows(sql, purpose, prompt_version)}

    def outcomes(self) -> dict[str, int]:
        """Calls by outcome."""
        return dict(self._rows("SELECT outcome, count(*) FROM calls GROUP BY 1 ORDER BY 1"))

    def token_count(self, counter: str, text: str) -> int | None:
        """A stored token count of a text, or None."""
        digest = _digest(text)
        if (new := self._new_counts.get((counter, digest))) is not None:
            return new
        rows = self._rows("SELECT tokens FROM token_counts WHERE counter = ? AND text = ?", counter, digest)
        return int(rows[0][0]) if rows else None

    def put_token_count(self, counter: str, text: str, tokens: int) -> None:
        """Keep a token count, so that shards are formed the same way when a run is replayed."""
        self.put_token_digest(counter, _digest(text), tokens)

    def put_token_digest(self, counter: str, text_digest: str, tokens: int) -> None:
        """Keep a token count by the digest of its text; written with the next call, or at the end."""
        self._new_counts[counter, text_digest] = tokens

    def token_counts(self) -> Iterator[tuple[str, str, int]]:
        """All token counts: counter, digest of the text, tokens."""
        self.flush()
        yield from self._rows("SELECT counter, text, tokens FROM token_counts ORDER BY 1, 2")

    def close(self) -> None:
        """Write what is waiting and close the file; further calls do nothing."""
        if not self._closed:
            self.flush()
            self._closed = True
            with self._lock:
                self._db.close()

    def flush(self) -> None:
        """Write token counts that are waiting."""
        if self._new_counts:
            self._transact([])

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        try:
            with self._lock:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._fault(error) from None

    def _transact(self, rows: list[tuple[Any, ...]]) -> None:
        try:
            with self._lock:
                counts = [(counter, text, n) for (counter, text), n in self._new_counts.copy().items()]
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    self._db.executemany("INSERT OR REPLACE INTO token_counts VALUES (?,?,?)", counts)
                    self._db.executemany(_PUT_CALL, rows)
                    self._db.execute("COMMIT")
                except BaseException:
                    self._db.execute("ROLLBACK")
                    raise
                for counter, text, _ in counts:
                    self._new_counts.pop((counter, text), None)
        except sqlite3.DatabaseError as error:
            raise self._fault(error) from None

    def _fault(self, error: sqlite3.DatabaseError) -> InputError:
        return InputError(
            f"{self.path}: {error}", way_out="free disk space or repair the file; what is stored is kept, run again"
        )


def _row(call: StoredCall) -> tuple[Any, ...]:
    reply = call.reply.to_json()
    return (
        call.key,
        call.purpose,
        call.prompt_version,
        call.model,
        call.revision,
        zlib.compress(call.request.encode(), 6),
        call.outcome,
        call.problem,
        reply,
        _digest(call.key, call.outcome, call.problem, reply),
        call.seconds,
    )


def _said(reply: ReaderReply) -> ReaderReply:
    """A reply but for the tries it took."""
    return reply.model_copy(update={"attempts": 1})


def _call(row: tuple[Any, ...], path: Path) -> StoredCall:
    key, purpose, version, model, revision, request, outcome, problem, reply, digest, seconds = row
    where = f"{path}, call {key[:12]}"
    try:
        text = zlib.decompress(request).decode()
    except (zlib.error, UnicodeDecodeError):
        raise InputError(f"{where}: damaged", way_out="restore the file from an export") from None
    if call_key(text) != key or _digest(key, outcome, problem, reply) != digest:
        raise InputError(f"{where}: damaged, its digest does not match", way_out="restore the file from an export")
    return StoredCall(
        key=key,
        purpose=purpose,
        prompt_version=version,
        model=model,
        revision=revision,
        request=text,
        outcome=outcome,
        problem=problem,
        reply=ReaderReply.from_json(reply, source=where),
        seconds=seconds,
    )


def _digest(*texts: Any) -> str:
    return hashlib.sha256("\0".join(map(str, texts)).encode()).hexdigest()
