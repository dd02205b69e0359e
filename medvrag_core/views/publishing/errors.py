"""Faults of a chapter and of the book."""

from __future__ import annotations

from medvrag_core.errors import MedvragError


class ChapterFailed(MedvragError):  # noqa: N818 - reads as the sentence it prints
    """A chapter is malformed, did not run to its end, or left no record of this run."""

    exit_code = 1


class BookError(MedvragError):
    """The book cannot be rendered as it is."""

    exit_code = 1
