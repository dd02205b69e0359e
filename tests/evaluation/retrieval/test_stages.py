from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.judge import judging_pool
from medvrag_core.evaluation.labels.relevance import RelevanceLabel
from medvrag_core.evaluation.retrieval.filter_loss import filter_loss
from medvrag_core.evaluation.retrieval.metrics import retrieval_report
from medvrag_core.evaluation.retrieval.report import stage_report
from medvrag_core.evaluation.retrieval.stages import StageRecall, depths_of, stage_recall, with_labels
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Round, Trace
from medvrag_core.settings import EvaluationSettings, Profile

SETTINGS = EvaluationSettings(bootstrap_samples=200)
DEPTHS: dict[Any, Sequence[int]] = {"candidates": (1, 3), "kept": (2,), "shown": (1,)}
PAGES = [f"a#p{n}" for n in range(1, 8)]
MakeTrace = Callable[..., Trace]

rounds = st.lists(
    st.tuples(*(st.lists(st.sampled_from(PAGES), unique=True, max_size=6) for _ in range(3))), min_size=1, max_size=3
)
golds = st.lists(st.sampled_from(PAGES), unique=True, max_size=3)


def values(report: StageRecall, what: str = "recall") -> dict[tuple[str, int], float]:
    return {(row.stage, row.k): getattr(row, what).value for row in report.rows}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(rounds, golds), min_size=1, max_size=5), st.sampled_from(["first", "any"]))
def test_every_stage_and_depth_is_counted_as_by_hand(
    make_trace: MakeTrace, cases: list[tuple[Any, list[str]]], which: Any
) -> None:
    traces = [make_trace(f"q{n}", rounds=r, gold_pages=g) for n, (r, g) in enumerate(cases)]
    labeled = [(r if which == "any" else r[:1], set(g)) for r, g in cases if g]
    if not labeled or not any(round_[0] for r, _ in cases for round_ in r):
        with pytest.raises(InputError):
            stage_recall(traces, DEPTHS, SETTINGS, rounds=which)
        return
    report = stage_recall(traces, DEPTHS, SETTINGS, rounds=which)
    assert (report.questions, report.without_gold) == (len(labeled), len(cases) - len(labeled))
    assert report.gold_pages == sum(len(g) for _, g in labeled)
    assert report.unranked == sum(not any(round_[0] for round_ in r) for r, _ in labeled)
    for row in report.rows:
        stage = ("candidates", "kept", "shown").index(row.stage)
        found = [g & {p for round_ in r for p in round_[stage][: row.k]} for r, g in labeled]
        shares = [len(f) / len(g) for f, (_, g) in zip(found, labeled, strict=True)]
        assert row.recall.value == pytest.approx(sum(shares) / len(labeled))
        assert row.any_gold.value == pytest.approx(sum(map(bool, found)) / len(labeled))
        assert row.all_gold.value == pytest.approx(sum(s == 1 for s in shares) / len(labeled))
        assert row.recall.low <= row.recall.value <= row.recall.high
    assert bool(report.ranks) == (which == "first")


def test_round_one_agrees_with_the_retrieval_report(make_trace: MakeTrace) -> None:
    traces = [
        make_trace("q1", rounds=[(PAGES[:4], PAGES[1:3], PAGES[1:2])], gold_pages=["a#p2", "a#p4"]),
        make_trace("q2", rounds=[(PAGES[2:6], PAGES[3:5], ())], gold_pages=["a#p1"]),
        make_trace("q3", rounds=(), gold_pages=["a#p1"]),
    ]
    report = stage_recall(traces, {**DEPTHS, "candidates": (9, 1, 3)}, SETTINGS)
    reference = retrieval_report(
        {t.question.id: [h.page_id for h in r.stage1] for t in traces for r in t.rounds},
        {t.question.id: dict.fromkeys(t.question.gold_pages, 1) for t in traces},
        ks=(1, 3),
    )
    found = values(report)
    assert {k: found["candidates", k] for k in (1, 3)} == pytest.approx(reference.recall)
    assert (report.ranks[0].ndcg_at_10.value, report.ranks[0].mrr.value) == pytest.approx(
        (reference.ndcg_at_10, reference.mrr)
    )
    assert report.unranked == 1


def test_chunks_stand_for_their_page_once(make_trace: MakeTrace) -> None:
    chunks = ["a#p1#c0", "a#p1#c1", "a#p2#c0", "a#p3#c0"]
    trace = make_trace(rounds=[(chunks, chunks, chunks)], gold_pages=["a#p3"])
    found = values(stage_recall([trace], {"candidates": (2, 3), "kept": (3,), "shown": (3,)}, SETTINGS))
    assert found == {("candidates", 2): 0.0, ("candidates", 3): 1.0, ("kept", 3): 1.0, ("shown", 3): 1.0}


def test_the_rank_of_a_gold_page_counts_down_to_the_last_depth(make_trace: MakeTrace) -> None:
    trace = make_trace(rounds=[(PAGES[:4], PAGES[:4], PAGES[:4])], gold_pages=["a#p3"])
    report = stage_recall([trace], {"candidates": (3,), "kept": (1, 3), "shown": (2,)}, SETTINGS)
    assert [rank.mrr.value for rank in report.ranks] == [pytest.approx(1 / 3), pytest.approx(1 / 3), 0.0]


def test_any_round_finds_what_round_one_did_not(make_trace: MakeTrace) -> None:
    trace = make_trace(rounds=[(["a#p1"], ["a#p1"], ["a#p1"]), (["a#p2"], ["a#p2"], ["a#p2"])], gold_pages=["a#p2"])
    depths: dict[Any, Sequence[int]] = {"candidates": (1,), "kept": (1,), "shown": (1,)}
    assert set(values(stage_recall([trace], depths, SETTINGS)).values()) == {0.0}
    assert set(values(stage_recall([trace], depths, SETTINGS, rounds="any")).values()) == {1.0}


def test_labels_take_the_place_of_gold_pages_and_unlabeled_pages_are_told(make_trace: MakeTrace) -> None:
    labels = {"q1": {"a#p1": 0, "a#p2": 1}, "other": {"a#p1": 1}}
    traces = [
        make_trace("q1", rounds=[(PAGES[:4], PAGES[:2], PAGES[:1])], gold_pages=["a#p7"]),
        make_trace("q2", rounds=[(PAGES[:4], PAGES[:2], PAGES[:1])], gold_pages=["a#p1"]),
    ]
    relabeled = [with_labels(trace, labels) for trace in traces]
    assert [t.question.gold_pages for t in relabeled] == [("a#p2",), ()]
    given = [
        RelevanceLabel(question_id=q, page_id=p, rater="r", label="relevant" if level else "not_relevant")
        for q, pages in labels.items()
        for p, level in pages.items()
    ]
    report = stage_report(traces, Profile(name="p"), labels=given, cuts=(1,))
    assert (report.recall.gold, report.recall.questions, report.recall.without_gold) == ("labels", 1, 1)
    shares = {(row.stage, row.k): row.judged for row in report.recall.rows}
    assert shares["candidates", 2_000] == 0.5
    assert shares["kept", 100] == shares["shown", 10] == 1.0
    assert report.filter_loss.gold == 1 == filter_loss(relabeled).gold


def test_traces_are_looked_at_once_and_none_is_kept(make_trace: MakeTrace) -> None:
    living: list[weakref.ref[Round]] = []

    def one_by_one() -> Iterator[Trace]:
        for n in range(4):
            trace = make_trace(f"q{n}", rounds=[(PAGES, PAGES[:3], PAGES[:2])], gold_pages=[PAGES[n]])
            living.append(weakref.ref(trace.rounds[0]))
            yield trace
            del trace
            gc.collect()
            # The reader's own variable may still hold the last one, no earlier one.
            assert all(reference() is None for reference in living[:-1])

    label = RelevanceLabel(question_id="q1", page_id=PAGES[0], rater="r", label="relevant")
    report = stage_report(one_by_one(), Profile(name="p"), labels=[label], people=[label], cuts=(1,))
    assert (len(living), report.recall.questions, report.recall.without_gold) == (4, 1, 3)
    assert [row.recall.apparent.value for row in report.corrected] == [1.0] * len(report.corrected)
    assert judging_pool(one_by_one(), "kept", 1) == {f"q{n}": (PAGES[0],) for n in range(4)}


def test_a_rater_who_rejects_everything_leaves_nothing_to_recall(make_trace: MakeTrace) -> None:
    trace = make_trace("q1", rounds=[(PAGES, PAGES, PAGES)], gold_pages=["a#p1"])
    labels = [RelevanceLabel(question_id="q1", page_id="a#p1", rater="r", label="not_relevant")]
    with pytest.raises(InputError, match="no page of these questions relevant"):
        stage_report([trace], Profile(name="p"), labels=labels)


def test_depths_follow_the_profile() -> None:
    profile = load_profile("cpu", {"index.candidates": 50, "filter.keep": 10, "loop.pages_shown": 20})
    assert depths_of(profile) == {"candidates": (10, 50), "kept": (10,), "shown": (10, 20)}
    assert depths_of(profile, cuts=(1, 3))["shown"] == (1, 3, 20)


def test_a_system_without_retrieval_is_refused(make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match="'no_rag' retrieves nothing"):
        stage_recall([make_trace(system="no_rag", gold_pages=["a#p1"])], DEPTHS, SETTINGS)
