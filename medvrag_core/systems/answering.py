"""Answers a list of questions with one system: one trace file a question, resumable at any moment."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tqdm import tqdm

from medvrag_core.errors import NotBuiltError
from medvrag_core.reasoning.loop import RoundError, verdict
from medvrag_core.records import Outcome, Question, Round, Trace
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.stage import require_same_settings, save_settings
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EvaluationSettings, Profile, fingerprint
from medvrag_core.systems.base import System, find_system
from medvrag_core.systems.resources import Resources


def answer_all(name: str, resources: Resources, questions: Sequence[Question], *, progress: bool = True) -> list[Trace]:
    """Answer every question that has no finished trace yet and return all traces in order.

    A stored trace is used again when its question and everything that shapes its answer are the
    same; questions that ended in an error are asked anew.

    Raises
    ------
    MismatchError
        The folder of this system was made under other settings; the fields are named.
    """
    require_resumable(name, resources.workspace, resources.profile)
    system = find_system(name).compose(resources)
    key = answering_fingerprint(name, resources)
    save_settings(resources.workspace.system(name), answering_settings(resources.profile))
    traces = []
    for question in tqdm(questions, desc=name, unit="question", disable=None if progress else True):
        path = trace_path(resources.workspace, name, question.id)
        stored = _stored(path)
        if stored is None or stored.outcome == "error" or stored.fingerprint != key or stored.question != question:
            stored = answer_one(name, system, question, profile=resources.profile.name, key=key)
            write_text(path, stored.to_json())
        traces.append(stored)
    return traces


def require_resumable(name: str, workspace: Workspace, profile: Profile) -> None:
    """Refuse to mix answers made under other settings; MismatchError names every field that differs."""
    require_same_settings(
        workspace.system(name), answering_settings(profile), way_out="choose a new run, or delete that folder"
    )


def answer_one(name: str, system: System, question: Question, *, profile: str, key: str) -> Trace:
    """One question from start to end; a failed model becomes a trace with outcome ``error``."""
    start = time.perf_counter()
    failure = ""
    try:
        rounds = system.answer(question)
    except RoundError as error:
        rounds, failure = error.rounds, str(error)
    outcome, label, reason = _conclusion(rounds, failure)
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


def _conclusion(rounds: tuple[Round, ...], failure: str) -> tuple[Outcome, str | None, str]:
    if failure:
        return "error", None, failure
    said = verdict(rounds)
    return ("answered", said.label, "") if said.label is not None else ("unparsed", None, said.reason or "no_tag")


def read_traces(workspace: Workspace, name: str, *, made_by: str) -> list[Trace]:
    """All stored traces of one system, by question id; NotBuiltError names ``made_by`` as the way out."""
    files = sorted(workspace.traces(name).glob("*.json"))
    if not files:
        raise NotBuiltError(f"run '{workspace.root.name}' has no trace of system '{name}'", way_out=f"run {made_by}")
    traces = [Trace.from_json(file.read_text(encoding="utf-8"), source=str(file)) for file in files]
    return sorted(traces, key=lambda trace: trace.question.id)


def trace_path(workspace: Workspace, name: str, question_id: str) -> Path:
    """Where the trace of a question lies; ids are percent-encoded, so no id can leave the folder."""
    safe = quote(question_id, safe="")
    if len(safe) > 150 or not safe.strip("."):
        safe = f"{safe[:100].strip('.')}-{hashlib.sha256(question_id.encode()).hexdigest()[:16]}"
    return workspace.traces(name) / f"{safe}.json"


def answering_settings(profile: Profile) -> Profile:
    """The profile without what cannot change an answer (name, note, workers, statistics)."""
    return profile.model_copy(update={"name": "", "note": "", "workers": 0, "evaluation": EvaluationSettings()})


def answering_fingerprint(name: str, resources: Resources) -> str:
    """One digest of all that shapes an answer: settings, corpus, encoder, and the reader's own version."""
    parts = (
        name,
        fingerprint(answering_settings(resources.profile)),
        resources.store.fingerprint,
        resources.vectors.manifest.encoder,
        resources.reader.fingerprint,
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _stored(path: Path) -> Trace | None:
    if not path.is_file():
        return None
    return Trace.from_json(path.read_text(encoding="utf-8"), source=str(path))
