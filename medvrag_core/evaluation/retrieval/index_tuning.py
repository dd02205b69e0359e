"""Tuning the index of a run: which queries, and where the curve is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from medvrag_core.errors import MismatchError, NotBuiltError
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
    summaries = list(resources.store.summaries.values())
    step = max(1, len(summaries) // count)
    return [Query(id=summary.page_id, text=summary.text) for summary in summaries[::step][:count] if summary.text]


def read_tuning(resources: Resources, mode: str) -> Tuning:
    """The curve that :func:`tune_run` kept.

    Raises
    ------
    NotBuiltError : there is none
    MismatchError : the index has another number of pages now
    """
    path = tuning_path(resources.workspace.index, mode)
    if not path.is_file():
        raise NotBuiltError(f"{path}: mode '{mode}' was not tuned", way_out="run `medvrag index tune`")
    found = Tuning.from_json(path.read_text(encoding="utf-8"), source=str(path))
    if found.pages != len(resources.vectors):
        raise MismatchError(
            f"{path}: tuned on {found.pages:,} pages, there are {len(resources.vectors):,}",
            way_out="run `medvrag index tune` again",
        )
    return found
