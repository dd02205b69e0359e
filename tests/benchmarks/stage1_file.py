"""Results as ``benchmarks/stage1.py`` writes them, with numbers that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MADE = {
    "topics": 300,
    "concepts": 20,
    "kinds": 10,
    "backgrounds": 12,
    "words": 60,
    "common": 0.5,
    "background_share": 0.2,
    "short_share": 0.02,
    "query_words": 0.25,
    "query_blur": 1.0,
}


def engine(name: str, threads: int = 1, *, ways: int = 2, cpu: float = 10.0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "package": name,
        "version": "1.2.3",
        "ways": ways,
        "compared_with": "exact two-way" if ways == 2 else "exact one-way",
        "threads": threads,
        "status": "ok",
        "rounds": 3,
        "queries": 40,
        "cpu_ms_p50": cpu,
        "cpu_ms_min": cpu / 2,
        "wall_ms_p50": cpu / threads,
        "wall_ms_p95": 2 * cpu / threads,
        "wall_ms_min": 0.5,
        "recall@10": 1.0,
        "recall@100": 0.98,
        "recall@2000": None,
        "bytes_per_page": 14120.0,
        "build_cpu_ms_per_page": 0.7,
        "build_wall_ms_per_page": 0.9,
        "open_s": None,
        "peak_mb": 300,
        "private_mb": 100,
        "moved_bytes": 1000,
        "floor_ms": 4.0,
        "device": "cpu",
        "load": [1.5, 2.0, 2.5],
        **more,
    }


def missing(name: str, threads: int = 1) -> dict[str, Any]:
    """An engine that did not run."""
    about = {key: engine(name, threads)[key] for key in ("name", "package", "ways", "compared_with", "threads")}
    return {**about, "version": "", "status": "not installed", "reason": f"no Python that was named has {name}"}


def collection(pages: int, engines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "pages": pages,
        "rows": 103 * pages,
        "queries": 40,
        "query_rows": 20.4,
        "difficulty": {
            "target_first": 0.6,
            "target_among_100": 0.95,
            "mean_score_at": {"1": 0.9},
            "median_score": 0.3,
            "two_way_top_100_in_one_way": 0.44,
        },
        "read_bytes_per_s": {"1": 17_000_000_000, "2": 25_000_000_000},
        "beside": "ours exact",
        "engines": engines,
    }


def report(**more: Any) -> dict[str, Any]:
    """Two sizes, five engines."""
    sizes = [
        collection(
            pages,
            [
                engine("ours exact", 1, cpu=pages / 1000),
                engine("ours exact", 2, cpu=pages / 900),
                engine("ours fast", 1, cpu=pages / 5000, **{"recall@100": 0.991}),
                engine("<one-way>", 1, ways=1, cpu=pages / 200),
                missing("absent", 1),
                missing("absent", 2),
            ],
        )
        for pages in (20_000, 100_000)
    ]
    return {
        "command": ["--pages", "20000", "100000"],
        "machine": {
            "cpu": "Some <CPU>",
            "architecture": "x86_64",
            "flags": ["avx2", "avx512_vnni"],
            "cores": 2,
            "memory_gb": 24.1,
            "system": "Linux",
            "python": "3.12.3",
            "blas": {},
            "load": 1.25,
        },
        "generator": {"seed": 0, "dim": 128, **MADE},
        "settings": {"rounds": 3, "k": 2000, "limit_s": 300.0, "memory_gb": 12.5, "changed": {}},
        "sizes": sizes,
        "kernel": collection(2_000, [engine("ours exact", cpu=5.0)]),
        **more,
    }


def write(folder: Path, name: str = "stage1.json", told: dict[str, Any] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(report() if told is None else told, indent=1), encoding="utf-8")
    return folder
