"""Packages that the default install does not hold."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from medvrag_core.errors import MedvragError


@contextmanager
def gpu_packages(wanted_by: str) -> Generator[None, None, None]:
    """Around imports of the extra ``gpu``: a package that is missing becomes an error that says what needs it.

    >>> with gpu_packages("encoder 'dse'"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    medvrag_core.errors.MedvragError: encoder 'dse' needs the package no_such_package; install the extra 'gpu'
    """
    try:
        yield
    except ImportError as error:
        raise MedvragError(f"{wanted_by} needs the package {error.name}", way_out="install the extra 'gpu'") from None
