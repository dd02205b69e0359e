from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_pmc import shard
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.corpus.pmc import inventory
from medvrag_core.corpus.pmc.client import FetchError, PmcClient
from medvrag_core.corpus.pmc.inventory import inventory_articles
from medvrag_core.corpus.pmc.source import PmcSource
from medvrag_core.errors import InputError
from medvrag_core.models.event_loop import run_async
from medvrag_core.settings.pmc import PmcSettings

Make = Callable[..., PmcSettings]
KEYS = [["metadata/PMC1.1.json", "metadata/PMC1.10.json", "metadata/PMC7.1.json"], ["metadata/PMC1.9.json", "x/y.json"]]


def listed(settings: PmcSettings, place: str, cache: Path, most: int = 20_000) -> dict[str, int]:
    async def work() -> Any:
        async with PmcClient(settings) as client:
            return await inventory_articles(client, place, cache, most)

    ids, found = run_async(work())
    assert len({x.value for x in ids}) == len(ids) == min(found, most)
    return {x.value: x.version for x in ids}


def local(pmc: Any, folder: Path) -> Path:
    """The newest inventory of the fake bucket as files of this machine."""
    pmc.inventory("2026-09-01T01-00Z", KEYS)
    for key, data in pmc.files.items():
        (folder / key.rpartition("/")[2]).write_bytes(data)
    return folder / "manifest.json"


def test_the_latest_inventory_names_the_newest_version_of_each_article(
    pmc: Any, settings: Make, tmp_path: Path
) -> None:
    pmc.inventory("2026-08-31T01-00Z", [["metadata/PMC5.1.json"]])
    pmc.inventory("2026-09-01T01-00Z", KEYS)
    pmc.files["inventory-reports/pmc-oa-opendata/metadata/hive/x"] = b""
    assert listed(settings(), "latest", tmp_path) == {"PMC1": 10, "PMC7": 1}
    assert listed(settings(), "2026-08-31T01-00Z", tmp_path) == {"PMC5": 1}
    before = pmc.asked(".csv.gz")
    listed(settings(), "latest", tmp_path)
    assert pmc.asked(".csv.gz") == before, "shards that are there and right are not fetched again"


def test_a_damaged_shard_is_fetched_again(pmc: Any, settings: Make, tmp_path: Path) -> None:
    pmc.inventory("2026-09-01T01-00Z", KEYS)
    listed(settings(), "latest", tmp_path)
    path = next(tmp_path.rglob("0000.csv.gz"))
    path.write_bytes(path.read_bytes()[:-3])
    assert listed(settings(), "latest", tmp_path) == {"PMC1": 10, "PMC7": 1}
    pmc.fail("-0.csv.gz", "flip")
    path.unlink()
    with pytest.raises(FetchError, match="md5"):
        listed(settings(), "latest", tmp_path)


def test_a_manifest_of_this_machine_with_its_shards_beside_it(pmc: Any, settings: Make, tmp_path: Path) -> None:
    manifest = local(pmc, tmp_path)
    assert listed(settings(), str(manifest), tmp_path) == {"PMC1": 10, "PMC7": 1}
    assert pmc.requests == []
    path = tmp_path / "2026-09-01T01-00Z-1.csv.gz"
    path.write_bytes(gzip.compress(b"pmc-oa-opendata,metadata/PMC666.1.json,,\n"))
    with pytest.raises(InputError, match="not the file that the manifest describes"):
        listed(settings(), str(manifest), tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        listed(settings(), str(manifest), tmp_path)


def test_of_a_single_shard_the_newest_version_is_asked_for(pmc: Any, settings: Make, tmp_path: Path) -> None:
    local(pmc, tmp_path)
    path = tmp_path / "2026-09-01T01-00Z-0.csv.gz"
    assert listed(settings(), str(path), tmp_path) == {"PMC1": 0, "PMC7": 0}
    (tmp_path / "plain.csv").write_bytes(gzip.decompress(path.read_bytes()))
    assert listed(settings(), str(tmp_path / "plain.csv"), tmp_path) == {"PMC1": 0, "PMC7": 0}


def test_the_schema_tells_the_column_of_the_encoded_key(pmc: Any, settings: Make, tmp_path: Path) -> None:
    manifest = local(pmc, tmp_path)
    text = b'"2026","pmc","metadata%2FPMC3.2.json"\n'
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    digest = hashlib.md5((tmp_path / "s.csv.gz").read_bytes()).hexdigest()
    told = {"fileSchema": "LastModifiedDate, Bucket, Key", "files": [{"key": "a/s.csv.gz", "MD5checksum": digest}]}
    manifest.write_text(json.dumps(told))
    assert listed(settings(), str(manifest), tmp_path) == {"PMC3": 2}


@pytest.mark.parametrize(
    "told", ["", "[]", "{}", '{"files": [], "fileSchema": "Key"}', '{"files": [{}], "fileSchema": "Key"}',
             '{"files": [{"key": "a", "MD5checksum": "b"}], "fileSchema": "Bucket"}']
)  # fmt: skip
def test_what_is_no_manifest_is_refused(settings: Make, tmp_path: Path, told: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(told)
    with pytest.raises(InputError, match=r"manifest\.json"):
        listed(settings(), str(path), tmp_path)


@pytest.mark.parametrize("data", [b"", b"no gzip", shard(["metadata/PMC1.1.json"])[:-9], gzip.compress(b"\xff\xfe"),
                                  gzip.compress(b"a," + b"x" * 200_000)])  # fmt: skip
def test_what_is_no_shard_is_refused(settings: Make, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.csv\.gz"):
        listed(settings(), str(path), tmp_path)


def test_a_shard_that_unpacks_without_end_is_cut(
    settings: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" * (1 << 20)))
    with pytest.raises(InputError, match="unpacks to more"):
        listed(settings(), str(path), tmp_path)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 30)), min_size=1))
def test_newest_versions_as_a_dictionary_finds_them(pairs: list[tuple[int, int]]) -> None:
    expected: dict[int, int] = {}
    for number, version in pairs:
        expected[number] = max(version, expected.get(number, 0))
    numbers, versions = np.array(pairs, dtype=np.int64).T
    found = list(zip(*inventory.newest_versions(numbers, versions.astype(np.int32)), strict=True))
    assert dict(found) == expected and len(found) == len(expected)
    again = list(zip(*inventory.newest_versions(numbers[::-1], versions[::-1].astype(np.int32)), strict=True))
    assert again == found, "the order of the rows does not count"


def test_the_first_of_an_inventory_are_not_all_old(settings: Make, tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(shard([f"metadata/PMC{n}.1.json" for n in range(1, 10_001)]))
    first = [int(name.removeprefix("PMC")) for name in listed(settings(), str(path), tmp_path, most=100)]
    assert 4_000 < np.mean(first) < 6_000


def test_an_inventory_is_a_selection(pmc: Any, settings: Make) -> None:
    for number in range(1, 8):
        pmc.add(number, is_pmc_openaccess=number % 2 == 1)
    pmc.inventory("2026-09-01T01-00Z", [[f"metadata/PMC{n}.1.json" for n in range(1, 8)]])
    source = PmcSource(settings(inventory="latest", most_articles=3))
    documents = list(source.documents())
    assert len(documents) == 3 and all(int(x.article_id[3:]) % 2 for x in documents)
    assert pmc.asked("prefix=PMC") == 0, "a whole inventory tells the versions"
    assert [x.reason for x in source.ledger()][-1] == "article_limit"
