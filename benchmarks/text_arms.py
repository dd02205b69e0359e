"""The retrievers of the text arms side by side, each with its paired difference from BM25, in one go.

On a text set in BEIR layout (``corpus.jsonl.gz``, ``queries.jsonl.gz``, ``qrels/<split>.tsv.gz``), every document
one chunk of title and text:

    python benchmarks/text_arms.py --data DIR --work runs/scifact --limit 100 --documents 2000

A smaller corpus is easier: with ``--documents`` it is what the chosen queries need, filled up in order of the file.
On the pages of a run, a page standing where its best chunk does, with BM25 over whole pages beside:

    python benchmarks/text_arms.py --run runs/articles --queries questions.jsonl --qrels qrels/questions.tsv

``--arm`` adds an arm (text_bge and others need their weights) or, for pages, any retriever of ``medvrag retrieve``;
``--only`` leaves out all others. MedRAG's rankings without weights, the first being what the others are compared with:

    python benchmarks/text_arms.py --data DIR --work runs/scifact --only --arm medrag_bm25 --arm text_dense --arm medrag

``--words`` compares instead what BM25 takes for a word, on the same texts: runs of letters and digits (``plain``),
codes and numbers as :func:`medvrag_core.index.lexical.tokenize` reads them (``codes``), these stemmed (``stemmed``).
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from bm25s.stopwords import STOPWORDS_EN

from medvrag_core.corpus.chunks import TextChunk
from medvrag_core.errors import MedvragError
from medvrag_core.evaluation.questions import read_queries
from medvrag_core.evaluation.retrieval.metrics import Gold, question_scores, read_qrels, report_of
from medvrag_core.evaluation.retrieval.paired import paired_retrieval
from medvrag_core.index import lexical
from medvrag_core.index.text_factory import make_chunk_search
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Hit, Query
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import EvaluationSettings, Profile
from medvrag_core.systems.base import find_system
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.retrievers import depth_of, find_retriever

ARMS = ("text_bm25", "text_dense", "text_fused", "text_reranked")
WORDS = ("plain", "codes", "stemmed")
CUTOFFS = (10, 100)
Open = Callable[[str], Callable[[str], tuple[Hit, ...]]]


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def text_set(options: argparse.Namespace, profile: Profile) -> tuple[list[Query], Gold, Open]:
    options.work.mkdir(parents=True, exist_ok=True)
    judged = options.work / "qrels.tsv"
    judged.write_bytes(gzip.decompress((options.data / "qrels" / f"{options.split}.tsv.gz").read_bytes()))
    gold = read_qrels(judged)
    asked = [Query(id=row["_id"], text=row["text"]) for row in rows(options.data / "queries.jsonl.gz")]
    asked = [query for query in asked if query.id in gold][: options.limit]
    needed = {document for query in asked for document in gold[query.id]}
    corpus = sorted(rows(options.data / "corpus.jsonl.gz"), key=lambda row: row["_id"] not in needed)
    corpus = corpus[: max(options.documents, len(needed)) if options.documents else None]
    chunks = {
        row["_id"]: TextChunk(chunk_id=row["_id"], page_id=row["_id"], text=f"{row['title']} {row['text']}".strip())
        for row in corpus
    }
    print(f"{options.data.name}: {len(asked)} queries, {len(chunks)} documents")

    def open_arm(name: str) -> Callable[[str], tuple[Hit, ...]]:
        arm = find_system(name)
        own = arm.settle(profile)
        search = make_chunk_search(
            chunks,
            own.text,
            own.encoder,
            options.work,
            corpus_fingerprint=options.data.name,
            backward=own.index.backward_weight,
        )
        return lambda text: search.search(text, depth_of(arm, own)).hits[: max(CUTOFFS)]

    texts = {name: chunk.text for name, chunk in chunks.items()}
    return asked, gold, words_of(texts) if options.words else open_arm


def pages_of_a_run(options: argparse.Namespace, profile: Profile) -> tuple[list[Query], Gold, Open]:
    gold = read_qrels(options.qrels)
    asked = [query for query in read_queries(options.queries) if query.id in gold][: options.limit]
    resources = Resources(Workspace(options.run), profile)
    print(f"{options.queries.name}: {len(asked)} queries, {len(resources.store.pages)} pages")

    def open_arm(name: str) -> Callable[[str], tuple[Hit, ...]]:
        retriever = find_retriever(name)
        return lambda text: retriever(resources, text, max(CUTOFFS))

    texts = {page.page_id: page.text for page in resources.store.pages}
    return asked, gold, words_of(texts) if options.words else open_arm


def words_of(texts: Mapping[str, str]) -> Open:
    def plain(text: str, *, stemming: bool) -> list[str]:
        found = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).lower())
        return [word for word in found if word not in STOPWORDS_EN]

    def open_words(name: str) -> Callable[[str], tuple[Hit, ...]]:
        reading = plain if name == "plain" else lexical.tokenize
        with patch.object(lexical, "tokenize", reading):
            index = lexical.Bm25Index(list(texts), list(texts.values()), stemming=name == "stemmed")

        def search(text: str) -> tuple[Hit, ...]:
            with patch.object(lexical, "tokenize", reading):
                return index.search(text, max(CUTOFFS))

        return search

    return open_words


def compare(names: list[str], asked: list[Query], gold: Gold, open_arm: Open, settings: EvaluationSettings) -> None:
    gold = {query.id: gold[query.id] for query in asked}
    scores = {}
    print(f"{'ranking':16s} nDCG@10 recall@10 recall@100  ms a query (median)")
    for name in names:
        search, rankings, seconds = open_arm(name), {}, []
        search(asked[0].text)  # opens what is opened on first use
        for query in asked:
            started = time.perf_counter()
            rankings[query.id] = search(query.text)
            seconds.append(time.perf_counter() - started)
        scores[name] = question_scores(rankings, gold, ks=CUTOFFS)
        report = report_of(scores[name], CUTOFFS)
        means = f"{report.ndcg_at_10:7.3f} {report.recall[10]:9.3f} {report.recall[100]:10.3f}"
        print(f"{name:16s} {means} {1000 * np.median(seconds):10.1f}", flush=True)
    print(f"\n{'against ' + names[0]:16s}  {'metric':10s}  won lost difference  interval          p (Holm)")
    for row in paired_retrieval(scores, names[0], settings):
        change = f"{row.won:4d} {row.lost:4d} {row.difference:+10.3f}  [{row.low:+.3f}, {row.high:+.3f}]"
        print(f"{row.b:16s}  {row.metric:10s} {change}  {row.p_adjusted:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of a text set")
    parser.add_argument("--split", default="test")
    parser.add_argument("--documents", type=int, help="at least the judged ones, filled up to N")
    parser.add_argument("--work", type=Path, help="folder that keeps the vectors of a text set")
    parser.add_argument("--run", type=Path, help="run folder with a corpus")
    parser.add_argument("--queries", type=Path, help="queries over its pages")
    parser.add_argument("--qrels", type=Path, help="judged pages")
    parser.add_argument("--limit", type=int, help="only the first N judged queries")
    parser.add_argument("--arm", action="append", default=[], help="one more ranking")
    parser.add_argument("--only", action="store_true", help="the rankings of --arm alone")
    parser.add_argument("--words", action="store_true", help="compare words of BM25 in place of arms")
    parser.add_argument("--profile", help="default: the run's own, else cpu")
    options = parser.parse_args()
    pages = (options.run, options.queries, options.qrels)
    if not (options.data and options.work) and not all(pages):
        parser.error("give --data and --work, or --run, --queries and --qrels")
    if options.only and not options.arm:
        parser.error("--only leaves nothing without --arm")
    try:
        profile = load_profile(options.profile or (str(Workspace(options.run).profile) if options.run else "cpu"))
        asked, gold, open_arm = (pages_of_a_run if options.run else text_set)(options, profile)
        named = [] if options.only else [*ARMS, *(["bm25"] if options.run else [])]
        names = [*WORDS] if options.words else [*named, *options.arm]
        compare(names, asked, gold, open_arm, profile.evaluation)
    except MedvragError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
