"""The parts of an index in Ray actors, so that its codes lie in the memory of many machines.

Actors open the files that are there; nothing is copied. Ray starts a lost one anew and asks it again, another replica
answers meanwhile if there is one, and a query that a part cannot answer fails: there are no results from a part of the
pages.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain, cycle
from typing import Any, Literal

from medvrag_core.cluster.session import join, told_by
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MedvragError
from medvrag_core.index.build import usable_manifest
from medvrag_core.index.parts import DividedIndex, OpenPart, PartOfIndex, divided
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile, RaySettings

_TRIES = 3
"""Times that Ray asks a restarted actor again before its replicas are asked."""


class LostPagesError(MedvragError):
    """Some pages of an index cannot be searched, so no query is answered."""

    exit_code = 3


def served_index(workspace: Workspace, store: VectorStore, profile: Profile) -> DividedIndex:
    """The index of a run, searched by actors as ``profile.ray`` says; errors as those of ``open_index``.

    Raises
    ------
    SettingsError : mode ``paper``
    """
    join(profile.ray, profile.processes)
    manifest = usable_manifest(store, workspace.index)
    settings = profile.index.model_copy(update={"threads": 1})  # A core an actor, as it asks Ray for.
    parts = divided(store, workspace.index, manifest, settings, profile.ray.index_servers)
    return DividedIndex(store, parts, IndexServers(parts, profile.ray).ask, elsewhere=True)


class IndexServers:
    """Actors for each part; they end with :meth:`close`, or with the session."""

    def __init__(self, parts: Sequence[PartOfIndex], settings: RaySettings) -> None:
        import ray

        each = ray.remote(_Server).options(num_cpus=1, max_restarts=-1, max_task_retries=_TRIES)
        self._parts, self._settings = parts, settings
        self.actors = [[each.remote(part) for _ in range(settings.replicas)] for part in parts]
        self._turns = cycle(range(settings.replicas))

    def ask(self, what: Literal["coarse", "scores", "exact"], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Replies of all parts, asked at the same time; replicas take turns. May be called from several threads.

        Raises LostPagesError when no replica of a part answers; it names the pages.
        """
        turn = next(self._turns)
        asked = [
            actors[turn].reply.remote(what, arguments) for actors, arguments in zip(self.actors, given, strict=True)
        ]
        return [self._reply(number, turn, reply, what, given[number]) for number, reply in enumerate(asked)]

    def close(self) -> None:
        """End all actors."""
        import ray

        for actor in chain.from_iterable(self.actors):
            ray.kill(actor)

    def _reply(self, number: int, turn: int, reply: Any, what: str, arguments: tuple[Any, ...]) -> Any:
        import ray

        actors = self.actors[number]
        for step in range(len(actors)):
            if step:
                reply = actors[(turn + step) % len(actors)].reply.remote(what, arguments)
            try:
                return ray.get(reply, timeout=self._settings.timeout_s)
            except ray.exceptions.RayError as error:
                last = error
        first, end = self._parts[number].places
        raise LostPagesError(
            f"no server answers for {end - first:,} of {self._pages:,} pages of the index ({told_by(last)})",
            way_out="look at the machines of the cluster, then run again; --set ray.index_servers=0 searches here",
        ) from last

    @property
    def _pages(self) -> int:
        return self._parts[-1].places[1]


class _Server:
    """What runs in an actor."""

    def __init__(self, part: PartOfIndex) -> None:
        self._part: OpenPart = part.open()

    def reply(self, what: str, arguments: tuple[Any, ...]) -> Any:
        return getattr(self._part, what)(*arguments)

    def process(self) -> int:
        return os.getpid()
