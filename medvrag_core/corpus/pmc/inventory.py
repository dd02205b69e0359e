"""The daily inventory of the bucket as a selection: a manifest with gzipped CSV shards, or one such shard.

It lists the metadata files of all article versions (millions) without licences, which are looked up one by one.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from medvrag_core.corpus.pmc.bucket import BUCKET, parsed_xml
from medvrag_core.corpus.pmc.client import FetchError, PmcClient, md5_of
from medvrag_core.corpus.pmc.ids import ArticleId, pmcid
from medvrag_core.errors import InputError

PREFIX = f"inventory-reports/{BUCKET}/metadata/"
_SCHEMA = "Bucket, Key, LastModifiedDate, ETag"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}Z")
_KEY = re.compile(r"metadata/PMC(\d{1,9})\.(\d{1,5})\.json")
_MANIFEST_BYTES = 4 << 20
_SHARD_BYTES = 512 << 20
_UNPACKED_BYTES = 4 << 30
_ODD = np.uint64(0x9E3779B97F4A7C15)


async def inventory_articles(client: PmcClient, place: str, cache: Path, most: int) -> tuple[list[ArticleId], int]:
    """The first ``most`` articles of an inventory, and how many it lists.

    Their order looks random and is the same everywhere: numbers of PubMed Central grow with time, and the first would
    all be old articles. A whole inventory names the newest version of each article; of a single shard newer versions
    may lie in others, and are asked for.

    Parameters
    ----------
    place : ``latest``, a date folder of the bucket (``2026-09-01T01-00Z``), a ``manifest.json`` whose shards lie beside
        it, or one shard (``.csv`` or ``.csv.gz``)

    Raises
    ------
    InputError : the file is missing, damaged, or lists no article
    FetchError : the bucket gives no usable answer
    """
    path = Path(place)
    if place == "latest" or _DATE.fullmatch(place):
        shards, column = await _fetched(client, place, cache)
    elif path.name.endswith(".json"):
        shards, column = _local(path)
    else:
        shards, column = [path], _column(_SCHEMA)
    numbers, versions = array("q"), array("i")
    for shard in shards:
        for key in _keys(shard, column):
            if found := _KEY.fullmatch(key):
                numbers.append(int(found.group(1)))
                versions.append(int(found.group(2)))
    if not numbers:
        raise InputError(f"{place}: lists no article of PubMed Central", way_out="name a manifest.json or its shard")
    newest = newest_versions(np.frombuffer(numbers, dtype=np.int64), np.frombuffer(versions, dtype=np.int32))
    one_shard = len(shards) == 1 and shards[0] == path
    chosen = (column[:most].tolist() for column in newest)
    return [pmcid(number, 0 if one_shard else version) for number, version in zip(*chosen, strict=True)], len(newest[0])


def newest_versions(numbers: Any, versions: Any) -> tuple[Any, Any]:
    """Each number once, spread by a multiplicative hash, and its highest version.

    ``(n,)`` int64 and int32 in, ``(m,)`` of the same out; no objects a row, since an inventory has millions.
    """
    order = np.lexsort((versions, numbers))
    last = np.flatnonzero(np.append(np.diff(numbers[order]) != 0, True))
    kept = order[last]
    spread = np.argsort(numbers[kept].astype(np.uint64) * _ODD, kind="stable")
    return numbers[kept][spread], versions[kept][spread]


async def _fetched(client: PmcClient, place: str, cache: Path) -> tuple[list[Path], int]:
    bucket = client.settings.bucket
    if place == "latest":
        asked = {"list-type": "2", "delimiter": "/", "prefix": PREFIX}
        root = parsed_xml(await client.get(f"{bucket}/", asked, most_bytes=_MANIFEST_BYTES))
        names = [(x.text or "").removeprefix(PREFIX).rstrip("/") for x in root.iterfind("{*}CommonPrefixes/{*}Prefix")]
        dated = sorted(filter(_DATE.fullmatch, names))
        if not dated:
            raise FetchError("fetch_rejected", f"{bucket}: holds no dated inventory")
        place = dated[-1]
    address = f"{bucket}/{PREFIX}{place}/manifest.json"
    files, column = _manifest(await client.get(address, most_bytes=_MANIFEST_BYTES), address)
    shards = []
    for number, (key, md5) in enumerate(files):
        target = cache / "inventory" / place / f"{number:04d}.csv.gz"
        if not (target.is_file() and md5_of(target) == md5):
            await client.download(f"{bucket}/{quote(key, safe='/')}", target, md5=md5, most_bytes=_SHARD_BYTES)
        shards.append(target)
    return shards, column


def _local(path: Path) -> tuple[list[Path], int]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", way_out="name a manifest.json") from None
    try:
        files, column = _manifest(data, str(path))
    except FetchError as error:
        raise InputError(error.problem, way_out="name a manifest.json of the inventory") from None
    shards = []
    for key, md5 in files:
        beside = path.parent / key.rpartition("/")[2]
        if not beside.is_file():
            raise InputError(f"{beside}: no such file; the manifest names it", way_out="lay all shards beside it")
        if md5_of(beside) != md5:
            raise InputError(f"{beside}: is not the file that the manifest describes", way_out="fetch it again")
        shards.append(beside)
    return shards, column


def _manifest(data: bytes, place: str) -> tuple[list[tuple[str, str]], int]:
    """Keys and digests of the shards, and the column of the key."""
    try:
        manifest = json.loads(data)
        files = [(str(file["key"]), str(file["MD5checksum"]).lower()) for file in manifest["files"]]
        column = _column(str(manifest["fileSchema"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FetchError("fetch_rejected", f"{place}: is no manifest of an inventory in CSV") from None
    if not files:
        raise FetchError("fetch_rejected", f"{place}: names no shard")
    return files, column


def _column(schema: str) -> int:
    return [name.strip() for name in schema.split(",")].index("Key")


def _keys(path: Path, column: int) -> Iterator[str]:
    try:
        with path.open("rb") as packed:
            source: Any = gzip.GzipFile(fileobj=packed) if path.name.endswith(".gz") else packed
            text = io.TextIOWrapper(io.BufferedReader(_Bounded(source)), encoding="utf-8", newline="")
            for row in csv.reader(text):
                if len(row) > column:
                    yield unquote(row[column])
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{path}: cannot be read as a shard ({said})", way_out="fetch it again") from None


class _Bounded(io.RawIOBase):
    """A stream that ends with an error behind 4 GiB; a shard of today unpacks to a tenth of that."""

    def __init__(self, source: Any) -> None:
        self._source, self._left = source, _UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block: bytes = self._source.read(len(buffer))
        self._left -= len(block)
        if self._left < 0:
            raise OSError(f"unpacks to more than {_UNPACKED_BYTES >> 30} GiB")
        buffer[: len(block)] = block
        return len(block)
