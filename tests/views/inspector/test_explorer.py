from __future__ import annotations

import pytest

from medvrag_core.errors import InputError
from medvrag_core.records import Question, Trace
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.stepping import PAGES_BY_HAND, QUERY_BY_HAND, Stepper, explored
from medvrag_core.views.inspector.explorer import Explorer, options_text, typed_question


@pytest.fixture
def explorer(answered: Resources, made_questions: list[Question]) -> Explorer:
    return Explorer(answered, systems=["medvrag", "page_single", "no_rag"], question=made_questions[1])


def test_left_alone_the_fields_do_what_the_system_does(explorer: Explorer, answered: Resources) -> None:
    explorer.begin.click()
    assert explorer.stepper is not None
    assert explorer.query.value == explorer.text.value
    assert tuple(explorer.pages.value.split()) == explorer.stepper.found()
    while not explorer.stepper.ended:
        explorer.run.click()
    mine = explorer.stepper.trace()
    alone = Stepper("medvrag", answered, mine.question)
    while not alone.ended:
        alone.step()
    assert [r.reply for r in mine.rounds] == [r.reply for r in alone.rounds]
    assert not any("by_hand" in flag for r in mine.rounds for flag in r.flags)
    assert explorer.run.disabled
    assert "answered" in explorer.told.value
    assert "mv-trace" in explorer.shown.value


def test_a_changed_query_is_searched_when_it_is_run(explorer: Explorer) -> None:
    explorer.begin.click()
    explorer.query.value = "iron deficiency ferritin"
    explorer.run.click()
    assert explorer.stepper is not None
    (done,) = explorer.stepper.rounds
    assert done.query == "iron deficiency ferritin"
    assert QUERY_BY_HAND in done.flags
    assert PAGES_BY_HAND not in done.flags
    assert done.shown[0] == "anemia#p1"


def test_changed_pages_are_shown_and_a_round_goes_back(explorer: Explorer) -> None:
    explorer.begin.click()
    explorer.search.click()
    assert "pages found" in explorer.told.value
    explorer.pages.value = "gout#p2\nanemia#p1"
    explorer.run.click()
    assert explorer.stepper is not None
    assert explorer.stepper.rounds[0].shown == ("gout#p2", "anemia#p1")
    assert PAGES_BY_HAND in explorer.stepper.rounds[0].flags
    explorer.back.click()
    assert explorer.stepper.rounds == ()
    assert explorer.shown.value == ""
    assert not explorer.run.disabled
    assert explorer.back.disabled


def test_a_fault_is_told_and_nothing_is_lost(explorer: Explorer) -> None:
    explorer.run.click()
    assert "press Begin" in explorer.told.value
    explorer.begin.click()
    explorer.pages.value = "<b>nowhere</b>#p1"
    explorer.run.click()
    assert "Not done: page &#x27;&lt;b&gt;nowhere&lt;/b&gt;#p1&#x27; is not in this corpus" in explorer.told.value
    assert explorer.stepper is not None
    assert explorer.stepper.rounds == ()
    explorer.options.value = "no label"
    explorer.begin.click()
    assert "has no label" in explorer.told.value


def test_a_saved_trace_is_in_the_run(explorer: Explorer, answered: Resources) -> None:
    explorer.begin.click()
    explorer.run.click()
    explorer.save.click()
    assert explorer.stepper is not None
    (path,) = explored(answered.workspace).traces("medvrag_by_hand").glob("typed-*.json")
    assert Trace.from_json(path.read_bytes()) == explorer.stepper.trace()
    assert path.name in explorer.told.value
    path.unlink()


def test_a_page_without_a_kernel_shows_what_was_run(explorer: Explorer) -> None:
    explorer.text.value = "Which <img src=x onerror=alert(1)>?"
    explorer.begin.click()
    explorer.run.click()
    bundle = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "<img src=x" not in bundle["text/html"]
    assert "mv-trace" in bundle["text/html"]


def test_options_are_read_as_they_are_written(made_questions: list[Question]) -> None:
    for question in made_questions:
        typed = typed_question(question.question, options_text(question), question.answer or "")
        assert (typed.question, typed.options, typed.answer) == (question.question, question.options, question.answer)
    one, other = (typed_question("Dose?", f"A: 1 mg\nB: {dose} mg") for dose in (2, 3))
    assert one.id != other.id
    assert one.answer is None


@pytest.mark.parametrize(
    ("text", "options", "gold", "told"),
    [
        ("", "A: 1\nB: 2", "", "needs a text and two options"),
        ("Dose?", "A: 1", "", "needs a text and two options"),
        ("Dose?", "A: 1\n2 mg", "", "'2 mg' has no label"),
        ("Dose?", "A: 1\nB:", "", "'B:' has no label"),
        ("Dose?", "A: 1\nA: 2", "", "'A' stands twice"),
        ("Dose?", "A: 1\nB: 2", "C", "no option 'C'"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(text: str, options: str, gold: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        typed_question(text, options, gold)
