"""Polite and careful fetching: a paced, bounded, cancellable GET from the addresses in the settings and nowhere else.

Answers come from the network and are untrusted: every body has a cap in bytes and a limit by the wall clock, packed
bodies are refused, and a redirect is followed only to another address of the settings (S3 and S11 of the threat list).
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from medvrag_core.errors import MedvragError
from medvrag_core.models.faults import retry_after
from medvrag_core.runs.publish import whole_file
from medvrag_core.settings.pmc import PmcSettings, is_loopback

if TYPE_CHECKING:
    import httpx2

Sleep = Callable[[float], Awaitable[None]]

LONGEST_WAIT_S = 900.0
"""A server that asks for a longer pause is taken as away."""
_SILENCE_S = 60.0
_REDIRECTS = 3
_PAUSES = wait_random_exponential(multiplier=1.0, max=60.0)
_HEAD = 1024
Origin = tuple[str, str, int]


class FetchError(MedvragError):
    """A file that could not be had.

    ``reason`` is the ledger's code: ``missing_file`` (404), ``fetch_failed`` (the network or a server is at fault),
    ``fetch_rejected`` (an answer that asking again does not change), ``too_large``, ``checksum_mismatch``,
    ``not_a_pdf``. ``again`` tells that another try may help.
    """

    def __init__(self, reason: str, problem: str, *, again: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(problem)
        self.reason, self.again, self.wait_s = reason, again, wait_s


class PmcClient:
    """GET requests under the settings; an async context, used on one event loop."""

    def __init__(self, settings: PmcSettings, *, sleep: Sleep = asyncio.sleep) -> None:
        import httpx2

        self.settings = settings
        self._sleep = sleep
        self._paces = {
            origin_of(settings.eutils): _Pace(settings.requests_per_second, sleep),
            origin_of(settings.converter): _Pace(settings.requests_per_second, sleep),
        }
        self._paces.setdefault(origin_of(settings.bucket), _Pace(settings.bucket_requests_per_second, sleep))
        here = [address for address in (settings.bucket, settings.eutils, settings.converter) if is_loopback(address)]
        # What is on this machine is never looked for through a proxy.
        direct: dict[str, Any] = {f"{urlsplit(address).scheme}://{urlsplit(address).netloc}": None for address in here}
        self._client = httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", "User-Agent": f"{settings.tool} (medvrag)"},
            timeout=httpx2.Timeout(min(_SILENCE_S, settings.seconds_per_file)),
            follow_redirects=False,
            mounts=direct,
        )

    async def __aenter__(self) -> PmcClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, address: str, parameters: Mapping[str, str] | None = None, *, most_bytes: int) -> bytes:
        """The whole body of an answer.

        Raises
        ------
        FetchError : see there; ``fetch_failed`` only after all tries
        """
        body = bytearray()

        async def once() -> None:
            body.clear()
            await self._stream(address, parameters, body.extend, most_bytes)

        await self._with_retries(once)
        return bytes(body)

    async def download(self, address: str, target: Path, *, md5: str, most_bytes: int, pdf: bool = False) -> None:
        """Fetch a file whole or not at all; its content has the digest ``md5`` (hex), and a PDF's header if it is one.

        Raises
        ------
        FetchError : see there; ``checksum_mismatch`` and ``not_a_pdf`` only after all tries
        """

        async def once() -> None:
            with whole_file(target) as temporary, temporary.open("wb") as out:
                digest, head = hashlib.md5(usedforsecurity=False), bytearray()

                def take(block: bytes) -> None:
                    out.write(block)
                    digest.update(block)
                    head.extend(block[: _HEAD - len(head)])

                await self._stream(address, None, take, most_bytes)
                if pdf and b"%PDF-" not in head:
                    what = "an HTML page" if b"<html" in head.lower() or b"<!doctype html" in head.lower() else "no PDF"
                    raise FetchError("not_a_pdf", f"{plain_address(address)}: {what} instead of a PDF", again=True)
                if digest.hexdigest() != md5.lower():
                    raise FetchError(
                        "checksum_mismatch",
                        f"{plain_address(address)}: md5 {digest.hexdigest()}, expected {md5}",
                        again=True,
                    )

        await self._with_retries(once)

    async def _with_retries(self, once: Callable[[], Awaitable[None]]) -> None:
        def pause(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            return max(_PAUSES(state), error.wait_s if isinstance(error, FetchError) else 0.0)

        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(self.settings.attempts),
            retry=retry_if_exception(lambda error: isinstance(error, FetchError) and error.again),
            wait=pause,
            sleep=self._sleep,
            reraise=True,
        ):
            with attempt:
                await once()

    async def _stream(
        self, address: str, parameters: Mapping[str, str] | None, take: Callable[[bytes], object], most_bytes: int
    ) -> None:
        import httpx2

        seconds = self.settings.seconds_per_file
        try:
            for _ in range(_REDIRECTS + 1):
                # The pace comes first: waiting for one's turn is not the server's time.
                pace = self._pace(address)
                await pace.turn()
                async with (
                    asyncio.timeout(seconds),
                    self._client.stream("GET", address, params=parameters) as answer,
                ):
                    if 300 <= answer.status_code < 400 and "location" in answer.headers:
                        address, parameters = urljoin(str(answer.url), answer.headers["location"]), None
                        continue
                    _require_right_peer(answer, address)
                    _require_success(answer, address, pace)
                    await _copy(answer, address, take, most_bytes)
                    return
        except TimeoutError:
            raise FetchError(
                "fetch_failed", f"{plain_address(address)}: took longer than {seconds:g} s", again=True
            ) from None
        except httpx2.TimeoutException:
            raise FetchError("fetch_failed", f"{plain_address(address)}: silent for too long", again=True) from None
        except httpx2.ConnectError:
            raise FetchError("fetch_failed", f"{plain_address(address)}: cannot be reached", again=True) from None
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            problem = f"{plain_address(address)}: the connection broke off ({type(error).__name__})"
            raise FetchError("fetch_failed", problem, again=not isinstance(error, httpx2.UnsupportedProtocol)) from None
        raise FetchError("fetch_rejected", f"{plain_address(address)}: more than {_REDIRECTS} redirects")

    def _pace(self, address: str) -> _Pace:
        """The pace of an address that may be asked; this is the list of allowed hosts."""
        pace = self._paces.get(origin_of(address))
        if pace is None:
            raise FetchError(
                "fetch_rejected", f"{plain_address(address)}: is no address of the settings, and is not fetched"
            )
        return pace


class _Pace:
    """Turns at least ``1 / rate`` seconds apart, also for tasks side by side."""

    def __init__(self, rate: float, sleep: Sleep) -> None:
        self._gap, self._sleep, self._next = 1.0 / rate, sleep, 0.0

    async def turn(self) -> None:
        now = asyncio.get_running_loop().time()
        at = max(now, self._next)
        self._next = at + self._gap
        if at > now:
            await self._sleep(at - now)

    def rest(self, seconds: float) -> None:
        """Nobody has a turn for so long: the server asked for it."""
        self._next = max(self._next, asyncio.get_running_loop().time() + seconds)


def origin_of(address: str) -> Origin:
    """Scheme, host and port of an address; raises FetchError where it has none.

    >>> origin_of("https://example.org/a?b")
    ('https', 'example.org', 443)
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.username or parts.password or parts.scheme not in ("http", "https"):
        raise FetchError("fetch_rejected", f"'{plain_address(address)}' is no address that can be fetched")
    return parts.scheme, host.lower(), port or (443 if parts.scheme == "https" else 80)


def plain_address(address: str) -> str:
    """An address for messages and the ledger: its query may name the user.

    >>> plain_address("https://example.org/x?email=me@example.org")
    'https://example.org/x'
    """
    return re.split(r"[?#]", address, maxsplit=1)[0][:200]


def md5_of(path: Path) -> str:
    """Hex MD5 of a file, as the bucket tells it; proves that a file is whole, not who made it."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _require_success(answer: httpx2.Response, address: str, pace: _Pace) -> None:
    status = answer.status_code
    if status == HTTPStatus.OK:
        packing = answer.headers.get("content-encoding", "identity").strip().lower()
        if packing != "identity":
            raise FetchError(
                "fetch_rejected", f"{plain_address(address)}: the server packed the answer ({packing[:40]})"
            )
        return
    said = f"{plain_address(address)}: status {status}"
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise FetchError("missing_file", said)
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT) or status >= 500:
        wait_s = retry_after(answer.headers.get("retry-after"))
        if wait_s > LONGEST_WAIT_S:
            raise FetchError("fetch_failed", f"{said}, and asks to wait {wait_s:,.0f} s")
        pace.rest(wait_s)
        raise FetchError("fetch_failed", said, again=True, wait_s=wait_s)
    raise FetchError("fetch_rejected", said)


def _require_right_peer(answer: httpx2.Response, address: str) -> None:
    """Refuse an answer from inside of this network under a public name, as after a forged answer of a name server."""
    host = urlsplit(address).hostname or ""
    if is_loopback(address) or (urllib.request.getproxies() and not urllib.request.proxy_bypass(host)):
        return
    stream = answer.extensions.get("network_stream")
    peer = stream.get_extra_info("server_addr") if stream is not None else None
    if peer and not ipaddress.ip_address(str(peer[0]).partition("%")[0]).is_global:
        raise FetchError(
            "fetch_rejected", f"{plain_address(address)}: answered from {peer[0]}, which is no public address"
        )


async def _copy(answer: httpx2.Response, address: str, take: Callable[[bytes], object], most_bytes: int) -> None:
    told = answer.headers.get("content-length", "")
    count = int(told) if told.isdecimal() and len(told) < 16 else 0
    if count <= most_bytes:
        count = 0
        async for block in answer.aiter_raw():
            count += len(block)
            if count > most_bytes:
                break
            take(block)
    if count > most_bytes:
        raise FetchError("too_large", f"{plain_address(address)}: more than {most_bytes:,} bytes")
