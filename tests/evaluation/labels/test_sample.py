from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.relevance import RelevanceLabel
from medvrag_core.evaluation.labels.sample import draw_sample, rater_order, strata_of
from medvrag_core.records import Trace

PAIRS = st.dictionaries(
    st.tuples(st.sampled_from("xyz"), st.integers(1, 9).map("a#p{}".format)), st.sampled_from("st"), min_size=1
)


@given(PAIRS, st.integers(1, 4), st.integers(0, 3))
def test_every_stratum_gives_its_share_with_its_probability(
    strata: dict[tuple[str, str], str], each: int, seed: int
) -> None:
    tasks = draw_sample(strata, each, seed=seed)
    sizes, drawn = Counter(strata.values()), Counter(task.stratum for task in tasks)
    assert drawn == {name: min(each, size) for name, size in sizes.items()}
    assert len({(t.question_id, t.page_id) for t in tasks}) == len(tasks)
    for task in tasks:
        assert strata[task.question_id, task.page_id] == task.stratum
        assert task.probability == drawn[task.stratum] / sizes[task.stratum]
    # Weights of 1 / probability stand for the whole pool.
    assert sum(1 / task.probability for task in tasks) == pytest.approx(len(strata))
    assert tasks == draw_sample(dict(reversed(list(strata.items()))), each, seed=seed)


def test_all_pages_of_a_stratum_are_as_likely() -> None:
    strata = {("q", f"a#p{n}"): "s" for n in range(6)}
    counts = Counter(t.page_id for seed in range(600) for t in draw_sample(strata, 2, seed=seed))
    assert len(counts) == 6
    assert all(abs(count - 200) < 60 for count in counts.values())


def test_raters_see_the_same_pages_in_orders_of_their_own() -> None:
    tasks = draw_sample({("q", f"a#p{n}"): "s" for n in range(20)}, 20)
    ann, bob = rater_order(tasks, "ann"), rater_order(tasks, "bob")
    assert ann != bob and {*ann} == {*bob} == {*tasks}
    assert ann == rater_order(tasks[::-1], "ann")


def test_strata_tell_how_far_a_page_came_and_what_the_judge_says(make_trace: Callable[..., Trace]) -> None:
    rounds = [(["a#p1", "a#p2", "a#p3", "a#p4"], ["a#p3#c0", "a#p2"], ["a#p3#c0"]), (["a#p9"], ["a#p9"], ["a#p9"])]
    judge = [RelevanceLabel(question_id="q1", page_id="a#p1", rater="j", label="not_relevant")]
    judge.append(judge[0].model_copy(update={"page_id": "a#p3", "label": None}))
    assert strata_of([make_trace("q1", rounds=rounds)], judge, depth=3) == {
        ("q1", "a#p1"): "candidate, not relevant",
        ("q1", "a#p2"): "kept, not judged",
        ("q1", "a#p3"): "shown, unread",
    }


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InputError, match="no page to draw"):
        draw_sample({}, 3)
