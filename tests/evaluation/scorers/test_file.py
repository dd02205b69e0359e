"""Files of replies: each line scored, bad lines refused by number and field, whole files or none."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.errors import InputError
from medvrag_core.evaluation.scorers.base import SCORERS, ReplyToScore, ScoredReply, ScorerName, score_reply
from medvrag_core.evaluation.scorers.file import read_replies, score_file

OPTIONS = {"A": "yes", "B": "no", "C": "maybe"}
LINE: dict[str, Any] = {"id": "q1", "reply": "<answer>B</answer>", "options": OPTIONS, "gold": "B"}


def written(path: Path, *lines: dict[str, Any] | str | bytes) -> Path:
    raw = [
        one if isinstance(one, bytes) else (one if isinstance(one, str) else json.dumps(one)).encode() for one in lines
    ]
    path.write_bytes(b"".join(line + b"\n" for line in raw))
    return path


def test_each_line_gets_the_four_fields(tmp_path: Path) -> None:
    source = written(
        tmp_path / "in.jsonl",
        LINE,
        LINE | {"id": 2, "reply": "I cannot tell.", "gold": "A"},
        "",
        {"id": "q3", "reply": "<answer>C</answer>", "options": OPTIONS},
        LINE | {"id": "q4", "finish_reason": "length"},
        LINE | {"id": "q5", "reply": None},
        LINE | {"id": "q6", "finish_reason": "stop", "reasoning": "A?", "model": "any", "dataset": "medqa"},
    )
    made = score_file(source, "strict", tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines[:5] == [
        {"id": "q1", "label": "B", "reason": "", "correct": True},
        {"id": "2", "label": None, "reason": "no_tag", "correct": False},
        {"id": "q3", "label": "C", "reason": "", "correct": None},
        {"id": "q4", "label": None, "reason": "truncated", "correct": False},
        {"id": "q5", "label": None, "reason": "no_reply", "correct": False},
    ]
    assert (made.replies, made.with_gold, made.correct, made.accuracy) == (6, 5, 2, 2 / 5)
    assert (made.unparsed, made.unparsed_rate, made.unfinished, made.no_reply) == (1, 1 / 6, 1, 1)
    assert made.reasons == {"no_reply": 1, "no_tag": 1, "truncated": 1}
    score_file(source, "mirage", tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[1]) == {
        "id": "2", "label": "A", "reason": "fallback", "correct": True,
    }  # fmt: skip


def test_a_reply_may_hold_anything(tmp_path: Path) -> None:
    """Half an emoji at a cut, control characters, a null byte: text to be read, never written."""
    cut = '{"id": "x", "reply": "<answer>B</answer>\\u0000\\u001b \\ud83d", "options": {"A": "x", "B": "y"}}'
    for scorer in SCORERS:
        score_file(written(tmp_path / "in.jsonl", cut), scorer, tmp_path / "out.jsonl")
        scored = ScoredReply.from_json((tmp_path / "out.jsonl").read_text())
        assert (scored.label, scored.reason) == ("B", "")


def test_the_order_of_fields_is_kept(tmp_path: Path) -> None:
    score_file(written(tmp_path / "in.jsonl", LINE), "lenient", tmp_path / "out.jsonl")
    assert list(json.loads((tmp_path / "out.jsonl").read_text())) == ["id", "label", "reason", "correct"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not valid JSON"]),
        ("[1]", ["must be a JSON object, found list"]),
        (b'{"id": "\xff"}', ["not UTF-8"]),
        ('{"id": NaN}', ["NaN"]),
        ('{"id": "x", "id": "y"}', ["field 'id' stands twice"]),
        ("[" * 100_000, ["recursion"]),
        ({"reply": "x", "options": OPTIONS}, ["field 'id' is missing"]),
        ({"id": "x", "options": OPTIONS}, ["field 'reply' is missing"]),
        ({"id": "x", "reply": "x"}, ["field 'options' is missing"]),
        (LINE | {"id": " "}, ["field 'id'"]),
        (LINE | {"id": ["x"]}, ["field 'id'"]),
        (LINE | {"id": True}, ["field 'id'"]),
        (LINE | {"reply": 3}, ["field 'reply'"]),
        (LINE | {"reply": ["<answer>B</answer>"]}, ["field 'reply'"]),
        ('{"id": "\\ud83d", "reply": "x", "options": {"A": "x", "B": "y"}}', ["field 'id'"]),
        ('{"id": "x", "reply": "x", "options": {"\\ud83d": "x", "B": "y"}}', ["field 'options'"]),
        (LINE | {"id": "a\x1b[2J"}, ["field 'id'"]),
        (LINE | {"options": ["x", "y"]}, ["field 'options'"]),
        (LINE | {"options": {"A": 1, "B": 2}}, ["field 'options.A'"]),
        (LINE | {"options": {"A": "x"}, "gold": "A"}, ["field 'options' holds 1"]),
        (LINE | {"options": {"": "x", "B": "y"}}, ["field 'options'", "blank"]),
        (LINE | {"options": {"b": "x", "B": "y"}}, ["field 'options'", "letter case"]),
        (LINE | {"gold": "D"}, ["field 'gold'", "'D' is not among the options A, B, C"]),
        (LINE | {"gold": 1}, ["field 'gold'"]),
        (LINE | {"finish_reason": 1}, ["field 'finish_reason'"]),
        (LINE | {"finish_reasn": "stop"}, ["unknown field 'finish_reasn'", "did you mean 'finish_reason'?"]),
        (LINE | {"id": "first"}, ["field 'id'", "'first' was already used on line 1"]),
    ],
)
def test_a_bad_line_is_refused_by_number_and_field(line: Any, words: list[str], tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", LINE | {"id": "first"}, "", line)
    out = tmp_path / "out.jsonl"
    out.write_text("before")
    with pytest.raises(InputError) as refused:
        score_file(source, "strict", out)
    told = str(refused.value)
    assert told.startswith(f"{source}, line 3: ")
    assert all(word in told for word in words), told
    assert out.read_text() == "before", "nothing was published"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_files_that_cannot_be_scored(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        score_file(tmp_path / "no.jsonl", "strict", tmp_path / "out.jsonl")
    with pytest.raises(InputError, match="holds no line"):
        score_file(written(tmp_path / "empty.jsonl", "", " "), "strict", tmp_path / "out.jsonl")
    source = written(tmp_path / "in.jsonl", LINE)
    (tmp_path / "link.jsonl").hardlink_to(source)
    for out in (source, tmp_path / "link.jsonl"):
        with pytest.raises(InputError, match="is the file of replies itself"):
            score_file(source, "strict", out)
    assert read_replies(source) is not None and json.loads(source.read_text()) == LINE


def test_byte_order_marks_and_odd_line_ends_inside_of_texts(tmp_path: Path) -> None:
    text = "one\u2028two\u0085three <answer>B</answer>"
    raw = b"\xef\xbb\xbf" + json.dumps(LINE | {"reply": text}, ensure_ascii=False).encode() + b"\r\n"
    (tmp_path / "in.jsonl").write_bytes(raw)
    assert [reply.reply for reply in read_replies(tmp_path / "in.jsonl")] == [text]
    assert score_file(tmp_path / "in.jsonl", "strict", tmp_path / "out.jsonl").correct == 1


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    """Sixteen MB of replies, held one line at a time."""
    padding = "word " * 50_000
    source = tmp_path / "in.jsonl"
    with source.open("w") as target:
        for number in range(64):
            target.write(json.dumps(LINE | {"id": number, "reply": f"{padding}<answer>B</answer>"}) + "\n")
    tracemalloc.start()
    try:
        made = score_file(source, "strict", tmp_path / "out.jsonl")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made.correct == 64
    assert peak < source.stat().st_size / 3


@settings(deadline=None)
@given(
    replies=st.lists(
        st.tuples(
            st.sampled_from(["<answer>A</answer>", "Answer: B", "C", "", None, "é\u2028\x00<answer>no</answer>"]),
            st.sampled_from([None, "A", "B"]),
            st.sampled_from([None, "stop", "length"]),
        ),
        min_size=1,
        max_size=20,
    ),
    scorer=st.sampled_from(SCORERS),
)
def test_the_file_is_the_same_code_and_its_counts_add_up(
    replies: list[tuple[str | None, str | None, str | None]],
    scorer: ScorerName,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("scored")
    given_ = [
        ReplyToScore(id=f"q{i}", reply=text, options=OPTIONS, gold=gold, finish_reason=finish)
        for i, (text, gold, finish) in enumerate(replies)
    ]
    (folder / "in.jsonl").write_text("".join(reply.to_json() + "\n" for reply in given_), encoding="utf-8")
    made = score_file(folder / "in.jsonl", scorer, folder / "out.jsonl")
    lines = (folder / "out.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    scored = [ScoredReply.from_json(line) for line in lines]
    assert scored == [score_reply(reply, scorer) for reply in given_]
    assert made.correct == sum(one.correct is True for one in scored)
    assert made.accuracy == (made.correct / made.with_gold if made.with_gold else None)
    handed_out = made.reasons.get("fallback", 0)
    no_label = sum(one.label is None for one in scored)
    assert made.unparsed - handed_out + made.unfinished + made.no_reply == no_label
