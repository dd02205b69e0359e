from __future__ import annotations

import pytest

from medvrag_core.errors import ModelError
from medvrag_core.filter.embedded_ranker import EmbeddedRanker
from medvrag_core.filter.mapreduce import MapReduceFilter
from medvrag_core.reasoning.loop import EvidenceSource, RoundError, run_rounds, verdict
from medvrag_core.reasoning.reader import Reader
from medvrag_core.records import (
    EvidenceItem,
    Hit,
    Question,
    ReaderInput,
    ReaderReply,
    SearchResult,
    StageTime,
    Summary,
)
from medvrag_core.settings import FilterSettings, LoopSettings

QUESTION = Question(id="q", question="Which test?", options={"A": "Fundoscopy", "B": "Spirometry"}, answer="A")


class TwelvePages(EvidenceSource):
    def __init__(self) -> None:
        self.queries: list[str] = []

    def search(self, query: str) -> SearchResult:
        self.queries.append(query)
        hits = tuple(Hit(page_id=f"d#p{n}", score=1.0 / n, rank=n) for n in range(1, 13))
        return SearchResult(hits=hits, times=(StageTime(step="exact", seconds=0.0),))

    def summary(self, evidence_id: str) -> Summary:
        return Summary(page_id=evidence_id, text="", method="test")

    def evidence(self, evidence_id: str) -> EvidenceItem:
        return EvidenceItem(evidence_id=evidence_id, page_id=evidence_id, text=f"text of {evidence_id}")


class Scripted(Reader):
    name = "scripted"
    fingerprint = "scripted"

    def __init__(self, *replies: str | ModelError) -> None:
        self.replies = list(replies)
        self.seen: list[ReaderInput] = []

    def read(self, given: ReaderInput) -> ReaderReply:
        self.seen.append(given)
        reply = self.replies.pop(0)
        if isinstance(reply, ModelError):
            raise reply
        return ReaderReply(text=reply)


def ask(query: str, finding: str = "") -> str:
    notes = f'<notes>{{"findings": ["{finding}"], "note": "n"}}</notes>' if finding else ""
    return f"<query_update>{query}</query_update>{notes}"


def run(reader: Reader, source: TwelvePages | None = None, **settings: object) -> tuple:
    page_filter = MapReduceFilter(EmbeddedRanker(), FilterSettings())
    return run_rounds(QUESTION, source or TwelvePages(), page_filter, reader, LoopSettings(**settings))


def test_an_answer_ends_the_loop() -> None:
    reader = Scripted("<answer>A</answer>")
    rounds = run(reader)
    assert len(rounds) == 1
    assert verdict(rounds).label == "A"
    assert [e.page_id for e in reader.seen[0].evidence] == [f"d#p{n}" for n in range(1, 11)]
    assert len(reader.seen[0].summaries) == 12
    assert [t.step for t in rounds[0].times] == ["exact", "filter", "read"]


def test_findings_reach_the_next_round_and_only_with_memory() -> None:
    for memory, expected in ((True, ("[Round 1] dose is weight based",)), (False, ())):
        reader = Scripted(ask("retinal screening", "dose is weight based"), "<answer>A</answer>")
        run(reader, memory=memory)
        assert reader.seen[1].bank.key_findings == expected
        assert reader.seen[1].query == "retinal screening"


def test_bc37_the_round_cap_holds_and_a_stalled_query_is_flagged() -> None:
    source = TwelvePages()
    reader = Scripted(ask("Q one", "f"), ask("Q two", "F"), ask("q  TWO"))
    rounds = run(reader, source)
    assert source.queries == ["Which test?", "Q one", "Q two"]
    assert [given.must_answer for given in reader.seen] == [False, False, True]
    assert verdict(rounds).label is None
    assert [r.flags for r in rounds] == [(), (), ("query_stalled",)]
    assert rounds[2].bank_before.key_findings == ("[Round 1] f",)


def test_a_reply_that_neither_answers_nor_asks_ends_the_loop() -> None:
    rounds = run(Scripted("I cannot tell."))
    assert len(rounds) == 1
    assert verdict(rounds).label is None
    assert verdict(rounds).reason == "no_tag"


def test_a_single_round_must_answer_at_once() -> None:
    reader = Scripted("<answer>B</answer>")
    run(reader, max_rounds=1)
    assert reader.seen[0].must_answer


def test_a_failed_reader_keeps_the_finished_rounds() -> None:
    with pytest.raises(RoundError) as caught:
        run(Scripted(ask("more"), ModelError("server gone")))
    assert [r.number for r in caught.value.rounds] == [1]
    assert "server gone" in str(caught.value)
