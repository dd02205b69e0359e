"""A text collection ranked as page images, after VisRAG's Table 13: set, read by OCR, encoded, ranked beside BM25.

    python benchmarks/rendered_text.py --data scifact --run runs/scifact
    python benchmarks/rendered_text.py --data nfcorpus --run runs/nfcorpus_dev --split dev --limit 100 --documents 1000

``--data`` is a folder in BEIR layout (``corpus.jsonl.gz``, ``queries.jsonl.gz``, ``qrels/<split>.tsv.gz``). Each
document becomes one page, 800 pixels wide in 24 pixel DejaVu Sans, and BM25 ranks the text that OCR made of it, so that
both read the same. ``--text`` leaves OCR out: the words as they were set. The work goes on where it stopped, and
``--run`` holds the pages for every other command. Choose settings on train or dev; quote what test says.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from retrieval_sets import documents, page_of, query_sets, sample
from side_by_side import show_cost, show_rankings

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.text_pages import TextDocument, TextPageSettings, build_text_pages
from medvrag_core.errors import MedvragError
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.prepare import prepare_index, save_profile
from medvrag_core.systems.resources import Resources


def word_errors(true: Sequence[str], found: Sequence[str]) -> int:
    """Words to put in, leave out or change to get from one text to the other (Levenshtein distance)."""
    codes = {word: code for code, word in enumerate({*true, *found})}
    other = np.array([codes[word] for word in found], dtype=np.int64)
    steps = np.arange(len(found) + 1)
    row = steps.copy()
    for place, word in enumerate(true, start=1):
        changed = row[:-1] + (other != codes[word])
        best = np.concatenate([[place], np.minimum(row[1:] + 1, changed)])
        # What is put in: each place may be reached from any one before it, at one a word.
        row = np.minimum.accumulate(best - steps) + steps
    return int(row[-1])


def show_error_rate(given: Sequence[TextDocument], store: CorpusStore) -> None:
    errors = words = pages = 0
    for document in given:
        true = f"{document.title} {document.text}".split()
        if true:
            found = [word.text for word in store.layout(page_of(document.document_id)).words]
            errors, words, pages = errors + word_errors(true, found), words + len(true), pages + 1
    rate = f"{errors / words:.2%} ({errors} of {words} words on {pages} pages)"
    print(f"word error rate of OCR: {rate}; case and signs count")


def processor_seconds() -> float:
    """Of this process and all that it started and ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--run", type=Path, required=True, help="run folder that keeps pages, vectors and index")
    parser.add_argument("--split", default="test", help="whose queries are ranked")
    parser.add_argument("--limit", type=int, help="only the first N judged queries")
    parser.add_argument("--documents", type=int, help="at least the judged ones, filled up to N")
    parser.add_argument("--text", action="store_true", help="no OCR: the words as they were set")
    parser.add_argument("--reader", choices=("tesseract", "rapidocr"), default="tesseract")
    parser.add_argument("--font-folder", default="", help="of DejaVuSans.ttf, where the system does not know it")
    parser.add_argument("--profile", default="cpu", help="its encoder and its workers")
    parser.add_argument("--retriever", action="append", default=[], help="one more, as in `medvrag retrieve`")
    options = parser.parse_args()
    workspace = Workspace(options.run)
    try:
        profile = load_profile(options.profile)
        [whole] = query_sets(options.data, options.split)
        chosen = whole.first(options.limit)
        given = sample(documents(options.data), chosen, options.documents)
        settings = TextPageSettings(
            reader="typesetter" if options.text else options.reader, font_folder=options.font_folder
        )
        started, used = time.perf_counter(), processor_seconds()
        store = build_text_pages(given, workspace.corpus, settings, workers=profile.processes)
        took, used = time.perf_counter() - started, processor_seconds() - used
        save_profile(workspace, profile)
        print(f"{chosen.name}: {len(chosen.queries)} queries, {len(store.pages)} pages")
        print(f"set and read, but for what was there before: {took:.0f} s, {used:.0f} s of processor time")
        if not options.text:
            show_error_rate(given, store)
        prepare_index(workspace, profile)
        resources = Resources(workspace, profile)
        show_rankings(resources, [chosen], ["exact", *options.retriever])
        show_cost(resources)
    except MedvragError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
