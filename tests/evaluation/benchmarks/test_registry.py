"""The registry: true to the manifest of the data it was taken from, and safe against one of somebody else."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.benchmarks.registry import find_benchmark, load_registry

ENTRY = """
- name: mine
  title: My questions
  sets: {medqa: 1273}
  licence: MIT
  origin: https://example.org/
  files:
    - {file: mine/q.jsonl, path: q.jsonl, bytes: 5, sha256: %s}
""" % ("a" * 64)


def test_every_file_is_that_of_the_manifest(shared_data: Path) -> None:
    with (shared_data / "MANIFEST.tsv").open(encoding="utf-8") as table:
        manifest = {row["path"]: row for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)}
    seen = set()
    for benchmark in load_registry():
        for file in benchmark.files:
            name = f"benchmarks/{file.file}"
            row = manifest.get(f"{name}.gz") or manifest[name]
            path = shared_data / row["path"]
            assert hashlib.sha256(path.read_bytes()).hexdigest() == row["sha256"]
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
            unpacked = re.search(r"unpacked file: ([0-9a-f]{64})", row["what"])
            assert file.sha256 == (unpacked[1] if unpacked else row["sha256"])
            at = f"{row['source_repo']}/{row['source_commit']}/{row['source_path'].partition(' (')[0]}"
            assert benchmark.url(file) == f"https://raw.githubusercontent.com/{at}"
            assert benchmark.licence[:3] == row["licence_as_found"].removeprefix("MIRAGE: ")[:3]
            seen.add(row["path"])
    # The published answers of models were put together out of 7,663 small files each, so no address gives them.
    rest = {path for path in manifest if path.startswith("benchmarks/")} - seen
    assert {path.rpartition("/")[0] for path in rest} == {"benchmarks/mirage/predictions"}


def test_every_address_is_a_fixed_commit_over_https() -> None:
    for benchmark in load_registry():
        for file in benchmark.files:
            address = urlsplit(benchmark.url(file))
            assert address.scheme == "https"
            assert re.fullmatch(r"/[\w.-]+/[\w.-]+/[0-9a-f]{40}/.+", address.path)


def test_a_registry_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text(ENTRY)
    (benchmark,) = load_registry(path)
    assert benchmark.url(benchmark.files[0]) == "https://example.org/q.jsonl" and benchmark.size == 5
    with pytest.raises(InputError, match="'medqa' is not in the registry; choose one of mine"):
        find_benchmark([benchmark], "medqa")


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("mine/q.jsonl", "../q.jsonl", "0.files.0.file"),
        ("mine/q.jsonl", "/etc/q.jsonl", "0.files.0.file"),
        ("mine/q.jsonl", "'a/../../q'", "0.files.0.file"),
        ("mine/q.jsonl", "''", "0.files.0.file"),
        ("mine/q.jsonl", '"a\\\\b"', "0.files.0.file"),
        ("mine/q.jsonl", '"a\\e[2J"', "0.files.0.file"),
        ("a" * 64, "A" * 64, "0.files.0.sha256"),
        ("a" * 64, "a" * 63, "0.files.0.sha256"),
        ("bytes: 5", "bytes: 0", "0.files.0.bytes"),
        ("bytes: 5, ", "", "'0.files.0.bytes' is missing"),
        ("licence: MIT", "license: MIT", "licen[cs]e"),
        ("- name: mine", "- name: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("{medqa: 1273}", "{medqa: [", "not valid YAML"),
        (ENTRY, ENTRY + ENTRY, "'mine' stands twice"),
        (ENTRY, "", "list"),
    ],
)
def test_a_registry_that_cannot_be_used_names_file_and_field(old: str, new: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "registry.yaml"
    path.write_text(ENTRY.replace(old, new))
    with pytest.raises(InputError, match=word) as fault:
        load_registry(path)
    assert str(path) in str(fault.value)
