"""A published run beside one's own: its traces, and whether its calls still lead to them here."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from medvrag_core.errors import MedvragError
from medvrag_core.models.store import CallStore, PromptGroup
from medvrag_core.records import Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.archive import archived_traces, import_calls
from medvrag_core.systems.replay import ReplayReport, replay
from medvrag_core.systems.resources import Resources


@dataclass(frozen=True)
class RecordedRun:
    """What an archive holds for one system, and its replay on the pages of another run.

    Attributes
    ----------
    traces : as they were recorded, by question id; their times are zero
    calls : number of recorded calls by purpose and prompt version
    outcomes : number of recorded calls by outcome
    report : of the replay, None where there was none
    problem : why there was no replay, in words
    """

    traces: list[Trace]
    calls: tuple[PromptGroup, ...]
    outcomes: dict[str, int]
    report: ReplayReport | None = None
    problem: str = ""

    def trace(self, question_id: str) -> Trace:
        """The recorded trace of one question; KeyError if there is none."""
        return {trace.question.id: trace for trace in self.traces}[question_id]


def replay_recorded(archive: Path, workspace: Workspace, profile: Profile, name: str) -> RecordedRun:
    """Answer the questions of an archive again on the pages of ``workspace``, without any model.

    A run on other pages, a changed prompt or another encoder is no error: the recorded traces are given back with the
    reason why they could not be replayed.

    Raises
    ------
    InputError
        The archive is missing or damaged.
    """
    traces = sorted((t for t in archived_traces(archive) if t.system == name), key=lambda trace: trace.question.id)
    with tempfile.TemporaryDirectory(prefix="medvrag-recorded-") as folder:
        scratch = Workspace(Path(folder))
        for part in (workspace.corpus, workspace.vectors, workspace.index):
            (scratch.root / part.name).symlink_to(part.resolve())
        import_calls(archive, scratch)
        with CallStore(scratch.calls) as store:
            calls, outcomes = tuple(store.prompts()), store.outcomes()
        if problem := _other_pages(traces, scratch, profile):
            return RecordedRun(traces, calls, outcomes, problem=problem)
        try:
            report = replay(scratch, profile, name, traces, progress=False)
        except MedvragError as error:
            return RecordedRun(traces, calls, outcomes, problem=str(error))
    return RecordedRun(traces, calls, outcomes, report)


def _other_pages(traces: list[Trace], workspace: Workspace, profile: Profile) -> str:
    here = {page.page_id for page in Resources(workspace, profile).store.pages}
    recorded = {page_id for trace in traces for round_ in trace.rounds for page_id in round_.filter.kept}
    missing = recorded - here
    return f"recorded on other pages; {len(missing)} of {len(recorded)} are not in this run" if missing else ""
