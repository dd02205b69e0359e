"""Answers a list of questions with one system: one trace file a question, resumable at any moment."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from tqdm import tqdm

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.models.outcomes import worth_asking_again
from medvrag_core.reasoning.loop import RoundError, verdict
from medvrag_core.records import Outcome, Question, Round, Trace
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.side_by_side import side_by_side
from medvrag_core.runs.stage import require_same_settings, save_settings
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile, answering_settings, fingerprint
from medvrag_core.systems.base import System, find_system
from medvrag_core.systems.changed_prompts import changed_prompts, refuse_changed_prompts
from medvrag_core.systems.precedent import Precedent, precedent_of
from medvrag_core.systems.question_controls import questions_of_arm
from medvrag_core.systems.resources import Resources

_ENDS: dict[str, Outcome] = {"truncated": "truncated", "refused": "refused"}


def answer_all(name: str, resources: Resources, questions: Sequence[Question], *, progress: bool = True) -> list[Trace]:
    """Answer every question and return all traces in order; see :func:`answer_and_store`."""
    asked = answer_and_store(name, resources, questions, progress=progress)
    return list(each_trace(resources.workspace, name, [question.id for question in asked]))


def answer_and_store(
    name: str, resources: Resources, questions: Sequence[Question], *, progress: bool = True
) -> list[Question]:
    """Answer every question that has no finished trace yet, and return the questions as the system asks them.

    Traces lie in the run; memory holds those under way alone, however many questions there are. An arm may ask only
    some of the questions, or ask them with other labels: its traces hold them as it asked them.
    A stored trace is used again when its question and everything that shapes its answer are the
    same; questions that ended in an error, or leaned on a fallback that a fault of the server caused, are asked
    anew, and of their calls only those that have no reply yet. ``calls.questions_at_once`` questions are under way
    at one time; the result does not depend on it. Ctrl-C lets calls in flight finish and keeps what they brought.

    Raises
    ------
    MismatchError
        The folder of this system was made under other settings, or a changed prompt makes stored calls worthless;
        fields, calls and questions are named, and nothing was asked.
    RunStopped
        The model server no longer works; the same command goes on from here.
    """
    workspace, profile = resources.workspace, resources.profile
    require_resumable(name, workspace, profile)
    resources, questions = set_up(name, resources, questions)
    entry = find_system(name)
    in_force = resources.prompt_versions | dict(entry.prompts(resources.profile))
    versions = {} if profile.calls.accept_changed_prompts else in_force
    if versions and changed_prompts(resources.calls, versions):
        # Rarely is any changed; only then are all traces read, to name the questions.
        refuse_changed_prompts(changed_prompts(resources.calls, versions, list(each_trace(workspace, name))))
    system = entry.compose(resources)
    key = answering_fingerprint(name, resources)
    save_settings(workspace.system(name), answering_settings(resources.profile))
    write_text(asked_path(workspace, name), json.dumps([question.id for question in questions]))
    paths = [trace_path(workspace, name, question.id) for question in questions]
    anew = profile.calls.policy == "always"
    todo = [place for place, path in enumerate(paths) if anew or not _stands(path, questions[place], key)]

    def work(place: int) -> None:
        write_text(paths[place], answer_one(name, system, questions[place], profile=profile.name, key=key).to_json())

    bar = tqdm(
        total=len(questions),
        initial=len(questions) - len(todo),
        desc=name,
        unit="question",
        disable=None if progress else True,
    )
    with bar:
        for _ in side_by_side(
            work,
            todo,
            at_once=profile.calls.questions_at_once,
            stop=lambda: resources.limits.stop("stopped"),
            drain_s=profile.calls.drain_s,
        ):
            bar.update()
            if tally := resources.tally():
                bar.set_postfix(tally, refresh=False)
    return list(questions)


def set_up(name: str, resources: Resources, questions: Sequence[Question]) -> tuple[Resources, list[Question]]:
    """The opened run under the settings of a system, and the questions as this system asks them.

    Raises
    ------
    NotBuiltError
        The system leans on the answers of another arm, which has not answered all of these questions.
    InputError
        No question is left for it.
    """
    profile = find_system(name).settle(resources.profile)
    control = profile.control
    precedents: dict[str, Precedent] = {}
    if arm := control.reference:
        precedents = {question.id: _precedent(arm, resources.workspace, question) for question in questions}
    asked = questions_of_arm(control, questions, precedents)
    used = {question.id: precedents[question.id] for question in asked if question.id in precedents}
    return resources.under(profile, asked=asked, precedents=used), asked


def _precedent(arm: str, workspace: Workspace, question: Question) -> Precedent:
    path = trace_path(workspace, arm, question.id)
    trace = _trace_in(path) if path.is_file() else None
    if trace is None or trace.question.question != question.question:
        raise NotBuiltError(
            f"run '{workspace.root.name}': '{arm}' has not answered question '{question.id}'",
            way_out=f"run `medvrag run --system {arm}` on the same questions first",
        )
    return precedent_of(trace)


def is_finished(trace: Trace, question: Question, key: str) -> bool:
    """Whether a stored trace stands: same question and settings, no error, no fallback that a server's fault caused."""
    if trace.outcome == "error" or trace.fingerprint != key or trace.question != question:
        return False
    calls = [call for round_ in trace.rounds for call in round_.filter.calls]
    return not any(call.fallback and worth_asking_again(call.reason) for call in calls)


def require_resumable(name: str, workspace: Workspace, profile: Profile) -> None:
    """Refuse to mix answers made under other settings; MismatchError names every field that differs."""
    settled = find_system(name).settle(profile)
    require_same_settings(
        workspace.system(name), answering_settings(settled), way_out="choose a new run, or delete that folder"
    )


def answer_one(name: str, system: System, question: Question, *, profile: str, key: str) -> Trace:
    """One question from start to end; a failed model becomes a trace with outcome ``error``."""
    start = time.perf_counter()
    failure = ""
    try:
        rounds = system.answer(question)
    except RoundError as error:
        rounds, failure = error.rounds, str(error)
    outcome, label, reason = conclusion(rounds, failure)
    return Trace(
        system=name,
        profile=profile,
        fingerprint=key,
        question=question,
        rounds=rounds,
        outcome=outcome,
        label=label,
        reason=reason,
        correct=None if question.answer is None else label == question.answer,
        seconds=time.perf_counter() - start,
    )


def conclusion(rounds: tuple[Round, ...], failure: str) -> tuple[Outcome, str | None, str]:
    """How a question ended, its label, and the reason where there is none; ``failure`` is what a model failed of."""
    if failure:
        return "error", None, failure
    said = verdict(rounds)
    if said.label is not None:
        return "answered", said.label, ""
    return _ENDS.get(said.reason, "unparsed"), None, said.reason or "no_tag"


def read_traces(workspace: Workspace, name: str, *, made_by: str) -> list[Trace]:
    """All stored traces of one system at once, by question id; where one after another will do: :func:`each_trace`.

    Raises NotBuiltError with ``made_by`` as the way out, and InputError for a trace that is damaged or a copy.
    """
    traces = sorted(each_trace(workspace, name), key=lambda trace: trace.question.id)
    if not traces:
        raise NotBuiltError(f"run '{workspace.root.name}' has no trace of system '{name}'", way_out=f"run {made_by}")
    return traces


def each_trace(workspace: Workspace, name: str, question_ids: Iterable[str] | None = None) -> Iterator[Trace]:
    """Stored traces of one system one after another, for whatever need not hold all of them in memory.

    Parameters
    ----------
    question_ids : whose traces, in this order; None: all that are stored, by file name

    Raises
    ------
    InputError : a trace is missing, damaged, or the copy of another one
    """
    if question_ids is None:
        paths = sorted(workspace.traces(name).glob("*.json"))
    else:
        paths = [trace_path(workspace, name, question_id) for question_id in question_ids]
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such trace", way_out=f"run `medvrag run --system {name}` again")
        trace = _trace_in(path)
        if trace.system != name or path != trace_path(workspace, name, trace.question.id):
            raise InputError(
                f"{path}: holds the trace of question '{trace.question.id}' by system '{trace.system}'",
                way_out="each trace lies under its own name; delete the copy",
            )
        yield trace


def _trace_in(path: Path) -> Trace:
    return Trace.from_json(path.read_bytes(), source=str(path))


def systems_with_traces(workspace: Workspace) -> list[str]:
    """Names of the systems that answered something in this run."""
    return sorted({path.parent.parent.name for path in (workspace.root / "systems").glob("*/traces/*.json")})


def asked_path(workspace: Workspace, name: str) -> Path:
    """The ids of the questions that a system was last asked to answer, so that a report knows what is missing."""
    return workspace.system(name) / "asked.json"


def read_asked(workspace: Workspace, name: str) -> list[str]:
    """Ids of the questions asked last; empty for runs that did not keep them. Raises InputError for a damaged file."""
    path = asked_path(workspace, name)
    if not path.is_file():
        return []
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        ids = None
    if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
        raise InputError(f"{path}: is no list of question ids", way_out="delete it and run again")
    return ids


def trace_path(workspace: Workspace, name: str, question_id: str) -> Path:
    """Where the trace of a question lies; ids are percent-encoded, so no id can leave the folder."""
    safe = quote(question_id, safe="")
    if len(safe) > 150 or not safe.strip("."):
        safe = f"{safe[:100].strip('.')}-{hashlib.sha256(question_id.encode()).hexdigest()[:16]}"
    return workspace.traces(name) / f"{safe}.json"


def answering_fingerprint(name: str, resources: Resources) -> str:
    """One digest of all that shapes an answer: settings, corpus, encoders, filter prompts, and the reader's version.

    ``resources`` are set up for the system (see :func:`set_up`). An arm that leans on the answers of another, or shows
    the pages of another question, has them in its digest.
    """
    versions, control = resources.prompt_versions, resources.profile.control
    asked = [question.to_json() for question in resources.asked] if control.pages == "other_question" else []
    parts = (
        name,
        fingerprint(answering_settings(resources.profile)),
        resources.store.fingerprint,
        resources.vectors.manifest.encoder.fingerprint,
        # What an encoder learned follows from the corpus, but for vectors that grew.
        *filter(None, [resources.vectors.manifest.first_corpus]),
        resources.reader.fingerprint,
        # The reader's fingerprint holds its own prompts; a filter without a model has none.
        *(f"{purpose}={versions[purpose]}" for purpose in sorted(versions) if purpose.startswith("filter_")),
        *([resources.captioner.fingerprint] if resources.profile.text.page_text == "captions" else []),
        *filter(None, [find_system(name).version(resources.profile)]),
        *(f"{purpose}={one}" for purpose, one in sorted(find_system(name).prompts(resources.profile).items())),
        *(f"{question_id}={one.digest}" for question_id, one in sorted(resources.precedents.items())),
        *sorted(asked),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _stands(path: Path, question: Question, key: str) -> bool:
    return path.is_file() and is_finished(_trace_in(path), question, key)
