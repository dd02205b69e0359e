"""Builds what a run lacks: corpus, page vectors, index; each finished stage leaves its RunRecord."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypedDict

import yaml

from medvrag_core.cluster.ray_crew import crew_of
from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.job import RenderSettings
from medvrag_core.corpus.model_summaries import SUMMARY, SummaryCrew, prompt_version, summarize_by_model
from medvrag_core.corpus.screening import require_screened
from medvrag_core.corpus.source import PageSource
from medvrag_core.corpus.sources import page_source
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.base import PageEncoder, PageInput, PageInputs
from medvrag_core.encoders.batched import BatchedPageEncoder
from medvrag_core.encoders.copies import Copies
from medvrag_core.encoders.encode import encode_corpus, read_throughput
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.shard_worker import ShardCrew
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, SettingsError
from medvrag_core.index.base import PageIndex
from medvrag_core.index.build import build_index
from medvrag_core.index.duplicates import kinds_kept
from medvrag_core.index.manifest import read_manifest
from medvrag_core.models.limits import CallLimits
from medvrag_core.models.open_chat import stored_chat
from medvrag_core.models.store import CallStore
from medvrag_core.models.stored_chat import StoredChat
from medvrag_core.runs.crew import Crew
from medvrag_core.runs.publish import write_text
from medvrag_core.runs.stage import record_stage, require_same_settings
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import Profile
from medvrag_core.systems.changed_prompts import changed_prompts, refuse_changed_prompts
from medvrag_core.systems.encoded_articles import remember_articles
from medvrag_core.systems.resources import Resources

STORE = "store:"
"""A source that begins with this is a corpus that was built by itself."""


def prepare_corpus(
    workspace: Workspace, source: str | Path | None, profile: Profile, *, progress: bool = True
) -> CorpusStore:
    """Render the articles of ``source`` that are not in the run yet; stage ``corpus_build``.

    Without a source the corpus of the run is opened as it is; ``store:DIR`` takes a corpus that was built by itself,
    and :func:`~medvrag_core.corpus.sources.page_source` reads any other text.
    """
    with record_stage(workspace.root, "corpus_build", profile=profile.name, settings=profile.corpus) as stage:
        if source is None:
            store = CorpusStore.open(workspace.corpus)
            require_screened(store.folder, profile.corpus.exclusion)
        elif str(source).startswith(STORE):
            store = share_store(workspace, Path(str(source).removeprefix(STORE)), profile)
        elif workspace.corpus.is_symlink():
            raise InputError(
                f"run '{workspace.root}' shares the corpus {workspace.corpus.resolve()}, nothing is built into it",
                way_out="choose another run, or add to it with `medvrag corpus build`",
            )
        else:
            pages = page_source(source, profile.corpus)
            store = build_store(pages, workspace.corpus, profile, calls_of=workspace, progress=progress)
        states = [entry.state for entry in store.ledger]
        stage.measure(
            articles=len(store.articles),
            pages=len(store.pages),
            pages_read_by_ocr=sum(page.text_source == "ocr" for page in store.pages),
            pages_without_text=sum(page.text_source == "none" for page in store.pages),
            ledger_kept=states.count("kept"),
            ledger_changed=states.count("changed"),
            ledger_dropped=states.count("dropped"),
            ledger_quarantined=states.count("quarantined"),
            fingerprint=store.fingerprint,
        )
    save_profile(workspace, profile)
    return store


def share_store(workspace: Workspace, folder: Path, profile: Profile) -> CorpusStore:
    """Give a run the corpus in ``folder``, by a link; the corpus itself is never written to.

    Raises
    ------
    NotBuiltError : there is no finished corpus
    MismatchError : it was rendered under other settings than those of the profile
    InputError : the run has another corpus
    """
    store = CorpusStore.open(folder)
    require_same_settings(
        folder, RenderSettings.of(profile.corpus), way_out="set these fields as the corpus has them, or build another"
    )
    require_screened(folder, profile.corpus.exclusion)
    link = workspace.corpus
    if link.is_symlink() and link.resolve() == folder.resolve():
        return store
    if link.is_symlink() or link.exists():
        raise InputError(f"run '{workspace.root}' has another corpus", way_out="choose another run")
    workspace.root.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder.resolve(), target_is_directory=True)
    return store


def build_store(
    source: Path | PageSource, folder: Path, profile: Profile, *, calls_of: Workspace, progress: bool = True
) -> CorpusStore:
    """Build the corpus in ``folder`` with the summaries that the profile asks for.

    Parameters
    ----------
    calls_of : where the calls of a summary model are kept

    Raises
    ------
    SettingsError : a model is to write the summaries, and none is named
    MismatchError : a changed prompt makes stored summaries worthless, and the settings do not accept it
    RunStopped : its server no longer works; pages and finished calls are kept
    """
    crew = crew_of(profile)
    build = partial(
        build_corpus, source, folder, profile.corpus, workers=profile.processes, crew=crew, progress=progress
    )
    if profile.corpus.summarizer == "extractive":
        return build()
    if not profile.serve.summary_model.model:
        raise SettingsError(
            "corpus.summarizer is 'model', and no model is named",
            way_out="name it in serve.summary_model, or take the extractive summarizer",
        )
    with closing(Resources(calls_of, profile)) as resources:
        if not profile.calls.accept_changed_prompts:
            refuse_changed_prompts(changed_prompts(resources.calls, {SUMMARY: prompt_version()}))
        with _summary_crew(crew, calls_of, profile) as summary_crew:
            summarize = partial(
                summarize_by_model,
                model=resources.chat(profile.serve.summary_model),
                at_once=profile.calls.in_flight,
                stop=lambda: resources.limits.stop("stopped"),
                crew=summary_crew,
                progress=progress,
            )
            return build(summarize=summarize)


@contextmanager
def _summary_crew(crew: Crew | None, calls_of: Workspace, profile: Profile) -> Iterator[SummaryCrew | None]:
    """Workers that keep their calls in the store of the run, by way of the process that has it open."""
    if crew is None:
        yield None
        return
    with crew.lent(partial(CallStore, calls_of.calls.absolute())) as store:
        open_model = partial(_summary_model, profile, store)
        yield SummaryCrew(crew, open_model, profile.calls.in_flight)


def _summary_model(profile: Profile, store: CallStore) -> StoredChat:
    return stored_chat(profile.serve.summary_model, profile.calls, CallLimits(profile.calls), store)


class CorpusPages(PageInputs):
    """Every page of a corpus as its encoder sees it."""

    def __init__(self, store: CorpusStore) -> None:
        def page_input(place: int) -> PageInput:
            page = store.pages[place]
            return PageInput(page=page, layout=store.layout(page.page_id), image=store.image_path(page.page_id))

        super().__init__(len(store.pages), page_input)


def open_pages(corpus: Path) -> CorpusPages:
    """The pages of the corpus in a folder; what a worker elsewhere opens."""
    return CorpusPages(CorpusStore.open(corpus))


def prepare_vectors(workspace: Workspace, profile: Profile, *, progress: bool = True) -> VectorStore:
    """Encode the pages that have no vectors yet, or vectors of another encoder; stage ``embedding``.

    An encoder that takes no batches works in as many processes as ``profile.workers`` says.
    """
    store = CorpusStore.open(workspace.corpus)
    with record_stage(workspace.root, "embedding", profile=profile.name, settings=profile.encoder) as stage:
        encoder = make_page_encoder(profile.encoder)
        vectors = encode_corpus(
            CorpusPages(store),
            encoder,
            workspace.vectors,
            corpus_fingerprint=store.fingerprint,
            storage=profile.encoder.storage,
            progress=progress,
            **encoding_help(workspace, profile, encoder),
        )
        if not workspace.vectors.is_symlink():  # Of a run that shares them, the other one has written it down.
            remember_articles(vectors, store)
        stage.add(workspace.vectors / "manifest.json")
        stage.measure(bytes_per_page=vectors.bytes / len(vectors))
        if (throughput := read_throughput(workspace.vectors)) is not None:
            stage.measure(
                pages_per_s=throughput.pages / throughput.seconds,
                patches_per_s=throughput.patches / throughput.seconds,
                **throughput.model_dump(mode="json"),
            )
    return vectors


def left_pages(vectors: VectorStore, store: CorpusStore) -> set[str]:
    """Pages that have vectors and left the corpus, as only those of a run that grew do."""
    return {*vectors.page_ids} - {page.page_id for page in store.pages} if vectors.manifest.first_corpus else set()


class EncodingHelp(TypedDict):
    """Who encodes beside this process, or in its place; see :func:`~medvrag_core.encoders.encode.encode_corpus`."""

    copies: Copies | None
    crew: ShardCrew | None


def encoding_help(workspace: Workspace, profile: Profile, encoder: PageEncoder) -> EncodingHelp:
    """Copies of the encoder in as many processes as the profile says, but for one that takes batches; or a crew."""
    make, crew = partial(make_page_encoder, profile.encoder), crew_of(profile)
    batched = isinstance(encoder, BatchedPageEncoder)
    return {
        "copies": None if batched else Copies(make, profile.processes),
        "crew": None if crew is None else ShardCrew(crew, make, partial(open_pages, workspace.corpus.absolute())),
    }


def prepare_index(workspace: Workspace, profile: Profile, *, progress: bool = True) -> tuple[VectorStore, PageIndex]:
    """Vectors and index where they are missing or stale; stage ``indexing``."""
    settings = profile.model_copy(update={"note": ""})
    with record_stage(workspace.root, "indexing", profile=profile.name, settings=settings) as stage:
        vectors = prepare_vectors(workspace, profile, progress=progress)
        store = CorpusStore.open(workspace.corpus)
        index = build_index(
            vectors,
            profile.index,
            workspace.index,
            near_duplicate=profile.corpus.near_duplicate,
            without=left_pages(vectors, store),
            corpus=store,
            keep=kinds_kept(profile.corpus),
            crew=crew_of(profile),
            progress=progress,
        )
        manifest = read_manifest(workspace.index)
        stage.add(workspace.vectors / "manifest.json", workspace.index / "manifest.json")
        stage.measure(
            pages=len(vectors),
            vectors=int(vectors.offsets[-1]),
            vectors_per_page=float(vectors.offsets[-1]) / len(vectors),
            dim=vectors.dim,
            near_duplicates_left_out=len(manifest.left_out),
            near_duplicates_kept=dict(Counter(pair.kind for pair in manifest.alike)),
            pages_indexed=manifest.pages,
            bytes_vectors=vectors.bytes,
            mode=profile.index.mode,
            device=index.device,
            bytes_index=sum(p.stat().st_size for p in workspace.index.rglob("*") if p.is_file()),
        )
    return vectors, index


def save_profile(workspace: Workspace, profile: Profile) -> None:
    """Keep the resolved profile in the run, so that later commands need not name it."""
    write_text(workspace.profile, yaml.safe_dump(profile.model_dump(mode="json"), sort_keys=False))


def prepare(workspace: Workspace, source: str | Path | None, profile: Profile, *, progress: bool = True) -> None:
    """All of the above, in order."""
    prepare_corpus(workspace, source, profile, progress=progress)
    prepare_index(workspace, profile, progress=progress)
