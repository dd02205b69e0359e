"""How well the page encoder of a run ranks real pages, beside BM25 over the same pages, in one go.

    python benchmarks/encoder_quality.py --run runs/articles --data DIR

``--run`` is a run folder with a corpus and page vectors (``medvrag run`` or notebooks 01 and 02 make
one); ``--data`` is a retrieval set over its pages: ``questions.jsonl`` and ``known_item_queries.jsonl``
(``_id``, ``text``), and ``qrels/questions.tsv`` and ``qrels/known_item.tsv``. Known items are shown in two
halves: settings were chosen on the even lines, the odd lines are held out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.retrieval.metrics import read_qrels, retrieval_report
from medvrag_core.index.exact import ranked_hits
from medvrag_core.index.lexical import Bm25Index
from medvrag_core.index.maxsim import score_pages
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Hit
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.prepare import CorpusPages

_TIMED_PAGES = 24
Search = Callable[[str], tuple[Hit, ...]]


def read_queries(path: Path) -> list[tuple[str, str]]:
    with path.open(encoding="utf-8") as lines:
        return [(row["_id"], row["text"]) for row in map(json.loads, lines)]


def scored(name: str, search: Search, data: Path) -> str:
    items = read_queries(data / "known_item_queries.jsonl")
    sets = (
        ("questions.tsv", read_queries(data / "questions.jsonl")),
        ("known_item.tsv", items[::2]),
        ("known_item.tsv", items[1::2]),
    )
    cells, seconds = [], []
    for qrels, queries in sets:
        gold = read_qrels(data / "qrels" / qrels)
        rankings = {}
        for query_id, text in queries:
            started = time.perf_counter()
            rankings[query_id] = search(text)
            seconds.append(time.perf_counter() - started)
        report = retrieval_report(rankings, {query_id: gold[query_id] for query_id, _ in queries}, ks=(1, 10))
        cells.append(f"{report.ndcg_at_10:8.3f} {report.any_gold[1]:6.2f} {report.any_gold[10]:6.2f}")
    return f"{name:10s}" + " |".join(cells) + f" | {1000 * np.median(seconds):7.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="run folder with corpus and page vectors")
    parser.add_argument("--data", type=Path, required=True, help="folder of the retrieval set")
    options = parser.parse_args()
    workspace = Workspace(options.run)
    try:
        corpus, vectors = CorpusStore.open(workspace.corpus), VectorStore.open(workspace.vectors)
        encoder = make_page_encoder(load_profile(str(workspace.profile)).encoder)
        vectors.load_encoder(encoder)
        bm25 = Bm25Index([page.page_id for page in corpus.pages], [page.text for page in corpus.pages])
        ids = np.array(vectors.page_ids)

        def late_interaction(text: str) -> tuple[Hit, ...]:
            scores = score_pages(encoder.encode_query(text), vectors.vectors, vectors.offsets)
            return ranked_hits(ids, scores, 10)

        late_interaction("warm up")
        head = f"{'nDCG@10':>8s} {'first':>6s} {'in 10':>6s}"
        print(f"{'':10s}{'questions':^22s} |{'known items, even':^22s} |{'known items, odd':^22s} |   query")
        print(f"{'':10s}{head} |{head} |{head} |      ms")
        print(scored("encoder", late_interaction, options.data))
        print(scored("BM25", lambda text: bm25.search(text, 10), options.data))
        pages = CorpusPages(corpus)
        chosen = [pages[k] for k in np.linspace(0, len(pages) - 1, min(_TIMED_PAGES, len(pages))).astype(int)]
        started = time.perf_counter()
        for _ in encoder.encode_pages(chosen):
            pass
        rate = len(chosen) / (time.perf_counter() - started)
    except MedvragError as error:
        raise SystemExit(f"error: {error}") from None
    rows = int(vectors.offsets[-1])
    print(f"{len(vectors)} pages, {rows / len(vectors):.0f} vectors a page, {encoder.dim} wide, {rate:.1f} pages/s")


if __name__ == "__main__":
    main()
