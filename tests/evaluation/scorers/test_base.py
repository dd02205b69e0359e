"""Three scorers of one reply: cases BC-01 to BC-12 of the case list, each with its kind."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvrag_core.evaluation.scorers.base import SCORERS, ReplyToScore, could_not_read, score_reply
from medvrag_core.reasoning.replies import parse_reply

FOUR = {"A": "retinal toxicity", "B": "hearing loss", "C": "renal failure", "D": "hypothyroidism"}
YES_NO = {"A": "yes", "B": "no", "C": "maybe"}
TEN = {label: f"cause {label.lower()}{label.lower()}" for label in "ABCDEFGHIJ"}

Read = tuple[str | None, str]


def strict(text: str | None, options: dict[str, str] = FOUR, **more: Any) -> Read:
    return _read("strict", text, options, more)


def lenient(text: str | None, options: dict[str, str] = FOUR, **more: Any) -> Read:
    return _read("lenient", text, options, more)


def mirage(text: str | None, options: dict[str, str] = FOUR, **more: Any) -> Read:
    return _read("mirage", text, options, more)


def _read(scorer: Any, text: str | None, options: dict[str, str], more: dict[str, Any]) -> Read:
    scored = score_reply(ReplyToScore(id="q", reply=text, options=options, **more), scorer)
    return scored.label, scored.reason


# --- the case list --------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning", "THINK"])
def test_bc01_tags_inside_reasoning_do_not_count(tag: str) -> None:
    text = f"<{tag}>Could be <answer>B</answer>? No, the rash rules it out.</{tag}><answer>D</answer>"
    assert strict(text) == lenient(text) == ("D", "")
    assert strict(f"<{tag}>maybe <answer>B</answer>") == lenient(f"<{tag}>maybe <answer>B</answer>")
    assert strict(f"<{tag}>maybe <answer>B</answer>")[0] is None, "the reply broke off while it reasoned"
    assert lenient(f"<{tag}>The answer is B.</{tag}>I am not sure.")[0] is None
    assert strict("so <answer>B</answer>?</think><answer>D</answer>") == ("D", ""), "the template opened the tag"


def test_bc01_a_reasoning_field_is_no_part_of_the_answer() -> None:
    assert strict("<answer>D</answer>", reasoning="<answer>B</answer>") == ("D", "")
    for empty in ("", "  ", None):
        assert strict(empty, reasoning="<answer>B</answer>")[0] is None
    assert lenient("", reasoning="<answer>B</answer>") == ("B", "from_reasoning_field")
    assert lenient(None, reasoning="I wonder") == (None, "no_reply")


def test_bc02_a_restated_format_is_skipped() -> None:
    text = "I must reply as <answer>LETTER</answer>. After review: <answer>B</answer>"
    assert strict(text) == lenient(text) == ("B", "")
    assert strict("<answer>B</answer>, the form being <answer>...</answer>") == ("B", "")
    assert strict("<answer>LETTER</answer> So the answer is D.") == (None, "placeholder")
    assert lenient("<answer>LETTER</answer> So the answer is D.") == ("D", "from_statement")


def test_bc03_the_article_is_no_option() -> None:
    text = "I would pick B, a safe choice in renal failure."
    assert strict(text) == (None, "no_tag")
    assert lenient(text) == ("B", "from_statement")
    for article in ("The answer is a beta blocker", "The answer is A beta blocker", "I would pick a safe drug"):
        assert lenient(article)[0] is None
    assert lenient("I would pick A, a safe choice in renal failure.")[0] == "A"


def test_bc04_the_pronoun_is_no_option() -> None:
    text = "<answer>C</answer> because I corrected for weight."
    assert strict(text, TEN) == lenient(text, TEN) == ("C", "")
    assert lenient("The answer is C because I corrected for weight.", TEN)[0] == "C"
    assert lenient("The answer is I corrected for weight.", TEN)[0] is None
    assert strict("<answer>I</answer>", TEN) == ("I", "")
    assert lenient("My answer: I", TEN)[0] == "I"


def test_bc05_letters_inside_words() -> None:
    text = "<answer>None of the above</answer>"
    assert strict(text) == lenient(text) == (None, "not_an_option")
    assert strict(text, FOUR | {"D": "None of the above"}) == ("D", "")
    assert lenient("Vitamin C is low, and hepatitis B is excluded.")[0] is None
    assert lenient("The answer is Both of them")[0] is None


@pytest.mark.parametrize(
    "inside", ["**C**", "$C$", "(c)", " C. ", "[C]", "`C`", r"\boxed{C}", r"$\text{C}$", "“C”", "*C*.", "C)", "__C__"]
)
def test_bc06_wrappers(inside: str) -> None:
    assert strict(f"<answer>{inside}</answer>") == ("C", "")
    assert lenient(f"<answer>{inside}</answer>") == ("C", "")
    assert lenient(f"The answer is {inside}")[0] == lenient(f"Answer: {inside}")[0] == "C"


@pytest.mark.parametrize("inside", ["Ｃ", "ⓒ", "𝐂", "⒞", "Ⅽ", "（C）"])
def test_bc06_other_forms_of_the_same_letter(inside: str) -> None:
    assert strict(f"<answer>{inside}</answer>") == ("C", "")
    assert lenient(f"Answer: {inside}")[0] == "C"


@pytest.mark.parametrize(
    ("inside", "label"), [("\u0421", "C"), ("\u0410", "A"), ("\u0412", "B"), ("\u0391", "A"), ("\u0392", "B")]
)
def test_bc06_letters_of_other_scripts_are_other_letters(inside: str, label: str) -> None:
    """Cyrillic and Greek: no valid label, so strict does not guess; the diagnostic shows what it would have been."""
    assert strict(f"<answer>{inside}</answer>") == (None, "not_an_option")
    assert lenient(f"<answer>{inside}</answer>") == (label, "from_folded")
    assert mirage(inside) == ("A", "fallback")


@pytest.mark.parametrize("inside", ["<b>C</b>", "\u200bC", "&nbsp;C", "C<br/>"])
def test_bc06_markup_and_characters_without_width_are_for_the_diagnostic(inside: str) -> None:
    assert lenient(f"<answer>{inside}</answer>")[0] == "C"


def test_bc07_formulas_in_the_working_do_not_count() -> None:
    text = r"Thus \boxed{\Delta E} rises, hence <answer>D</answer>"
    assert strict(text) == lenient(text) == ("D", "")
    assert lenient(r"Thus \boxed{\Delta E} rises.")[0] is None
    assert lenient(r"Thus \boxed{D}.") == ("D", "from_statement")


@pytest.mark.parametrize(
    "text", ["Answer:\n\nAnswer: C", "Answer:\nC", "## Answer:\n\n**Answer: C**", "Answer: B\nAnswer: C"]
)
def test_bc08_a_repeated_cue(text: str) -> None:
    assert strict(text) == (None, "no_tag")
    assert lenient(text) == ("C", "from_statement")


def test_bc09_range_of_labels() -> None:
    five = FOUR | {"E": "none"}
    assert strict("<answer>E</answer>", five) == lenient("<answer>E</answer>", five) == ("E", "")
    assert strict("<answer>E</answer>") == lenient("<answer>E</answer>") == (None, "label_out_of_range")
    assert lenient("The answer is E.") == (None, "label_out_of_range")
    assert strict("<answer>C</answer>", {"A": "yes", "B": "no"}) == (None, "label_out_of_range")
    assert mirage("Answer: C", {"A": "yes", "B": "no"}) == (None, "label_out_of_range")
    assert mirage("Answer: E", five) == ("A", "fallback"), "the public script knows A to D"


@pytest.mark.parametrize("inside", ["Maybe.", "maybe", "MAYBE", " c ", "(C) maybe", "C. Maybe"])
def test_bc10_yes_no_maybe(inside: str) -> None:
    assert strict(f"<answer>{inside}</answer>", YES_NO) == ("C", "")
    assert lenient(f"The answer is: {inside}", YES_NO)[0] == "C"


@pytest.mark.parametrize("text", ["I cannot tell from these pages.", "", "{}", "none of them"])
def test_bc11_an_unreadable_reply_gets_a_letter_from_mirage_alone(text: str) -> None:
    reply = ReplyToScore(id="q", reply=text, options=FOUR, gold="A")
    scored = {name: score_reply(reply, name) for name in SCORERS}
    assert [scored[name].label for name in SCORERS] == [None, "A", None]
    assert [scored[name].correct for name in SCORERS] == [False, True, False]
    assert scored["mirage"].reason == "fallback" and scored["strict"].reason in {"no_tag", "empty"}
    assert all(map(could_not_read, scored.values())), "a letter that is handed out was not read"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is <answer>C</answer>", ("C", "")),
        ("<answer>A</answer> no, < Answer >D. x</answer>", ("D", "")),
        ('{"answer_choice": "B"}', ("B", "")),
        ("<answer>hearing loss</answer>", ("A", "fallback")),
        ("<answer>E</answer>", ("A", "fallback")),
    ],
)
def test_mirage_is_shown_what_our_answer_block_holds(text: str, expected: Read) -> None:
    assert mirage(text) == expected


def test_bc12_a_fault_is_no_unreadable_reply() -> None:
    reply = ReplyToScore(id="q", reply=None, options=FOUR, gold="A")
    for name in SCORERS:
        scored = score_reply(reply, name)
        assert (scored.label, scored.reason, scored.correct) == (None, "no_reply", False)
        assert not could_not_read(scored)


# --- several and negated letters ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ("A or B", "several_labels"),
        ("A, B", "several_labels"),
        ("B/C", "several_labels"),
        ("either C or D", "several_labels"),
        ("A & C", "several_labels"),
        ("C) hearing loss", "several_labels"),
        ("not B", "negated"),
        ("neither A nor B", "negated"),
        ("C (not B)", "negated"),
        ("It's not C but D", "negated"),
    ],
)
def test_several_or_denied_labels_are_no_answer(inside: str, reason: str) -> None:
    text = f"The answer is A. <answer>{inside}</answer>"
    assert strict(text) == lenient(text) == (None, reason), "prose before the block does not settle it"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Answer: A or B", None),
        ("Answer: B, C", None),
        ("Answer: B/C", None),
        ("Answer: B, since C is ruled out", "B"),
        ("It is either B or C, so the answer is B.", "B"),
        ("The answer is not C.", None),
        ("Answer: C. But no, the answer is not C.", None),
        ("Answer: B. The answer is not C.", "B"),
        ("I would not pick B.", None),
        ("Answer: C. I would never choose B.", "C"),
        ("C is not the best answer", None),
        ("None of the options (A, B, C, D) is the correct answer", None),
        ("A. no\nB. no\nC. yes\nD. no", None),
    ],
)
def test_several_or_denied_labels_in_prose(text: str, label: str | None) -> None:
    assert lenient(text)[0] == label
    assert strict(text)[0] is None


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("C", "C"),
        ("C. renal failure\n\nThe creatinine rose.", "C"),
        ("Long story.\n\n(C)", "C"),
        ("renal failure", "C"),
        ('{"step_by_step_thinking": "not A", "answer_choice": "D. hypothyroidism"}', "D"),
        ("{'answer': 'D'}", "D"),
        ("The answer is renal failure, given the creatinine.", "C"),
        ("Therefore, option C is the most likely answer.", "C"),
        ("I'd go with option D.", "D"),
        ("The answer is most likely (D).", "D"),
        ("The best choice seems to be D", "D"),
        ("<answer>B", "B"),
    ],
)
def test_lenient_reads_other_forms_and_says_from_where(text: str, label: str) -> None:
    assert strict(text)[0] is None
    found = lenient(text)
    assert found[0] == label and found[1].startswith("from_")


# --- truncation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["length", "LENGTH", "max_tokens", "truncated"])
@pytest.mark.parametrize("text", ["<answer>B</answer>", "<answer>B", "", "The answer is B"])
def test_a_cut_reply_is_never_an_answer_in_strict(finish: str, text: str) -> None:
    assert strict(text, finish_reason=finish) == (None, "truncated")
    scored = score_reply(ReplyToScore(id="q", reply=text, options=FOUR, finish_reason=finish), "strict")
    assert not could_not_read(scored), "counted as unfinished instead"


def test_lenient_reads_what_a_cut_reply_had_finished_saying() -> None:
    assert lenient("<answer>B</answer> since", finish_reason="length") == ("B", "")
    assert lenient("<answer>B", finish_reason="length") == (None, "truncated"), "it may have gone on: B or C"
    assert lenient("The answer is B. It", finish_reason="length") == ("B", "from_statement")
    for open_end in ("I was", "The answer is B", "<answer>B", "Answer: D.\n<answer>not"):
        assert lenient(open_end, finish_reason="length")[0] == ("D" if "D" in open_end else None)


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("content_filter", "refused"), ("abort", "aborted"), ("error", "aborted"), ("empty", "empty")],
)
def test_other_ends_are_no_answers_either(finish: str, reason: str) -> None:
    assert strict("<answer>B</answer>", finish_reason=finish) == (None, reason)


@pytest.mark.parametrize("finish", [None, "", "stop", "STOP", "end_turn"])
def test_a_reply_that_ended_by_itself_is_read(finish: str | None) -> None:
    assert strict("<answer>B</answer>", finish_reason=finish) == ("B", "")


def test_mirage_looks_at_the_raw_text_alone() -> None:
    assert mirage("Answer: B", finish_reason="length", reasoning="Answer: C") == ("B", "")


# --- properties ---------------------------------------------------------------------------------

PIECES = [*"ABCDEaI .,:/()\n*<>\"'", "answer", "<answer>", "</answer>", "<think>", "not ", "answer is ", "\u0421"]
WILD = st.lists(st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"]), max_size=30).map("".join)


@settings(deadline=None)
@given(WILD, st.sampled_from([None, "stop", "length", "content_filter"]), st.sampled_from([FOUR, YES_NO, TEN]))
def test_a_label_is_an_option_and_no_label_has_a_reason(text: str, finish: str | None, options: dict[str, str]) -> None:
    for name in SCORERS:
        reply = ReplyToScore(id="q", reply=text, options=options, gold="B", finish_reason=finish)
        scored = score_reply(reply, name)
        assert scored.label in (*options, None)
        assert scored.label is not None or scored.reason
        assert scored.correct == (scored.label == "B")
        assert score_reply(reply.model_copy(update={"gold": None}), name).correct is None
        assert score_reply(reply, name) == scored


@settings(deadline=None)
@given(WILD)
def test_strict_is_the_parser_of_the_loop_and_lenient_only_adds(text: str) -> None:
    parsed = parse_reply(text, FOUR, must_answer=True)
    assert strict(text, finish_reason="stop") == (parsed.label, parsed.reason)
    if parsed.label is not None:
        assert lenient(text) == (parsed.label, "")


@settings(deadline=None)
@given(WILD, st.sampled_from(sorted(FOUR)))
def test_look_alikes_and_wrappers_never_make_strict_say_another_letter(noise: str, label: str) -> None:
    said = strict(f"<answer>{noise.replace('<', '').replace('>', '')}</answer><answer>**{label}**</answer>")
    assert said == (label, "")


UNITS = [
    "<answer>",
    "<answer>A ",
    "<answer>x</answer>",
    "answer is ",
    "Answer: A or ",
    "A is the ",
    "not ",
    "&lt;",
    "\\boxed{",
    "option ",
    ": ",
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("scorer", SCORERS)
def test_time_grows_no_faster_than_length(unit: str, scorer: Any) -> None:
    """Ten times the reply in far less than the hundred times of a quadratic reader."""

    def seconds(length: int) -> float:
        reply = ReplyToScore(id="q", reply=(unit * (length // len(unit) + 1))[:length], options=FOUR)
        taken = []
        for _ in range(3):
            start = time.perf_counter()
            score_reply(reply, scorer)
            taken.append(time.perf_counter() - start)
        return max(min(taken), 1e-3)

    assert seconds(100_000) < 50 * seconds(10_000)
