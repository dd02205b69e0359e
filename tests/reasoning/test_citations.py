"""Which pages a round cites: those it names and was sent, told apart from remembered and foreign ones."""

from __future__ import annotations

from typing import Any

import pytest

from medvrag_core.reasoning.citations import citations, cited_pages
from medvrag_core.reasoning.replies import parse_reply
from medvrag_core.records import FilterDecision, MemoryBank, ReaderReply, Round


def round_with(text: str, shown: tuple[str, ...] = ("a#p1", "a#p12", "b#p3"), **more: Any) -> Round:
    values: dict[str, Any] = {
        "number": 2,
        "query": "q",
        "stage1": (),
        "filter": FilterDecision(kept=shown),
        "shown": shown,
        "bank_before": MemoryBank(),
        "reply": ReaderReply(text=text),
        "parsed": parse_reply(text, {"A": "x", "B": "y"}),
        "times": (),
    }
    return Round(**(values | more))


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("As page a#p1 says. <answer>A</answer>", ("a#p1",)),
        ("b#p3, then A#P1 <answer>A</answer>", ("a#p1", "b#p3")),
        ("(page a#p12)", ("a#p12",)),
        ("xa#p1 and a#p13", ()),
        ("<think>a#p1 it is</think><answer>A</answer>", ()),
        ("a#p1 a#p1", ("a#p1",)),
        ("", ()),
        ('<query_update>q</query_update><notes>{"findings": ["5 mg (page b#p3)"], "note": ""}</notes>', ("b#p3",)),
        ('<query_update>q</query_update><notes>{"findings": ["5 mg (page b\\u0023p3)"]}</notes>', ("b#p3",)),
    ],
)
def test_cited_are_pages_named_outside_of_the_reasoning(text: str, cited: tuple[str, ...]) -> None:
    assert cited_pages(round_with(text)) == cited


def test_a_page_sent_as_a_summary_counts_and_one_that_was_kept_but_not_sent_does_not() -> None:
    done = round_with("c#p1 and d#p1", summaries_shown=("c#p1",), filter=FilterDecision(kept=("d#p1",)))
    assert (citations(done).shown, citations(done).foreign) == (("c#p1",), ("d#p1",))


def test_remembered_pages_are_neither_cited_nor_foreign() -> None:
    bank = MemoryBank(iteration=1, key_findings=("[Round 1] Dose (page old#p4)",))
    done = round_with("old#p4, new#p4 and a#p1", bank_before=bank)
    assert citations(done).shown == ("a#p1",)
    assert citations(done).remembered == ("old#p4",)
    assert citations(done).foreign == ("new#p4",)
    assert citations(round_with("old#p4", history="Reply of round 1: see old#p4")).remembered == ("old#p4",)


def test_a_chunk_is_cited_by_its_own_id_and_by_its_page() -> None:
    for text in ("a#p1#c2", "page a#p1"):
        assert cited_pages(round_with(text, shown=("a#p1#c2", "a#p1#c3", "b#p3#c1"))) == ("a#p1",)


def test_the_refinement_of_a_round_is_read_too() -> None:
    done = round_with("<query_update>more</query_update>", refinement=ReaderReply(text="see b#p3"))
    assert cited_pages(done) == ("b#p3",)
