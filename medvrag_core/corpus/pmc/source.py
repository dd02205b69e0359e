"""PubMed Central as a source: selects articles, fetches what the cache lacks, and tells why others are left out."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import shutil
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from tqdm import tqdm

from medvrag_core.corpus.pmc.article import NETWORK_FAULTS, Fetched, fetch_article
from medvrag_core.corpus.pmc.client import FetchError, PmcClient
from medvrag_core.corpus.pmc.eutils import SEARCH_PAGE, search, to_pmcids
from medvrag_core.corpus.pmc.ids import ArticleId, parse_id, read_ids
from medvrag_core.corpus.pmc.inventory import inventory_articles
from medvrag_core.corpus.pmc.licence import require_known_licences
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.corpus.source import PageSource, SourceDocument
from medvrag_core.errors import InputError, MedvragError, SettingsError
from medvrag_core.models.event_loop import run_async
from medvrag_core.records import LedgerEntry, Record
from medvrag_core.runs.publish import write_text
from medvrag_core.settings.pmc import PmcSettings

_log = logging.getLogger(__name__)
_CANDIDATES_AN_ARTICLE = 10
MOST_FAULTS = 10
"""Articles in a row that fail by the network before the fetch stops: it is then the network, not the articles."""


class Selection(Record):
    """What a search found, kept in the cache: a stopped fetch, and the same command later, go on with this list."""

    query: str
    found: int
    ids: tuple[str, ...]


class Conversion(Record):
    """PMCIDs by the ids of a list, and what became of its other ids; kept as a search is."""

    pmcids: dict[str, str]
    refused: tuple[LedgerEntry, ...]


class PmcSource(PageSource):
    """Articles of the PMC Article Datasets, by query, by ids, or out of the inventory; see :class:`PmcSettings`.

    Whole files alone are kept in the cache, each checked by the digest that its metadata promises. What is there and
    right is not fetched again, and what the services answered is kept: a second run needs no network, but for articles
    that could not be had.

    Raises
    ------
    SettingsError : not exactly one selection, or a licence that is not known
    """

    def __init__(self, settings: PmcSettings) -> None:
        chosen = [name for name in ("query", "ids_file", "inventory") if getattr(settings, name)]
        if len(chosen) != 1:
            named = " and ".join(f"corpus.pmc.{name}" for name in chosen) or "no query, ids file or inventory"
            raise SettingsError(
                f"{named}: exactly one selects the articles", way_out="give --source pmc:QUERY or pmc-ids:FILE"
            )
        require_known_licences(settings)
        self.settings = settings
        self.cache = cache_folder(settings)
        self._ledger: tuple[LedgerEntry, ...] = ()

    def documents(self) -> Iterator[SourceDocument]:
        """Yield usable articles sorted by id, once all are fetched.

        Raises
        ------
        InputError : no article is usable, or the query or file that selects them is at fault
        MedvragError : the network failed for ten articles in a row; what was fetched is kept
        """
        with only_fetcher(self.cache):
            fetched, entries = run_async(self._collect())
        self._ledger = tuple(entries)
        if not fetched:
            raise InputError(f"no usable article: {_counted(entries)}", way_out=_way_out(entries))
        for found in sorted(fetched, key=lambda found: found.document.article_id):
            yield found.document

    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Every id and article that was left out, and notes on articles that are in."""
        return self._ledger

    async def _collect(self) -> tuple[list[Fetched], list[LedgerEntry]]:
        async with PmcClient(self.settings) as client:
            articles, entries, found, most = await self._selected(client)
            fetched, refused = await self._fetch_all(client, articles, most)
        entries += refused
        if entries:
            _log.warning("%d of %d usable: %s", len(fetched), len(fetched) + len(entries), _counted(entries))
        if (left := found - len(fetched) - len(refused)) > 0:
            detail = f"{left:,} more candidates were not looked at; {len(fetched):,} of {most:,} wanted articles found"
            name = _name(self.settings)
            entries.append(LedgerEntry(file=name, state="dropped", reason="article_limit", detail=detail))
        for article in fetched:
            entries += article.entries
        return fetched, entries

    async def _selected(self, client: PmcClient) -> tuple[list[ArticleId], list[LedgerEntry], int, int]:
        """Articles to look at in their order, what became of other ids, how many there are, and how many are wanted."""
        settings = self.settings
        if settings.ids_file:
            given, refused = read_ids(Path(settings.ids_file))
            converted = await self._converted(client, given)
            known = [identifier for identifier in given if str(identifier) in converted.pmcids]
            ids = [parse_id(converted.pmcids[str(identifier)]) for identifier in known]
            unique, repeated = _each_once(ids, list(map(str, known)))
            return unique, [*refused, *converted.refused, *repeated], len(unique), len(unique)
        candidates = max(SEARCH_PAGE, settings.most_articles * _CANDIDATES_AN_ARTICLE)
        if settings.inventory:
            ids, found = await inventory_articles(client, settings.inventory, self.cache, candidates)
        else:
            selection = await self._search(client, candidates)
            ids, found = [parse_id(text) for text in selection.ids], selection.found
        return ids, [], found, settings.most_articles

    async def _converted(self, client: PmcClient, given: Sequence[ArticleId]) -> Conversion:
        path = self._kept("conversions", self.settings.converter, *map(str, given))
        if path.is_file():
            return Conversion.from_json(path.read_bytes(), source=str(path))
        known, refused = await to_pmcids(client, given)
        conversion = Conversion(pmcids={str(x): str(y) for x, y in known.items()}, refused=tuple(refused))
        write_text(path, conversion.to_json())
        return conversion

    def _kept(self, kind: str, *asked: str) -> Path:
        """Where the answer of a service is kept, under what it was asked."""
        return self.cache / kind / f"{hashlib.sha256(chr(10).join(asked).encode()).hexdigest()[:32]}.json"

    async def _search(self, client: PmcClient, most: int) -> Selection:
        query = self.settings.query
        path = self._kept("searches", self.settings.eutils, str(most), query)
        if path.is_file():
            return Selection.from_json(path.read_bytes(), source=str(path))
        ids, found = await search(client, query, most)
        selection = Selection(query=query, found=found, ids=tuple(map(str, ids)))
        write_text(path, selection.to_json())
        return selection

    async def _fetch_all(
        self, client: PmcClient, articles: Sequence[ArticleId], most: int
    ) -> tuple[list[Fetched], list[LedgerEntry]]:
        """Go through the articles in their order until ``most`` are usable, some side by side."""
        fetched: list[Fetched] = []
        entries: list[LedgerEntry] = []
        waiting = deque(articles)
        running: deque[asyncio.Task[Fetched | LedgerEntry]] = deque()
        faults = 0
        try:
            with tqdm(total=min(most, len(articles)), desc="fetch", unit="article", disable=None) as bar:
                while running or (waiting and len(fetched) < most):
                    # Never more under way than are still wanted: so the choice does not depend on who is faster.
                    while waiting and len(running) < min(self.settings.parallel, most - len(fetched)):
                        running.append(asyncio.create_task(self._one(client, waiting.popleft())))
                    result = await running.popleft()
                    if isinstance(result, Fetched):
                        fetched.append(result)
                        bar.update()
                    else:
                        entries.append(result)
                    at_fault = isinstance(result, LedgerEntry) and result.reason in NETWORK_FAULTS
                    faults = faults + 1 if at_fault else 0
                    if faults >= MOST_FAULTS:
                        raise MedvragError(
                            f"the network or a server fails, {faults} articles in a row: {entries[-1].detail}",
                            way_out=f"run the same command again later; what was fetched is kept in {self.cache}",
                        )
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return fetched, entries

    async def _one(self, client: PmcClient, article: ArticleId) -> Fetched | LedgerEntry:
        try:
            return await fetch_article(client, article, self.cache)
        except RefusedError as refused:
            return refused.entry(article.value)
        except FetchError as error:
            return RefusedError(error.reason, error.problem).entry(article.value)


def cache_folder(settings: PmcSettings) -> Path:
    """Where fetched files are kept: the folder in the settings, else one for all runs of this user."""
    if settings.cache:
        return Path(settings.cache)
    return Path(os.environ.get("MEDVRAG_CACHE", Path.home() / ".cache" / "medvrag")) / "pmc"


@contextmanager
def only_fetcher(cache: Path) -> Iterator[None]:
    """Hold a cache alone, cleared of what a killed process left half written.

    Raises
    ------
    InputError : another process holds it
    MedvragError : it cannot be written to
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / ".lock", timeout=0):
            for part in cache.rglob(".*.part"):
                shutil.rmtree(part) if part.is_dir() else part.unlink()
            yield
    except Timeout:
        raise InputError(
            f"{cache}: another process is fetching into it", way_out="wait for it, or set corpus.pmc.cache"
        ) from None
    except OSError as error:
        raise MedvragError(
            f"{cache}: cannot be written ({error.strerror or error})",
            way_out="free some space or set corpus.pmc.cache; finished articles are kept",
        ) from None


def _each_once(ids: Sequence[ArticleId], names: Sequence[str]) -> tuple[list[ArticleId], list[LedgerEntry]]:
    """The first id of each article; PMID, DOI and PMCID may have named the same one."""
    first: dict[str, tuple[ArticleId, str]] = {}
    repeated = []
    for identifier, name in zip(ids, names, strict=True):
        _, earlier = first.setdefault(identifier.value, (identifier, name))
        if earlier != name:
            repeated.append(RefusedError("duplicate_id", f"{name} is {identifier.value}, as is {earlier}").entry(name))
    return [identifier for identifier, _ in first.values()], repeated


def _name(settings: PmcSettings) -> str:
    return f"pmc:{settings.query}" if settings.query else f"pmc-inventory:{settings.inventory}"


def _counted(entries: Sequence[LedgerEntry]) -> str:
    counts = Counter(entry.reason for entry in entries)
    return ", ".join(f"{count} {reason}" for reason, count in counts.most_common())


def _way_out(entries: Sequence[LedgerEntry]) -> str:
    first = next((entry for entry in entries if entry.state != "kept"), None)
    return f"the first: {first.file}, {first.detail}" if first else "select other articles"
