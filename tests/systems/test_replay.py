"""A finished run is answered again with no server, and any change shows (promises P3, P4, P7)."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from medvrag_core.errors import InputError
from medvrag_core.models import openai_client
from medvrag_core.models.store import CallStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question, ReaderReply, Trace
from medvrag_core.runs.verified import NOTE
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.answering import answer_all, read_asked, read_traces, trace_path
from medvrag_core.systems.archive import export_calls, import_calls
from medvrag_core.systems.canonical import canonical_trace, export_digest
from medvrag_core.systems.replay import ReplayReport, replay
from medvrag_core.systems.resources import Resources

SettingsFor = Callable[..., dict[str, Any]]


def stored(run: Workspace) -> list[Trace]:
    return read_traces(run, "medvrag", made_by="the run first")


def replayed(run: Workspace, profile: Profile | None = None) -> ReplayReport:
    return replay(run, profile or load_profile(str(run.profile)), "medvrag", stored(run), progress=False)


def answered(run: Workspace, profile: Profile, questions: list[Question]) -> list[Trace]:
    resources = Resources(run, profile)
    try:
        return answer_all("medvrag", resources, questions, progress=False)
    finally:
        resources.close()


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != NOTE  # which files were found whole, and when
    }


def reader_call(trace: Trace, number: int = 0) -> str:
    assert trace.rounds[number].reply.call
    return trace.rounds[number].reply.call


def test_every_question_is_identical_and_nothing_in_the_run_changes(
    paid_copy: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a replay opens no model")

    monkeypatch.setattr(openai_client, "OpenAIChat", refuse)
    before = files(paid_copy.root)
    report = replayed(paid_copy)
    assert (report.questions, report.identical, report.different) == (3, 3, ())
    assert report.digest == report.replayed == export_digest(stored(paid_copy))
    assert files(paid_copy.root) == before


def test_it_replays_from_a_folder_that_was_moved(paid_copy: Workspace) -> None:
    elsewhere = Workspace(paid_copy.root.rename(paid_copy.root.with_name("elsewhere")))
    assert replayed(elsewhere).different == ()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_call_that_is_gone_makes_its_question_different(paid_copy: Workspace, which: int) -> None:
    trace = stored(paid_copy)[which]
    with sqlite3.connect(paid_copy.calls) as db:
        assert db.execute("DELETE FROM calls WHERE key = ?", (reader_call(trace),)).rowcount == 1
    before = files(paid_copy.root)
    report = replayed(paid_copy)
    assert report.different == (trace.question.id,) and report.identical == 2
    assert report.digest != report.replayed
    assert {k: v for k, v in files(paid_copy.root).items() if "sqlite" not in k} == {
        k: v for k, v in before.items() if "sqlite" not in k
    }
    with CallStore(paid_copy.calls) as store:
        assert store.get(reader_call(trace)) is None


def test_a_reply_that_was_changed_makes_its_question_different(paid_copy: Workspace) -> None:
    trace = stored(paid_copy)[1]
    with CallStore(paid_copy.calls) as store:
        call = store.get(reader_call(trace))
        assert call is not None
        store.put(call.model_copy(update={"reply": call.reply.model_copy(update={"text": "<answer>D</answer> later"})}))
    assert replayed(paid_copy).different == (trace.question.id,)


def test_a_changed_page_makes_the_questions_that_saw_it_different(paid_copy: Workspace) -> None:
    traces = stored(paid_copy)
    resources = Resources(paid_copy, load_profile(str(paid_copy.profile)))
    shown = {t.question.id: {p for r in t.rounds for p in r.shown} for t in traces}
    page = sorted(set.union(*shown.values()))[0]
    path = resources.store.image_path(page)
    resources.close()
    with Image.open(path) as image:
        changed = image.convert("RGB")
    changed.putpixel((3, 3), (255, 0, 0))
    changed.save(path, "JPEG", quality=60)
    assert set(replayed(paid_copy).different) == {i for i, pages in shown.items() if page in pages}


def test_only_questions_that_saw_a_changed_page_differ(
    made_run: Workspace, made_questions: list[Question], model_settings: SettingsFor, chaos: Any, tmp_path: Path
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "narrow"))
    more = {"filter.ranker": "embedded", "loop.pages_shown": 1, "loop.summaries_shown": 0, "loop.max_rounds": 1}
    profile = load_profile("test", model_settings(chaos.url, **more))
    traces = answered(run, profile, made_questions)
    chaos.close()
    shown = {t.question.id: t.rounds[0].shown for t in traces}
    assert len(set(shown.values())) > 1, "questions must show different pages for this test to mean something"
    page = traces[0].rounds[0].shown[0]
    resources = Resources(run, profile)
    path = resources.store.image_path(page)
    resources.close()
    with path.open("ab") as file:
        file.write(b"\0")
    report = replayed(run, profile)
    assert set(report.different) == {i for i, pages in shown.items() if page in pages}
    assert 0 < report.identical < 3


def test_a_changed_setting_makes_every_question_different(paid_copy: Workspace) -> None:
    profile = load_profile(str(paid_copy.profile), {"loop.pages_shown": 1})
    assert len(replayed(paid_copy, profile).different) == 3


def test_settings_that_change_no_reply_change_nothing(paid_copy: Workspace) -> None:
    values = {"reader_model.base_url": "http://127.0.0.1:9/v1", "calls.questions_at_once": 3, "calls.in_flight": 2}
    assert replayed(paid_copy, load_profile(str(paid_copy.profile), values)).different == ()


@pytest.mark.parametrize("fault", ["length", "content_filter", "blank", "null", "400", "unparsed"])
def test_questions_that_ended_otherwise_replay_too(
    made_run: Workspace,
    made_questions: list[Question],
    model_settings: SettingsFor,
    chaos: Any,
    tmp_path: Path,
    fault: str,
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "run"))
    profile = load_profile("test", model_settings(chaos.url, **{"filter.ranker": "embedded"}))
    chaos.control(faults=[fault, "", fault])
    traces = answered(run, profile, made_questions)
    assert sum(t.outcome != "answered" for t in traces) >= 2
    chaos.close()
    report = replayed(run, profile)
    assert report.different == (), [canonical_trace(t) for t in traces]


def test_a_fallback_in_the_filter_replays_too(
    made_run: Workspace, made_questions: list[Question], model_settings: SettingsFor, chaos: Any, tmp_path: Path
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "run"))
    profile = load_profile("test", model_settings(chaos.url, **{"calls.attempts": 1}))
    chaos.control(faults=["length", "503"])
    traces = answered(run, profile, made_questions)
    reasons = {c.reason for t in traces for r in t.rounds for c in r.filter.calls if c.fallback}
    assert reasons == {"truncated", "unavailable"}
    chaos.close()
    assert replayed(run, profile).different == ()


def test_the_embedded_profile_replays_too_with_every_system(
    made_run: Workspace, made_questions: list[Question], embedded_systems: list[str], tmp_path: Path
) -> None:
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "run"))
    # A reader that is never sure iterates, and two pages of five leave others for a placebo.
    shown = {"reader.margin": 2.0, "loop.pages_shown": 2, "loop.summaries_shown": 2}
    profile = load_profile("test", shown)
    resources = Resources(run, profile)
    for name in ("medvrag", *embedded_systems):
        answer_all(name, resources, made_questions, progress=False)
    resources.close()
    before = files(run.root)
    for name in embedded_systems:
        traces = read_traces(run, name, made_by="the run first")
        report = replay(run, profile, name, traces, progress=False)
        assert (report.system, report.identical, report.different) == (name, 3, ())
    assert files(run.root) == before


def test_a_run_of_imported_calls_alone_has_the_same_digest(
    paid_run: Workspace, made_run: Workspace, made_questions: list[Question], tmp_path: Path
) -> None:
    export_calls(paid_run, tmp_path / "calls.xz")
    run = Workspace(shutil.copytree(made_run.root, tmp_path / "run"))
    import_calls(tmp_path / "calls.xz", run)
    profile = load_profile(str(paid_run.profile), {"calls.policy": "only-cache"})
    assert export_digest(answered(run, profile, made_questions)) == export_digest(stored(paid_run))


def test_the_order_of_traces_does_not_matter(paid_copy: Workspace, made_questions: list[Question]) -> None:
    assert read_asked(paid_copy, "medvrag") == [q.id for q in made_questions]
    assert export_digest(reversed(stored(paid_copy))) == export_digest(stored(paid_copy))


def test_tries_and_times_are_no_part_of_a_trace_but_options_of_that_name_are(paid_run: Workspace) -> None:
    trace = stored(paid_run)[0]
    round_ = trace.rounds[0]
    slower = round_.model_copy(update={"times": (), "reply": round_.reply.model_copy(update={"attempts": 3})})
    assert canonical_trace(trace.model_copy(update={"seconds": 9.0, "rounds": (slower, *trace.rounds[1:])})) == (
        canonical_trace(trace)
    )
    told = json.loads(canonical_trace(trace))
    assert "seconds" not in told and "times" not in told["rounds"][0] and "attempts" not in told["rounds"][0]["reply"]
    options = {"times": "three", "seconds": "two"}
    odd = trace.model_copy(update={"question": trace.question.model_copy(update={"options": options})})
    assert json.loads(canonical_trace(odd))["question"]["options"] == options
    refined = round_.model_copy(update={"refinement": ReaderReply(text="x", attempts=4)})
    once = round_.model_copy(update={"refinement": ReaderReply(text="x")})
    assert canonical_trace(trace.model_copy(update={"rounds": (refined,)})) == canonical_trace(
        trace.model_copy(update={"rounds": (once,)})
    )


def test_a_trace_under_another_name_is_refused(paid_copy: Workspace) -> None:
    path = trace_path(paid_copy, "medvrag", "gout-1")
    shutil.copy(path, path.with_name("copy.json"))
    with pytest.raises(InputError, match=r"copy\.json: holds the trace of question 'gout-1'"):
        stored(paid_copy)
