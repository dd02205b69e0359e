"""Builds the page store: renders what is missing, then publishes one index over all articles."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

from tqdm import tqdm

from medvrag_core.corpus.job import BLANK, ArticleOutcome, RenderedPage, RenderSettings, StoredPage
from medvrag_core.corpus.ledger_table import each_ledger_row, write_ledger_table
from medvrag_core.corpus.licences import settled_article
from medvrag_core.corpus.render import StoppedError, render_document
from medvrag_core.corpus.renderers import Renderers
from medvrag_core.corpus.screening import screen_pages, write_screening
from medvrag_core.corpus.source import FolderSource, PageSource, SourceDocument
from medvrag_core.corpus.store import CorpusManifest, CorpusStore
from medvrag_core.corpus.summaries import summarize_pages
from medvrag_core.errors import InputError
from medvrag_core.records import Article, LedgerEntry, Record
from medvrag_core.runs.crew import Crew
from medvrag_core.runs.publish import abandoned, sha256_of, whole_file, whole_folder, write_text
from medvrag_core.runs.stage import require_same_settings, save_settings
from medvrag_core.settings import CorpusSettings


def build_corpus(
    source: Path | PageSource,
    folder: Path,
    settings: CorpusSettings,
    *,
    summarize: Callable[[CorpusStore, CorpusSettings], None] = summarize_pages,
    workers: int = 2,
    crew: Crew | None = None,
    progress: bool = True,
) -> CorpusStore:
    """Render every document that is not in ``folder`` yet and open the result (paper section 3.1).

    An article is published whole when it is finished, so a build can be stopped at any moment and
    goes on where it stopped. A file whose content changed is rendered again; one that left the
    source leaves the corpus. At its end stands ``ledger.parquet``, see :mod:`~medvrag_core.corpus.ledger_table`.

    Parameters
    ----------
    summarize : writes the summaries of the finished corpus
    crew : renders articles in place of threads of this process

    Raises
    ------
    InputError : the source is empty, or no file in it has a usable page (``ledger.jsonl`` says why)
    MismatchError : ``folder`` was rendered under other settings; the fields are named
    """
    source = FolderSource(source) if isinstance(source, Path) else source
    documents = list(source.documents())
    shaping = RenderSettings.of(settings)
    require_same_settings(folder, shaping, way_out="choose a new run, or delete that folder")
    save_settings(folder, shaping)
    _sweep(folder)
    if crew is not None:
        _render_by(crew, documents, folder, settings, progress)
    else:
        _render_missing(documents, folder, settings, workers, progress)
    _publish_articles(documents, folder, source.ledger(), settings)
    summarize(CorpusStore.open(folder), settings)
    return CorpusStore.open(folder)


def article_folder(article_id: str) -> str:
    """Where an article lies inside the corpus, as a path that no id can lead astray.

    >>> article_folder("PMC1"), article_folder("..")
    ('articles/PMC1', 'articles/%2E%2E')
    """
    name = quote(article_id, safe=" ()[],;=+@")
    name = name.replace(".", "%2E") if name.startswith(".") else name
    if len(name) > 120:
        name = f"{name[:80]}-{hashlib.sha256(article_id.encode()).hexdigest()[:16]}"
    return f"articles/{name}"


def _sweep(folder: Path) -> None:
    """Remove what builds that were killed left half done; a build that still runs keeps its own."""
    for part in [*folder.glob(".*.part"), *folder.glob("articles/.*.part")]:
        if abandoned(part):
            if part.is_dir():
                shutil.rmtree(part, ignore_errors=True)  # an orphaned renderer may still write there
            else:
                part.unlink(missing_ok=True)


def _render_missing(
    documents: Sequence[SourceDocument], folder: Path, settings: CorpusSettings, workers: int, progress: bool
) -> None:
    stop, renderers = threading.Event(), Renderers()
    pool = ThreadPoolExecutor(max_workers=max(1, workers))
    futures = [pool.submit(_ensure_article, document, folder, settings, stop, renderers) for document in documents]
    try:
        bar = tqdm(
            as_completed(futures), total=len(futures), desc="render", unit="file", disable=None if progress else True
        )
        for future in bar:
            future.result()
    except BaseException:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    finally:
        pool.shutdown()
        renderers.close()


class ArticleWorker:
    """Renders one article after another into ``folder`` for a crew, by child processes of its own."""

    def __init__(self, folder: Path, settings: CorpusSettings) -> None:
        self._folder, self._settings, self._renderers = folder, settings, Renderers()
        self._never = threading.Event()

    def __call__(self, document: SourceDocument) -> None:
        """Publish the article unless it is there; what a file does to its renderer is told in its outcome."""
        _ensure_article(document, self._folder, self._settings, self._never, self._renderers)


def _render_by(
    crew: Crew, documents: Sequence[SourceDocument], folder: Path, settings: CorpusSettings, progress: bool
) -> None:
    given = [replace(document, path=document.path.absolute()) for document in documents]
    done = crew.work(partial(ArticleWorker, folder.absolute(), settings), given, kind="render")
    for _ in tqdm(done, total=len(given), desc="render", unit="file", disable=None if progress else True):
        pass


def _ensure_article(
    document: SourceDocument, folder: Path, settings: CorpusSettings, stop: threading.Event, renderers: Renderers
) -> None:
    if stop.is_set():
        return
    relative = article_folder(document.article_id)
    try:
        digest = sha256_of(document.path)
    except OSError as error:
        digest = ""
        outcome = ArticleOutcome(
            article_id=document.article_id,
            sha256="",
            article=None,
            entries=(
                LedgerEntry(file=document.label, state="dropped", reason="unreadable", detail=str(error.strerror)),
            ),
        )
        _publish_article(folder / relative, outcome, [])
        return
    if _is_done(folder / relative, digest, settings):
        return
    # From here on the index no longer fits the articles; without a manifest nobody takes it for whole.
    (folder / "manifest.json").unlink(missing_ok=True)
    try:
        with whole_folder(folder / relative) as fresh:
            outcome, pages = render_document(
                document, fresh, settings, sha256=digest, image_prefix=relative, stop=stop, renderers=renderers
            )
            _write_article(fresh, outcome, pages)
    except StoppedError:
        return


def _is_done(folder: Path, digest: str, settings: CorpusSettings) -> bool:
    path = folder / "outcome.json"
    if not path.is_file():
        return False
    outcome = ArticleOutcome.from_json(path.read_bytes(), source=str(path))
    more = settings.seconds_per_page > outcome.seconds_per_page or settings.memory_mb > outcome.memory_mb
    return outcome.sha256 == digest and not (outcome.limited and more)


def _publish_article(target: Path, outcome: ArticleOutcome, pages: Sequence[RenderedPage]) -> None:
    with whole_folder(target) as fresh:
        _write_article(fresh, outcome, pages)


def _write_article(folder: Path, outcome: ArticleOutcome, pages: Sequence[RenderedPage]) -> None:
    write_pages(folder, pages)
    (folder / "outcome.json").write_text(outcome.model_dump_json(indent=1), encoding="utf-8")


def write_pages(folder: Path, pages: Sequence[RenderedPage]) -> None:
    """Write pages with their layouts where :class:`~medvrag_core.corpus.store.CorpusStore` looks for them."""
    stored = [StoredPage(page=p.page, image_sha256=p.image_sha256) for p in pages]
    (folder / "pages.jsonl").write_text("".join(_lines(stored)), encoding="utf-8")
    layouts = "".join(_lines(page.layout for page in pages)).encode()
    # mtime 0: the same pages give the same bytes. Level 9, the default, takes far longer than 6 for hardly less.
    (folder / "layouts.jsonl.gz").write_bytes(gzip.compress(layouts, compresslevel=6, mtime=0))


def read_stored_pages(home: Path) -> list[StoredPage]:
    """What :func:`write_pages` wrote, but for the layouts."""
    path = home / "pages.jsonl"
    return [StoredPage.from_json(line, source=str(path)) for line in path.read_text(encoding="utf-8").splitlines()]


def publish_index(
    folder: Path, articles: Sequence[Article], pages: Iterable[StoredPage], ledger: Sequence[LedgerEntry]
) -> None:
    """Write what makes the pages in ``folder`` a corpus; the manifest comes last.

    ``pages`` are gone through more than once, and never held all at a time. Raises InputError when there is none.
    """
    _write_lines(folder / "ledger.jsonl", ledger)
    write_ledger_table(folder, each_ledger_row(articles, (page.page for page in pages), ledger))
    if next(iter(pages), None) is None:
        raise InputError(
            f"no usable page in {len({entry.file for entry in ledger})} files",
            way_out=f"read {folder / 'ledger.jsonl'}, which says why",
        )
    _write_lines(folder / "articles.jsonl", articles)
    digest, count = hashlib.sha256(), 0
    with whole_file(folder / "pages.jsonl") as temporary, temporary.open("w", encoding="utf-8") as handle:
        for page in pages:
            line = page.page.to_json()
            handle.write(line + "\n")
            digest.update(f"{line}\n{page.image_sha256}\n".encode())
            count += 1
    manifest = CorpusManifest(articles=len(articles), pages=count, fingerprint=digest.hexdigest()[:16])
    write_text(folder / "manifest.json", manifest.to_json())


def _publish_articles(
    documents: Sequence[SourceDocument], folder: Path, ledger: Sequence[LedgerEntry], settings: CorpusSettings
) -> None:
    outcomes: list[ArticleOutcome] = []
    pages = _StoredPages()
    for document in documents:
        home = folder / article_folder(document.article_id)
        outcome = ArticleOutcome.from_json((home / "outcome.json").read_bytes(), source=str(home))
        outcomes.append(_settled(document, outcome, read_stored_pages(home), settings.licence))
        pages.homes.append(home)
    entries = [*ledger, *(entry for outcome in outcomes for entry in outcome.entries)]
    files = {o.article_id: o.article.file for o in outcomes if o.article is not None}
    blank = {entry.page_id for entry in entries if entry.reason == BLANK}
    repeated = _repeated(pages, files, blank)
    pages.gone.update(entry.page_id for entry in repeated)
    known = [outcome.article for outcome in outcomes if outcome.article is not None]
    screened, screening = screen_pages(known, pages, settings.exclusion)
    pages.gone.update(entry.page_id for entry in screened if entry.state == "dropped")
    write_screening(folder, screening)
    counts = Counter(page.page.article_id for page in pages)
    articles = [
        o.article.model_copy(update={"pages": counts[o.article_id]})
        for o in outcomes
        if o.article is not None and o.article_id in counts
    ]
    publish_index(folder, articles, pages, [*entries, *repeated, *screened])


def _settled(
    document: SourceDocument, outcome: ArticleOutcome, pages: Sequence[StoredPage], licence: str
) -> ArticleOutcome:
    """The outcome with what its source knows, and the licence as that and its first and last two pages tell it."""
    if outcome.article is None:
        return outcome
    ends = {page.page.page_id: page.page.text for page in (*pages[:2], *pages[-2:])}
    article, entries = settled_article(document.described(outcome.article), "\n".join(ends.values()), licence)
    return outcome.model_copy(update={"article": article, "entries": (*outcome.entries, *entries)})


class _StoredPages:
    """Pages of finished articles but for those that are ``gone``; each pass reads them anew, an article at a time."""

    def __init__(self) -> None:
        self.homes: list[Path] = []
        self.gone: set[str] = set()

    def __iter__(self) -> Iterator[StoredPage]:
        for home in self.homes:
            yield from (page for page in read_stored_pages(home) if page.page.page_id not in self.gone)


def _repeated(pages: Iterable[StoredPage], files: dict[str, str], blank: set[str]) -> list[LedgerEntry]:
    """An entry for each page whose image and text were seen before; ``blank`` ones may look alike."""
    first: dict[bytes, str] = {}
    repeated = []
    for stored in pages:
        page = stored.page
        if page.page_id in blank:
            continue
        seen = first.setdefault(hashlib.sha256(f"{stored.image_sha256}\n{page.text}".encode()).digest(), page.page_id)
        if seen != page.page_id:
            detail = f"same image and text as {seen}"
            file = files[page.article_id]
            repeated.append(
                LedgerEntry(file=file, page_id=page.page_id, state="dropped", reason="duplicate_page", detail=detail)
            )
    return repeated


def _lines(records: Iterable[Record]) -> Iterator[str]:
    return (record.to_json() + "\n" for record in records)


def _write_lines(path: Path, records: Iterable[Record]) -> None:
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as handle:
        handle.writelines(_lines(records))
