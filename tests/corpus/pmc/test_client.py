"""Politeness, limits and places of the HTTP client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from medvrag_core.corpus.pmc.client import FetchError, PmcClient
from medvrag_core.models.event_loop import run_async
from medvrag_core.settings.pmc import PmcSettings

Make = Callable[..., PmcSettings]


class Clock:
    """A sleep that takes no time and remembers what was asked of it."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def get(settings: PmcSettings, *addresses: str, clock: Clock | None = None, most_bytes: int = 1_000_000) -> list[bytes]:
    async def work() -> list[bytes]:
        more = {"sleep": clock.sleep} if clock else {}
        async with PmcClient(settings, **more) as client:
            return [await client.get(address, most_bytes=most_bytes) for address in addresses]

    return run_async(work())


def test_requests_keep_their_distance(pmc: Any, settings: Make) -> None:
    pmc.files["x"] = b"1"
    clock = Clock()
    get(settings(requests_per_second=0.001), *[f"{pmc.url}/x"] * 3, clock=clock)
    assert len(clock.slept) == 2
    assert 900 < clock.slept[0] <= 1_000 < 1_900 < clock.slept[1] <= 2_000


def test_the_bucket_has_a_pace_of_its_own(pmc: Any, settings: Make) -> None:
    pmc.files["x"] = b"1"
    other = pmc.url.replace("127.0.0.1", "localhost")
    chosen = settings(eutils=f"{other}/entrez", converter=f"{other}/idconv/", requests_per_second=0.001)
    clock = Clock()
    get(chosen, f"{other}/x", *[f"{pmc.url}/x"] * 3, clock=clock)
    assert all(seconds < 1 for seconds in clock.slept)


def test_a_server_that_asks_for_a_pause_gets_it_from_all(pmc: Any, settings: Make) -> None:
    pmc.files |= {"x": b"1", "y": b"2"}
    pmc.fail("/x", "wait:400", times=1)
    clock = Clock()

    async def work() -> None:
        async with PmcClient(settings(), sleep=clock.sleep) as client:
            await client.get(f"{pmc.url}/x", most_bytes=10)
            before = len(clock.slept)
            await client.get(f"{pmc.url}/y", most_bytes=10)
            assert max(clock.slept[before:]) > 300, "the pause holds for everything on that server"

    run_async(work())
    assert clock.slept[0] == 400.0
    assert pmc.asked("/x") == 2


def test_tries_end_and_the_last_fault_is_told(pmc: Any, settings: Make) -> None:
    pmc.fail("/x", "status:502")
    with pytest.raises(FetchError, match="status 502") as error:
        get(settings(attempts=3), f"{pmc.url}/x")
    assert (error.value.reason, pmc.asked("/x")) == ("fetch_failed", 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_what_asking_again_does_not_change_is_asked_once(pmc: Any, settings: Make, status: int) -> None:
    pmc.fail("/x", f"status:{status}")
    with pytest.raises(FetchError, match=str(status)):
        get(settings(attempts=3), f"{pmc.url}/x")
    assert pmc.asked("/x") == 1


def test_pauses_grow_without_a_word_from_the_server(pmc: Any, settings: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenacity import wait_exponential

    monkeypatch.setattr("medvrag_core.corpus.pmc.client._PAUSES", wait_exponential(multiplier=1, max=60))
    pmc.fail("/x", "status:500")
    clock = Clock()
    with pytest.raises(FetchError):
        get(settings(attempts=4), f"{pmc.url}/x", clock=clock)
    assert [seconds for seconds in clock.slept if seconds >= 1] == [1.0, 2.0, 4.0]


def test_a_body_is_cut_at_its_cap(pmc: Any, settings: Make) -> None:
    pmc.files["x"] = b"x" * 1_000
    assert get(settings(), f"{pmc.url}/x", most_bytes=1_000) == [b"x" * 1_000]
    with pytest.raises(FetchError, match="more than 999 bytes") as error:
        get(settings(), f"{pmc.url}/x", most_bytes=999)
    assert error.value.reason == "too_large"


def test_a_body_without_end_is_not_read_on(pmc: Any, settings: Make) -> None:
    pmc.fail("/x", "endless")
    with pytest.raises(FetchError, match="more than"):
        get(settings(), f"{pmc.url}/x", most_bytes=100_000)
    assert pmc.sent < 32 << 20, "what is under way in buffers, and no more of the 62 MiB"


@pytest.mark.parametrize("fault", ["drip", "silent"])
def test_slow_answers_are_cut_by_the_wall_clock(pmc: Any, settings: Make, fault: str) -> None:
    pmc.files["x"] = b"x" * 1_000
    pmc.fail("/x", fault)
    with pytest.raises(FetchError, match=r"longer than 0\.3 s|silent") as error:
        get(settings(seconds_per_file=0.3, attempts=1), f"{pmc.url}/x")
    assert error.value.reason == "fetch_failed"


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/x", "http://127.0.0.1:1/x", "file:///etc/passwd", "ftp://127.0.0.1/x", "//x", "http://[::1",
        "http://user:word@127.0.0.1/x", "gopher://127.0.0.1", "",
    ],
)  # fmt: skip
def test_only_addresses_of_the_settings_are_fetched(settings: Make, address: str) -> None:
    with pytest.raises(FetchError) as error:
        get(settings(), address)
    assert error.value.reason == "fetch_rejected"


def test_a_redirect_within_the_settings_is_followed(pmc: Any, settings: Make) -> None:
    pmc.files |= {"new/x": b"moved"}
    pmc.fail("/old", f"redirect:{pmc.url}/new/x")
    assert get(settings(), f"{pmc.url}/old?a=b") == [b"moved"]
    pmc.fail("/loop", "redirect:/loop")
    with pytest.raises(FetchError, match="redirects"):
        get(settings(), f"{pmc.url}/loop")
    assert pmc.asked("/loop") == 4


@pytest.mark.parametrize("place", ["https://example.org/x", "http://10.0.0.1/x", "http://127.0.0.1:9/x", "file:///x"])
def test_a_redirect_elsewhere_is_not_followed(pmc: Any, settings: Make, place: str) -> None:
    pmc.fail("/old", f"redirect:{place}")
    with pytest.raises(FetchError, match="no address") as error:
        get(settings(), f"{pmc.url}/old")
    assert error.value.reason == "fetch_rejected"


def test_a_public_name_that_leads_inside_is_refused(pmc: Any, settings: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a name server was made to answer with an address of this network."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    pmc.files["x"] = b"secret"
    chosen = settings()
    monkeypatch.setattr("medvrag_core.corpus.pmc.client.is_loopback", lambda _: False)
    with pytest.raises(FetchError, match="no public address"):
        get(chosen, f"{pmc.url}/x")


def test_what_is_on_this_machine_is_not_asked_through_a_proxy(
    pmc: Any, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    pmc.files["x"] = b"1"
    assert get(settings(), f"{pmc.url}/x") == [b"1"]


def test_requests_name_the_tool_and_ask_for_plain_bytes(pmc: Any, settings: Make) -> None:
    pmc.files["x"] = b"1"
    get(settings(tool="mytool"), f"{pmc.url}/x")
    headers = pmc.requests[0][1]
    assert headers["User-Agent"].startswith("mytool")
    assert headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    "address",
    ["http://example.org", "http://user:word@127.0.0.1:1", "ftp://127.0.0.1", "https://", "http://127.0.0.1:1/?key=1"],
)
def test_unsafe_addresses_are_refused_in_the_settings(address: str) -> None:
    with pytest.raises(ValidationError, match="an address"):
        PmcSettings(bucket=address)


@pytest.mark.parametrize(
    "values", [{"tool": "a\r\nHost: b"}, {"tool": ""}, {"email": "nobody"}, {"email": "a@b\n"}, {"most_articles": 0}]
)
def test_odd_settings_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PmcSettings(**values)
