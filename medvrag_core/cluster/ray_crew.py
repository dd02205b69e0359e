"""Workers on the machines of a Ray cluster, by Ray Data.

Ray Data gives each worker one item at a time, and the next when it is done (back pressure). It starts a lost worker
anew, on another machine if need be, and has the item that it had done again; whole files make an item that is done
twice the same as one that is done once.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from medvrag_core.cluster.session import join, told_by
from medvrag_core.errors import MedvragError
from medvrag_core.runs.crew import Crew, Work
from medvrag_core.settings import Profile, RaySettings

T = TypeVar("T")
R = TypeVar("R")
LOSSES = 3
"""Workers that one item may cost and still be given to another. Without a bound, an item that kills whoever takes it
would go round forever."""
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

    def work(
        self, make: Callable[[], Callable[[T], R]], items: Sequence[T], *, kind: Work, most: int | None = None
    ) -> Iterator[R]:
        """See :class:`Crew`."""
        if not items:
            return
        import ray

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False  # There is a bar of ours.
        context.execution_no_progress_timeout_s = -1  # An article may take as long as its pages may.
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        given = [{"given": _Given(number, item)} for number, item in enumerate(items)]
        tries = ray.remote(_Tries).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
        gpus = self._gpus(kind)
        done = ray.data.from_items(given, override_num_blocks=len(given)).map(
            _Worker,
            fn_constructor_args=(make, tries),
            compute=ray.data.ActorPoolStrategy(
                size=min(self.workers(kind), len(given), most or len(given)), max_tasks_in_flight_per_actor=1
            ),
            num_cpus=0 if gpus else 1,
            num_gpus=gpus or None,
            runtime_env={"env_vars": ONE_THREAD},
        )
        try:
            # Ray tells on standard output of workers that are lost, where others expect JSON.
            # Without prefetching, which would hold back a result until there is another.
            results = iter(done.iter_batches(batch_size=1, prefetch_batches=0))
            with redirect_stdout(sys.stderr), closing(results):
                for batch in results:
                    told: _Told = batch["told"][0]
                    if told.fault is not None:
                        raise told.fault
                    yield told.result
        except ray.exceptions.RayError as error:
            raise MedvragError(f"Ray failed: {told_by(error)}", way_out=_WAY_OUT) from error
        finally:
            ray.kill(tries)

    @contextmanager
    def lent(self, make: Callable[[], T]) -> Iterator[T]:
        """See :class:`Crew`; an actor, which is started anew when it is lost."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor = (
            ray.remote(_Lender)
            .options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)
            .remote(make)
        )
        try:
            yield cast(T, _Borrowed(actor))
        finally:
            # After the calls that are under way; then it closes what it lent.
            try:
                ray.get(actor.close.remote())
            finally:
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


_WAY_OUT = "what is finished is kept; look at the machine that it was on, then run again"


@dataclass(frozen=True)
class _Given:
    """An item in one piece; Ray Data would turn a tuple into an array."""

    number: int
    item: Any


@dataclass(frozen=True)
class _Told:
    """What an item came to."""

    result: Any = None
    fault: MedvragError | None = None


class _Worker:
    """What runs in an actor of Ray Data."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]], tries: Any) -> None:
        self._work, self._tries = make(), tries

    def __call__(self, row: dict[str, Any]) -> dict[str, _Told]:
        """The result of an item or its fault as it is; Ray Data would wrap it."""
        return {"told": self._told(row["given"])}

    def _told(self, given: _Given) -> _Told:
        import ray

        before: int = ray.get(self._tries.before.remote(given.number))
        if before > LOSSES:
            fault = MedvragError(f"{str(given.item)[:200]}: cost {before} workers on Ray", way_out=_WAY_OUT)
            return _Told(fault=fault)
        try:
            return _Told(self._work(given.item))
        except MedvragError as fault:
            return _Told(fault=fault)
        except Exception as bug:
            return _Told(fault=MedvragError(f"a worker on Ray failed: {told_by(bug)}", way_out=_WAY_OUT))


class _Lender:
    """What runs in the actor of something lent."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._lent = make()

    def call(self, method: str, arguments: tuple[Any, ...]) -> _Told:
        """The result or the fault of ours; Ray would wrap it."""
        try:
            return _Told(getattr(self._lent, method)(*arguments))
        except MedvragError as fault:
            return _Told(fault=fault)

    def close(self) -> None:
        """Close what was lent, if it can be closed."""
        if hasattr(self._lent, "close"):
            self._lent.close()


class _Borrowed:
    """Stands for something lent in the process of a worker."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)  # Pickling asks for such.
        return partial(self._call, method)

    def _call(self, method: str, *arguments: Any) -> Any:
        import ray

        told: _Told = ray.get(self._actor.call.remote(method, arguments))
        if told.fault is not None:
            raise told.fault
        return told.result


class _Tries:
    """Counts in an actor how often each item was begun."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def before(self, number: int) -> int:
        """How often the item was begun before; one more time now."""
        self._begun[number] += 1
        return self._begun[number] - 1
