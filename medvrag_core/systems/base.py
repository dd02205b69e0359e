"""What a system is, and the catalog that commands and notebooks choose from."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from medvrag_core.errors import InputError
from medvrag_core.records import Question, Round
from medvrag_core.systems.resources import Resources


class System(ABC):
    """Answers one question from start to end."""

    @abstractmethod
    def answer(self, question: Question) -> tuple[Round, ...]:
        """The rounds of one question, at least one; raises ``RoundError`` when a model failed."""

    def close(self) -> None:
        """Release servers and handles."""


@dataclass(frozen=True)
class SystemEntry:
    """A system by name: one line on what it is, and how it is composed from resources."""

    name: str
    summary: str
    compose: Callable[[Resources], System]


_CATALOG: dict[str, SystemEntry] = {}


def register(name: str, summary: str) -> Callable[[Callable[[Resources], System]], Callable[[Resources], System]]:
    """Decorator that puts a composing function into the catalog under ``name``."""

    def add(compose: Callable[[Resources], System]) -> Callable[[Resources], System]:
        _CATALOG[name] = SystemEntry(name, summary, compose)
        return compose

    return add


def catalog() -> dict[str, SystemEntry]:
    """All systems; every module of this package is imported once, so a new file is enough to add one."""
    import medvrag_core.systems as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_CATALOG.items()))


def find_system(name: str) -> SystemEntry:
    """The entry of one system; InputError lists the names there are."""
    known = catalog()
    if name not in known:
        raise InputError(f"there is no system '{name}'", way_out=f"choose one of {', '.join(known)}")
    return known[name]
