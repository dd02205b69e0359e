"""Time of all statistics of a run of 7,045 questions and 12 arms, beside the question-by-question procedure.

    python benchmarks/contrasts.py
    python benchmarks/contrasts.py --seeds 3     # every two arms with three runs each

Makes arms of the paper's four sets whose answers differ on about a tenth of the questions, with replies of a few
hundred words, some of them unreadable and some stems nearly the same. Then, each timed by the clock and by the time of
this process on its core: reports of all arms with the three scorers; the controlled sequence with all other readings
(scorers, questions answered by all, near-duplicates as one); and every two arms compared (exact McNemar a set, or sign
flips with several seeds; sign-flip test and BCa bootstrap within sets for both means, equivalence, Holm over all).

The reference flips and resamples every question by itself, in numpy; it is run on one contrast with fewer draws, and
both are told a draw. Last come the files: traces of two rounds with 2,000 candidate pages each, as the paper's Stage 1
gives, read whole, and through the compact file of outcomes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from medvrag_core.evaluation.benchmarks.load import MIRAGE_SIZES
from medvrag_core.evaluation.endings import Ending
from medvrag_core.evaluation.outcomes import outcomes_path, read_endings
from medvrag_core.evaluation.report import run_report
from medvrag_core.evaluation.statistics.contrasts import Rules, contrast, contrast_family, steps
from medvrag_core.evaluation.statistics.estimands import ESTIMANDS, Arm, Pairs, paired, set_weights
from medvrag_core.evaluation.statistics.near_duplicates import near_duplicates
from medvrag_core.evaluation.statistics.resampling import bootstrap_set_means, set_means, sign_flip_p_values
from medvrag_core.evaluation.statistics.sensitivity import compare_in_full
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
from medvrag_core.settings import EvaluationSettings
from medvrag_core.systems.answering import read_traces, trace_path

_REFERENCE_DRAWS = 4_000


class Watch:
    """Seconds by the clock and of this process since the last lap, and the sum of the laps that count."""

    def __init__(self) -> None:
        self.last = (time.perf_counter(), time.process_time())
        self.total = (0.0, 0.0)

    def lap(self, *, add: bool = False) -> str:
        """Tell the lap; ``add`` counts it."""
        now = (time.perf_counter(), time.process_time())
        clock, core = now[0] - self.last[0], now[1] - self.last[1]
        self.last = now
        if add:
            self.total = (self.total[0] + clock, self.total[1] + core)
        return f"{clock:.1f} s, {core:.1f} s of a core"


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


def made_endings(arms: dict[str, Arm]) -> dict[str, list[Ending]]:
    """The first run of every arm with replies to read."""
    rng = np.random.default_rng(2)
    words = np.array([f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in "bdglmnrst"])
    first = next(iter(arms.values()))
    stems = [" ".join(words[rng.integers(0, len(words), 40)]) for _ in first.ids]
    for place in rng.integers(1, len(stems), 150):
        stems[place] = f"{stems[place - 1]} again"
    questions = [
        Question(id=i, question=stem, options={"A": "x", "B": "y", "C": "z", "D": "w"}, answer="A", dataset=name)
        for i, stem, name in zip(first.ids, stems, first.sets, strict=True)
    ]
    said = " ".join(words[rng.integers(0, len(words), 300)])
    made = {}
    for name, arm in arms.items():
        unread = rng.random(len(questions)) < 0.02
        made[name] = [
            Ending(
                system=name,
                profile="made",
                fingerprint="f",
                question=question,
                outcome="unparsed" if lost else "answered",
                label=None if lost else "A" if right else "B",
                seconds=1.0,
                rounds_used=1,
                reply=f"{said}. The answer is B." if lost else f"{said} <answer>{'A' if right else 'B'}</answer>",
                finish_reason="stop",
                option_scores={},
            )
            for question, right, lost in zip(questions, arm.right[0], unread, strict=True)
        ]
    return made


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

    print(f"made of {len(arms[names[0]].ids):,} questions and {len(arms)} arms, {os.cpu_count()} cores")
    watch = Watch()
    answers = made_endings(arms)
    watch.lap()
    reports = [run_report(endings) for endings in answers.values()]
    print(
        f"reports of all arms, {sum(r.scorers.n for r in reports):,} replies under three scorers: {watch.lap(add=True)}"
    )
    in_full = compare_in_full(answers, steps(answers), EvaluationSettings(), family="steps")
    stems, readings = in_full[0].stems, len(in_full[0].variants)
    assert stems is not None
    print(f"controlled sequence of {len(in_full)} contrasts, {readings} readings: {watch.lap(add=True)}")
    print(f"  {stems.repeated} near-duplicates among {stems.questions:,} stems, largest group {stems.largest}")
    near_duplicates([e.question.question for e in answers[names[0]]])
    print(f"  of this near-duplicates: {watch.lap()}")
    every = {f"{a}-{b}": (a, b) for a, b in combinations(names, 2)}
    found = contrast_family(arms, every, rules, family="all")
    print(f"every two arms, {chosen.seeds} seed(s), {len(found)} contrasts: {watch.lap(add=True)}")
    print(f"  {rules.permutations:,} flips and {rules.resamples:,} resamples each")
    print(f"all statistics together: {watch.total[0]:.1f} s, {watch.total[1]:.1f} s of a core")

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
        for read in (read_traces, read_endings, read_endings):
            start = time.perf_counter()
            assert len(read(workspace, "medvrag", made_by="")) == count
            seconds.append((time.perf_counter() - start) / count)
        size = sum(path.stat().st_size for path in workspace.traces("medvrag").iterdir()) / count
        compact = outcomes_path(workspace, "medvrag").stat().st_size / count
    print(
        f"a stored trace of {size / 1e3:.0f} kB: whole {1e3 * seconds[0]:.1f} ms; its outcome "
        f"{1e3 * seconds[1]:.1f} ms the first time, then {1e3 * seconds[2]:.2f} ms from {compact / 1e3:.1f} kB"
    )
    print(f"  {seconds[0] / seconds[2]:.0f} times as fast")


if __name__ == "__main__":
    main()
