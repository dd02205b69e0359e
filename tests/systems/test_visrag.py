"""VisRAG's three ways to an answer and EVisRAG: on the embedded default, and behind a model server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medvrag_core.errors import MismatchError
from medvrag_core.evaluation.cost.bill import cost_report
from medvrag_core.evaluation.errors.grounding import grounding_report
from medvrag_core.evaluation.report import run_report
from medvrag_core.evaluation.scorers.report import scorers_report
from medvrag_core.profiles.load import load_profile
from medvrag_core.reasoning import weighted_selection
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import answer_all, answering_fingerprint, set_up
from medvrag_core.systems.base import find_system
from medvrag_core.systems.replay import replay
from medvrag_core.systems.resources import Resources

ARMS = ("visrag", "visrag_joined", "visrag_weighted", "evisrag")


@pytest.fixture
def opened(made_run: Workspace, tmp_path: Path) -> Callable[..., Resources]:
    """The finished run with folders of its own for what systems make, under overrides of the profile ``test``."""
    run = Workspace(tmp_path / "run")
    run.root.mkdir()
    for name in ("corpus", "vectors", "index"):
        (run.root / name).symlink_to(getattr(made_run, name))
    return lambda **overrides: Resources(run, load_profile("test", overrides))


@pytest.mark.parametrize("name", ARMS)
def test_each_answers_in_one_round_without_a_filter(
    opened: Callable[..., Resources], made_questions: list[Question], name: str
) -> None:
    resources = opened()
    traces = answer_all(name, resources, made_questions, progress=False)
    assert [t.outcome for t in traces] == ["answered"] * 3 and all(t.correct for t in traces)
    for trace in traces:
        (only,) = trace.rounds
        assert only.shown == tuple(hit.page_id for hit in only.stage1[:3]) and len(set(only.shown)) == 3
        assert not only.filter.calls and not only.summaries_shown
    assert answer_all(name, resources, made_questions, progress=False) == traces
    report = scorers_report(traces)
    assert report.read_anew_differently == () and report.strict.correct == 3
    assert grounding_report(traces, {}).unanswered == 0
    assert cost_report(traces).n == 3


def test_the_arms_differ_by_settings_and_have_fingerprints_of_their_own(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    resources = opened()
    keys = {name: answering_fingerprint(name, set_up(name, resources, made_questions)[0]) for name in ARMS}
    assert len(set(keys.values())) == len(ARMS)
    for name, generation in (("visrag_joined", "joined_pages"), ("visrag_weighted", "weighted_selection")):
        assert find_system(name).settle(resources.profile).visrag.generation == generation
    assert {find_system(name).compose(resources).composition for name in ARMS} == {
        "Retrieve > KeepBest > Present > Read, 1 round at most",
        "Retrieve > KeepBest > Present > JoinPages > Read, 1 round at most",
        "Retrieve > KeepBest > Present > WeighPages, 1 round at most",
        "Retrieve > KeepBest > Present > Observe, 1 round at most",
    }


def test_as_many_pages_as_the_settings_say(opened: Callable[..., Resources], made_questions: list[Question]) -> None:
    for count in (1, 2):
        traces = answer_all("visrag", opened(**{"visrag.pages": count}), made_questions[:1], progress=False)
        assert len(traces[0].rounds[0].shown) == count
        for part in opened().workspace.traces("visrag").parent.rglob("*.json"):
            part.unlink()


def test_with_one_page_all_three_ways_say_the_same(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    """As in the paper's Table 3, where concatenation and selection agree for the top page."""
    resources = opened(**{"visrag.pages": 1})
    told = {name: answer_all(name, resources, made_questions, progress=False) for name in ARMS[:3]}
    replies = {name: [t.rounds[0].reply for t in traces] for name, traces in told.items()}
    assert replies["visrag"] == replies["visrag_joined"] == replies["visrag_weighted"]


def test_weighing_tells_every_page(opened: Callable[..., Resources], made_questions: list[Question]) -> None:
    for trace in answer_all("visrag_weighted", opened(), made_questions, progress=False):
        (only,) = trace.rounds
        assert [step.about for step in only.steps] == list(only.shown)
        assert {step.kind for step in only.steps} == {"weigh"}
        assert "weigh" in {time.step for time in only.times}


NOWHERE = Question(id="nowhere", question="Which drug is older?", options={"A": "Warfarin", "B": "Heparin"}, answer="A")


def test_evisrag_abstains_where_no_page_helps(opened: Callable[..., Resources]) -> None:
    (trace,) = answer_all("evisrag", opened(), [NOWHERE], progress=False)
    assert (trace.outcome, trace.label, trace.reason, trace.correct) == ("unparsed", None, "insufficient", False)
    assert [step.reason for step in trace.rounds[0].steps] == ["nothing_relevant"] * 3
    assert scorers_report([trace]).read_anew_differently == ()
    report = run_report([trace])
    assert report.unparsed_reasons == {"insufficient": 1} and report.outcomes["unparsed"] == 1


# --- behind a model server ----------------------------------------------------------------------


@pytest.fixture
def served(opened: Callable[..., Resources], model_settings: Callable[..., dict[str, Any]], chaos: Any) -> Resources:
    return opened(**model_settings(chaos.url))


@pytest.mark.parametrize(("name", "images"), [("visrag", 3), ("visrag_joined", 1)])
def test_a_model_gets_pages_or_one_image(
    served: Resources, chaos: Any, made_questions: list[Question], name: str, images: int
) -> None:
    (trace,) = answer_all(name, served, made_questions[:1], progress=False)
    assert [group.purpose for group in served.calls.prompts()] == ["reader"]
    (sent,) = chaos.log()["requests"]
    assert sum(part["type"] == "image_url" for part in sent["body"]["messages"][-1]["content"]) == images
    assert len(trace.rounds[0].shown) == 3
    folder = served.workspace.root / "joined"
    assert len(list(folder.iterdir()) if folder.exists() else []) == (name == "visrag_joined")


def test_weighted_selection_behind_a_server_and_replayed_without_one(
    served: Resources, chaos: Any, made_questions: list[Question]
) -> None:
    traces = answer_all("visrag_weighted", served, made_questions[:2], progress=False)
    assert sum(group.calls for group in served.calls.prompts() if group.purpose == "weigh") == 6
    for trace in traces:
        (only,) = trace.rounds
        assert trace.outcome == "answered" and only.reply.mean_logprob is not None
        # Every reply of this server has the same probability, so the best ranked page wins.
        assert only.steps[0].names == (trace.label,) and len(only.reply.seen) == 3
        bill = cost_report([trace])
        counted = {row.quantity: row.total for row in bill.rows if row.stage == "read"}
        assert counted["calls"] == counted["images"] == 3 and counted["seconds"] > 0
    served.calls.flush()
    chaos.close()
    again = replay(served.workspace, served.profile, "visrag_weighted", traces, progress=False)
    assert again.identical == 2, again


def test_joined_pages_are_replayed_from_pages_alone(
    served: Resources, chaos: Any, made_questions: list[Question]
) -> None:
    traces = answer_all("visrag_joined", served, made_questions[:1], progress=False)
    chaos.close()
    assert replay(served.workspace, served.profile, "visrag_joined", traces, progress=False).identical == 1


def test_a_server_without_log_probabilities_fails_the_question_and_says_what_to_do(
    served: Resources, chaos: Any, made_questions: list[Question]
) -> None:
    chaos.control(faults=["no_logprobs"] * 4)
    (trace,) = answer_all("visrag_weighted", served, made_questions[:1], progress=False)
    assert trace.outcome == "error" and "choose a system that needs none" in trace.reason
    (again,) = answer_all("visrag_weighted", served, made_questions[:1], progress=False)
    assert again.outcome == "answered", "asked anew"


def test_evisrag_behind_a_server(served: Resources, made_questions: list[Question]) -> None:
    (trace,) = answer_all("evisrag", served, made_questions[:1], progress=False)
    assert [group.purpose for group in served.calls.prompts()] == ["observe"]
    assert trace.outcome == "answered" and trace.rounds[0].flags == ("form_broken",), "this server knows no blocks"


def test_a_changed_prompt_is_told_before_anything_is_asked(
    served: Resources, chaos: Any, made_questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of an arm, whose settings are not those of the profile."""
    answer_all("visrag_weighted", served, made_questions[:1], progress=False)
    monkeypatch.setattr(weighted_selection, "prompt_version", lambda: "changed")
    with pytest.raises(MismatchError, match=r"prompt of 'weigh' \w+ -> changed: 3 stored calls"):
        answer_all("visrag_weighted", served, made_questions[:1], progress=False)
    assert len(chaos.log()["requests"]) == 3


@pytest.mark.parametrize(("name", "purpose"), [("visrag_weighted", "weigh"), ("evisrag", "observe")])
def test_prompts_belong_to_systems_that_ask_a_model_with_them(name: str, purpose: str) -> None:
    entry = find_system(name)
    model = entry.settle(load_profile("a100"))
    assert set(entry.prompts(model)) == {purpose} and entry.prompts(entry.settle(load_profile("test"))) == {}
    assert find_system("visrag").prompts(load_profile("a100")) == {}
