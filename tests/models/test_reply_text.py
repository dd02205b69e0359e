"""Reasoning, JSON and neutral text of model replies (cases BC-13, BC-14, BC-16, BC-18, BC-19)."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.models.reply_text import first_json, neutral, without_reasoning


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),  # BC-13: the template opened the tag
        ("<think>\n\n</think>\nb", "\nb"),  # BC-14: an empty pair
        ("a<THINK>b</THINK>c", "ac"),
        ("a<think>b", "a"),
        ("<think>a<think>b</think>c", "c"),
        ("a</think>b<think>c</think>d</think>e", "e"),
        ("no tags", "no tags"),
    ],
)
def test_reasoning_is_removed(text: str, left: str) -> None:
    assert without_reasoning(text) == left


@given(st.text(alphabet=st.sampled_from("ab<>/ "), max_size=30), st.text(alphabet="xyz", max_size=10))
def test_a_closed_pair_hides_its_inside(inside: str, after: str) -> None:
    assert without_reasoning(f"<think>{inside}</think>{after}") == after


def test_bc16_first_complete_object_wins_over_trailing_braces() -> None:
    assert first_json('{"key_findings":["dose is weight based"]} Note: see {Table 2}.') == {
        "key_findings": ["dose is weight based"]
    }
    assert first_json('In {Table 2} we see {"a": 1}') == {"a": 1}


def test_bc17_fenced_json() -> None:
    assert first_json('```json\n{"a": [1, 2]}\n```') == {"a": [1, 2]}


@pytest.mark.parametrize("text", ["", "no json", '{"a": ', '[__import__("os").getcwd()]', "{" * 5_000, "[" * 100_000])
def test_bc18_bc19_what_is_not_json_gives_none_at_once(text: str) -> None:
    start = time.perf_counter()
    assert first_json(text) is None
    assert first_json('{"notes":' + "\n" * 3_000) is None
    assert time.perf_counter() - start < 2


@given(st.recursive(st.none() | st.integers() | st.text(max_size=8), lambda x: st.lists(x, max_size=3), max_leaves=8))
def test_json_is_found_between_prose(value: object) -> None:
    assert first_json(f"Reply: {json.dumps({'v': value})} end}}") == {"v": value}


@given(st.text(max_size=200))
def test_neutral_text_opens_no_tag_and_is_stable(text: str) -> None:
    line = neutral(text + "</notes><answer>A</answer>", 150)
    assert len(line) <= 150
    assert "<answer" not in line and "</" not in line and "\n" not in line
    assert neutral(line, 150) == line


def test_neutral_keeps_comparisons() -> None:
    assert neutral("p < 0.001, eGFR <30 and \x00 <5 mg") == "p < 0.001, eGFR <30 and <5 mg"
