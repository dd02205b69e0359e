"""The one error that users are meant to read: what is wrong, where, and the way out."""

from __future__ import annotations


class MedvragError(Exception):
    """A fault in the input, the settings or the state of a run.

    The command line prints ``str(error)`` as it is and exits with ``exit_code``, so the
    text must name the file, field or page, and ``way_out`` must say what to do about it.

    Examples
    --------
    >>> print(MedvragError("data/empty: holds no PDF", way_out="point --source at a folder of PDFs"))
    data/empty: holds no PDF; point --source at a folder of PDFs
    """

    exit_code = 2

    def __init__(self, problem: str, *, way_out: str = "") -> None:
        self.problem = problem
        self.way_out = way_out
        super().__init__(f"{problem}; {way_out}" if way_out else problem)


class SettingsError(MedvragError):
    """A profile or an override is not understood."""


class InputError(MedvragError):
    """A file, folder, question or identifier given by the user is unusable."""


class NotBuiltError(MedvragError):
    """A stage was asked for before the stage it reads from was built."""


class MismatchError(MedvragError):
    """Stored work was made under other settings than those in force."""


class ModelError(MedvragError):
    """A language-model call gave no usable reply."""

    exit_code = 3


class CompositionError(MedvragError):
    """The stages of a system do not fit together."""
