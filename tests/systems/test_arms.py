"""Arms as lines of YAML: each control of the project has one, each runs, and bad lines are refused in words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from medvrag_core.errors import InputError, MedvragError, MismatchError, NotBuiltError
from medvrag_core.evaluation.questions import write_questions
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems import base
from medvrag_core.systems.answering import answer_all, answering_fingerprint, read_asked, set_up
from medvrag_core.systems.arm_lines import shipped_arms
from medvrag_core.systems.base import add_arms, catalog, find_system
from medvrag_core.systems.resources import Resources

CONTROLS = {
    "summaries_only": "loop.pages_shown",
    "images_only": "loop.summaries_shown",
    "page_text": "reader.pages",
    "single_on_iterated": "control.iterated_in",
    "fixed_two_rounds": "loop.min_rounds",
    "plain_history": "loop.memory",
    "blank_pages": "control.pages",
    "random_pages": "control.pages",
    "other_question_pages": "control.pages",
    "shuffled_options": "control.options",
    "medvrag_option_blind": "loop.refinement",
    "cited_removed": "control.cited_in",
    "uncited_removed": "control.cited_in",
}
"""The controls that the evaluation asks for, each with a setting that makes it what it is."""
SMALL = {"loop.pages_shown": 2, "loop.summaries_shown": 2}
"""Of the five pages of the test corpus, so that others are left for a placebo."""
UNSURE = SMALL | {"reader.margin": 2.0}
"""Under this margin the embedded reader asks in every round but the last."""


@pytest.fixture
def opened(made_run: Workspace, tmp_path: Path) -> Callable[..., Resources]:
    """The finished run with a systems folder of its own, under overrides of the profile ``test``."""
    run = Workspace(tmp_path / "run")
    run.root.mkdir()
    for name in ("corpus", "vectors", "index"):
        (run.root / name).symlink_to(getattr(made_run, name))
    return lambda **overrides: Resources(run, load_profile("test", SMALL | overrides))


@pytest.fixture
def write_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes a file of arms; whatever a test adds is gone after it."""
    monkeypatch.setattr(base, "_ADDED", {})

    def write(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_every_control_is_one_line_that_says_what_it_changes() -> None:
    lines = (Path(base.__file__).parent / "arms.yaml").read_text(encoding="utf-8").splitlines()
    for name, setting in CONTROLS.items():
        (line,) = [line for line in lines if line.startswith(f"{name}:")]
        assert f"{setting}:" in line and "base: medvrag" in line
    assert len(shipped_arms()) == sum(bool(re.match(r"\w+: \{", line)) for line in lines)


def test_an_arm_differs_from_its_base_in_its_own_settings_alone() -> None:
    """Each override changes the profile, and nothing else does."""
    profile = load_profile("test")
    for name, line in shipped_arms().items():
        entry = find_system(name)
        settled = flat(entry.settle(profile))
        plain = flat(profile)
        made_of = {**find_system(line.base).overrides, **line.set}
        assert {key for key in settled if plain.get(key) != settled[key]} <= set(made_of), name
        assert {key: settled[key] for key in made_of} == made_of, name
        assert entry.settle(entry.settle(profile)) == entry.settle(profile)


def flat(profile: Profile) -> dict[str, object]:
    """Every field of every stage, also of those that files leave out while they are the default."""
    stages = {name: getattr(profile, name) for name in type(profile).model_fields}
    return {
        f"{name}.{key}": value
        for name, stage in stages.items()
        if isinstance(stage, BaseModel)
        for key, value in stage.model_dump(mode="json").items()
    }


def test_every_control_runs_on_the_embedded_default(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    resources, questions = opened(**{"reader.margin": 2.0}), made_questions[:2]
    names = ("medvrag", "page_single", *CONTROLS)
    arms = {name: answer_all(name, resources, questions, progress=False) for name in names}
    for name, traces in arms.items():
        assert [t.question.id for t in traces] == [q.id for q in questions], name
        assert {t.outcome for t in traces} == {"answered"}, name
        assert {t.system for t in traces} == {name}
    rounds = {name: {len(t.rounds) for t in traces} for name, traces in arms.items()}
    assert min(rounds["medvrag"] | rounds["plain_history"] | rounds["blank_pages"]) > 1
    assert rounds["fixed_two_rounds"] == {2}
    assert rounds["single_on_iterated"] == rounds["page_single"] == {1}
    last = {name: [t.rounds[-1] for t in traces] for name, traces in arms.items()}
    assert all(r.shown == () and r.summaries_shown for r in last["summaries_only"])
    assert all(r.summaries_shown == () and r.shown for r in last["images_only"])
    assert all(r.history and not r.bank_before.key_findings for r in last["plain_history"])
    assert not any(r.history for r in last["medvrag"])
    assert all(r.shown == ("blank#p1", "blank#p2") for r in last["blank_pages"])
    assert len({t.fingerprint for traces in arms.values() for t in traces}) == len(arms)


def test_the_embedded_reader_reads_the_summaries_it_is_given_alone(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    """The pages are short, so that their summaries hold the answers; blank pages hold none."""
    resources = opened()
    assert all(t.correct for t in answer_all("summaries_only", resources, made_questions, progress=False))
    blank = answer_all("blank_pages", resources, made_questions, progress=False)
    assert all("No page shown supports an option" in t.rounds[-1].reply.text for t in blank)


def test_resume_names_the_field_that_an_arm_changed(
    opened: Callable[..., Resources], made_questions: list[Question], write_arms: Callable[[str], Path]
) -> None:
    add_arms(write_arms("mine: {base: medvrag, summary: s, set: {loop.pages_shown: 1}}"))
    first = answer_all("mine", opened(), made_questions, progress=False)
    assert answer_all("mine", opened(), made_questions, progress=False) == first
    base._ADDED.clear()
    add_arms(write_arms("mine: {base: medvrag, summary: s, set: {loop.pages_shown: 2, control.options: shuffled}}"))
    with pytest.raises(MismatchError, match=r"control\.options: given -> shuffled; loop\.pages_shown: 1 -> 2"):
        answer_all("mine", opened(), made_questions, progress=False)


def test_the_profile_of_the_run_is_left_as_it_is(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    resources = opened()
    before = resources.profile
    answer_all("summaries_only", resources, made_questions, progress=False)
    assert resources.profile is before
    settings = json.loads((resources.workspace.system("summaries_only") / "settings.json").read_text())
    assert settings["loop"]["pages_shown"] == 0


def test_arms_share_what_their_settings_leave_alone(opened: Callable[..., Resources]) -> None:
    resources = opened()
    one, other = resources.under(load_profile("test", UNSURE)), resources.under(load_profile("test", SMALL))
    assert one.index is other.index is resources.index
    assert one.store is resources.store and one.encoder is resources.encoder
    assert one.reader is not resources.reader, "its margin is another"
    assert other.reader is resources.reader


NOWHERE = Question(id="nowhere", question="Which drug is older?", options={"A": "Warfarin", "B": "Heparin"}, answer="A")
"""No page tells its options apart, so the embedded reader asks again; it is sure of the others at once."""


class TestSingleOnIterated:
    def test_it_asks_exactly_the_questions_that_iterated(
        self, opened: Callable[..., Resources], made_questions: list[Question]
    ) -> None:
        resources, questions = opened(), [NOWHERE, *made_questions]
        full = answer_all("medvrag", resources, questions, progress=False)
        iterated = [t.question.id for t in full if len(t.rounds) > 1]
        assert iterated == ["nowhere"]
        single = answer_all("single_on_iterated", resources, questions, progress=False)
        assert [t.question.id for t in single] == iterated == read_asked(resources.workspace, "single_on_iterated")
        assert all(len(t.rounds) == 1 for t in single)

    def test_it_says_what_must_run_first(
        self, opened: Callable[..., Resources], made_questions: list[Question]
    ) -> None:
        with pytest.raises(NotBuiltError, match=r"'medvrag' has not answered.*run `medvrag run --system medvrag`"):
            answer_all("single_on_iterated", opened(), made_questions, progress=False)
        answer_all("medvrag", opened(), made_questions[:1], progress=False)
        with pytest.raises(NotBuiltError, match=f"'medvrag' has not answered question '{made_questions[1].id}'"):
            answer_all("single_on_iterated", opened(), made_questions, progress=False)
        other = made_questions[0].model_copy(update={"question": "Another question?"})
        with pytest.raises(NotBuiltError, match="has not answered"):
            answer_all("single_on_iterated", opened(), [other], progress=False)

    def test_no_question_that_iterated_is_an_error_in_words(
        self, opened: Callable[..., Resources], made_questions: list[Question]
    ) -> None:
        resources = opened(**{"reader.margin": -1.0})
        answer_all("medvrag", resources, made_questions, progress=False)
        with pytest.raises(InputError, match="took one round for each of the 3 questions"):
            answer_all("single_on_iterated", resources, made_questions, progress=False)

    def test_other_answers_of_its_reference_make_its_own_worthless(
        self, opened: Callable[..., Resources], made_questions: list[Question]
    ) -> None:
        resources = opened(**{"reader.margin": 2.0})
        full = answer_all("medvrag", resources, made_questions, progress=False)
        view, _ = set_up("single_on_iterated", resources, made_questions)
        before = answering_fingerprint("single_on_iterated", view)
        changed = full[0].model_copy(update={"label": "D", "correct": False})
        path = next(resources.workspace.traces("medvrag").glob(f"{changed.question.id}.json"))
        path.write_text(changed.to_json())
        view, _ = set_up("single_on_iterated", resources, made_questions)
        assert answering_fingerprint("single_on_iterated", view) != before


class TestFilesOfArms:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("mine: {base: medvrag, summary: s, set: {loop.max_round: 1}}", r"arm 'mine'.*did you mean 'max_rounds'"),
            ("mine: {base: medvrag, summary: s, set: {loop.max_rounds: many}}", r"arm 'mine'.*loop\.max_rounds"),
            ("mine: {base: medvrag, summary: s, set: {loop.min_rounds: 9}}", r"arm 'mine'.*above max_rounds"),
            (
                "mine: {base: medvrag, summary: s, set: {control.pages: cited_removed}}",
                r"arm 'mine'.*cited_in goes with",
            ),
            ("mine: {base: medvrag, summary: s, set: {encoder.dim: 8}}", r"arm 'mine': cannot set 'encoder\.dim'"),
            ("mine: {base: medvrag, summary: s, set: {calls.in_flight: 8}}", r"cannot set 'calls\.in_flight'"),
            ("mine: {base: medvrag, summary: s, set: {loop: {}}}", r"cannot set 'loop'"),
            ("mine: {base: medvrag, summary: s, sets: {}}", r"arm 'mine': unknown field 'sets'"),
            ("mine: {base: medvrag}", r"arm 'mine': field 'summary' is missing"),
            ("mine: {base: summaries_only, summary: s}", r"arm 'mine': there is no base 'summaries_only'.*no_rag"),
            ("mine: medvrag", r"arm 'mine': must be a mapping"),
            ("../mine: {base: medvrag, summary: s}", r"is no plain name"),
            ("medvrag: {base: medvrag, summary: s}", r"arm 'medvrag': there is a system of this name"),
            ("blank_pages: {base: medvrag, summary: s}", r"arm 'blank_pages': there is a system of this name"),
            ("mine: {base: medvrag, summary: s}\nmine: {base: no_rag, summary: s}", r"'mine' stands twice"),
            ("- mine", r"must be a mapping of arms"),
            ("mine: {", r"not valid YAML"),
        ],
    )
    def test_bad_lines_are_refused_with_file_arm_and_key(
        self, write_arms: Callable[[str], Path], text: str, words: str
    ) -> None:
        path = write_arms(text)
        with pytest.raises(MedvragError, match=f"mine.yaml.*{words}"):
            add_arms(path)
        assert "mine" not in catalog()

    def test_a_missing_file_and_a_file_that_is_no_text(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"none\.yaml: cannot be read"):
            add_arms(tmp_path / "none.yaml")
        (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputError, match=r"odd\.yaml: cannot be read"):
            add_arms(tmp_path / "odd.yaml")

    def test_the_command_line_lists_and_runs_an_arm_of_the_user(
        self,
        medvrag: Callable[..., SimpleNamespace],
        opened: Callable[..., Resources],
        made_questions: list[Question],
        write_arms: Callable[[str], Path],
        tmp_path: Path,
    ) -> None:
        path = write_arms("two_pages: {base: medvrag, summary: two pages only, set: {loop.pages_shown: 2}}")
        assert "two pages only" in medvrag("systems", "--arms", path).out
        base._ADDED.clear()
        run, questions = opened().workspace, tmp_path / "q.jsonl"
        write_questions(questions, made_questions)
        command = ("run", "--questions", questions, "--out", run.root, "--profile", "test")
        done = medvrag(*command, "--system", "two_pages", "--arms", path, "--json")
        assert (done.code, json.loads(done.out)["n"]) == (0, 3)
        traces = [Trace.from_json(p.read_bytes()) for p in run.traces("two_pages").glob("*.json")]
        assert {len(t.rounds[0].shown) for t in traces} == {2}
        base._ADDED.clear()
        assert medvrag("replay", "--run", run.root, "--system", "two_pages", "--arms", path).code == 0
        base._ADDED.clear()
        refused = medvrag(*command, "--system", "two_pages")
        assert refused.code == 2 and "no system 'two_pages'" in refused.err

    def test_an_arm_that_asks_fewer_questions_still_makes_a_complete_report(
        self,
        medvrag: Callable[..., SimpleNamespace],
        opened: Callable[..., Resources],
        made_questions: list[Question],
        tmp_path: Path,
    ) -> None:
        run, questions = opened().workspace, tmp_path / "q.jsonl"
        write_questions(questions, [NOWHERE, *made_questions])
        command = ("run", "--questions", questions, "--out", run.root, "--profile", "test")
        assert medvrag(*command).code == 0
        done = medvrag(*command, "--system", "single_on_iterated", "--json")
        report = json.loads(done.out)
        assert (done.code, report["complete"], report["n"]) == (0, True, 1)


def test_a_system_without_pages_of_its_own_takes_no_placebo(
    opened: Callable[..., Resources], made_questions: list[Question]
) -> None:
    resources = opened(**{"control.pages": "blank"})
    with pytest.raises(InputError, match=r"'no_rag' cannot take control\.pages: blank"):
        answer_all("no_rag", resources, made_questions, progress=False)
