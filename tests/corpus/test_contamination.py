"""Question text in pages: found whatever typesetting did to it, and not found where it is not."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from medvrag_core.corpus.contamination import QuestionFinder, find_questions, is_sought, text_digest
from medvrag_core.corpus.folded_text import folded_words
from medvrag_core.corpus.known_questions import KnownQuestion
from medvrag_core.records import Page

TEXT = """patient fever efficacy naïve affluent waffle first office official anti-inflammatory reflux acute pain of the
in year old man woman treatment which following is most likely diagnosis week dose flow β-blocker café 10 2.5 mg"""
WORDS = TEXT.split()
BREAKS = ["-\n", "\u00ad\n", "\u00ad", "\u2010\n  ", "\u200b"]
STEMS = st.lists(st.sampled_from(WORDS), min_size=12, max_size=40).map(" ".join).filter(is_sought)
QUOTE = "A 45-year-old woman with diffuse affluent fluid and hyperinflation most likely has which of these findings?"


def page(text: str, page_id: str = "a#p1") -> Page:
    values: dict[str, Any] = {"width_pt": 1.0, "height_pt": 1.0, "image": "x", "image_width": 1, "image_height": 1}
    return Page(page_id=page_id, article_id="a", number=1, dpi=1.0, text_source="pdf", text=text, **values)


def known(*texts: str) -> list[KnownQuestion]:
    return [KnownQuestion(name=f"set/{k}", text=text) for k, text in enumerate(texts)]


def hits(text: str, *questions: str, near: float = 0.8) -> list[tuple[str, str]]:
    return [(hit.question, hit.how) for hit in find_questions([page(text)], known(*questions), near)]


@st.composite
def typeset(draw: st.DrawFn, text: str) -> str:
    """What a PDF may make of a text: broken lines and words, ligatures, other forms of letters, other case."""
    ligatures = {"ffi": "\ufb03", "ffl": "\ufb04", "ff": "\ufb00", "fi": "\ufb01", "fl": "\ufb02"}
    out = []
    for word in text.split(" "):
        form = draw(st.sampled_from(["plain", "ligature", "NFD", "NFKC", "upper", "full"]))
        if form == "ligature":
            for letters, sign in ligatures.items():
                word = word.replace(letters, sign)
        elif form in ("NFD", "NFKC"):
            word = unicodedata.normalize(form, word)
        elif form == "upper":
            word = word.upper()
        elif form == "full":
            word = "".join(chr(ord(c) + 0xFEE0) if "a" <= c <= "z" else c for c in word)
        if len(word) > 3 and draw(st.booleans()):
            at = draw(st.integers(1, len(word) - 1))
            if word[at - 1].isalnum() and word[at].isalnum():
                word = word[:at] + draw(st.sampled_from(BREAKS)) + word[at:]
        out.append(word)
    blanks = [draw(st.sampled_from([" ", "\n", "\u00a0", "  ", "\r\n", "\u2028"])) for _ in out]
    return "".join(word + blank for word, blank in zip(out, blanks, strict=True))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), question=STEMS, others=st.lists(STEMS, max_size=4), around=st.tuples(STEMS, STEMS))
def test_a_quoted_question_is_found_however_it_is_typeset(
    data: st.DataObject, question: str, others: list[str], around: tuple[str, str]
) -> None:
    text = f"{around[0]}. {data.draw(typeset(question))}. {around[1]}"
    assert (f"set/{len(others)}", "verbatim") in hits(text, *others, question)


@settings(max_examples=150, deadline=None)
@given(
    pages=st.lists(STEMS, min_size=1, max_size=3),
    questions=st.lists(STEMS, max_size=6),
    near=st.sampled_from([0.3, 0.8, 1.0]),
)
def test_what_is_found_is_what_a_slow_search_finds(pages: list[str], questions: list[str], near: float) -> None:
    def runs(text: str) -> set[tuple[str, ...]]:
        words = folded_words(text)
        return {tuple(words[k : k + 8]) for k in range(len(words) - 7)}

    pages = [
        *pages,
        *(f"{p} {q}" for p, q in zip(pages, questions, strict=False)),
        *(q[: len(q) * 3 // 4] for q in questions),
    ]
    expected = []
    for text in pages:
        for number, question in enumerate(questions):
            own = runs(question)
            share = len(own & runs(text)) / len(own) if own else 0.0
            if "".join(folded_words(question)) in "".join(folded_words(text)):
                expected.append((f"set/{number}", "verbatim", share))
            elif own & runs(text) and share >= near:
                expected.append((f"set/{number}", "near", share))
    found = find_questions([page(text) for text in pages], known(*questions), near)
    assert [(hit.question, hit.how, hit.share) for hit in found] == expected


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=3_000), st.lists(st.text(min_size=40, max_size=80).filter(is_sought), max_size=3))
def test_random_texts_hold_no_question_that_they_do_not_hold(text: str, questions: list[str]) -> None:
    letters = "".join(folded_words(text))
    assume(not any("".join(folded_words(question)) in letters for question in questions))
    assert hits(text, *questions) == []


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (QUOTE, ["verbatim"]),
        (QUOTE.replace("which of", "which  of").replace("diffuse", "dif fuse"), ["verbatim"]),
        (QUOTE.replace("A 45", "Our 45"), ["near"]),
        (QUOTE.replace("woman", "man").replace("likely", "probable"), []),
        (f"{QUOTE[:60]} Page 3 {QUOTE[60:]}", []),
        ("Which of these findings is most likely?", []),
    ],
)
def test_near_is_four_fifths_of_the_runs_of_eight_words(text: str, how: list[str]) -> None:
    assert [found for _, found in hits(f"Before. {text} After.", QUOTE)] == how


def test_short_questions_are_not_sought() -> None:
    short = "Which vitamin is it then?"
    assert not is_sought(short)
    assert hits(short * 3, short) == []
    assert not is_sought("")
    assert QuestionFinder([], 0.8).hits(page(QUOTE)) == []


def test_a_question_is_known_again_by_its_text() -> None:
    assert text_digest("Is it the \ufb01rst?") == text_digest("is it  the FIRST") != text_digest("Is it the last?")
    (hit,) = find_questions([page(QUOTE, "b#p7")], known(QUOTE), 0.8)
    assert (hit.page_id, hit.text, hit.share) == ("b#p7", text_digest(QUOTE), 1.0)


def test_a_share_that_is_just_the_threshold_is_near() -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "omega"]
    assert hits(" ".join([*words[:11], "other"]), " ".join(words)) == [("set/0", "near")]  # 4 of 5 runs
    assert hits(" ".join([*words[:10], "other"]), " ".join(words)) == []


def test_signs_that_only_steer_how_text_is_set_do_not_cut_words() -> None:
    assert folded_words("hyper\u200btension cafe\u0301 \u202ain\u202cfusion") == ["hypertension", "cafe", "infusion"]
