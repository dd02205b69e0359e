"""Placebos and pages left out: never the pages they stand for, as many of them, the same whatever else is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from medvrag_core.errors import InputError
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning.exhibit import Exhibit
from medvrag_core.records import EvidenceItem, FilterDecision, Hit, Question, SearchResult, Summary
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all, answering_fingerprint, set_up
from medvrag_core.systems.page_controls import (
    BlankPages,
    GoldPages,
    OtherQuestionPages,
    PagesLeftOut,
    RandomPages,
    StandIns,
)
from medvrag_core.systems.precedent import Precedent
from medvrag_core.systems.resources import Resources

PAGES = [f"d{article}#p{number}" for article in range(4) for number in range(1, 9)]


class Everything:
    """A source that finds the pages of the article that the query names first, and a filter that keeps them all."""

    def search(self, query: str) -> SearchResult:
        ranked = sorted(PAGES, key=lambda page: (not page.startswith(query), page))
        return SearchResult(hits=tuple(Hit(page_id=p, score=1 / r, rank=r) for r, p in enumerate(ranked, 1)))

    def summary(self, evidence_id: str) -> Summary:
        return Summary(page_id=evidence_id, text=f"summary of {evidence_id}", method="test")

    def evidence(self, evidence_id: str) -> EvidenceItem:
        return EvidenceItem(evidence_id=evidence_id, page_id=evidence_id, text=f"text of {evidence_id}")

    def select(self, query: str, candidates: Any) -> FilterDecision:
        return FilterDecision(kept=tuple(c.page_id for c in candidates))


def exhibit(found: list[str], pages: int, summaries: int) -> Exhibit:
    source = Everything()
    return Exhibit(
        evidence=tuple(map(source.evidence, found[:pages])), summaries=tuple(map(source.summary, found[:summaries]))
    )


def question(name: str, gold: tuple[str, ...] = (), text: str = "d0") -> Question:
    return Question(id=name, question=text, options={"A": "x", "B": "y"}, answer="A", gold_pages=gold)


ASKED = [question(f"q{n}", (f"d{n % 4}#p1",), f"d{n % 4}") for n in range(6)]


def stand_ins(kind: str, seed: int) -> StandIns:
    source: Any = Everything()
    return RandomPages(source, PAGES, seed) if kind == "random" else OtherQuestionPages(source, source, ASKED, seed)


@settings(max_examples=60)
@given(
    st.sampled_from(["random", "other"]),
    st.permutations(PAGES),
    st.integers(0, 6),
    st.integers(0, 10),
    st.sets(st.sampled_from(PAGES), max_size=4),
    st.integers(0, 99),
    st.integers(1, 3),
)
def test_a_placebo_never_shows_a_gold_page_or_one_it_replaces(
    kind: str, found: list[str], pages: int, summaries: int, gold: set[str], seed: int, number: int
) -> None:
    before = exhibit(found, pages, summaries)
    after = stand_ins(kind, seed)(question("q0", tuple(gold)), number, before)
    replaced = {item.page_id for item in before.evidence} | {s.page_id for s in before.summaries}
    shown = [item.page_id for item in after.evidence]
    told = [s.page_id for s in after.summaries]
    assert not (set(shown) | set(told)) & (replaced | gold)
    assert (len(shown), len(told)) == (pages, summaries)
    assert len(set(shown)) == len(shown) and len(set(told)) == len(told)
    both = min(pages, summaries)
    assert shown[:both] == told[:both], "summaries match the pages shown"
    assert all(item.text == f"text of {item.page_id}" for item in after.evidence)


def test_random_pages_depend_on_seed_question_and_round_alone() -> None:
    """Not on the order of the corpus, and not on what was asked before."""
    source: Any = Everything()
    before = exhibit(PAGES, 5, 5)

    def drawn(pages: list[str], seed: int = 1, name: str = "q", number: int = 1) -> tuple[EvidenceItem, ...]:
        control = RandomPages(source, pages, seed)
        control(question("another"), 1, before)
        return control(question(name), number, before).evidence

    assert drawn(PAGES) == drawn(PAGES[::-1])
    assert len({drawn(PAGES), drawn(PAGES, seed=2), drawn(PAGES, name="r"), drawn(PAGES, number=2)}) == 4


def test_random_pages_come_from_all_over_the_corpus() -> None:
    source: Any = Everything()
    before = exhibit(PAGES[:2], 2, 2)
    control = RandomPages(source, PAGES, 42)
    seen = {item.page_id for n in range(200) for item in control(question(str(n)), 1, before).evidence}
    assert seen == set(PAGES[2:])


def test_another_questions_pages_are_what_that_question_finds_first() -> None:
    before = exhibit(["d0#p1", "d0#p2", "d0#p3"], 2, 3)
    after = stand_ins("other", 42)(ASKED[0], 1, before)
    (flag,) = after.flags
    name, _, partner_id = flag.partition(":")
    partner = next(q for q in ASKED if q.id == partner_id)
    assert name == "placebo_other_question"
    assert [s.page_id for s in after.summaries] == [f"{partner.question}#p{n}" for n in (1, 2, 3)]


def test_a_question_on_another_article_goes_first_and_the_order_asked_does_not_matter() -> None:
    source: Any = Everything()
    for seed in range(10):
        one = OtherQuestionPages(source, source, ASKED, seed)
        other = OtherQuestionPages(source, source, ASKED[::-1], seed)
        for asked in ASKED:
            partners = one.partners(asked)
            assert partners == other.partners(asked)
            assert {q.id for q in partners} == {q.id for q in ASKED} - {asked.id}
            shares = [q.question == asked.question for q in partners]
            assert shares == sorted(shares)


def test_a_question_asked_alone_has_no_other() -> None:
    source: Any = Everything()
    with pytest.raises(InputError, match=r"asked alone.*ask at least two"):
        OtherQuestionPages(source, source, ASKED[:1], 42)(ASKED[0], 1, exhibit(PAGES, 2, 2))


def test_too_few_pages_are_an_error_and_not_fewer_pages() -> None:
    source: Any = Everything()
    control = RandomPages(source, PAGES, 42)
    enough = exhibit(PAGES, 16, 16)
    assert len(control(question("q"), 1, enough).evidence) == 16
    with pytest.raises(InputError, match=r"question 'q', round 2: 16 placebo pages are needed, and only 15"):
        control(question("q", (PAGES[20],)), 2, enough)


def test_blank_pages_are_white_of_the_same_size_and_say_nothing(tmp_path: Path) -> None:
    sizes = [(30, 40), (40, 30), (30, 40)]
    for place, size in enumerate(sizes):
        Image.new("RGB", size, (place, 0, 0)).save(tmp_path / f"{place}.png")
    items = [
        EvidenceItem(evidence_id=f"d#p{n}", page_id=f"d#p{n}", text="secret", image=str(tmp_path / f"{n}.png"))
        for n in range(3)
    ]
    before = exhibit(PAGES, 0, 5).model_copy(update={"evidence": tuple(items)})
    after = BlankPages(tmp_path / "made")(question("q"), 1, before)
    images = [Image.open(item.image) for item in after.evidence]
    assert [image.size for image in images] == sizes
    assert all(image.getextrema() == ((255, 255),) * 3 for image in images)
    assert len(after.summaries) == 5 and "secret" not in after.to_json()
    names = [*(item.page_id for item in after.evidence), *(s.page_id for s in after.summaries)]
    assert all(name.startswith("blank#p") for name in names), "names tell nothing either"
    assert after.flags == ("placebo_blank",)


@given(st.sets(st.sampled_from(PAGES), min_size=1), st.data(), st.integers(0, 99))
def test_as_many_uncited_pages_are_left_out_as_cited_ones(sent: set[str], data: st.DataObject, seed: int) -> None:
    cited = data.draw(st.sets(st.sampled_from(sorted(sent))))
    known = {"q": Precedent(rounds=1, cited=frozenset(cited), sent=frozenset(sent), digest="")}
    found = sorted(sent)
    gone = {}
    for name, control in (
        ("cited", PagesLeftOut(known, seed, cited=True)),
        ("un", PagesLeftOut(known, seed, cited=False)),
    ):
        after = control(question("q"), 1, exhibit(found, len(found), len(found)))
        shown = {item.page_id for item in after.evidence}
        assert shown == {s.page_id for s in after.summaries}
        gone[name] = sent - shown
        assert bool(after.flags) == bool(gone[name])
    assert gone["cited"] == cited
    assert not gone["un"] & cited
    assert len(gone["un"]) == min(len(cited), len(sent) - len(cited))


def test_gold_pages_stand_in_the_place_of_what_was_found() -> None:
    source: Any = Everything()
    asked = question("q", ("d1#p2", "d3#p1"))
    after = GoldPages(source)(asked, 1, exhibit(PAGES, 5, 5))
    assert [item.page_id for item in after.evidence] == ["d1#p2", "d3#p1"] == [s.page_id for s in after.summaries]
    assert after.flags == ("gold_pages",)
    assert GoldPages(source)(asked, 1, exhibit(PAGES, 5, 0)).summaries == (), "an arm without summaries stays so"
    with pytest.raises(InputError, match="question 'none' names no gold page"):
        GoldPages(source)(question("none"), 1, exhibit(PAGES, 5, 5))


class TestInARun:
    @pytest.fixture
    def resources(self, made_run: Workspace, tmp_path: Path) -> Resources:
        for name in ("corpus", "vectors", "index"):
            (tmp_path / name).symlink_to(getattr(made_run, name))
        return Resources(Workspace(tmp_path), load_profile("test", {"loop.pages_shown": 2, "loop.summaries_shown": 2}))

    def test_everything_up_to_the_filter_is_as_without_the_placebo(
        self, resources: Resources, made_questions: list[Question]
    ) -> None:
        plain = answer_all("medvrag", resources, made_questions, progress=False)
        for name in ("blank_pages", "random_pages", "other_question_pages"):
            for with_pages, without in zip(
                plain, answer_all(name, resources, made_questions, progress=False), strict=True
            ):
                first, other = with_pages.rounds[0], without.rounds[0]
                assert (first.query, first.stage1, first.filter) == (other.query, other.stage1, other.filter)
                assert len(other.shown) == len(first.shown)
                assert not set(other.shown) & {*first.shown, *first.summaries_shown, *with_pages.question.gold_pages}
                assert all(any(f.startswith("placebo_") for f in r.flags) for r in without.rounds)

    def test_random_pages_do_not_depend_on_how_many_questions_are_asked(
        self, resources: Resources, made_questions: list[Question]
    ) -> None:
        few = answer_all("random_pages", resources, made_questions[:1], progress=False)
        assert answer_all("random_pages", resources, made_questions, progress=False)[:1] == few

    def test_the_pages_of_another_question_belong_to_the_questions_asked(
        self, resources: Resources, made_questions: list[Question]
    ) -> None:
        """So a longer list asks all of them anew; for other placebos it does not."""

        def key(name: str, asked: list[Question]) -> str:
            return answering_fingerprint(name, set_up(name, resources, asked)[0])

        assert key("other_question_pages", made_questions[:2]) != key("other_question_pages", made_questions)
        assert key("other_question_pages", made_questions[::-1]) == key("other_question_pages", made_questions)
        assert key("random_pages", made_questions[:2]) == key("random_pages", made_questions)

    def test_the_cited_page_is_not_shown_and_its_control_still_is(
        self, resources: Resources, made_questions: list[Question]
    ) -> None:
        plain = answer_all("medvrag", resources, made_questions, progress=False)
        without = answer_all("cited_removed", resources, made_questions, progress=False)
        control = answer_all("uncited_removed", resources, made_questions, progress=False)
        for before, gone, kept in zip(plain, without, control, strict=True):
            (cited,) = before.question.gold_pages
            assert cited in before.rounds[0].shown and cited in before.rounds[0].reply.text
            assert cited not in gone.rounds[0].shown and gone.rounds[0].flags[0] == "cited_removed"
            assert cited in kept.rounds[0].shown and kept.rounds[0].flags[0] == "uncited_removed"
            assert len(gone.rounds[0].shown) == len(kept.rounds[0].shown) == 1
        assert all(t.correct for t in control) and not all(t.correct for t in without)
