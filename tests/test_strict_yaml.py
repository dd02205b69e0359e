"""YAML written by hand: the same values as PyYAML's, keys once, no objects, no endless files."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.strict_yaml import LARGEST, strict_yaml

SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3)
)


@given(VALUES)
def test_values_are_those_of_pyyaml(value: Any) -> None:
    assert strict_yaml(yaml.safe_dump(value), "here") == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2", "key 'a' stands twice"),
        ("deep: {b: [{c: 1, c: 1}]}", "key 'c' stands twice"),
        ("a: [1", "not valid YAML"),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
        ("2026-13-45", "not valid YAML"),
        ("[" * 5_000, "not valid YAML"),
        ("a" * (LARGEST + 1), "larger than"),
        ("? [1, 2]\n: x", "not valid YAML"),
    ],
)
def test_what_cannot_be_trusted_is_refused_in_words(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        strict_yaml(text, "prices.yaml", way_out="ask")
    assert str(refused.value).startswith("prices.yaml: ")
