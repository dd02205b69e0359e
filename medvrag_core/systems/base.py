"""What a system is, and the catalog that commands and notebooks choose from: bases in Python, arms in YAML."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medvrag_core.errors import InputError
from medvrag_core.profiles.load import with_overrides
from medvrag_core.reasoning.composition import Pipeline, Stage
from medvrag_core.reasoning.loop import run_rounds
from medvrag_core.records import Question, Round
from medvrag_core.settings import LoopSettings, Profile
from medvrag_core.systems.arm_lines import ArmLine, read_arms, shipped_arms
from medvrag_core.systems.registration import file_digest, require_free_name
from medvrag_core.systems.resources import Resources


class System(ABC):
    """Answers one question from start to end."""

    @abstractmethod
    def answer(self, question: Question) -> tuple[Round, ...]:
        """The rounds of one question, at least one; raises ``RoundError`` when a model failed."""

    @property
    @abstractmethod
    def composition(self) -> str:
        """Its stages as one line."""

    def close(self) -> None:
        """Release servers and handles."""


class Composed(System):
    """Stages one after another, in as many rounds as the settings allow; what most systems are.

    Parameters
    ----------
    loop : rounds and memory
    stages : see :class:`~medvrag_core.reasoning.composition.Pipeline`

    Raises
    ------
    CompositionError
        The stages do not fit together.
    """

    def __init__(self, loop: LoopSettings, *stages: Stage) -> None:
        self.loop, self.pipeline = loop, Pipeline(*stages)

    def answer(self, question: Question) -> tuple[Round, ...]:
        """See :class:`System`."""
        return run_rounds(question, self.pipeline, self.loop)

    @property
    def composition(self) -> str:
        """See :class:`System`."""
        return f"{self.pipeline.described()}, {self.loop.max_rounds} round{'s' * (self.loop.max_rounds > 1)} at most"


Prompts = Callable[[Profile], Mapping[str, str]]


@dataclass(frozen=True)
class SystemEntry:
    """A system by name.

    Attributes
    ----------
    summary : one line on what it is
    make : composes it from resources that are under its settings already
    overrides : settings by dotted field that make the system what it is, whatever the profile has; those of an arm
        are its base's and its own
    takes_page_controls : whether ``control.pages`` means something to it
    version : under a profile, what shapes its answers beside settings, corpus, page encoder, filter and reader
    prompts : under a profile, the digest of each prompt that it uses beside those of filter and reader, by purpose
    """

    name: str
    summary: str
    make: Callable[[Resources], System]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    takes_page_controls: bool = False
    version: Callable[[Profile], str] = lambda profile: ""
    prompts: Prompts = lambda profile: {}

    def settle(self, profile: Profile) -> Profile:
        """The profile as this system runs under it; settling twice is settling once.

        Raises
        ------
        SettingsError
            The overrides do not go with the profile.
        InputError
            The profile asks for placebo pages, and this system shows no pages of its own.
        """
        settled = with_overrides(profile, self.overrides, source=f"arm '{self.name}'") if self.overrides else profile
        if settled.control.pages != "found" and not self.takes_page_controls:
            raise InputError(
                f"system '{self.name}' cannot take control.pages: {settled.control.pages}",
                way_out="use it with a system that shows pages, such as medvrag",
            )
        return settled

    def compose(self, resources: Resources) -> System:
        """The system on an opened run, under its own settings."""
        return self.make(resources.under(self.settle(resources.profile)))


Compose = Callable[[Resources], System]
_BASES: dict[str, SystemEntry] = {}
_ADDED: dict[str, ArmLine] = {}


def register(
    name: str,
    summary: str,
    *,
    overrides: Mapping[str, Any] | None = None,
    takes_page_controls: bool = False,
    version: Callable[[Profile], str] = lambda profile: "",
    prompts: Prompts = lambda profile: {},
) -> Callable[[Compose], Compose]:
    """Decorator that puts a composing function into the catalog under ``name``, as a base for arms.

    Outside of this package the digest of the function's file is part of the version, so that no answer is used again
    after the file changed. A function of a notebook has no file: change its ``version`` when you change what it does.

    Raises
    ------
    InputError
        Another system has the name, or it is no plain name. The same function may be registered again, as a notebook
        does whose cell is run twice.
    """

    def add(compose: Compose) -> Compose:
        require_free_name("system", name, compose, lambda: {known: one.make for known, one in catalog().items()})
        digest = file_digest(compose)
        _BASES[name] = SystemEntry(
            name,
            summary,
            compose,
            overrides=overrides or {},
            takes_page_controls=takes_page_controls,
            version=lambda profile: " ".join(filter(None, (version(profile), digest))),
            prompts=prompts,
        )
        return compose

    return add


def catalog() -> dict[str, SystemEntry]:
    """All systems and arms by name.

    Every module of this package is imported once, so a new file is enough to add a base; a new line of ``arms.yaml``
    is enough to add an arm.
    """
    return dict(sorted({**_bases(), **_entries(shipped_arms(), "arms.yaml"), **_entries(_ADDED, "added arms")}.items()))


def find_system(name: str) -> SystemEntry:
    """The entry of one system; InputError lists the names there are."""
    known = catalog()
    if name not in known:
        raise InputError(f"there is no system '{name}'", way_out=f"choose one of {', '.join(known)}")
    return known[name]


def add_arms(path: Path) -> list[str]:
    """Make the arms of a user's file known to this process; their names.

    Raises
    ------
    InputError
        The file or an arm of it is unusable, or has the name of a system that is there already.
    """
    lines = read_arms(path)
    _entries(lines, str(path))
    known = catalog()
    for name, line in lines.items():
        if name in known and _ADDED.get(name) != line:
            raise InputError(f"{path}: arm '{name}': there is a system of this name", way_out="choose another name")
    _ADDED.update(lines)
    return list(lines)


def _bases() -> dict[str, SystemEntry]:
    import medvrag_core.systems as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _BASES


def _entries(lines: Mapping[str, ArmLine], source: str) -> dict[str, SystemEntry]:
    bases, made = _bases(), {}
    for name, line in lines.items():
        if line.base not in bases:
            raise InputError(
                f"{source}: arm '{name}': there is no base '{line.base}'",
                way_out=f"choose one of {', '.join(sorted(bases))}",
            )
        base = bases[line.base]
        made[name] = replace(base, name=name, summary=line.summary, overrides={**base.overrides, **line.set})
    return made
