"""Retrievers over the pages of one run, side by side on the same queries, each held against BM25 over page text."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from retrieval_sets import QuerySet

from medvrag_core.evaluation.retrieval.metrics import question_scores, report_of
from medvrag_core.evaluation.retrieval.paired import paired_retrieval
from medvrag_core.records import Hit
from medvrag_core.systems.prepare import CorpusPages
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import find_retriever

BASELINE = "bm25"
CUTOFFS = (1, 10, 100)
TESTED = ("nDCG@10", "any_gold@1")
_TIMED_PAGES = 24


def show_rankings(resources: Resources, sets: Sequence[QuerySet], names: Sequence[str]) -> None:
    """Print what each ranking is worth on each set, and its paired difference from BM25 (Holm within a set)."""
    names = [BASELINE, *names]
    ranked, milliseconds = _ranked(resources, sets, names)
    print(f"{'set':22s} {'ranking':10s} {'n':>4s} nDCG@10  first  in 10  recall@100   ms")
    for part in sets:
        for name in names:
            report = report_of(question_scores(ranked[name], part.gold, ks=CUTOFFS), CUTOFFS)
            first, ten = report.any_gold[1], report.any_gold[10]
            values = f"{report.n:4d} {report.ndcg_at_10:7.3f} {first:6.2f} {ten:6.2f} {report.recall[100]:11.3f}"
            print(f"{part.name:22s} {name:10s} {values} {milliseconds[name]:4.0f}")
    head = "won lost difference  interval          p       p (Holm)"
    print(f"\n{'set':22s} {'against ' + BASELINE:12s} {'metric':10s}  {head}")
    for part in sets:
        scores = {name: question_scores(ranked[name], part.gold, ks=CUTOFFS) for name in names}
        for row in paired_retrieval(scores, BASELINE, resources.profile.evaluation, metrics=TESTED):
            change = f"{row.won:4d} {row.lost:4d} {row.difference:+10.3f}  [{row.low:+.3f}, {row.high:+.3f}]"
            print(f"{part.name:22s} {row.b:12s} {row.metric:10s} {change}  {row.p_value:.4f}  {row.p_adjusted:.4f}")


def _ranked(
    resources: Resources, sets: Sequence[QuerySet], names: Sequence[str]
) -> tuple[dict[str, dict[str, tuple[Hit, ...]]], dict[str, float]]:
    """Rankings by retriever and query id, each query searched once; median milliseconds by retriever."""
    queries = {query.id: query.text for part in sets for query in part.queries}
    ranked: dict[str, dict[str, tuple[Hit, ...]]] = {}
    milliseconds = {}
    for name in names:
        search = find_retriever(name)
        search(resources, "opens what is opened on first use", 1)
        ranked[name], seconds = {}, []
        for query_id, text in queries.items():
            started = time.perf_counter()
            ranked[name][query_id] = search(resources, text, max(CUTOFFS))
            seconds.append(time.perf_counter() - started)
        milliseconds[name] = 1000 * float(np.median(seconds))
    return ranked, milliseconds


def show_cost(resources: Resources) -> None:
    """Print what page vectors cost: some pages are encoded anew for the time, the size is that of the files."""
    vectors, encoder = resources.vectors, resources.encoder
    pages = CorpusPages(resources.store)
    chosen = [pages[place] for place in np.linspace(0, len(pages) - 1, min(_TIMED_PAGES, len(pages))).astype(int)]
    started = time.perf_counter()
    made = sum(1 for _ in encoder.encode_pages(chosen))
    rate = made / (time.perf_counter() - started)
    home = resources.workspace.vectors
    files = [path for path in home.rglob("*") if path.is_file() and "encoder" not in path.relative_to(home).parts]
    kilobytes = sum(path.stat().st_size for path in files) / len(vectors) / 1000
    rows = int(vectors.offsets[-1]) / len(vectors)
    print(
        f"\n{len(vectors)} pages, {rows:.0f} vectors a page, {encoder.dim} wide, {kilobytes:.1f} kB a page on disk, "
        f"{rate:.1f} pages/s over {made} pages"
    )
