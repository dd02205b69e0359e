"""Corpus and vectors by one and by two workers, with Ray and without, on the same made files.

    python benchmarks/ray_scaling.py --files 12 --pages 16 --json benchmarks/results/ray_scaling.json

``plain`` is the path of one machine: threads with child processes for pages, processes with a copy of the encoder for
vectors (one process: this one). ``ray`` is a Ray of this machine with one worker of Ray Data each; its start is told
apart, once a session. Ideal is half the time with two workers. All sides must leave the same files, or nothing is told.
The load beside the measurement is told too: by a clock that others share, a ratio says little.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pymupdf
from stage1_machine import facts, load

from medvrag_core.cluster.ray_crew import RayCrew
from medvrag_core.corpus.build import build_corpus
from medvrag_core.encoders.copies import Copies
from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.shard_worker import ShardCrew
from medvrag_core.profiles.load import load_profile
from medvrag_core.settings import RaySettings
from medvrag_core.systems.prepare import CorpusPages, open_pages

WORKERS = (1, 2)
SIDES = tuple((side, workers) for workers in WORKERS for side in ("plain", "ray"))
SENTENCE = "Patient {} took {} tablets of 75 mg aspirin daily for {} weeks without bleeding. "


def main() -> None:
    """Measure, print, and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--pages", type=int, default=16, help="of each file")
    parser.add_argument("--rounds", type=int, default=3, help="sides take turns; medians are told")
    parser.add_argument("--json", type=Path, help="write the results there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        make_files(home / "pdfs", given.files, given.pages)
        begun = time.perf_counter()
        RayCrew(RaySettings(where="local"), max(WORKERS))
        told: dict[str, Any] = {
            "command": f"benchmarks/ray_scaling.py --files {given.files} --pages {given.pages} --rounds {given.rounds}",
            "files": given.files,
            "pages": given.files * given.pages,
            "machine": facts(),
            "ray_start_s": round(time.perf_counter() - begun, 2),
            "rounds": [[measured(home, side, workers) for side, workers in SIDES] for _ in range(given.rounds)],
        }
        told["summary"] = summary(told["rounds"])
    text = json.dumps(told, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")


def summary(rounds: list[list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Of each stage: one worker by two of a side (ideal: 2), and Ray by plain with as many workers, of the medians."""
    stages = ("corpus_s", "vectors_s")
    median = {
        (one["side"], one["workers"], stage): statistics.median(
            other[stage] for turn in rounds for other in turn if (other["side"], other["workers"]) == key
        )
        for one in rounds[0]
        for stage in stages
        for key in [(one["side"], one["workers"])]
    }
    return {
        stage: {
            **{
                f"{side}, two workers": round(median[side, 1, stage] / median[side, 2, stage], 2)
                for side in ("plain", "ray")
            },
            **{
                f"ray by plain, {workers} worker{'s' * (workers > 1)}": round(
                    median["ray", workers, stage] / median["plain", workers, stage], 2
                )
                for workers in WORKERS
            },
            **{f"{side}, {workers}: median s": median[side, workers, stage] for side, workers in SIDES},
        }
        for stage in stages
    }


def make_files(folder: Path, files: int, pages: int) -> None:
    folder.mkdir()
    for number in range(files):
        with pymupdf.open() as document:
            for page in range(pages):
                text = "".join(SENTENCE.format(number, page, line) for line in range(40))
                document.new_page().insert_textbox((60, 60, 540, 780), text, fontsize=9)
            document.save(folder / f"article{number:03d}.pdf")


def measured(home: Path, side: str, workers: int) -> dict[str, Any]:
    """Seconds of both stages; raises AssertionError where the files are not those of the side before."""
    profile = load_profile("cpu", {"corpus.dpi": 150})
    crew = RayCrew(RaySettings(where="local", workers=workers), workers) if side == "ray" else None
    out, make = home / f"{side}{workers}", partial(make_page_encoder, profile.encoder)
    begun, beside = time.perf_counter(), load()
    store = build_corpus(home / "pdfs", out / "corpus", profile.corpus, workers=workers, crew=crew, progress=False)
    built = time.perf_counter()
    encode_corpus(
        CorpusPages(store),
        make(),
        out / "vectors",
        corpus_fingerprint=store.fingerprint,
        storage=profile.encoder.storage,
        copies=Copies(make, workers),
        crew=None if crew is None else ShardCrew(crew, make, partial(open_pages, out / "corpus")),
        progress=False,
    )
    done = time.perf_counter()
    # One process has as many threads as it likes, and other last bits; vectors are compared among the others.
    same_as(home / "corpus.sha256", out / "corpus")
    if (side, workers) != ("plain", 1):
        same_as(home / "vectors.sha256", out / "vectors")
    shutil.rmtree(out)
    return {
        "side": side,
        "workers": workers,
        "corpus_s": round(built - begun, 2),
        "vectors_s": round(done - built, 2),
        "load": beside,
    }


def same_as(kept: Path, folder: Path) -> None:
    digest = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in {"throughput.json", ".verified.json"}:
            digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    assert not kept.exists() or kept.read_text() == digest.hexdigest(), f"{folder} differs"
    kept.write_text(digest.hexdigest())


if __name__ == "__main__":
    main()
