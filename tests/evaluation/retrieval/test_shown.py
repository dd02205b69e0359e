"""What readers were shown, counted by hand, and compared on the same questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.retrieval.shown import paired_shown, shown_pages, shown_report
from medvrag_core.records import EvidenceItem, Trace
from medvrag_core.settings import EvaluationSettings

SETTINGS = EvaluationSettings(bootstrap_samples=200)
PAGES = [f"a#p{n}" for n in range(1, 6)]
MakeTrace = Callable[..., Trace]

shown_in_rounds = st.lists(st.lists(st.sampled_from(PAGES), unique=True, max_size=4), min_size=1, max_size=3)
golds = st.lists(st.sampled_from(PAGES), unique=True, max_size=3)


def rounds_of(shown: Sequence[Sequence[str]]) -> list[tuple[Sequence[str], Sequence[str], Sequence[str]]]:
    """Rounds in which every page is a candidate and kept, so that only what is shown can count."""
    return [(PAGES, PAGES, pages) for pages in shown]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(shown_in_rounds, golds), min_size=1, max_size=5))
def test_gold_pages_and_pages_are_counted_as_by_hand(
    make_trace: MakeTrace, cases: list[tuple[list[list[str]], list[str]]]
) -> None:
    traces = [make_trace(f"q{n}", rounds=rounds_of(shown), gold_pages=gold) for n, (shown, gold) in enumerate(cases)]
    report = shown_report(shown_pages(iter(traces)), SETTINGS)
    seen = [{page for pages in shown for page in pages} for shown, _ in cases]
    assert report.pages == pytest.approx(sum(map(len, seen)) / len(cases))
    shares = [len(pages & set(gold)) / len(gold) for pages, (_, gold) in zip(seen, cases, strict=True) if gold]
    assert report.questions == len(shares)
    if shares:
        assert report.gold is not None
        assert report.gold.value == pytest.approx(sum(shares) / len(shares))
        assert report.gold.low <= report.gold.value <= report.gold.high
    else:
        assert report.gold is None


def test_a_chunk_counts_as_its_page_and_a_page_counts_once(make_trace: MakeTrace) -> None:
    shown = [["a#p1#c1", "a#p1#c2"], ["a#p1"]]
    report = shown_report(shown_pages([make_trace(rounds=rounds_of(shown), gold_pages=["a#p1", "a#p2"])]), SETTINGS)
    assert report.gold is not None and report.gold.value == 0.5
    assert report.pages == 1


def test_a_written_document_is_counted_apart_and_once(make_trace: MakeTrace) -> None:
    trace = make_trace(rounds=rounds_of([["a#p1"], []]), gold_pages=["a#p2"])
    item = EvidenceItem(evidence_id="w1", page_id="a#p2", text="same", written_by="m")
    again = item.model_copy(update={"evidence_id": "w2"})
    rounds = tuple(r.model_copy(update={"written": (item, again)}) for r in trace.rounds)
    report = shown_report(shown_pages([trace.model_copy(update={"rounds": rounds})]), SETTINGS)
    assert (report.pages, report.written) == (1, 1)
    assert report.gold is not None and report.gold.value == 0, "what was written is on no page"


def test_systems_are_compared_with_the_reference_where_they_show_a_page(make_trace: MakeTrace) -> None:
    def arm(system: str, shown: str) -> list[Trace]:
        return [
            make_trace(f"q{n}", system=system, rounds=rounds_of([PAGES[:1] if one == "x" else []]), gold_pages=["a#p1"])
            for n, one in enumerate(shown)
        ]

    arms = {"ref": "xxx...", "more": "xxxxx.", "less": "x....x", "none": "......"}
    found = {name: shown_pages(arm(name, shown)) for name, shown in arms.items()}
    rows = paired_shown(found, "ref", SETTINGS)
    assert [(row.a, row.b, row.n, row.won, row.lost) for row in rows] == [
        ("ref", "more", 6, 2, 0),
        ("ref", "less", 6, 1, 2),
    ]
    assert rows[0].difference == pytest.approx(2 / 6) and rows[0].family == 2
    other = {**found, "odd": shown_pages(arm("odd", "xxx"))}
    with pytest.raises(InputError, match="different questions"):
        paired_shown(other, "ref", SETTINGS)
    with pytest.raises(InputError, match="'gone'"):
        paired_shown(found, "gone", SETTINGS)


def test_without_gold_pages_there_is_nothing_to_compare(make_trace: MakeTrace) -> None:
    found = {name: shown_pages([make_trace(system=name, rounds=rounds_of([PAGES]))]) for name in ("ref", "b")}
    assert paired_shown(found, "ref", SETTINGS) == ()


def test_an_empty_or_mixed_arm_is_refused(make_trace: MakeTrace) -> None:
    with pytest.raises(InputError, match="no trace"):
        shown_pages([])
    with pytest.raises(InputError, match="2 arms"):
        shown_pages([make_trace("q1"), make_trace("q2", system="other")])
