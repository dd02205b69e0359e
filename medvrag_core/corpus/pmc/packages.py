"""Packages of PubMed Central's old layout (``PMC123.tar.gz``), which are no longer served, as a source.

An archive is hostile until it is read: members are read one after another under names of our own, regular files of two
kinds alone, within caps on members, bytes and single reads. ``extractall`` is never called (S3, S4 of the threat list).
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from medvrag_core.corpus.pmc.article import article_address
from medvrag_core.corpus.pmc.ids import pmcid
from medvrag_core.corpus.pmc.jats import LARGEST as LARGEST_JATS
from medvrag_core.corpus.pmc.jats import facts_of, read_jats
from medvrag_core.corpus.pmc.licence import licence_of, require_allowed, require_known_licences
from medvrag_core.corpus.pmc.refusal import RefusedError
from medvrag_core.corpus.pmc.source import cache_folder, only_fetcher
from medvrag_core.corpus.source import PageSource, SourceDocument, printable
from medvrag_core.errors import InputError
from medvrag_core.records import LedgerEntry
from medvrag_core.runs.publish import sha256_of, whole_folder
from medvrag_core.settings.pmc import PmcSettings

MOST_MEMBERS = 10_000
MOST_BYTES = 2 << 30
"""Of one package unpacked, what is not used counted in."""
_ONE_READ = 1 << 20
_READ = frozenset({".pdf", ".nxml"})
_REGULAR = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE})


class PackageSource(PageSource):
    """All packages below a folder; their articles are as those of :class:`~medvrag_core.corpus.pmc.source.PmcSource`.

    Licence, dates and names come from the JATS file of the package. The packages are of the open access subset, but
    tell a retraction only where the JATS file names its notice.
    """

    def __init__(self, folder: Path, settings: PmcSettings) -> None:
        require_known_licences(settings)
        self.folder, self.settings = folder, settings
        self._cache = cache_folder(settings)
        self._ledger: list[LedgerEntry] = []

    def documents(self) -> Iterator[SourceDocument]:
        """Yield usable articles sorted by id; of two packages with one article the first by path counts.

        Raises
        ------
        InputError : no such folder, or it holds no package with a usable article
        """
        files = sorted(path for path in self.folder.rglob("*") if path.name.lower().endswith((".tar.gz", ".tgz")))
        if not files:
            raise InputError(f"{self.folder}: holds no package (.tar.gz)", way_out="give a folder of PMC packages")
        self._ledger = []
        kept: dict[str, SourceDocument] = {}
        with only_fetcher(self._cache):
            for path in files:
                label = printable(path.relative_to(self.folder).as_posix())
                try:
                    document = self._document(path, label)
                    first = kept.setdefault(document.article_id, document)
                    if first is not document:
                        raise RefusedError("duplicate_id", f"{document.article_id} is in {first.label} too")
                except RefusedError as refused:
                    self._ledger.append(refused.entry(label))
        if not kept:
            first_fault = self._ledger[0]
            raise InputError(
                f"{self.folder}: no usable article in {len(files)} packages",
                way_out=f"the first: {first_fault.file}, {first_fault.detail}",
            )
        yield from (kept[article_id] for article_id in sorted(kept))

    def ledger(self) -> tuple[LedgerEntry, ...]:
        """Packages without a usable article, each with its reason."""
        return tuple(self._ledger)

    def _document(self, path: Path, label: str) -> SourceDocument:
        home = unpacked(path, self._cache / "packages")
        jats, pdf = home / "article.nxml", home / "article.pdf"
        if not jats.is_file():
            raise RefusedError("licence_not_allowed", "licence unknown: the package holds no JATS file")
        head = read_jats(jats.read_bytes())
        named = re.match(r"PMC(\d{1,9})\b", path.name)
        article = pmcid(head.pmcid.removeprefix("PMC") or (named.group(1) if named else "0"))
        if not article.number:
            raise RefusedError("not_in_pmc", "neither the package's name nor its JATS file tells a PMCID")
        if head.retracted:
            raise RefusedError("retracted", f"{article}: its JATS file names the notice of its retraction")
        licence = licence_of("", head.licence_link, head.licence_sentence)
        require_allowed(licence, self.settings)
        if not pdf.is_file():
            raise RefusedError("no_pdf", f"{article}: the package holds no PDF of the article")
        return SourceDocument(article.value, pdf, label, facts_of(head, licence, article_address(article)))


def unpacked(path: Path, cache: Path) -> Path:
    """The folder with ``article.nxml`` and ``article.pdf`` of a package, as far as it has them.

    The PDF is the one with the name of the JATS file, as packages have it; else the only one.

    Raises
    ------
    RefusedError : ``damaged_package``, ``unsafe_package`` or ``package_limit``
    """
    try:
        home = cache / sha256_of(path)
    except OSError as error:
        raise RefusedError("unreadable", f"cannot be read ({error.strerror})") from None
    if home.is_dir():
        return home
    with whole_folder(home) as fresh:
        try:
            with path.open("rb") as packed:
                stream = _Capped(gzip.GzipFile(fileobj=packed))
                members = _members(stream, fresh)
                while stream.read(_ONE_READ):  # the checksum of gzip stands at its end
                    pass
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError) as error:
            raise RefusedError("damaged_package", f"cannot be read to its end ({type(error).__name__})") from None
        _choose(fresh, members)
    return home


def _members(stream: _Capped, folder: Path) -> list[tuple[str, Path]]:
    """Write the PDFs and JATS files of an archive under names of our own; returns their names inside of it, too."""
    found: list[tuple[str, Path]] = []
    seen: set[str] = set()
    with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as archive:
        for number, member in enumerate(archive, 1):
            if number > MOST_MEMBERS:
                raise RefusedError("package_limit", f"more than {MOST_MEMBERS:,} members")
            name = PurePosixPath(member.name)
            if name.is_absolute() or ".." in name.parts or "\\" in member.name or "\0" in member.name:
                raise RefusedError("unsafe_package", f"a member leads out of the package ({member.name[:80]!r})")
            if member.isdir():
                continue
            if member.type not in _REGULAR or member.issparse():
                raise RefusedError("unsafe_package", f"a member is no regular file ({member.name[:80]!r})")
            folded = str(name).casefold()
            if folded in seen:
                raise RefusedError("unsafe_package", f"two members have one name ({member.name[:80]!r})")
            seen.add(folded)
            suffix = name.suffix.lower()
            if suffix not in _READ:
                continue
            if suffix == ".nxml" and member.size > LARGEST_JATS:
                raise RefusedError("package_limit", f"a JATS file of {member.size:,} bytes")
            target = folder / f"{number}{suffix}"
            _copy(archive, member, target)
            found.append((name.stem, target))
    return found


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source, count = archive.extractfile(member), 0
    assert source is not None
    with target.open("wb") as out:
        while block := source.read(min(_ONE_READ, member.size - count)):
            out.write(block)
            count += len(block)
    if count != member.size:
        raise RefusedError("damaged_package", f"a member ends after {count:,} of {member.size:,} bytes")


def _choose(folder: Path, members: list[tuple[str, Path]]) -> None:
    jats = [(stem, path) for stem, path in members if path.suffix == ".nxml"]
    pdfs = [(stem, path) for stem, path in members if path.suffix == ".pdf"]
    if len(jats) > 1:
        raise RefusedError("damaged_package", f"{len(jats)} JATS files, where a package has one")
    own = [path for stem, path in pdfs if jats and stem == jats[0][0]] or [path for _, path in pdfs]
    if len(own) == 1:
        own[0].rename(folder / "article.pdf")
    for _, path in jats:
        path.rename(folder / "article.nxml")
    for _, path in pdfs:
        path.unlink(missing_ok=True)


class _Capped(io.RawIOBase):
    """The unpacked bytes of a package, which may not grow without end; the archive reader seeks forward alone.

    A header may announce another header of any size, and the reader would take it into memory at once: single reads
    are capped, too.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._source.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or not self.tell() <= offset <= MOST_BYTES:
            raise RefusedError("package_limit", f"unpacks to more than {MOST_BYTES:,} bytes, or is read backward")
        return int(self._source.seek(offset))

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _ONE_READ or self.tell() + size > MOST_BYTES:
            raise RefusedError("package_limit", f"a read of {size:,} bytes at {self.tell():,}")
        return bytes(self._source.read(size))
