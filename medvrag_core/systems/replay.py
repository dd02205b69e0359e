"""Answers the questions of a run again from its call store alone, and compares every detail."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from medvrag_core.records import Record, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.base import find_system
from medvrag_core.systems.canonical import canonical_trace, export_digest
from medvrag_core.systems.changed_prompts import changed_prompts, refuse_changed_prompts
from medvrag_core.systems.resources import Resources


class ReplayReport(Record):
    """Whether a replay gave the same traces, clock aside; ``digest`` is of the stored ones, ``replayed`` of the new."""

    system: str
    questions: int
    identical: int
    same_outcome: int = Field(description="ended the same way, whatever else differs, as scores do between processors")
    different: tuple[str, ...]
    digest: str
    replayed: str


def replay(
    workspace: Workspace, profile: Profile, name: str, stored: Sequence[Trace], *, progress: bool = True
) -> ReplayReport:
    """Answer the questions of ``stored`` again with the policy ``only-cache`` and compare.

    Corpus, vectors, index and call store of the run are used as they are; nothing in the run is changed, and no server
    is contacted. A question whose calls are missing is different.

    Raises
    ------
    MismatchError
        A prompt is no longer the one that the calls were made with, so that none of them could be found.
    """
    calls = profile.calls.model_copy(update={"policy": "only-cache", "accept_changed_prompts": True})
    questions = [trace.question for trace in stored]
    with tempfile.TemporaryDirectory(prefix="medvrag-replay-") as folder:
        scratch = Workspace(Path(folder))
        for part in (workspace.corpus, workspace.vectors, workspace.index, workspace.text, workspace.calls):
            if part.exists():
                (scratch.root / part.name).symlink_to(part.resolve())
        if arm := find_system(name).settle(profile).control.reference:
            scratch.system(arm).parent.mkdir(exist_ok=True)
            scratch.system(arm).symlink_to(workspace.system(arm).resolve())
        resources = Resources(scratch, profile.model_copy(update={"calls": calls}))
        try:
            entry = find_system(name)
            versions = resources.prompt_versions | dict(entry.prompts(entry.settle(profile)))
            if versions:
                refuse_changed_prompts(
                    changed_prompts(resources.calls, versions, stored),
                    way_out="replay with the version of this package that made the run",
                )
            again = answer_all(name, resources, questions, progress=progress)
        finally:
            resources.close()
    pairs = list(zip(stored, again, strict=True))
    different = tuple(a.question.id for a, b in pairs if canonical_trace(a) != canonical_trace(b))
    return ReplayReport(
        system=name,
        questions=len(stored),
        identical=len(stored) - len(different),
        same_outcome=sum((a.outcome, a.label, a.reason) == (b.outcome, b.label, b.reason) for a, b in pairs),
        different=different,
        digest=export_digest(stored),
        replayed=export_digest(again),
    )
