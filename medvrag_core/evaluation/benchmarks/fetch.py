"""Fetches the files of a registered set: streamed, bounded, checked to the byte, and published whole or not at all.

Addresses come from a registry, answers from the network, so both are bounded: only https is spoken (http on loopback,
for tests), a file may not be longer than the registry says, packed or not, and what has another hash is thrown away.
Archives are not opened; the only packing understood is gzip around a single file, unpacked as a stream within the same
bound.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, Protocol, cast
from urllib.parse import urlsplit

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.registry import Benchmark, DataFile
from medvrag_core.records import Record
from medvrag_core.runs.publish import sha256_of, whole_file

TIMEOUT_S = 60.0
"""How long a server may stay silent."""
PACKING_BYTES = 1 << 16
"""What gzip may add to a file that it cannot make smaller."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_BLOCK = 1 << 16


class FetchedFile(Record):
    """What became of one file: fetched from its origin, copied from a folder, or there before with the right hash."""

    path: str
    state: Literal["fetched", "copied", "there already"]
    bytes: int


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def fetch(benchmark: Benchmark, to: Path, source: Path | None = None) -> Iterator[FetchedFile]:
    """Bring all files of a set to ``to``, one after the other.

    A file that is there with the right hash is left alone, so a broken fetch goes on where it stopped.

    Parameters
    ----------
    benchmark : the set
    to : the data folder; the registry says where in it each file lies
    source : a folder laid out in the same way that stands in for the network; its files may be packed (``.gz``)

    Raises
    ------
    InputError : the server does not answer, refuses, leads to something else than https, or sends too little, too much
        or something else (both hashes are named); a file with another content is in the way; ``source`` lacks a file
    """
    for file in benchmark.files:
        target = to / file.file
        if target.exists():
            _require_same(target, file)
            yield FetchedFile(path=str(target), state="there already", bytes=file.bytes)
            continue
        url = benchmark.url(file)
        with whole_file(target) as temporary, temporary.open("wb") as out:
            if source is None:
                with _opened_url(url) as stream:
                    _copy(stream, out, file, url, packed=urlsplit(url).path.endswith(".gz"))
            else:
                path = _stand_in(source, file)
                with path.open("rb") as stream:
                    _copy(stream, out, file, str(path), packed=path.suffix == ".gz")
        yield FetchedFile(path=str(target), state="fetched" if source is None else "copied", bytes=file.bytes)


class _Bounded:
    """A stream of which no more than ``limit`` bytes are read."""

    def __init__(self, stream: _Readable, limit: int, where: str) -> None:
        self.stream = stream
        self.left = limit
        self.where = where

    def read(self, size: int, /) -> bytes:
        block = self.stream.read(min(size, self.left + 1))
        self.left -= len(block)
        if self.left < 0:
            raise InputError(
                f"{self.where}: sends more than expected", way_out="nothing was kept; see `benchmarks list`"
            )
        return block


def _copy(stream: _Readable, out: IO[bytes], file: DataFile, where: str, *, packed: bool) -> None:
    """Copy a stream, unpacked if it is packed, while its length and hash agree with the registry."""
    digest, count = hashlib.sha256(), 0
    plain = _Bounded(_unpacked(stream, file, where) if packed else stream, file.bytes, where)
    try:
        while block := plain.read(_BLOCK):
            digest.update(block)
            count += len(block)
            out.write(block)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{where}: not a whole gzip file ({error})", way_out="nothing was kept; try again") from None
    except (OSError, http.client.HTTPException) as error:
        raise InputError(f"{where}: broke off ({error})", way_out="nothing was kept; try again") from None
    if count < file.bytes:
        raise InputError(
            f"{where}: ends after {count:,} of {file.bytes:,} bytes", way_out="nothing was kept; try again"
        )
    if (found := digest.hexdigest()) != file.sha256:
        raise InputError(
            f"{where}: is another file than the registry describes (sha256 {found}, expected {file.sha256})",
            way_out="nothing was kept; get the file from another place and give its folder with --from",
        )


def _unpacked(stream: _Readable, file: DataFile, where: str) -> _Readable:
    bounded = _Bounded(stream, file.bytes + PACKING_BYTES, where)
    return gzip.GzipFile(fileobj=cast(IO[bytes], bounded), mode="rb")


def _require_same(target: Path, file: DataFile) -> None:
    found = sha256_of(target) if target.is_file() else "none, it is no file"
    if found != file.sha256:
        raise InputError(
            f"{target}: is there with another content (sha256 {found}, expected {file.sha256})",
            way_out="delete it or choose another folder, then fetch again",
        )


def _stand_in(source: Path, file: DataFile) -> Path:
    for path in (source / file.file, source / f"{file.file}.gz"):
        if path.is_file():
            return path
    raise InputError(
        f"{source / file.file}: no such file, nor one packed as .gz", way_out="leave out --from to fetch it"
    )


@contextmanager
def _opened_url(url: str) -> Iterator[http.client.HTTPResponse]:
    _require_safe(url, url)
    # The bytes are hashed as they are, so a server must not pack them on its own.
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "medvrag"})
    handlers: list[urllib.request.BaseHandler] = [_SafeRedirects()]
    if urlsplit(url).hostname in _LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        response = urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        raise InputError(f"{url}: status {error.code} {error.reason}", way_out="is the address still right?") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{url}: no answer ({reason})", way_out="try again, or give a folder that has the file with --from"
        ) from None
    with response:
        packing = response.headers.get("Content-Encoding", "identity").strip().lower()
        if packing != "identity":
            raise InputError(f"{url}: the server packed the file ({packing})", way_out="fetch it by other means")
        yield response


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a server only to where it could have been asked directly."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _require_safe(newurl, req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _require_safe(url: str, asked: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    sent = "" if url == asked else f"{asked} leads to "
    raise InputError(f"{sent}{url}: only https is fetched", way_out="get the file by other means and give --from DIR")
