"""Four small tasks beside the reader's (MedRGAG, arXiv 2510.18297), each behind an interface; each gives a Step.

A task of which nothing came gives a :class:`~medvrag_core.records.Step` with a ``reason``, and the stage that asked
says what follows from it; only a call that failed is an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from medvrag_core.records import EvidenceItem, Question, Step, Summary

NOTHING_USEFUL = "nothing_useful"
"""Reason of a summary: the document says nothing that helps with the question."""
UNREADABLE = "unreadable"
"""Reason of a reply that does not have the form that was asked for."""
NONE_SELECTED = "none_selected"
"""Reason of a selection that names no document."""
NOTHING_FOUND = "nothing_found"
"""Reason of a document for which the corpus has no sentence."""


class Task:
    """What all four have in common.

    Attributes
    ----------
    at_once : how many may be under way at one time, each in a thread of its own
    """

    at_once: int = 1


class Summarizer(Task, ABC):
    """Says what one document tells about a question."""

    @abstractmethod
    def summarize(self, question: Question, document: EvidenceItem) -> Step:
        """Step ``summarize`` about the document; ``text`` is the summary, :data:`NOTHING_USEFUL` where there is none.

        Raises
        ------
        CallError : the call failed
        """


class Explorer(Task, ABC):
    """Names what is still missing to answer a question."""

    @abstractmethod
    def explore(self, question: Question, digest: Sequence[Summary], most: int) -> Step:
        """Step ``explore``; ``names`` are the missing points, short titles, the most important first, ``most`` at most.

        Raises
        ------
        CallError : the call failed
        """


class Generator(Task, ABC):
    """Writes background documents; it never sees the options."""

    @abstractmethod
    def generate(self, question: Question, point: str, number: int = 1, of: int = 1) -> Step:
        """Step ``generate`` about the point; ``text`` is the document.

        Parameters
        ----------
        point : what it is to be about; empty for whatever the question takes
        number, of : which of the documents of an empty point this is, so that they differ

        Raises
        ------
        CallError : the call failed
        """


class Integrator(Task, ABC):
    """Chooses the documents that a reader gets."""

    @abstractmethod
    def select(self, question: Question, documents: Sequence[EvidenceItem], most: int) -> Step:
        """Step ``select``; ``names`` are evidence ids of ``documents``, ``most`` at most, each once.

        ``reason`` is set where nothing could be selected.

        Raises
        ------
        CallError : the call failed
        """
