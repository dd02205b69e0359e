"""What ``--source`` names: one reading for all commands, notebooks and profiles."""

from __future__ import annotations

from pathlib import Path

from medvrag_core.corpus.pmc.packages import PackageSource
from medvrag_core.corpus.pmc.source import PmcSource
from medvrag_core.corpus.source import FolderSource, PageSource
from medvrag_core.errors import InputError
from medvrag_core.settings import CorpusSettings

_PMC = {"pmc": "query", "pmc-ids": "ids_file", "pmc-inventory": "inventory"}
FORMS = "DIR, folder:DIR, packages:DIR, pmc:QUERY, pmc-ids:FILE, pmc-inventory:latest"
"""How a source is written."""


def page_source(text: str | Path, settings: CorpusSettings) -> PageSource:
    """The source that a text names: a folder of PDFs, packages, or PubMed Central.

    ``pmc:`` alone takes the selection in the settings (``corpus.pmc``).

    Raises
    ------
    InputError : the text names nothing
    SettingsError : what it names does not fit the settings

    >>> page_source("folder:papers", CorpusSettings()).folder.as_posix()
    'papers'
    """
    scheme, sign, rest = str(text).partition(":") if isinstance(text, str) else ("", "", "")
    if sign and not rest and scheme != "pmc":
        raise InputError(f"--source {text}: names nothing", way_out=f"write one of {FORMS}")
    if sign and scheme in _PMC:
        chosen = dict.fromkeys(_PMC.values(), "") | {_PMC[scheme]: rest}
        return PmcSource(settings.pmc.model_copy(update=chosen if rest else {}))
    if sign and scheme == "packages":
        return PackageSource(Path(rest), settings.pmc)
    return FolderSource(Path(rest if sign and scheme == "folder" else text))


def absolute_source(text: str, root: Path = Path()) -> str:
    """The same source in words that do not depend on the folder one works in; relative paths begin at ``root``.

    >>> absolute_source("pmc:gout"), absolute_source("folder:/papers/x/..") == absolute_source("/papers")
    ('pmc:gout', True)
    >>> absolute_source("folder:papers", Path("/data")), absolute_source("store:/c", Path("/data"))
    ('/data/papers', 'store:/c')
    """
    scheme, sign, rest = text.partition(":")
    if not sign or scheme not in (*_PMC, "folder", "packages", "store"):
        return str((root / text).resolve())
    if scheme == "pmc" or not rest:
        return text
    place = str((root / rest).resolve())
    return place if scheme == "folder" else f"{scheme}:{place}"
