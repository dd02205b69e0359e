from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.encoders.shards import starts
from medvrag_core.encoders.vectors import ShardVectors
from medvrag_core.errors import InputError
from medvrag_core.index.close_pairs import exact_cosines
from medvrag_core.index.duplicates import Duplicates, near_duplicates, page_order
from medvrag_core.index.page_alikeness import PageAlikeness, PairKind, numbers_and_words


class Shards(SimpleNamespace):
    """As much of a store as the search for near duplicates looks at."""

    def __len__(self) -> int:
        return len(self.page_ids)


def made_store(pages: list[Any], shard: int, ids: list[str] | None = None) -> Any:
    def each_shard() -> Any:
        for first in range(0, len(pages), shard):
            part = pages[first : first + shard]
            yield ShardVectors(first, np.concatenate(part), starts(np.array([len(page) for page in part])))

    return Shards(page_ids=tuple(ids or [f"a#p{k + 1}" for k in range(len(pages))]), each_shard=each_shard)


class Texts:
    """As much of a corpus: texts by page id, and white images."""

    def __init__(self, texts: dict[str, str], image: Path | None = None) -> None:
        self._texts, self._image = texts, image

    def page(self, page_id: str) -> Any:
        if page_id not in self._texts:
            raise InputError(f"page '{page_id}' is not in this corpus")
        return SimpleNamespace(text=self._texts[page_id])

    def image_path(self, page_id: str) -> Path:
        assert self._image is not None
        return self._image if self._image.is_file() else self._image / f"{page_id}.png"


def slow_reference(pages: dict[str, Any], threshold: float, kind_of: Any, keep: set[str]) -> Duplicates:
    """The rule as its documentation states it, page by page."""
    order = sorted(pages, key=page_order)
    means = unit_rows(np.stack([pages[i].sum(axis=0) for i in order]).astype(np.float32))
    stays: list[int] = []
    left_out, alike = [], []

    def pair(one: int, two: int) -> tuple[str, str, str]:
        return order[one], order[two], kind_of(order[one], order[two])

    for two in range(len(order)):
        close = [one for one in stays if exact_cosines(means, np.array([one]), np.array([two]))[0] > threshold]
        repeated = [one for one in close if kind_of(order[one], order[two]) not in keep]
        if repeated:
            left_out.append(pair(repeated[0], two))
        else:
            stays.append(two)
            alike += [pair(one, two) for one in close[:1]]
    return told(left_out), told(alike)  # type: ignore[return-value]


def told(pairs: Any) -> Any:
    return [pair if isinstance(pair, tuple) else (pair.kept, pair.left_out, pair.kind) for pair in pairs]


@settings(max_examples=150, deadline=None)
@given(
    groups=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    texts=st.lists(
        st.sampled_from(["dose 5 mg", "dose 50 mg", "dose 5 µg", "other words 5"]), min_size=30, max_size=30
    ),
    spread=st.sampled_from([0.03, 0.12]),
    keep=st.sets(st.sampled_from(["numbers_differ", "near"])),
    shard=st.integers(1, 7),
    seed=st.integers(0, 2**32 - 1),
)
def test_pairs_are_those_of_the_rule_in_whatever_order_and_cut_the_pages_come(
    groups: list[int], texts: list[str], spread: float, keep: set[Any], shard: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    bases = [unit_rows(rng.normal(size=(3, 6)).astype(np.float32)) for _ in range(5)]
    ids = [f"{article}#p{number}" for number in (1, 2, 10) for article in "acdefghijk"][: len(groups)]
    pages = {
        page_id: unit_rows(bases[group] + rng.normal(scale=spread, size=(3, 6)).astype(np.float32))
        for page_id, group in zip(ids, groups, strict=True)
    }
    text_of = dict(zip(ids, texts, strict=False))

    def kind_of(one: str, two: str) -> str:
        (numbers, words), (others, more) = (numbers_and_words(text_of[page]) for page in (one, two))
        return "numbers_differ" if words == more and numbers != others else "near"

    shuffled = [ids[k] for k in rng.permutation(len(ids))]
    store = made_store([pages[i] for i in shuffled], shard, shuffled)
    found = near_duplicates(store, 0.97, corpus=Texts(text_of), keep=keep)  # type: ignore[arg-type]
    assert (told(found.left_out), told(found.alike)) == slow_reference(pages, 0.97, kind_of, keep)
    assert all(pair.cosine > 0.97 for pair in (*found.left_out, *found.alike))
    assert not {pair.left_out for pair in found.left_out} & {pair.kept for pair in (*found.left_out, *found.alike)}


def at_angles(*degrees: float) -> list[Any]:
    turns = np.radians(degrees)
    return [np.array([[np.cos(turn), np.sin(turn)]], dtype=np.float32) for turn in turns]


def test_of_a_chain_the_ends_that_are_not_alike_stay() -> None:
    # cos 10° = 0.985, cos 20° = 0.940
    store = made_store(at_angles(20, 0, 10, 40, 30, 50), 2, ["c#p1", "a#p1", "b#p1", "e#p1", "d#p1", "f#p1"])
    found = near_duplicates(store, 0.97)
    assert told(found.left_out) == [("a#p1", "b#p1", "near"), ("c#p1", "d#p1", "near"), ("e#p1", "f#p1", "near")]


def test_the_first_page_by_number_stays_and_a_threshold_of_one_leaves_nothing_out() -> None:
    store = made_store(at_angles(1, 1, 1), 2, ["a#p10", "a#p9", "b#p1"])
    assert told(near_duplicates(store, 0.97).left_out) == [("a#p9", "a#p10", "near"), ("a#p9", "b#p1", "near")]
    assert near_duplicates(store, 1.0) == Duplicates()
    assert told(near_duplicates(store, 0.97, without=["a#p9"]).left_out) == [("a#p10", "b#p1", "near")]


def test_a_page_without_a_direction_repeats_none() -> None:
    against = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    assert near_duplicates(made_store([against, against], 1), 0.5) == Duplicates()


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("Give 5 mg daily.", "Give 50 mg daily.", "numbers_differ"),
        ("Give 5 mg daily.", "Give 5 µg daily.", "numbers_differ"),
        ("Give 0.5 mg daily.", "Give 0,5 mg daily.", "numbers_differ"),
        ("Give one tablet twice.", "Give one tablet once.", "numbers_differ"),
        ("A 5 mg, B 10 mg", "A 10 mg, B 5 mg", "numbers_differ"),
        ("Stop if K > 5", "Stop if K < 5", "numbers_differ"),
        ("Give 5 mg daily.", "Give 5 mg   daily!", "near"),
        ("Give 5 mg of A.", "Give 50 mg of B.", "near"),
        ("Give daily.", "", "near"),
    ],
)
def test_texts_of_the_same_words_with_another_dose_are_told_apart(
    one: str, other: str, kind: PairKind, tmp_path: Path
) -> None:
    Image.new("L", (9, 9), 255).save(tmp_path / "white.png")
    corpus: Any = Texts({"a#p1": one, "b#p1": other}, tmp_path / "white.png")
    store = made_store(at_angles(0, 0), 2, ["a#p1", "b#p1"])
    kept = near_duplicates(store, 0.97, corpus=corpus, keep=["numbers_differ", "blank"])
    assert told(kept.left_out) + told(kept.alike) == [("a#p1", "b#p1", kind)]
    assert bool(kept.alike) == (kind == "numbers_differ")
    assert told(near_duplicates(store, 0.97, corpus=corpus).left_out) == [("a#p1", "b#p1", kind)]


def test_pages_without_text_are_blank_where_they_are_white(tmp_path: Path) -> None:
    ids = ("a#p1", "b#p1", "c#p1", "d#p1")
    for page_id, color in zip(ids, (255, 251, 90, 255), strict=True):
        image = Image.new("L", (200, 200), color)
        image.paste(0, (5, 5, 6, 6))  # a speck
        image.save(tmp_path / f"{page_id}.png")
    corpus: Any = Texts(dict.fromkeys(ids, " ") | {"d#p1": "word"}, tmp_path)
    alikeness = PageAlikeness(corpus, ids)
    kinds = [alikeness.kind(0, 1), alikeness.kind(0, 2), alikeness.kind(2, 2), alikeness.kind(0, 3)]
    assert kinds == ["blank", "no_text", "no_text", "near"]
    store = made_store(at_angles(0, 0, 0, 0), 2, [*ids])
    found = near_duplicates(store, 0.97, corpus=corpus, keep=["blank", "no_text"])
    assert told(found.alike) == [("a#p1", "b#p1", "blank"), ("a#p1", "c#p1", "no_text")]
    assert told(found.left_out) == [("a#p1", "d#p1", "near")]


def test_a_page_is_read_once_and_only_if_it_looks_like_another() -> None:
    read: list[str] = []

    class Counted(Texts):
        def page(self, page_id: str) -> Any:
            read.append(page_id)
            return super().page(page_id)

    ids = [f"a#p{k}" for k in range(40)]
    corpus: Any = Counted({page_id: f"word {page_id}" for page_id in ids[:30]})
    store = made_store(at_angles(*[0.1 * k for k in range(30)], *[20 + 15 * k for k in range(10)]), 9, ids)
    found = near_duplicates(store, 0.97, corpus=corpus, keep=["numbers_differ"])
    assert len(found.alike) == 29
    assert sorted(read) == sorted(ids[:30])


def test_a_page_that_repeats_two_is_left_out_for_the_first_of_them() -> None:
    # 26.9° is closest to 13°, which is left out for 0°; of those that stay it repeats 20° and 35°.
    store = made_store(at_angles(0, 13, 20, 35, 26.9), 2)
    found = told(near_duplicates(store, 0.97).left_out)
    assert found == [("a#p1", "a#p2", "near"), ("a#p3", "a#p5", "near")]


def test_a_page_whose_first_likeness_is_left_out_is_left_out_for_another_that_stays() -> None:
    # 26.9° is close to 13°, which is left out for 0°, and to 35°, which is close to no earlier page.
    store = made_store(at_angles(0, 13, 35, 26.9), 2)
    found = told(near_duplicates(store, 0.97).left_out)
    assert found == [("a#p1", "a#p2", "near"), ("a#p3", "a#p4", "near")]


@settings(max_examples=150, deadline=None)
@given(degrees=st.lists(st.integers(0, 90), min_size=3, max_size=14, unique=True))
def test_chains_of_any_form_end_as_the_rule_says(degrees: list[int]) -> None:
    pages = at_angles(*degrees)
    ids = [f"a#p{k + 1}" for k in range(len(pages))]
    found = near_duplicates(made_store(pages, 3), 0.97)
    expected = slow_reference(dict(zip(ids, pages, strict=True)), 0.97, lambda *_: "near", set())
    assert (told(found.left_out), told(found.alike)) == expected
