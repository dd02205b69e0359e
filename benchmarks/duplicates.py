"""The search for near-duplicate pages beside a comparison of all with all, on made-up mean vectors of pages.

    python benchmarks/duplicates.py --json benchmarks/results/duplicates.json    # 20,000, 100,000 and 350,000 pages
    python benchmarks/duplicates.py --pages 20000 --kind even

Two kinds of vectors, 128 wide. ``articles``: eight pages share an article, articles one of 300 topics, all a common
direction; two pages of an article have a cosine of about 0.8, others of about 0.53. ``even``: independent directions,
with no neighborhoods to make use of. Of every hundred pages one is a copy of another, at a cosine of 0.98.

Times are processor seconds of one thread, so that other work on the machine hardly counts. The comparison of all with
all is what the search replaced, blocks of 2,048 x 2,048 pages; of more than 20,000 pages it is run on an even sample of
the blocks, and its time is that of the sample times their number. ``more_memory_mb`` is what the search took above the
peak of the making of the vectors before it, which is a few times their size.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # Before NumPy is imported: idle threads that wait would be counted.

import numpy as np
from numpy.typing import NDArray

from medvrag_core.encoders.minilm import unit_rows
from medvrag_core.index.close_pairs import close_pairs, into_cells
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.stage import environment

DIM, BLOCK, ARTICLE_PAGES, TOPICS, THRESHOLD = 128, 2_048, 8, 300, 0.97
SAMPLED_BLOCKS = 50
"""Pairs of blocks that the comparison of all with all is timed on; those of 20,000 pages are 55."""


def made_means(pages: int, kind: str, seed: int = 0) -> NDArray[np.float32]:
    """Mean vectors of pages, float32, shape (pages, 128), unit rows; every hundredth copies the page fifty before."""
    rng = np.random.default_rng(seed)

    def directions(count: int) -> NDArray[np.float32]:
        return unit_rows(rng.standard_normal((count, DIM), dtype=np.float32))

    means = directions(pages)
    if kind == "articles":
        articles = np.arange(pages) // ARTICLE_PAGES
        topic_of = rng.integers(0, TOPICS, int(articles[-1]) + 1)
        means *= np.float32(0.45)
        means += np.float32(0.32) * directions(TOPICS)[topic_of[articles]]
        means += np.float32(0.41) * directions(len(topic_of))[articles]
        means += np.float32(0.73) * directions(1)
        means = unit_rows(means)
    copies = np.arange(99, pages, 100)
    means[copies] = unit_rows(means[copies - 50] + np.float32(0.2) * directions(len(copies)))
    return means


def measure(pages: int, kind: str) -> dict[str, Any]:
    """Processor seconds, dot products and pairs of both ways."""
    means = made_means(pages, kind)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    cells = into_cells(means, THRESHOLD)
    found = {
        pair
        for one, two in close_pairs(means, THRESHOLD, cells)
        for pair in zip(one.tolist(), two.tolist(), strict=True)
    }
    seconds = time.process_time() - start
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    blocks = [(a, b) for a in range(0, pages, BLOCK) for b in range(a, pages, BLOCK)]
    step = 1 if pages <= 20_000 else len(blocks) / SAMPLED_BLOCKS
    sample = [blocks[int(k * step)] for k in range(int(len(blocks) / step))]
    slow = 0
    start = time.process_time()
    for a, b in sample:
        slow += int(np.count_nonzero(np.triu(means[a : a + BLOCK] @ means[b : b + BLOCK].T > THRESHOLD, 1 + a - b)))
    all_seconds = (time.process_time() - start) * len(blocks) / len(sample)
    products = pages * (pages + 1) // 2
    return {
        "pages": pages,
        "kind": kind,
        "cells": len(cells.pivots),
        "pairs": len(found),
        "pairs_all_with_all": slow if step == 1 else None,
        "dot_products": cells.products,
        "dot_products_all_with_all": products,
        "fewer_dot_products": round(products / cells.products, 2),
        "cpu_s": round(seconds, 2),
        "cpu_s_all_with_all": round(all_seconds, 2),
        "times_faster": round(all_seconds / seconds, 2),
        "more_memory_mb": round(more / 1024, 1),
        "vectors_mb": round(means.nbytes / 2**20, 1),
    }


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, nargs="+", default=[20_000, 100_000, 350_000])
    parser.add_argument("--kind", choices=["articles", "even"], nargs="+", default=["articles", "even"])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for kind in args.kind:
        for pages in args.pages:
            rows.append(measure(pages, kind))
            print(json.dumps(rows[-1]), flush=True)
            if args.json is not None:
                held = {
                    "command": " ".join(sys.argv),
                    "threshold": THRESHOLD,
                    "environment": environment(),
                    "rows": rows,
                }
                write_text(args.json, json.dumps(held, indent=1) + "\n")


if __name__ == "__main__":
    main()
