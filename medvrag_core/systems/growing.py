"""A run that grows: articles are added to its corpus, vectors and index, and articles that left take their pages along.

What is there stays as it is. So vectors are those of an encoder that learned from the first corpus alone, and pages
stand in the order in which they came; a run that is made anew may differ in both.
"""

from __future__ import annotations

from pathlib import Path

from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.growth import grow_vectors, move_to_corpus
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MismatchError
from medvrag_core.index.build import delete_pages, restore_pages
from medvrag_core.index.manifest import read_manifest
from medvrag_core.records import Record
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.encoded_articles import remember_articles, remembered_articles
from medvrag_core.systems.prepare import CorpusPages, encoding_help, prepare_corpus, prepare_index


class Growth(Record):
    """What was added, and what left."""

    articles_added: int
    articles_gone: int
    pages_added: int
    pages_gone: int
    pages: int


def add_articles(workspace: Workspace, source: str | Path, profile: Profile, *, progress: bool = True) -> Growth:
    """Bring a finished run to what ``source`` has now, at the cost of what is new.

    New pages get shards and a segment of their own. Pages that left the source, as those of an article that was
    retracted, are found no more; their vectors stay until vectors are made anew, and serve again if it comes back. A
    call that was stopped goes on.

    Raises
    ------
    InputError : nothing stays of what is there, or the run shares corpus or vectors with another one
    MismatchError : a file that has vectors was changed, or the encoder is another one
    NotBuiltError : the run has no finished vectors and index
    """
    if workspace.vectors.is_symlink() or workspace.index.is_symlink():
        raise InputError(
            f"run '{workspace.root}' shares the vectors of run '{workspace.vectors.resolve().parent}'",
            way_out="add the articles there",
        )
    vectors, index = VectorStore.open(workspace.vectors), read_manifest(workspace.index)
    encoder = make_page_encoder(profile.encoder)
    vectors.load_encoder(encoder)
    before = CorpusStore.open(workspace.corpus)
    if before.fingerprint == vectors.manifest.corpus:
        remember_articles(vectors, before)
    known = remembered_articles(workspace.vectors)
    store = prepare_corpus(workspace, source, profile, progress=progress)
    now = {article.article_id: article.sha256 for article in store.articles}
    _require_unchanged(known.articles, now)

    here = {page.page_id for page in store.pages}
    had = {*vectors.page_ids}
    gone = had - here
    if gone == had:
        raise InputError(
            f"no page of run '{workspace.root}' is in {source} any more",
            way_out="give --source all articles, not the new ones alone",
        )
    if leaving := gone - {*index.deleted}:
        delete_pages(vectors, workspace.index, leaving, corpus=store)
    back = now.keys() & {*known.left}
    restored = {page.page_id for page in store.pages if page.article_id in back} & {*index.deleted}
    restore_pages(workspace.index, restored)
    if added := [place for place, page in enumerate(store.pages) if page.page_id not in had]:
        grow_vectors(
            CorpusPages(store),
            added,
            encoder,
            workspace.vectors,
            corpus_fingerprint=store.fingerprint,
            progress=progress,
            **encoding_help(workspace, profile, encoder),
        )
    elif vectors.manifest.corpus != store.fingerprint:
        move_to_corpus(workspace.vectors, store.fingerprint)
    prepare_index(workspace, profile, progress=progress)
    return Growth(
        articles_added=len(now.keys() - known.articles.keys()) + len(back),
        articles_gone=len(known.articles.keys() - now.keys() - {*known.left}),
        pages_added=len(added) + len(restored),
        pages_gone=len(leaving),
        pages=len(here),
    )


def _require_unchanged(known: dict[str, str], now: dict[str, str]) -> None:
    changed = sorted(article for article in known.keys() & now.keys() if known[article] != now[article])
    if changed:
        raise MismatchError(
            f"article '{changed[0]}' has vectors of another file than the source has now"
            + (f", and so have {len(changed) - 1:,} more" if changed[1:] else ""),
            way_out="make vectors anew with `medvrag embed`, or add it under another name",
        )
