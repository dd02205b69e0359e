"""A crew on a real Ray: the files of one process, whoever is killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from losses import Device, Diary, Marking, Slow, Squares, Writes
from same_files import digests_of

from medvrag_core.cluster.ray_crew import RayCrew
from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.copies import Copies
from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.shard_worker import ShardCrew
from medvrag_core.errors import InputError, MedvragError
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.crew import Work
from medvrag_core.settings import CorpusSettings, RaySettings
from medvrag_core.systems.prepare import CorpusPages, open_pages

pytestmark = pytest.mark.slow
T = TypeVar("T")
R = TypeVar("R")
QUICK = CorpusSettings(dpi=72, seconds_per_page=60)


class WatchedCrew(RayCrew):
    """Calls ``hurt`` with the marks of its workers once each of them has an item, then lets them go on."""

    def __init__(self, marks: Path, hurt: Callable[[list[int]], None]) -> None:
        super().__init__(RaySettings(where="auto"), 2)
        self.marks, self.hurt = marks, hurt

    def work(
        self, make: Callable[[], Callable[[T], R]], items: Sequence[T], *, kind: Work, most: int | None = None
    ) -> Iterator[R]:
        if not (self.marks / "go").exists():  # Hurt once, in the first stage that has work to do.
            threading.Thread(target=self._watch, daemon=True).start()
        return super().work(Marking(make, self.marks), items, kind=kind, most=most)

    def _watch(self) -> None:
        while len(busy := {int(mark.name.split("-")[0]) for mark in self.marks.glob("*-*")}) < 2:
            time.sleep(0.05)
        self.hurt(sorted(busy))
        (self.marks / "go").touch()


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def alone(articles: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpus and vectors as this machine makes them without Ray, by two processes."""
    home = tmp_path_factory.mktemp("alone")
    prepared(articles, home, None)
    return home


def prepared(articles: Path, home: Path, crew: RayCrew | None) -> None:
    settings = load_profile("test").encoder
    store = build_corpus(articles, home / "corpus", QUICK, workers=2, crew=crew, progress=False)
    make = partial(make_page_encoder, settings)
    encode_corpus(
        CorpusPages(store),
        make(),
        home / "vectors",
        corpus_fingerprint=store.fingerprint,
        storage=settings.storage,
        copies=Copies(make, 2),
        crew=None if crew is None else ShardCrew(crew, make, partial(open_pages, home / "corpus")),
        progress=False,
    )


def test_results_faults_bugs_and_losses_of_workers(cluster: Any, marks: Path) -> None:
    crew = RayCrew(RaySettings(where="auto"), 2)
    make = partial(Squares, marks)
    told = sorted(crew.work(make, [1, 2, 7, 4], kind="encode"))
    assert told == [(1, "1"), (4, "1"), (16, "1"), (49, "1")]
    with pytest.raises(InputError, match="5 is refused; take 6"):
        list(crew.work(make, [1, 5], kind="encode"))
    with pytest.raises(MedvragError, match="ZeroDivisionError: 3 is a bug"):
        list(crew.work(make, [1, 3], kind="encode"))


def test_an_item_that_kills_every_worker_ends_the_work(cluster: Any, marks: Path) -> None:
    with pytest.raises(MedvragError, match="13: cost 4 workers on Ray"):
        list(RayCrew(RaySettings(where="auto"), 2).work(partial(Squares, marks), [13], kind="encode"))


def test_no_more_work_than_they_may_be(cluster: Any) -> None:
    crew = RayCrew(RaySettings(where="auto"), 2)
    assert crew.workers("summarize") == 2
    assert len({process for process, _ in crew.work(Device, range(4), kind="summarize", most=1)}) == 1
    assert len({process for process, _ in crew.work(Device, range(12), kind="summarize", most=5)}) == 2


def test_what_is_lent_is_one_process_here_that_comes_back_when_it_is_killed(cluster: Any, tmp_path: Path) -> None:
    crew = RayCrew(RaySettings(where="auto"), 2)
    with crew.lent(partial(Diary, tmp_path / "diary")) as diary:
        make = partial(Writes, diary)
        (writer,) = set(crew.work(make, ["a", "b", "c", "d"], kind="summarize"))
        assert writer != os.getpid()
        assert diary.put("e") == diary.put("f") == writer
        os.kill(writer, signal.SIGKILL)
        (another,) = set(crew.work(make, ["g", "h"], kind="summarize"))
        assert another != writer
        with pytest.raises(InputError, match="nothing is said; say something"):
            diary.put("")
        with pytest.raises(InputError, match="nothing is said; say something"):
            list(crew.work(make, [""], kind="summarize"))
    said = (tmp_path / "diary").read_text().split()
    assert (sorted(said[:-1]), said[-1]) == (list("abcdefgh"), "end")
    wait_until(lambda: not Path("/proc", str(another)).exists())


def test_work_that_is_stopped_leaves_no_worker_and_what_nobody_is_free_for_waits(cluster: Any, marks: Path) -> None:
    made = RayCrew(RaySettings(where="auto"), 2).work(partial(Slow, marks), [0, 1, 2, 3], kind="index")

    def begun() -> list[tuple[str, str]]:
        return [(process, number) for process, _, number in (mark.name.partition("-") for mark in marks.iterdir())]

    assert next(made) == 0
    wait_until(lambda: len(begun()) == 3)
    time.sleep(1)
    assert sorted(number for _, number in begun()) == ["0", "1", "2"]
    made.close()  # type: ignore[attr-defined]
    wait_until(lambda: not any(Path("/proc", process).exists() for process, _ in begun()))


def wait_until(so: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.1)


def test_encoders_share_the_gpus_that_ray_counts(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=0, num_gpus=1, object_store_memory=80_000_000, include_dashboard=False)
    try:
        crew = RayCrew(RaySettings(where="auto", gpus_per_encoder=0.5), 2)
        wait_until(lambda: crew.workers("encode") == 2)
        told = set(crew.work(Device, range(6), kind="encode"))
        assert len({process for process, _ in told}) == 2
        assert {device for _, device in told} == {"0"}
        assert crew.workers("index") == 2
    finally:
        cluster.remove_node(node)


def test_a_build_on_ray_is_that_of_one_machine_although_a_worker_is_killed(
    cluster: Any, articles: Path, alone: Path, tmp_path: Path, marks: Path
) -> None:
    killed: list[int] = []

    def kill_one(busy: list[int]) -> None:
        killed.append(busy[0])
        os.kill(busy[0], signal.SIGKILL)

    prepared(articles, tmp_path / "ray", WatchedCrew(marks, kill_one))
    assert killed
    assert digests_of(tmp_path / "ray") == digests_of(alone)


def test_a_build_on_ray_is_that_of_one_machine_although_a_node_is_lost(
    cluster: Any, articles: Path, alone: Path, tmp_path: Path, marks: Path
) -> None:
    shutil.copytree(alone / "corpus", tmp_path / "ray" / "corpus")  # its pages are there, so vectors alone are made
    lost: list[Any] = []

    def lose_the_second(_: list[int]) -> None:
        lost.append(next(iter(cluster.worker_nodes)))
        cluster.remove_node(lost[0], allow_graceful=False)

    crew = WatchedCrew(marks, lose_the_second)
    prepared(articles, tmp_path / "ray", crew)
    assert lost and not lost[0].any_processes_alive()
    assert digests_of(tmp_path / "ray") == digests_of(alone)


def test_odd_files_have_the_same_ledger_on_ray(cluster: Any, shared_data: Path, tmp_path: Path) -> None:
    odd = shared_data / "odd_pdfs"
    for name, crew in (("alone", None), ("ray", RayCrew(RaySettings(where="auto"), 2))):
        build_corpus(odd, tmp_path / name, QUICK, workers=2, crew=crew, progress=False)
    assert digests_of(tmp_path / "ray") == digests_of(tmp_path / "alone")
    states = Counter(entry.state for entry in CorpusStore.open(tmp_path / "ray").ledger)
    assert states["dropped"] > 10 and states["kept"] > 10
