from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def small(tmp_path: Path, pages: int = 150) -> Any:
    from page_vectors import PageMaker
    from stage1_data import collect

    return collect(tmp_path / "data", PageMaker(seed=2), pages, 3)


def seen(**changed: Any) -> Any:
    from stage1_worker import Seen

    told = {
        "build_cpu_s": 3.0, "build_wall_s": 6.0, "open_wall_s": None, "cpu_ms": [1.0, 3.0, 2.0],
        "wall_ms": [2.0, 4.0, 6.0], "index_bytes": 15_000, "moved_bytes": 4e6, "peak_mb": 10.0, "private_mb": 5.0,
        "bandwidth": 1e9, "device": "cpu", "settings": {},
    }  # fmt: skip
    return Seen(**{**told, **changed})


def test_a_collection_is_the_same_in_memory_on_disk_and_in_the_store(tmp_path: Path) -> None:
    from page_vectors import PageMaker
    from stage1_data import collect
    from stage1_engines import both_halves

    from medvrag_core.encoders.vectors import VectorStore
    from medvrag_core.index.maxsim import one_way_score_pages, score_pages

    made = small(tmp_path)
    store = VectorStore.open(made.store)
    rows = np.fromfile(made.home / "rows.f16", dtype=np.float16).reshape(-1, 128)
    offsets = np.load(made.home / "offsets.npy")
    assert made.pages == len(store) == 150
    assert np.array_equal(rows.astype(np.float32), store.vectors) and np.array_equal(offsets, store.offsets)
    for number, query in enumerate(made.queries):
        assert np.allclose(made.exact[1][number], one_way_score_pages(query, store.vectors, offsets), atol=1e-5)
        assert np.allclose(made.exact[2][number], score_pages(query, store.vectors, offsets), atol=1e-5)
        assert np.allclose(made.exact[1][number], both_halves(query, rows, offsets)[0], atol=1e-5)
    maker = PageMaker(seed=2)
    assert all(np.array_equal(maker.query(n, 150).rows, query) for n, query in enumerate(made.queries))
    alike = collect(tmp_path / "data", maker, 150, 2, query_rows=40)
    assert [query.shape for query in alike.queries] == [(40, 128)] * 2
    assert np.allclose(alike.exact[1][1], both_halves(alike.queries[1], rows, offsets)[0], atol=1e-5), (
        "not the kept ones"
    )
    told = made.difficulty()
    assert told["target_among_100"] == 1.0 and 0 < told["two_way_top_100_in_one_way"] < 1
    assert small(tmp_path).exact[2].tolist() == made.exact[2].tolist()
    other = collect(tmp_path / "data", PageMaker(seed=3), 150, 3)
    block = PageMaker(seed=3).block(0, 150)
    wanted = score_pages(other.queries[0], block.rows.astype(np.float32), block.offsets)
    assert np.allclose(other.exact[2][0], wanted, atol=1e-5), "another seed, other pages, also in the same folder"


def test_recall_counts_ties_once_and_misses_as_misses() -> None:
    from stage1_data import Collection

    scores = np.array([[5, 4, 3, 3, 1, 0] + [-1] * 6], dtype=np.float32)
    made = Collection(Path(), (), (), {1: scores[:, ::-1], 2: scores})
    places = np.arange(12)[None]
    assert made.recall(places, 2, 3) == 1
    assert made.recall(places[:, [0, 1, 3, 2]], 2, 3) == 1, "a tie with the last is as good"
    assert made.recall(np.array([[0, 0, 0]]), 2, 3) == pytest.approx(1 / 3)
    assert made.recall(np.array([[5, 0, -1]]), 2, 3) == pytest.approx(1 / 3)
    assert made.recall(places, 1, 3) == 0, "one way is compared with one way"
    assert made.recall(np.array([[11, 10, 9]]), 1, 3) == 1
    assert made.recall(places[:, :2], 2, 3) is None and made.recall(places, 2, 13) is None


def test_figures_are_those_of_all_rounds(tmp_path: Path) -> None:
    from stage1_table import Round, figures, table

    made = small(tmp_path)
    exact = np.argsort(-made.exact[2], axis=1)
    rounds = [
        Round(seen(), exact[:, :120], 0.5),
        Round(seen(cpu_ms=[9.0], wall_ms=[99.0], build_cpu_s=1.5, open_wall_s=0.25, peak_mb=30.0), exact[1:2], 7.0),
    ]
    told = figures(rounds, made, 2, 2e9)
    assert told["cpu_ms_p50"] == 2.5 and told["cpu_ms_min"] == 1 and told["wall_ms_p50"] == 5
    assert told["wall_ms_p95"] == pytest.approx(np.percentile([2, 4, 6, 99], 95), rel=1e-3)
    assert told["recall@10"] == told["recall@100"] == 1 and told["recall@2000"] is None
    assert told["bytes_per_page"] == 100 and told["build_cpu_ms_per_page"] == 10
    assert told["floor_ms"] == 2 and told["open_s"] == 0.25 and told["peak_mb"] == 30 and told["load"] == [0.5, 7.0]

    gpu = figures([Round(seen(device="cuda:0"), exact, 0.5)], made, 2, 2e9)
    assert gpu["floor_ms"] == 0 and gpu["device"] == "cuda:0"
    about = {"name": "a", "ways": 2, "threads": 1}
    other = {**about, **told, "name": "b", "ways": 1, "cpu_ms_p50": 25.0}
    missing = {**about, "name": "c", "status": "not installed", "reason": "no Python that was named has c"}
    lines = table([{**about, **told}, other, missing, {**about, **gpu, "name": "d"}], "a").splitlines()
    assert re.match(r"b +1 +1 +25.0 +10.0 +5.0 ", lines[2])
    assert re.match(r"d( +[\d.]+){6} +- +- +1.000", lines[4])
    assert lines[3].split() == ["c", "2", "1", "not", "installed:", "no", "Python", "that", "was", "named", "has", "c"]


def test_what_cannot_be_done_is_told_with_its_reason(tmp_path: Path) -> None:
    from stage1 import Bench, Plan
    from stage1_engines import Engine, Numpy

    class Absent(Numpy):
        name, package = "absent", "no-such-package"

    class Broken(Numpy):
        """The worker looks for it where it is not."""

        name = "broken"
        __module__ = "stage1_engines"

    def reasons(kinds: list[type[Engine]], **changed: Any) -> list[str]:
        plan = {"threads": [1], "pythons": [], "rounds": 1, "k": 20, "limit_s": 60, "memory_gb": 8, "changed": {}}
        bench = Bench(Plan(kinds=kinds, **{**plan, **changed}))
        bench.seconds["broken"] = (10, 0.5, 0.01)
        return [f"{row['status']}: {row['reason']}" for row in bench.measure(made)[1]]

    made = small(tmp_path)
    assert reasons([Absent, Broken]) == [
        "not installed: no Python that was named has no-such-package",
        "failed: AttributeError: module 'stage1_engines' has no attribute 'Broken' (exit code 1)",
    ]
    assert reasons([Broken], memory_gb=0.001)[0].startswith("skipped: needs about 0.0 GB of memory, 0.0 GB may")
    assert reasons([Broken], limit_s=5) == ["skipped: build would take 8 s by the 10 pages before"]


@pytest.mark.slow
def test_the_benchmark_writes_what_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import stage1

    out = tmp_path / "out.json"
    given = ["--pages", "300", "150", "--queries", "3", "--rounds", "2", "--threads", "1", "--peers", "none"]
    monkeypatch.setattr("sys.argv", ["x", *given, "--work", str(tmp_path / "work"), "--json", str(out)])
    stage1.main()
    report = json.loads(out.read_text())
    assert {"cpu", "flags", "cores", "memory_gb", "load"} <= report["machine"].keys()
    assert str(tmp_path) not in out.read_text()
    assert report["generator"]["seed"] == 0 and [size["pages"] for size in report["sizes"]] == [150, 300]
    for size in report["sizes"]:
        rows = {row["name"]: row for row in size["engines"]}
        ours = {"ours exact", "ours fast", "ours fast, tuned", "ours paper"}
        assert set(rows) == {*ours, "numpy float32", "numpy by blocks"}
        assert rows["ours fast, tuned"]["settings"]["recall on other queries"] >= 0.99
        assert rows["ours fast, tuned"]["settings"]["shortlist"] >= size["pages"] * 0.001
        assert rows["ours exact"]["settings"] == {}
        for row in rows.values():
            assert row["recall@10"] == row["recall@100"] == 1 and row["recall@2000"] is None
            assert row["rounds"] == 2 and row["queries"] == 3 and row["wall_ms_p95"] >= row["wall_ms_p50"] > 0
        assert rows["numpy float32"]["floor_ms"] > 0 and size["read_bytes_per_s"]["1"] > 1e8
    assert capsys.readouterr().out.count("numpy float32") == 2

    given = ["--pages", "300", "--engines", "tuned", "--queries", "3", "--rounds", "1", "--threads", "1", "-k", "10"]
    monkeypatch.setattr("sys.argv", ["x", *given, "--work", str(tmp_path / "work"), "--json", str(out)])
    stage1.main()
    [tuned] = json.loads(out.read_text())["sizes"][0]["engines"]
    names = {path.name for path in (tmp_path / "work").rglob("tuning-*.json")}
    assert names == {"tuning-150.json", "tuning-300.json", "tuning-10.json"}, "another k is tuned for anew"
    assert tuned["recall@10"] >= 0.99 and tuned["settings"]["shortlist"] >= 10


def test_there_must_be_something_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import stage1

    monkeypatch.setattr("sys.argv", ["x", "--json", str(tmp_path / "out.json")])
    with pytest.raises(SystemExit, match="2"):
        stage1.main()
