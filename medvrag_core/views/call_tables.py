"""HTML tables of model calls: what was recorded, whether it replays, how two runs differ."""

from __future__ import annotations

from medvrag_core.evaluation.diff import RunDiff
from medvrag_core.systems.recorded import RecordedRun
from medvrag_core.views.tables import HtmlTable, Number, counted


def recorded_table(recorded: RecordedRun, *, caption: str = "") -> HtmlTable:
    """Recorded calls by purpose, their outcomes, and what the replay gave."""
    rows: list[list[object]] = [
        [f"calls: {group.purpose}", Number(str(group.calls)), f"prompt {group.prompt_version}"]
        for group in recorded.calls
    ]
    rows += [[f"outcome: {name}", Number(str(count)), ""] for name, count in recorded.outcomes.items()]
    if recorded.report is None:
        rows.append(["replay", "none", recorded.problem])
    else:
        report = recorded.report
        rows.append(
            [
                "replayed without a model: same outcome",
                Number(f"{report.same_outcome} of {report.questions}"),
                "from stored calls alone",
            ]
        )
        rows.append(
            [
                "replayed without a model: identical",
                Number(f"{report.identical} of {report.questions}"),
                "to the byte" + (f"; different: {', '.join(report.different)}" if report.different else ""),
            ]
        )
    return HtmlTable(["", "", ""], rows, caption=caption)


def diff_table(diff: RunDiff, *, caption: str = "") -> HtmlTable:
    """One row a question that went another way: outcome in both runs, and where they first went apart."""
    rows: list[list[object]] = [
        [question.question_id, question.first, question.second, question.where, question.detail]
        for question in diff.questions
    ]
    told = f"{counted(diff.both, 'question')}, {diff.identical} identical, {diff.same_outcome} with the same outcome"
    return HtmlTable(
        ["question", "first run", "second run", "first difference", "what differs"],
        rows,
        caption=f"{caption}: {told}" if caption else told,
    )
