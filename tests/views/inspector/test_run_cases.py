from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from medvrag_core.corpus.showing import AUDIENCE, PUBLIC, PagePicture
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.evaluation.errors.taxonomy import error_classes
from medvrag_core.index.similarity_maps import score_parts
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning.sameness import page_of
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.stepping import Stepper
from medvrag_core.views.inspector.records import FilterExchanges
from medvrag_core.views.inspector.run_cases import RunCases
from medvrag_core.views.inspector.source import fetch

if TYPE_CHECKING:
    from collections.abc import Callable

ARMS = ["medvrag", "page_single"]


@pytest.fixture
def cases(answered: Resources) -> RunCases:
    return RunCases([answered], arms=ARMS)


def number_of(address: str) -> int:
    return int(Path(address).stem)


def test_the_catalog_counts_what_the_traces_say(cases: RunCases, answered: Resources) -> None:
    entries = cases.catalog().arms
    assert [(entry.run, entry.arm) for entry in entries] == [("answered", "medvrag"), ("answered", "page_single")]
    for entry in entries:
        traces = read_traces(answered.workspace, entry.arm, made_by="")
        assert (entry.cases, entry.right) == (len(traces), sum(bool(trace.correct) for trace in traces))
        assert entry.summary


def test_a_row_says_of_a_case_what_evaluation_says(cases: RunCases, answered: Resources) -> None:
    for arm, name in enumerate(ARMS):
        traces = read_traces(answered.workspace, name, made_by="")
        rows = cases.rows(arm).rows
        assert [row.question_id for row in rows] == [trace.question.id for trace in traces]
        assert {row.question_id: row.error_class for row in rows if row.error_class} == error_classes(traces)
        assert any(row.error_class for row in rows)
        for row, trace in zip(rows, traces, strict=True):
            assert (row.correct, row.rounds, row.label) == (trace.correct, len(trace.rounds), trace.label)


def test_a_case_is_its_stored_trace_with_the_pages_it_speaks_of(cases: RunCases, answered: Resources) -> None:
    for number, trace in enumerate(read_traces(answered.workspace, "medvrag", made_by="")):
        case = cases.case(0, number)
        assert case.trace == trace
        assert case.error_class == cases.rows(0).rows[number].error_class
        wanted = {page for round_ in trace.rounds for page in round_.shown} | set(trace.question.gold_pages)
        assert {card.page_id for card in case.cards} == wanted
        assert len(case.maps) == len(trace.rounds)
        assert case.prompts == ()


def test_the_same_query_on_the_same_pages_has_one_address(cases: RunCases) -> None:
    first = [cases.case(0, number).maps[0] for number in range(3)]
    assert [cases.case(1, number).maps[0] for number in range(3)] == first
    assert len(set(first)) == 3


def test_shadings_are_the_parts_of_the_score(cases: RunCases, answered: Resources) -> None:
    case = cases.case(0, 0)
    found = cases.maps(case.maps[0].partition("/")[2])
    assert found.problem == ""
    assert [page.page_id for page in found.pages] == list(case.trace.rounds[0].shown)
    encoded = answered.encoder.encode_query(found.query)
    for page in found.pages:
        vectors = answered.vectors.page(page.page_id)
        weight = answered.profile.index.backward_weight
        parts = score_parts(encoded, vectors, backward_weight=weight)
        values = [parts.of_patches, parts.page_map, *parts.row_maps]
        assert len(page.shadings) == len(values)
        assert [one.name for one in page.shadings[2:]] == [w or "␣" for w in answered.encoder.query_words(found.query)]
        for one, of_patches in zip(page.shadings, values, strict=True):
            levels = np.array([int(digit, 16) for digit in one.levels])
            assert len(levels) == len(vectors.boxes)
            if one.full - one.clear < 0.01:  # nothing to tell apart
                assert not levels.any() or len(levels) > 1
                continue
            inside = np.clip((of_patches - one.clear) / (one.full - one.clear), 0, 1)
            assert np.abs(levels / 15 - inside).max() < 0.06
        assert all(set(one.best) == set(parts.best_patches(row)) for row, one in enumerate(page.shadings[2:]))


def test_an_encoder_that_is_not_here_is_told_and_no_fault(answered: Resources) -> None:
    other = answered.under(load_profile("test", {"encoder.dim": 32}))
    cases = RunCases([other], arms=ARMS)
    found = cases.maps(cases.case(0, 0).maps[0].partition("/")[2])
    assert found.pages == ()
    assert "encoder" in found.problem


def test_words_and_patches_of_a_sheet_are_those_of_the_page(cases: RunCases, answered: Resources) -> None:
    card = cases.case(0, 0).cards[0]
    sheet = cases.sheet(number_of(card.sheet))
    layout = answered.store.layout(card.page_id)
    assert sheet.words == tuple(word.text for word in layout.words)
    boxes = np.array(sheet.word_boxes).reshape(-1, 4) / 10_000
    assert np.abs(boxes - np.array([word.box for word in layout.words])).max() <= 5e-5
    patches = np.array(sheet.patch_boxes).reshape(-1, 4) / 10_000
    assert np.abs(patches - answered.vectors.page(card.page_id).boxes).max() <= 6e-5


@pytest.mark.parametrize("shrink", [1, 2, 8])
def test_pages_come_as_stored_or_smaller(answered: Resources, shrink: int) -> None:
    cases = RunCases([answered], arms=ARMS, shrink=shrink)
    card = cases.case(0, 0).cards[0]
    page = answered.store.page(card.page_id)
    data = cases.image(number_of(card.image))
    with Image.open(io.BytesIO(data)) as image:
        assert (card.width, card.height) == (page.image_width, page.image_height)
        assert image.width == card.image_width == -(-page.image_width // shrink)
        assert abs(image.height - page.image_height / shrink) <= 1
    if shrink == 1:
        assert data == answered.store.image_path(card.page_id).read_bytes()
    with Image.open(io.BytesIO(cases.thumbnail(number_of(card.thumbnail)))) as small:
        assert small.format == "JPEG"
        assert small.width <= 240


def test_a_page_that_may_not_be_shown_is_not_handed_out(
    answered: Resources, cases: RunCases, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = cases.case(0, 0).cards[0]
    monkeypatch.setenv(AUDIENCE, PUBLIC)
    hidden = cases.case(0, 0)
    assert shown.restricted
    assert not any(card.restricted for card in hidden.cards)
    assert all(card.hidden and not (card.thumbnail or card.image or card.sheet) for card in hidden.cards)
    assert set(hidden.maps) == {""}
    for address in (shown.thumbnail, shown.image, shown.sheet):
        with pytest.raises(InputError, match="is not shown"):
            fetch(cases, address)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("arms/9", "no arm 9"),
        ("cases/0-99", "no case 99"),
        ("cases/9-0", "no arm 9"),
        ("sheets/999", "no page 999"),
        ("maps/0123456789abcdef", "open the case first"),
        ("images/../../profile.yaml", "knows no address"),
        ("images/-1.jpg", "knows no address"),
        ("cases/0-1\n", "knows no address"),
        ("", "knows no address"),
    ],
)
def test_what_there_is_not_is_refused(cases: RunCases, address: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        fetch(cases, address)


def test_only_the_chosen_questions_are_there(answered: Resources) -> None:
    cases = RunCases([answered], arms=ARMS, questions=["gout-1", "anemia-1"])
    assert [row.question_id for row in cases.rows(1).rows] == ["anemia-1", "gout-1"]
    assert cases.catalog().arms[0].cases == 2
    assert cases.case(0, 1).trace.question.id == "gout-1"


def test_what_was_stepped_through_by_hand_is_an_arm_of_its_run(
    answered: Resources, made_questions: list[Question]
) -> None:
    stepper = Stepper("page_single", answered, made_questions[1])
    stepper.step(pages=["asthma#p2"])
    stepper.save()
    cases = RunCases([answered])
    (arm,) = [k for k, entry in enumerate(cases.catalog().arms) if entry.arm == "page_single_by_hand"]
    assert cases.case(arm, 0).trace == stepper.trace()
    assert "by hand" in cases.catalog().arms[arm].summary


def test_prompts_are_what_the_model_was_sent(
    paid_copy: Workspace, model_settings: Callable[..., dict[str, object]]
) -> None:
    resources = Resources(paid_copy, load_profile("test", model_settings("http://127.0.0.1:9")))
    case = RunCases([resources]).case(0, 0)
    reply = case.trace.rounds[0].reply
    (prompt,) = [one for one in case.prompts if one.call == reply.call]
    text = "\n".join(message.text for message in prompt.messages)
    assert case.trace.question.question in text
    assert all(option in text for option in case.trace.question.options.values())
    assert sum(message.images for message in prompt.messages) == len(reply.seen)
    resources.close()


def test_calls_of_the_filter_are_shown_with_their_replies_unless_a_page_in_them_is_hidden(
    paid_copy: Workspace, model_settings: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = Resources(paid_copy, load_profile("test", model_settings("http://127.0.0.1:9")))
    cases = RunCases([resources])
    case = cases.case(0, 0)
    assert case.filters == "filters/0-0"
    found = fetch(cases, case.filters)
    assert isinstance(found, FilterExchanges)
    calls = [call for round_ in case.trace.rounds for call in round_.filter.calls]
    assert {one.prompt.call for one in found.exchanges} == {call.call for call in calls}
    by = {one.prompt.call: one for one in found.exchanges}
    for call in calls:
        one = by[call.call]
        assert one.outcome == "complete" and one.reply
        assert any(case.trace.question.question in message.text for message in one.prompt.messages)
    picture, hidden = CorpusStore.picture, ["a page that no call was about"]

    def without_one(store: CorpusStore, page: str) -> PagePicture:
        return replace(picture(store, page), restricted="its license" if page in hidden else "")

    monkeypatch.setattr(CorpusStore, "picture", without_one)
    monkeypatch.setenv(AUDIENCE, PUBLIC)
    assert cases.case(0, 0).filters == "filters/0-0"
    hidden.append(min(page_of(name) for call in calls for name in call.shown))
    assert cases.case(0, 0).filters == ""
    with pytest.raises(InputError, match="no calls of the filter to show"):
        fetch(cases, "filters/0-0")
    resources.close()


def test_runs_of_one_name_and_runs_without_answers_are_refused(answered: Resources, made_run: Workspace) -> None:
    with pytest.raises(InputError, match="runs of one name: answered, answered"):
        RunCases([answered, answered])
    with pytest.raises(NotBuiltError, match="no answers of any arm in made"):
        RunCases([Resources(made_run, load_profile("test"))])
    with pytest.raises(InputError, match="1/3"):
        RunCases([answered], shrink=3)
