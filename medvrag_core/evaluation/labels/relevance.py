"""Relevance labels of pages, by people and by models: one JSON object a line, appended and never rewritten."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from filelock import FileLock, Timeout
from pydantic import Field

from medvrag_core.errors import InputError
from medvrag_core.records import Record
from medvrag_core.runs.publish import write_text

log = logging.getLogger(__name__)

Grade = Literal["relevant", "partly", "not_relevant", "unsure"]
GRADES: tuple[Grade, ...] = ("relevant", "partly", "not_relevant", "unsure")
Pair = tuple[str, str]
"""Question id and page id."""


class RelevanceLabel(Record):
    """What one rater says about one page and one question.

    ``label`` is null where a model's reply could not be read; ``reason`` then holds the code, else the rater's words.
    ``probability`` is the chance with which the pair was drawn for labeling, ``stratum`` what it was drawn from.
    """

    question_id: str = Field(min_length=1)
    page_id: str = Field(min_length=1)
    rater: str = Field(min_length=1)
    label: Grade | None
    reason: str = ""
    stratum: str = ""
    probability: float | None = Field(None, gt=0, le=1)

    @property
    def pair(self) -> Pair:
        """What was labeled."""
        return self.question_id, self.page_id


def is_relevant(label: Grade | None, *, partly: bool = False) -> bool | None:
    """A label as yes or no; None for ``unsure`` and for a reply that could not be read.

    ``partly`` says whether a partly relevant page counts as relevant.

    >>> is_relevant("partly"), is_relevant("partly", partly=True), is_relevant("unsure")
    (False, True, None)
    """
    if label is None or label == "unsure":
        return None
    return label == "relevant" or (label == "partly" and partly)


def write_labels(path: Path, labels: Sequence[RelevanceLabel]) -> None:
    """Publish a whole file of labels."""
    write_text(path, "".join(label.to_json() + "\n" for label in labels))


def read_labels(path: Path, *, rater: str | None = None) -> list[RelevanceLabel]:
    """The labels of one rater, in the order in which pairs were first labeled; of a pair the last label counts.

    A last line without its line end was cut while it was written and is left out with a warning.

    Parameters
    ----------
    rater : whose labels; needed only for a file of several raters

    Raises
    ------
    InputError : the file is missing, holds no label of this rater or labels of several, or a line is damaged
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", way_out="label some pages first, or run `medvrag judge`")
    found = _parsed(path, path.read_bytes())
    raters = sorted({label.rater for label in found})
    if rater is None and len(raters) > 1:
        raise InputError(f"{path}: labels of several raters: {', '.join(raters)}", way_out="give --rater")
    chosen = {label.pair: label for label in found if rater in (None, label.rater)}
    if not chosen:
        raise InputError(
            f"{path}: holds no label" + (f" of '{rater}'" if rater is not None else ""),
            way_out=f"raters there: {', '.join(raters) or 'none'}",
        )
    return list(chosen.values())


def as_gold(labels: Iterable[RelevanceLabel], *, partly: bool = False) -> dict[str, dict[str, int]]:
    """Labels by question id and page id, 1 or 0; pairs without a clear label are left out."""
    gold: dict[str, dict[str, int]] = {}
    for label in labels:
        relevant = is_relevant(label.label, partly=partly)
        if relevant is not None:
            gold.setdefault(label.question_id, {})[label.page_id] = int(relevant)
    return gold


def gold_as_labels(pairs: Iterable[Pair], gold: Mapping[str, Collection[str]], rater: str) -> list[RelevanceLabel]:
    """What gold pages say about some pairs, as labels, to compare a judge with where gold pages are known.

    A page that is no gold page counts as not relevant, though nobody may have looked at it.
    """
    return [
        RelevanceLabel(
            question_id=question,
            page_id=page,
            rater=rater,
            label="relevant" if page in gold.get(question, ()) else "not_relevant",
        )
        for question, page in pairs
    ]


class LabelFile:
    """A file of labels that is open for one rater: each label is on the disk before :meth:`append` returns.

    A cut last line, which a crash can leave, is taken away before anything is appended. Close it, or use it in a
    ``with`` statement.

    Parameters
    ----------
    path : made if it is missing
    rater : who labels; the file must not hold labels of anybody else, since raters must not see each other's

    Raises
    ------
    InputError : another process has the file open, a line is damaged, or it holds labels of another rater
    """

    def __init__(self, path: Path, rater: str) -> None:
        if not rater.strip():
            raise InputError("a label needs the name of its rater", way_out="write your name or initials")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.rater = path, rater
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise InputError(f"{path}: is open elsewhere", way_out="close the other widget or process") from None
        try:
            raw = path.read_bytes() if path.is_file() else b""
            kept = _parsed(path, raw)
            strangers = sorted({label.rater for label in kept} - {rater})
            if strangers:
                raise InputError(f"{path}: holds labels of '{strangers[0]}'", way_out="give each rater a file")
            self._file = path.open("ab", buffering=0)
            whole = raw.rfind(b"\n") + 1
            if whole < len(raw):
                self._file.truncate(whole)
        except BaseException:
            self._lock.release()
            raise
        self._labels = {label.pair: label for label in kept}

    @property
    def labels(self) -> Mapping[Pair, RelevanceLabel]:
        """The last label of every pair."""
        return self._labels

    def append(self, label: RelevanceLabel) -> None:
        """Add a label; an earlier one of the same pair stays in the file but counts no more.

        Raises OSError when the disk does not take it; the file is then as it was.
        """
        if label.rater != self.rater:
            raise InputError(f"{self.path}: is open for '{self.rater}', not for '{label.rater}'")
        line = (label.to_json() + "\n").encode()
        before = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self._file.fileno())
        except OSError:
            # Half a line must not stand before the next whole one.
            with contextlib.suppress(OSError):
                self._file.truncate(before)
            raise
        self._labels[label.pair] = label

    def close(self) -> None:
        """Let others open the file."""
        self._file.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _parsed(path: Path, raw: bytes) -> list[RelevanceLabel]:
    *lines, rest = raw.split(b"\n")
    if rest:
        log.warning("%s: its last line was cut while it was written and is left out", path)
    return [
        RelevanceLabel.from_json(line, source=f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
