"""What a process holds of a corpus: one that builds it, reads page after page, looks pages up, or opens the vectors.

    python benchmarks/corpus_memory.py --json benchmarks/results/corpus_memory.json

Articles are made up and lie there as rendered, so that building means to publish them. Each measurement is a process of
its own; bytes a page are the difference between two sizes by the difference in pages. Memory that maps a file is not
counted, since the system takes it back when it is needed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from stage1_machine import facts

from medvrag_core.corpus.build import article_folder, build_corpus, write_pages
from medvrag_core.corpus.job import ArticleOutcome, RenderedPage
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.corpus.summaries import write_summaries
from medvrag_core.encoders.identity import EncoderIdentity
from medvrag_core.encoders.manifest import SHARD_PAGES, ShardEntry, VectorManifest, manifest_path, shard_folder
from medvrag_core.records import Article, LedgerEntry, Page, PageLayout, Summary
from medvrag_core.runs.publish import sha256_of
from medvrag_core.runs.sealed import read_sealed, write_sealed
from medvrag_core.settings import CorpusSettings

EACH = 20
"""Pages of an article."""
WORDS = "dose of the drug lowers pressure on day after start of treatment "
TEXT, SUMMARY = WORDS * 60, WORDS * 10
"""Some 4,000 and 650 characters, as a page of an article and a summary of 120 tokens have."""


def main() -> None:
    """Measure, print, and store; with ``--measure`` one process does its part and tells it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, nargs=2, default=(20_000, 100_000))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", choices=("build", "places", "ids", "records", "manifest"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(MEASURES[given.measure](given.folder)))
        return
    few, many = sorted(given.pages)
    found: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as place:
        for pages in (few, many):
            folder = Path(place, str(pages))
            make(folder, pages)
            found[str(pages)] = {name: child(name, folder) for name in MEASURES}
    told: dict[str, Any] = {
        "command": f"benchmarks/corpus_memory.py --pages {few} {many}",
        "machine": facts(),
        "bytes": found,
        "bytes_a_page": {
            name: round((found[str(many)][name] - found[str(few)][name]) / (many - few)) for name in MEASURES
        },
    }
    text = json.dumps(told, indent=1) + "\n"
    print(text)
    if given.json:
        given.json.write_text(text, encoding="utf-8")


def child(name: str, folder: Path) -> int:
    """What a process of its own tells."""
    command = [sys.executable, __file__, "--measure", name, "--folder", str(folder)]
    return int(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def build(folder: Path) -> int:
    """Largest memory of a process that publishes what is rendered; summaries are written one by one."""

    def summarize(store: CorpusStore, _: CorpusSettings) -> None:
        write_summaries(store.folder, (Summary(page_id=p.page_id, text=SUMMARY, method="made") for p in store.pages))

    most, done = [private()], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            most[0] = max(most[0], private())

    watcher = threading.Thread(target=watch)
    watcher.start()
    build_corpus(folder / "pdfs", folder / "corpus", CorpusSettings(), summarize=summarize, progress=False)
    done.set()
    watcher.join()
    return most[0]


def places(folder: Path) -> int:
    """A process that reads every page once, one after another, as one that encodes does."""
    store = CorpusStore.open(folder / "corpus")
    for place in range(len(store.pages)):
        store.pages[place]
    return private()


def ids(folder: Path) -> int:
    """A process that looks up pages and summaries, as one that answers questions does."""
    store = CorpusStore.open(folder / "corpus")
    last = store.pages[-1].page_id
    assert store.summaries[last].page_id == store.page(last).page_id
    return private()


def records(folder: Path) -> int:
    """A process that holds every page as a record, for comparison."""
    before = private()
    held = list(CorpusStore.open(folder / "corpus").pages)
    assert len({page.page_id for page in held}) == len(held)
    return private() - before


def manifest(folder: Path) -> int:
    """A process that opens the manifest of page vectors, which has an entry for every 64 pages."""
    import medvrag_core.encoders.vectors  # noqa: F401 - what opens a store has it in memory already

    before = private()
    vectors = read_sealed(manifest_path(folder / "vectors"), VectorManifest, way_out="")
    assert vectors is not None and len(vectors.shards) == -(-vectors.pages // SHARD_PAGES)
    return private() - before


MEASURES = {"build": build, "places": places, "ids": ids, "records": records, "manifest": manifest}


def private() -> int:
    """Bytes of this process that are in memory and in no file."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this system does not tell RssAnon")


def make(folder: Path, pages: int) -> None:
    """Articles as a renderer leaves them, and files that stand for their PDFs."""
    (folder / "pdfs").mkdir(parents=True)
    make_manifest(folder / "vectors", pages)
    for number in range(pages // EACH):
        name = f"PMC{number:07}"
        file = folder / "pdfs" / f"{name}.pdf"
        file.write_text(name, encoding="utf-8")
        home = folder / "corpus" / article_folder(name)
        home.mkdir(parents=True)
        write_pages(home, [page(name, count) for count in range(1, EACH + 1)])
        digest = sha256_of(file)
        outcome = ArticleOutcome(
            article_id=name,
            sha256=digest,
            article=Article(article_id=name, file=file.name, sha256=digest, pages=EACH, title=WORDS, licence="CC BY"),
            entries=tuple(
                LedgerEntry(
                    file=file.name,
                    page_id=f"{name}#p{count}",
                    state="kept",
                    reason="text_layer",
                    detail="1000 x 1400 pixels, 660 words",
                )
                for count in range(1, EACH + 1)
            ),
        )
        (home / "outcome.json").write_text(outcome.to_json(), encoding="utf-8")


def make_manifest(folder: Path, pages: int) -> None:
    """The manifest of vectors that are not there."""
    identity = EncoderIdentity(encoder="made", version=1, model="made", revision="", dim=128)
    files = {name: f"{number:064x}" for number, name in enumerate(("pages.npz", "scales.npy", "vectors.npy"))}
    shards = tuple(
        ShardEntry(folder=shard_folder(folder, number).name, files=files, pages=min(SHARD_PAGES, pages - start))
        for number, start in enumerate(range(0, pages, SHARD_PAGES))
    )
    told = VectorManifest(encoder=identity, state={}, corpus="made", pages=pages, storage="int8", shards=shards)
    folder.mkdir(parents=True)
    write_sealed(manifest_path(folder), told)


def page(article: str, number: int) -> RenderedPage:
    """A page with text and no words with places, since publishing does not read those."""
    page_id = f"{article}#p{number}"
    return RenderedPage(
        page=Page(
            page_id=page_id,
            article_id=article,
            number=number,
            width_pt=600,
            height_pt=840,
            image=f"{article_folder(article)}/images/p{number:04}.jpg",
            image_width=1_000,
            image_height=1_400,
            dpi=120,
            text_source="pdf",
            text=f"{page_id} {TEXT}",
        ),
        image_sha256="0" * 64,
        layout=PageLayout(page_id=page_id, words=(), regions=()),
    )


if __name__ == "__main__":
    main()
