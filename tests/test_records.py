from __future__ import annotations

import pytest

from medvrag_core.errors import InputError
from medvrag_core.records import Hit, MemoryBank, Question, SearchResult, StageTime


def test_records_round_trip() -> None:
    result = SearchResult(hits=(Hit(page_id="a#p1", score=0.5, rank=1),), times=(StageTime(step="ann", seconds=0.1),))
    assert SearchResult.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"hits": [{"page_id": "a", "score": 1.0}]}', "field 'hits.0.rank' is missing"),
        ('{"hits": [{"page_id": "a", "score": "x", "rank": 1}]}', "field 'hits.0.score'"),
        ('{"hits": [{"page_id": "a", "score": 1.0, "rank": 1, "extra": 1}]}', "unknown field 'hits.0.extra'"),
        ('{"hits": [["a", 1.0, 1]]}', "field 'hits.0'"),
        ('{"hits": [], "extra": 1}', "unknown field 'extra'"),
        ("{}", "field 'hits' is missing"),
        ("{", "the whole record"),
        ("[]", "the whole record: must be a mapping of fields"),
    ],
)
def test_bad_records_name_source_and_field(text: str, words: str) -> None:
    with pytest.raises(InputError, match=f"hits.json: .*{words}"):
        SearchResult.from_json(text, source="hits.json")


def test_records_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        MemoryBank().iteration = 2  # type: ignore[misc]


def test_options_keep_their_order() -> None:
    question = Question(id="q", question="?", options={"B": "2", "A": "1"})
    assert list(Question.from_json(question.to_json()).options) == ["B", "A"]
