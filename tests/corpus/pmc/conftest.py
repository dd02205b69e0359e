"""The fake services of ``tests/corpus/fake_pmc.py``, and a guard that nothing else is ever contacted."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_pmc import FakePmc
from tenacity import wait_none

from medvrag_core.settings.pmc import PmcSettings


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in these tests may look for, or connect to, another machine."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def checked(self: socket.socket, address: Any) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), f"contacts {address}"
        return connect(self, address)

    def known(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        assert name in ("127.0.0.1", "::1", "localhost", None), f"looks for {name}"
        return look_up(host, *rest, **more)

    monkeypatch.setattr(socket.socket, "connect", checked)
    monkeypatch.setattr(socket, "getaddrinfo", known)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once, but for what a server asks for."""
    monkeypatch.setattr("medvrag_core.corpus.pmc.client._PAUSES", wait_none())


@pytest.fixture
def pmc(made_pdfs: Path, no_pauses: None) -> Iterator[FakePmc]:
    fake = FakePmc((made_pdfs / "gout.pdf").read_bytes())
    yield fake
    fake.close()


@pytest.fixture
def settings(pmc: FakePmc, tmp_path: Path) -> Callable[..., PmcSettings]:
    """Settings that lead to the fake services."""

    def make(**more: Any) -> PmcSettings:
        values: dict[str, Any] = {
            "bucket": pmc.url, "eutils": f"{pmc.url}/entrez", "converter": f"{pmc.url}/idconv/", "attempts": 3,
            "requests_per_second": 10_000, "bucket_requests_per_second": 10_000, "cache": str(tmp_path / "cache"),
            "seconds_per_file": 20, "email": "someone@example.org",
        }  # fmt: skip
        return PmcSettings(**values | more)

    return make
