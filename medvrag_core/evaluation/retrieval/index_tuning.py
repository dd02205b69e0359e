"""Tuning the index of a run: which queries, and where the curve is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from medvrag_core.errors import MismatchError, NotBuiltError
from medvrag_core.index.manifest import read_manifest
from medvrag_core.index.tune import Tuning, tune, tuning_path
from medvrag_core.records import Query
from medvrag_core.runs.publish import write_text
from medvrag_core.systems.resources import Resources

SUMMARIES = 50
"""Queries that are made from the pages themselves where none are given."""


def tune_run(
    resources: Resources,
    mode: Literal["fast", "paper"],
    queries: Sequence[Query] | None = None,
    *,
    recall: float = 0.99,
    at: int = 100,
    progress: bool = True,
) -> Tuning:
    """Tune a mode on queries, or on the summaries of pages that lie evenly over the corpus, and keep the curve.

    Raises InputError as :func:`~medvrag_core.index.tune.tune` does.
    """
    asked = summary_queries(resources, SUMMARIES) if queries is None else queries
    found = tune(
        resources.vectors,
        resources.profile.index.model_copy(update={"mode": mode}),
        resources.workspace.index,
        [resources.encoder.encode_query(query.text) for query in asked],
        recall=recall,
        at=at,
        progress=progress,
    )
    write_text(tuning_path(resources.workspace.index, mode), found.to_json())
    return found


def summary_queries(resources: Resources, count: int) -> list[Query]:
    """Summaries of up to ``count`` pages as queries; none of them is a question that is reported."""
    told = [summary for summary in resources.store.summaries.values() if summary.text.strip()]
    taken = [told[k * len(told) // count] for k in range(count)] if count < len(told) else told
    return [Query(id=summary.page_id, text=summary.text) for summary in taken]


def read_tuning(resources: Resources, mode: str) -> Tuning:
    """The curve that :func:`tune_run` kept.

    Raises
    ------
    NotBuiltError : there is none
    MismatchError : pages were added, changed or taken out since
    """
    path = tuning_path(resources.workspace.index, mode)
    if not path.is_file():
        raise NotBuiltError(f"{path}: mode '{mode}' was not tuned", way_out="run `medvrag index tune`")
    found = Tuning.from_json(path.read_text(encoding="utf-8"), source=str(path))
    now = read_manifest(resources.workspace.index)
    if (found.pages, found.segments) != (now.pages, now.segments_digest()):
        raise MismatchError(
            f"{path}: tuned on {found.pages:,} pages {found.segments}, the index holds {now.pages:,} pages "
            f"{now.segments_digest()}",
            way_out="run `medvrag index tune` again",
        )
    return found
