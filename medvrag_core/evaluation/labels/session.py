"""One rater at work: which page comes next, what was said, and every label on the disk at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from medvrag_core.errors import InputError
from medvrag_core.evaluation.labels.relevance import Grade, LabelFile, RelevanceLabel
from medvrag_core.evaluation.labels.sample import LabelTask, rater_order

_LONGEST_NAME = 60


def rater_path(folder: Path, rater: str) -> Path:
    """The file of one rater; the name is percent-encoded, so that none can leave the folder.

    Raises InputError for an empty or overlong name.

    >>> rater_path(Path("labels"), "Ann B./c").as_posix()
    'labels/rater-Ann%20B.%2Fc.jsonl'
    """
    name = rater.strip()
    if not 0 < len(name) <= _LONGEST_NAME:
        raise InputError(f"a rater's name has 1 to {_LONGEST_NAME} characters", way_out="write your name or initials")
    return folder / f"rater-{quote(name, safe='')}.jsonl"


class LabelSession:
    """Walks through the tasks in the rater's own order, starting at the first page without a label.

    Nothing here knows a rank, a judge's label or another rater's. Close it, so that others can open the file.

    Parameters
    ----------
    folder : holds a file for each rater
    rater : who labels
    tasks : the sample; every rater gets the same

    Raises
    ------
    InputError : there is no task, the name is unusable, or the file is open elsewhere or damaged
    """

    def __init__(self, folder: Path, rater: str, tasks: Sequence[LabelTask]) -> None:
        if not tasks:
            raise InputError("there is no page to label", way_out="draw a sample first")
        self.rater = rater.strip()
        self.tasks = rater_order(tasks, self.rater)
        self._file = LabelFile(rater_path(folder, rater), self.rater)
        self._place = self._next_open(0)

    @property
    def task(self) -> LabelTask | None:
        """What is to be labeled now; None when every page has a label."""
        return self.tasks[self._place] if self._place < len(self.tasks) else None

    @property
    def said(self) -> Grade | None:
        """What the rater said about this page before."""
        known = None if self.task is None else self._file.labels.get((self.task.question_id, self.task.page_id))
        return None if known is None else known.label

    @property
    def done(self) -> int:
        """Pages of the sample that have a label."""
        return sum((task.question_id, task.page_id) in self._file.labels for task in self.tasks)

    def label(self, grade: Grade, reason: str = "") -> None:
        """Keep a label of the page at hand, then go to the next page without one; the last label of a page counts.

        Raises InputError when there is no page at hand.
        """
        task = self.task
        if task is None:
            raise InputError("every page has a label", way_out="go back to change one")
        self._file.append(
            RelevanceLabel(
                question_id=task.question_id,
                page_id=task.page_id,
                rater=self.rater,
                label=grade,
                reason=reason.strip(),
                stratum=task.stratum,
                probability=task.probability,
            )
        )
        self._place = self._next_open(self._place + 1)

    def back(self) -> None:
        """Go one page back in the rater's order; stays at the first."""
        self._place = max(0, self._place - 1)

    def close(self) -> None:
        """Let others open the file."""
        self._file.close()

    def _next_open(self, start: int) -> int:
        """The first place without a label from ``start`` on, then from the beginning; the end when there is none."""
        around = [*range(start, len(self.tasks)), *range(min(start, len(self.tasks)))]
        labels = self._file.labels
        return next(
            (n for n in around if (self.tasks[n].question_id, self.tasks[n].page_id) not in labels), len(self.tasks)
        )
