"""The tasks without a model: extractive, the same every time, and empty where there is nothing to say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvrag_core.reasoning.knowledge.embedded import (
    EXTRACT,
    CoveringIntegrator,
    ExtractingGenerator,
    ExtractingSummarizer,
    WordExplorer,
)
from medvrag_core.records import EvidenceItem, Question, Summary

QUESTION = Question(
    id="q",
    question="At which daily dose is allopurinol started in gout?",
    options={"A": "100 mg", "B": "600 mg"},
)
ABOUT = (
    "Gout is painful. Allopurinol is started at 100 mg daily in gout. "
    "The dose is raised every four weeks. Visits are monthly."
)


def item(text: str, name: str = "d#p1") -> EvidenceItem:
    return EvidenceItem(evidence_id=name, page_id=name, text=text)


# --- summaries ----------------------------------------------------------------------------


def test_a_summary_is_made_of_the_sentences_of_the_document() -> None:
    step = ExtractingSummarizer().summarize(QUESTION, item(ABOUT))
    assert (step.kind, step.about, step.reason) == ("summarize", "d#p1", "")
    assert step.text.startswith("Allopurinol is started at 100 mg daily in gout.")
    assert all(sentence in ABOUT for sentence in step.text.replace(". ", ".|").split("|"))


@pytest.mark.parametrize(
    "text", ["", "Wash hands.", "Ferritin confirms iron deficiency.", "A daily walk is healthy. Nobody objects."]
)
def test_a_document_off_the_subject_says_nothing_useful(text: str) -> None:
    step = ExtractingSummarizer().summarize(QUESTION, item(text))
    assert (step.text, step.reason) == ("", "nothing_useful")


def test_a_document_is_useful_for_an_option_or_for_the_question() -> None:
    option_alone = ExtractingSummarizer().summarize(QUESTION, item("Patients with gout get 600 mg."))
    assert "600 mg" in option_alone.text
    yes_or_no = QUESTION.model_copy(update={"options": {"A": "yes", "B": "no"}})
    assert ExtractingSummarizer().summarize(yes_or_no, item(ABOUT)).reason == ""
    assert ExtractingSummarizer().summarize(yes_or_no, item("Yes. No.")).reason == "nothing_useful"


# --- gaps ---------------------------------------------------------------------------------


def told(*texts: str) -> list[Summary]:
    return [Summary(page_id=f"d#p{n}", text=text, method="m") for n, text in enumerate(texts, 1)]


def test_gaps_are_what_the_digest_lacks_and_never_come_from_the_options() -> None:
    explore = WordExplorer().explore
    assert explore(QUESTION, told("Allopurinol is started in clinics."), 3).names == ("daily dose", "gout")
    assert explore(QUESTION, told("Allopurinol is started in clinics."), 1).names == ("daily dose",)
    assert explore(QUESTION, told(ABOUT), 3).names == ()
    assert explore(QUESTION, [], 3).names == ("daily dose allopurinol started gout",)
    other = QUESTION.model_copy(update={"options": {"A": "zinc", "B": "iron"}})
    assert explore(other, told("Allopurinol."), 3) == explore(QUESTION, told("Allopurinol."), 3)


# --- documents ----------------------------------------------------------------------------

CORPUS = {
    "g#p1": ABOUT,
    "g#p2": "Serum urate is checked monthly in gout. Urate crystals form in joints.",
    "a#p1": "Inhaled steroids prevent asthma attacks. Mouth rinsing prevents thrush.",
}


def test_a_document_holds_sentences_of_the_corpus_on_its_point(pages: Any) -> None:
    source = pages(CORPUS)
    step = ExtractingGenerator(source).generate(QUESTION, "serum urate")
    assert step.text.split(". ")[0] == "Serum urate is checked monthly in gout"
    assert "asthma" not in step.text and "Allopurinol" not in step.text
    assert (step.made_by, step.names, step.about) == (EXTRACT, ("g#p2",), "serum urate")
    assert source.queries == ["serum urate " + QUESTION.question]


def test_documents_on_the_question_take_its_sentences_in_turn(pages: Any) -> None:
    write = ExtractingGenerator(pages(CORPUS)).generate
    steps = [write(QUESTION, "", number, 3) for number in (1, 2, 3)]
    assert steps[0].text.startswith("Allopurinol is started at 100 mg daily in gout.")
    assert len({step.text for step in steps}) == 3
    said = [sentence for step in steps[:2] for sentence in step.text.replace(". ", ".|").split("|")]
    assert len(set(said)) == len(said) and all(any(s in text for text in CORPUS.values()) for s in said)
    assert (steps[2].text, steps[2].reason) == ("", "nothing_found")


def test_overlapping_chunks_give_a_sentence_once(pages: Any) -> None:
    twice = {"g#p1#c1": ABOUT, "g#p1#c2": ABOUT}
    step = ExtractingGenerator(pages(twice)).generate(QUESTION, "")
    assert step.text.count("started at 100 mg") == 1


@pytest.mark.parametrize("texts", [{"a#p1": "Nothing here."}, {"a#p1": ""}])
def test_a_corpus_without_a_sentence_gives_no_document(pages: Any, texts: dict[str, str]) -> None:
    assert ExtractingGenerator(pages(texts)).generate(QUESTION, "zinc").reason == "nothing_found"
    nothing = pages(texts, found=lambda query: [])
    assert ExtractingGenerator(nothing).generate(QUESTION, "").reason == "nothing_found"


# --- selection ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "most", "chosen"),
    [
        # The second holds what the first and the third hold together.
        (["allopurinol", "allopurinol dose gout", "gout dose"], 5, ["2"]),
        (["allopurinol dose", "gout", "dose gout", "zinc"], 5, ["1", "2"]),
        (["gout", "gout dose", "allopurinol"], 1, ["2"]),
        # Of two that add as many, the first.
        (["gout dose", "dose gout", "100 mg"], 5, ["1", "3"]),
        (["zinc", "iron"], 5, []),
        ([], 5, []),
    ],
)
def test_covers_by_hand(texts: list[str], most: int, chosen: list[str]) -> None:
    documents = [item(text, str(n)) for n, text in enumerate(texts, 1)]
    step = CoveringIntegrator().select(QUESTION, documents, most)
    assert list(step.names) == chosen
    assert step.reason == ("" if chosen else "none_selected")


WORDS = ("allopurinol", "dose", "gout", "daily", "started")


@given(st.lists(st.sets(st.sampled_from([*WORDS, "zinc"])), max_size=6), st.integers(1, 6))
def test_a_cover_is_whole_where_it_may_be_and_holds_nothing_idle(held: list[set[str]], most: int) -> None:
    documents = [item(" ".join(sorted(words)), str(n)) for n, words in enumerate(held)]
    names = [int(name) for name in CoveringIntegrator().select(QUESTION, documents, most).names]
    assert len(set(names)) == len(names) <= most
    needs, covered = set(WORDS) & set().union(*held), set()
    for name in names:
        assert held[name] & needs - covered, "each adds something"
        covered |= held[name] & needs
    assert covered == needs or len(names) == most
    if any(needs <= words for words in held) and needs:
        assert len(names) == 1
