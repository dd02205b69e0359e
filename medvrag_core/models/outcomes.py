"""How a call can end, and what follows from it: one closed set for client, store, filter, loop and reports."""

from __future__ import annotations

from medvrag_core.errors import MedvragError, ModelError
from medvrag_core.records import CallOutcome

FINAL: frozenset[CallOutcome] = frozenset({"complete", "truncated", "refused", "empty"})
"""What the model itself did. Asking again would be a re-roll, so these are stored and never asked twice."""

PASSING: frozenset[CallOutcome] = frozenset({"aborted", "malformed", "unavailable", "timeout", "transport"})
"""Faults of the server or the way to it: tried again within the call, and asked again when the run goes on."""

STOPPING: frozenset[CallOutcome] = frozenset({"denied", "wrong_model"})
"""Every further call would end the same way, so the run stops at once."""

# The two left over, ``rejected`` (this request is not accepted) and ``not_stored`` (policy only-cache), end one
# call: trying at once is useless, and a later run asks again since the setting behind them may have changed.


class CallError(ModelError):
    """A call that gave no usable reply; ``kind`` says how it ended.

    Attributes
    ----------
    kind : a :data:`~medvrag_core.records.CallOutcome`
    attempts : tries that were made
    retry_after_s : seconds that the server asked to wait
    prompt_tokens, completion_tokens : what the server says it spent; 0 where it says nothing
    call : key of the call in the store, empty when the call was not stored
    text : what a cut or refused reply said so far; kept for people to read, never parsed
    """

    def __init__(
        self,
        kind: CallOutcome,
        problem: str,
        *,
        way_out: str = "",
        tokens: tuple[int, int] = (0, 0),
        text: str = "",
    ) -> None:
        super().__init__(f"{problem} [{kind}]", way_out=way_out)
        self.text = text
        self.kind: CallOutcome = kind
        self.attempts = 1
        self.retry_after_s = 0.0
        self.prompt_tokens, self.completion_tokens = tokens
        self.call = ""

    @property
    def final(self) -> bool:
        """Whether the model itself ended the call this way."""
        return self.kind in FINAL


class RunStopped(MedvragError):  # noqa: N818 - it tells a state, and mostly not a fault of this program
    """The run cannot go on now; what is finished is kept, and the same command goes on from here.

    Not a :class:`~medvrag_core.errors.ModelError`, so that neither the filter nor the loop survives it.
    """

    exit_code = 3


def failure_kind(error: ModelError) -> str:
    """How a model error is called in traces: the call's outcome, or ``unreadable`` for a reply that says nothing.

    >>> failure_kind(CallError("timeout", "late")), failure_kind(ModelError("no ranking"))
    ('timeout', 'unreadable')
    """
    return error.kind if isinstance(error, CallError) else "unreadable"


def worth_asking_again(kind: str) -> bool:
    """Whether a run that goes on should repeat a question that ended in, or leaned on, such a failure.

    >>> worth_asking_again("timeout"), worth_asking_again("truncated"), worth_asking_again("unreadable")
    (True, False, False)
    """
    return kind not in FINAL and kind not in {"", "unreadable"}
