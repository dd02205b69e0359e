"""Measures the unit costs of `medvrag plan` on this machine: CPU seconds and bytes a page, a vector, a round.

    python benchmarks/unit_costs.py --source articles/pdf --questions article_pages/questions.jsonl --articles 12
    python benchmarks/unit_costs.py … --write     # puts them into medvrag_core/evaluation/cost/unit_costs.yaml
    python benchmarks/unit_costs.py … --out costs.yaml     # for `medvrag plan --costs costs.yaml` on another machine

Builds a run of the first articles under the embedded CPU profile in a temporary folder and answers some questions.
Seconds are those that processes spent on a core, not those of the clock, so that other work on the machine counts
little; a stage with several processes takes as many seconds of the clock fewer. The share of a step in a round is that
of the clock. Values that nothing here measures stay as they are.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import defaultdict
from itertools import islice
from pathlib import Path

import faiss
import numpy as np
import yaml

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.summaries import summarize_pages
from medvrag_core.encoders.encode import read_throughput
from medvrag_core.evaluation.cost.unit_costs import UnitCost, read_costs, shipped_costs, shipped_file
from medvrag_core.evaluation.questions import read_questions
from medvrag_core.index.coarse_to_fine import make_ann
from medvrag_core.index.kernels.code_scores import Kernels
from medvrag_core.index.kernels.codes import PlacedCodes, page_codes
from medvrag_core.index.maxsim import score_pages
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import IndexSettings, Profile
from medvrag_core.systems.answering import answer_all
from medvrag_core.systems.prepare import prepare_corpus, prepare_index, prepare_vectors
from medvrag_core.systems.resources import Resources

HEADER = """# What one page, one vector, one call costs: for `medvrag plan`. Entries of `kind: measured` are written by
# benchmarks/unit_costs.py and scale_units.py with --write; seconds of the CPU are those of one core.
"""
GIGA = 1e9


class CoreSeconds:
    """Seconds on cores, of this process and of those that it waited for."""

    def __enter__(self) -> CoreSeconds:
        self._start = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.spent = self._now() - self._start

    def _now(self) -> float:
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--articles", type=int, default=12)
    parser.add_argument("--asked", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = measured(options)
    source = f"benchmarks/unit_costs.py, first {options.articles} articles, {options.asked} questions; a core of x86-64"
    costs = {
        name: UnitCost(value=float(f"{value:.3g}"), unit=unit, kind="measured", source=source)
        for name, (value, unit) in found.items()
    }
    text = yaml.safe_dump({n: c.model_dump() for n, c in costs.items()}, sort_keys=False, width=118)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
        read_costs(options.out)
    if options.write:
        merged = {n: c.model_dump() for n, c in (shipped_costs() | costs).items()}
        shipped_file().write_text(HEADER + yaml.safe_dump(merged, sort_keys=False, width=118), encoding="utf-8")


def measured(options: argparse.Namespace) -> dict[str, tuple[float, str]]:
    """Value and unit by name."""
    profile = load_profile("cpu", {"corpus.seconds_per_page": 600})  # whatever else the machine does
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder) / "run")
        source = Path(folder) / "source"
        source.mkdir()
        for file in islice(sorted(options.source.glob("*.pdf")), options.articles):
            (source / file.name).symlink_to(file.resolve())
        return {
            **of_the_corpus(workspace, source, profile),
            **of_vectors(workspace, profile),
            **of_rounds(workspace, profile, options),
            **of_scanned_pages(Path(folder), source),
            **of_arithmetic(),
        }


def of_the_corpus(workspace: Workspace, source: Path, profile: Profile) -> dict[str, tuple[float, str]]:
    with CoreSeconds() as whole:
        store = prepare_corpus(workspace, source, profile)
    with CoreSeconds() as summaries:
        summarize_pages(CorpusStore.open(workspace.corpus), profile.corpus)
    images = [store.image_path(page.page_id) for page in store.pages]
    megapixels = sum(page.image_width * page.image_height for page in store.pages) / 1e6
    image_bytes = sum(path.stat().st_size for path in images)
    every = sum(path.stat().st_size for path in workspace.corpus.rglob("*") if path.is_file())
    summary_bytes = (workspace.corpus / "summaries.jsonl").stat().st_size
    pages = len(store.pages)
    return {
        "render_s": ((whole.spent - summaries.spent) / pages, "s of a core a page with a text layer"),
        "summary_s": (summaries.spent / pages, "s of a core a page"),
        "pages_per_article": (pages / len(store.articles), "pages an article"),
        "image_bytes": (image_bytes / megapixels, "bytes a megapixel"),
        "text_bytes": ((every - image_bytes - summary_bytes) / pages, "bytes a page"),
        "summary_bytes": (summary_bytes / pages, "bytes a page"),
    }


def of_scanned_pages(folder: Path, source: Path) -> dict[str, tuple[float, str]]:
    """Reading pages from their images alone, on the first pages of one article."""
    alone = folder / "scanned"
    alone.mkdir()
    first = min(source.glob("*.pdf"))
    (alone / first.name).symlink_to(first.resolve())
    few = load_profile("cpu", {"corpus.ocr": "always", "corpus.max_pages": 2, "corpus.seconds_per_page": 600})
    with CoreSeconds() as read:
        store = prepare_corpus(Workspace(folder / "ocr"), alone, few, progress=False)
    return {"ocr_s": (read.spent / len(store.pages), "s of a core a page without a text layer, rendering included")}


def of_vectors(workspace: Workspace, profile: Profile) -> dict[str, tuple[float, str]]:
    with CoreSeconds() as encoding:
        prepare_vectors(workspace, profile)
    prepare_index(workspace, profile)
    throughput = read_throughput(workspace.vectors)
    assert throughput is not None
    pages, rows, patches = throughput.pages, throughput.vectors, throughput.patches
    patch_bytes = sum(file.stat().st_size for file in workspace.vectors.rglob("pages.npz"))
    return {
        "embedded_encode_s": (encoding.spent / pages, "s of a core a page"),
        "embedded_vectors": (rows / pages, "vectors a page"),
        "patch_bytes": (patch_bytes / patches, "bytes a patch, its box and its vector's number"),
        "patches": (patches / pages, "patches a page of the embedded encoder"),
    }


def of_rounds(workspace: Workspace, profile: Profile, options: argparse.Namespace) -> dict[str, tuple[float, str]]:
    asked = [  # their gold pages may lie in articles that are left out
        q.model_copy(update={"gold_pages": ()}) for q in read_questions(options.questions)[: options.asked]
    ]
    resources_ = Resources(workspace, profile)
    try:
        answer_all("medvrag", resources_, asked[:1], progress=False)  # opens what all questions share
        with CoreSeconds() as answering:
            traces = answer_all("medvrag", resources_, asked, progress=False)
        query_vectors = sum(len(resources_.encoder.encode_query(question.question)) for question in asked)
    finally:
        resources_.close()
    clock: defaultdict[str, float] = defaultdict(float)
    rounds = [made for trace in traces for made in trace.rounds]
    for made in rounds:
        for step in made.times:
            clock[step.step] += step.seconds
    on_cores = answering.spent / sum(trace.seconds for trace in traces)
    candidates = sum(len(made.stage1) for made in rounds)
    return {
        "embedded_query_s": (on_cores * clock["encode_query"] / len(rounds), "s of a core a round"),
        "embedded_filter_s": (on_cores * clock["filter"] / candidates, "s of a core a candidate page"),
        "embedded_read_s": (on_cores * clock["read"] / len(rounds), "s of a core a round"),
        "embedded_rounds": (len(rounds) / len(traces), "rounds a question, at most 3"),
        "query_vectors": (query_vectors / len(asked), "vectors a question"),
        "trace_bytes": (sum(len(t.to_json().encode()) for t in traces) / candidates, "bytes a candidate page"),
    }


def of_arithmetic() -> dict[str, tuple[float, str]]:
    """Scores of vectors and of codes, FAISS's flat search, and making an HNSW, on vectors of width 128."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100_000, 128)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    query, offsets = rows[:20], np.arange(0, len(rows) + 1, 100)
    billions = query.shape[0] * rows.size / GIGA
    flat = make_ann(rows, IndexSettings(ann="flat", device="cpu"))
    coded, kernels = PlacedCodes.of([page_codes(rows, offsets)]), Kernels()
    asked, pages, out = kernels.query(query), np.arange(1_000), np.empty(1_000, dtype=np.float32)
    unit = "s of a core a billion products"
    return {
        "maxsim_s": (on_a_core(lambda: score_pages(query, rows, offsets)) / billions, unit),
        "scan_s": (on_a_core(lambda: kernels.pages(asked, coded, pages, 1.0, out)) / billions, unit),
        "ann_s": (on_a_core(lambda: flat.search(query, 1_000)) / billions, unit),
        "hnsw_s": (
            on_a_core(lambda: make_ann(rows[:20_000], IndexSettings(ann="hnsw", device="cpu")), times=1) / 20_000,
            "s of a core a centroid, among 20,000",
        ),
    }


def on_a_core(work: object, *, times: int = 5) -> float:
    assert callable(work)
    work() if times > 1 else None
    with CoreSeconds() as spent:
        for _ in range(times):
            work()
    return spent.spent / times


if __name__ == "__main__":
    faiss.omp_set_num_threads(2)
    started = time.perf_counter()
    main()
    print(f"# {time.perf_counter() - started:.0f} s of the clock")
