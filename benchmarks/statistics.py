"""Time of all statistics of a run of 7,045 questions and 12 arms, beside the question-by-question procedure.

    python benchmarks/statistics.py --seeds 1

Makes arms of the paper's four sets whose answers differ on about a tenth of the questions, then compares every two of
them: exact McNemar a set (sign flips with several seeds), sign-flip test and BCa bootstrap within sets for both
estimands, equivalence, Holm over all contrasts. The reference flips and resamples every question by itself, in numpy;
it is run on one contrast with fewer draws, and both are told a draw. Last come the traces: reading how questions ended
beside reading them whole, on traces of two rounds with 2,000 candidate pages each, as the paper's Stage 1 gives.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from medvrag_core.evaluation.contrasts import Rules, contrast, contrast_family
from medvrag_core.evaluation.estimands import ESTIMANDS, MIRAGE_SIZES, Arm, Pairs, paired, set_weights
from medvrag_core.evaluation.outcomes import read_endings
from medvrag_core.evaluation.resampling import bootstrap_set_means, set_means, sign_flip_p_values
from medvrag_core.records import (
    FilterDecision,
    Hit,
    MemoryBank,
    ParsedReply,
    Question,
    ReaderReply,
    Round,
    Trace,
)
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.answering import read_traces, trace_path

_REFERENCE_DRAWS = 4_000


def made_arms(count: int, seeds: int) -> dict[str, Arm]:
    rng = np.random.default_rng(0)
    sets = tuple(name for name, n in MIRAGE_SIZES.items() for _ in range(n))
    ids = tuple(f"{name}:{i:05}" for i, name in enumerate(sets))
    skill = np.clip(rng.normal(0.72, 0.35, len(sets)), 0.02, 0.98)
    base = rng.random(len(sets)) < skill
    arms = {}
    for number in range(count):
        own = np.where(rng.random(len(sets)) < 0.08, rng.random(len(sets)) < 0.70 + 0.005 * number, base)
        right = own ^ (rng.random((seeds, len(sets))) < 0.02)
        name = f"arm{number:02}"
        arms[name] = Arm(name, ids, sets, right, np.where(right, "A", "B"), ("A",) * len(ids), (name,) * seeds)
    return arms


def reference(pairs: Pairs, weights: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Sign-flip p-values and bootstrap spread of both estimands, every question drawn by itself."""
    rng = np.random.default_rng(1)
    scale = (weights / pairs.sizes)[:, pairs.of] * pairs.differences
    seen = np.abs(scale.sum(axis=1))
    hits = np.zeros(len(weights))
    for _ in range(draws):
        hits += np.abs(scale @ rng.choice((-1.0, 1.0), len(pairs.of))) >= seen - 1e-9
    places = [np.flatnonzero(pairs.of == number) for number in range(len(pairs.names))]
    means = np.empty((draws, len(places)))
    for row in range(draws):
        for number, here in enumerate(places):
            means[row, number] = pairs.differences[rng.choice(here, len(here))].mean()
    return (hits + 1) / (draws + 1), (means @ weights.T).std(axis=0)


def stored_traces(root: Path, count: int) -> Workspace:
    workspace = Workspace(root)
    workspace.traces("medvrag").mkdir(parents=True)
    hits = tuple(Hit(page_id=f"PMC{5_000_000 + i}#p{1 + i % 20}", score=1 / (i + 1), rank=i + 1) for i in range(2_000))
    one = Round(
        number=1,
        query="q",
        stage1=hits,
        filter=FilterDecision(kept=tuple(hit.page_id for hit in hits[:100])),
        shown=tuple(hit.page_id for hit in hits[:10]),
        bank_before=MemoryBank(),
        reply=ReaderReply(text="word " * 300),
        parsed=ParsedReply(label="A"),
        times=(),
    )
    for i in range(count):
        trace = Trace(
            system="medvrag",
            profile="made",
            fingerprint="f",
            question=Question(id=f"medqa:{i:05}", question="word " * 120, options={"A": "x", "B": "y"}, answer="A"),
            rounds=(one, one.model_copy(update={"number": 2})),
            outcome="answered",
            label="A",
            correct=True,
            seconds=1.0,
        )
        trace_path(workspace, "medvrag", trace.question.id).write_text(trace.to_json(), encoding="utf-8")
    return workspace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    rules = Rules()
    arms = made_arms(chosen.arms, chosen.seeds)
    names = list(arms)
    contrast(arms[names[0]], arms[names[1]], Rules(resamples=100, permutations=100))  # scipy and statsmodels load here

    start = time.perf_counter()
    every = {f"{a}-{b}": (a, b) for a, b in combinations(names, 2)}
    found = contrast_family(arms, every, rules, family="all")
    whole = time.perf_counter() - start
    questions = len(arms[names[0]].ids)
    print(f"{questions:,} questions, {len(arms)} arms, {chosen.seeds} seed(s): {len(found)} contrasts in {whole:.1f} s")
    print(f"  {rules.permutations:,} flips, {rules.resamples:,} resamples, {whole / len(found):.3f} s a contrast")

    pairs = paired(arms[names[0]], arms[names[-1]])
    weights = np.vstack([set_weights(pairs.sizes, e) for e in ESTIMANDS])
    start = time.perf_counter()
    p_slow, spread_slow = reference(pairs, weights, _REFERENCE_DRAWS)
    slow = (time.perf_counter() - start) / _REFERENCE_DRAWS
    draws = 20_000
    start = time.perf_counter()
    p_fast = sign_flip_p_values(pairs, weights, samples=draws)
    spread_fast = (bootstrap_set_means(pairs, samples=draws) @ weights.T).std(axis=0)
    fast = (time.perf_counter() - start) / draws
    print(
        f"{names[-1]} against {names[0]}, a flip and a resample: {1e6 * slow:.0f} us one question at a time in numpy,"
    )
    print(f"  {1e6 * fast:.2f} us by counts: {slow / fast:,.0f} times as fast")
    for k, estimand in enumerate(ESTIMANDS):
        print(
            f"  {estimand:18} difference {100 * float(weights[k] @ set_means(pairs)):+.2f}, p {p_slow[k]:.4f} and "
            f"{p_fast[k]:.4f}, bootstrap spread {100 * spread_slow[k]:.3f} and {100 * spread_fast[k]:.3f} points"
        )

    with tempfile.TemporaryDirectory() as folder:
        workspace, count = stored_traces(Path(folder) / "run", 200), 200
        seconds = []
        for read in (read_traces, read_endings):
            start = time.perf_counter()
            assert len(read(workspace, "medvrag", made_by="")) == count
            seconds.append((time.perf_counter() - start) / count)
        size = sum(path.stat().st_size for path in workspace.traces("medvrag").iterdir()) / count
    print(
        f"a stored trace of {size / 1e3:.0f} kB: whole {1e3 * seconds[0]:.1f} ms, its outcome {1e3 * seconds[1]:.1f} ms"
    )
    print(f"  {seconds[0] / seconds[1]:.1f} times as fast")


if __name__ == "__main__":
    main()
