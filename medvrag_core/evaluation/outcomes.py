"""How the questions of a stored run ended, read without their rounds, which are nearly all of a trace."""

from __future__ import annotations

from pydantic import ConfigDict

from medvrag_core.errors import InputError, NotBuiltError
from medvrag_core.records import Outcome, Question, Record, Trace
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import trace_path


class _Ending(Record):
    """The fields of a trace but its rounds, whose text is still checked to be JSON."""

    model_config = ConfigDict(extra="ignore")

    schema_version: int
    system: str
    profile: str
    fingerprint: str
    question: Question
    outcome: Outcome
    label: str | None
    reason: str = ""
    correct: bool | None = None
    seconds: float


def read_outcomes(workspace: Workspace, system: str, *, made_by: str) -> list[Trace]:
    """Traces of one system by question id, all with empty ``rounds``; for scoring and statistics.

    Raises NotBuiltError with ``made_by`` as the way out, and InputError for a trace that is damaged or a copy.
    """
    traces = []
    for file in workspace.traces(system).glob("*.json"):
        found = _Ending.from_json(file.read_bytes(), source=str(file))
        if found.system != system or file != trace_path(workspace, system, found.question.id):
            raise InputError(
                f"{file}: holds the trace of question '{found.question.id}' by system '{found.system}'",
                way_out="each trace lies under its own name; delete the copy",
            )
        traces.append(Trace(**dict(found), rounds=()))
    if not traces:
        raise NotBuiltError(f"run '{workspace.root.name}' has no trace of system '{system}'", way_out=f"run {made_by}")
    return sorted(traces, key=lambda trace: trace.question.id)
