"""A crew of Ray actors.

Each has one item at a time, and gets the next when it is done (back pressure). Ray starts a lost actor anew, on another
machine if need be, and asks it again for the item that it had; whole files make an item that is done twice the same as
one that is done once. Actors, not Ray Data: its pipelines take longer to start, and no stage feeds the next page by
page, since all pages are compared with each other in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from medvrag_core.cluster.session import join, told_by
from medvrag_core.errors import MedvragError
from medvrag_core.runs.crew import Crew, Work
from medvrag_core.settings import Profile, RaySettings

T = TypeVar("T")
R = TypeVar("R")
LOSSES = 3
"""Workers that one item may cost. Without a bound, an item that kills whoever takes it would go round forever."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""As copies of an encoder have: sums of one thread do not depend on how many cores a machine has."""


def crew_of(profile: Profile) -> Crew | None:
    """The crew that the settings ask for; None where this process does the work."""
    return RayCrew(profile.ray, profile.processes) if profile.ray.asked_for else None


class RayCrew(Crew):
    """See the module; parameters as those of :func:`~medvrag_core.cluster.session.join`, which it calls."""

    def __init__(self, settings: RaySettings, cores: int) -> None:
        self.settings = settings
        join(settings, cores)

    def work(self, make: Callable[[], Callable[[T], R]], items: Sequence[T], *, kind: Work) -> Iterator[R]:
        """See :class:`Crew`."""
        if not items:
            return
        import ray

        each = ray.remote(_Worker).options(
            num_cpus=0 if self._gpus(kind) else 1,
            num_gpus=self._gpus(kind),
            max_restarts=-1,
            max_task_retries=LOSSES,
            runtime_env={"env_vars": ONE_THREAD},
        )
        actors = [each.remote(make) for _ in range(min(self.workers(kind), len(items)))]
        left = iter(items)
        busy = {actor.work.remote(next(left)): actor for actor in actors}
        try:
            while busy:
                ((ready, *_), _) = ray.wait(list(busy), num_returns=1)
                actor = busy.pop(ready)
                result, fault = ray.get(ready)
                if fault is not None:
                    raise fault
                try:
                    busy[actor.work.remote(next(left))] = actor
                except StopIteration:
                    ray.kill(actor)  # Its room may be what a lost worker waits for.
                yield result
        except ray.exceptions.RayError as error:
            raise MedvragError(
                f"a worker on Ray failed: {told_by(error)}",
                way_out="what is finished is kept; look at the machine that it was on, then run again",
            ) from error
        finally:
            for actor in busy.values():
                ray.kill(actor)

    def workers(self, kind: Work) -> int:
        """As many as settings say, else as the cores or GPUs of the cluster hold."""
        if self.settings.workers:
            return self.settings.workers
        import ray

        resources = ray.cluster_resources()
        gpus = self._gpus(kind)
        return max(1, int(resources.get("GPU", 0) / gpus if gpus else resources.get("CPU", 1)))

    def _gpus(self, kind: Work) -> float:
        return self.settings.gpus_per_encoder if kind == "encode" else 0.0


class _Worker:
    """What runs in an actor."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._work = make()

    def work(self, item: Any) -> tuple[Any, MedvragError | None]:
        """Its result or its fault, which comes back as it is; Ray would wrap it."""
        try:
            return self._work(item), None
        except MedvragError as fault:
            return None, fault
