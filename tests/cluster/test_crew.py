"""The stages by a crew leave the files that one process leaves, byte for byte; no Ray is needed for this."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crews import UnkindCrew
from made_pages import HashEncoder, made_pages
from same_files import digests_of

from medvrag_core.corpus import model_summaries
from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.encoders.base import at_places
from medvrag_core.encoders.encode import encode_corpus, read_throughput
from medvrag_core.encoders.growth import grow_vectors
from medvrag_core.encoders.shard_worker import ShardCrew
from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import MedvragError
from medvrag_core.index import build as index_build
from medvrag_core.index.build import write_index
from medvrag_core.models.outcomes import RunStopped
from medvrag_core.models.store import CallStore
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import CorpusSettings, IndexSettings
from medvrag_core.systems import prepare

PAGES = 150
QUICK = CorpusSettings(dpi=72, seconds_per_page=10)


def encode(folder: Path, crew: UnkindCrew | None, encoder: Callable[[], HashEncoder] = HashEncoder) -> VectorStore:
    given = None if crew is None else ShardCrew(crew, encoder, partial(made_pages, PAGES))
    return encode_corpus(made_pages(PAGES), encoder(), folder, corpus_fingerprint="c", crew=given, progress=False)


def test_a_corpus_and_its_ledger(made_pdfs: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(made_pdfs, tmp_path / "pdfs"))
    (source / "broken.pdf").write_bytes(b"no pdf at all")
    alone, crew = tmp_path / "alone", UnkindCrew()
    build_corpus(source, alone, QUICK, progress=False)
    store = build_corpus(source, tmp_path / "crew", QUICK, crew=crew, progress=False)
    assert digests_of(tmp_path / "crew") == digests_of(alone)
    assert crew.asked == [("render", 4)]
    assert "not_a_pdf" in {entry.reason for entry in store.ledger if entry.file == "broken.pdf"}


def test_vectors(tmp_path: Path) -> None:
    encode(tmp_path / "alone", None)
    crew = UnkindCrew()
    encode(tmp_path / "crew", crew)
    assert digests_of(tmp_path / "crew") == digests_of(tmp_path / "alone")
    assert crew.asked == [("encode", 3)]
    told = read_throughput(tmp_path / "crew")
    assert told is not None and (told.pages, told.processes, told.waiting_s) == (PAGES, 2, None)


def test_vectors_that_grow(tmp_path: Path) -> None:
    pages, crew = made_pages(PAGES), UnkindCrew()
    places = [*range(40, 60), *range(100, PAGES)]  # As new articles come among old ones in the order of a corpus.
    for name, helped in (("alone", None), ("crew", ShardCrew(crew, HashEncoder, partial(made_pages, PAGES)))):
        encoder = HashEncoder()
        first = at_places(pages, [place for place in range(PAGES) if place not in places])
        encode_corpus(first, encoder, tmp_path / name, corpus_fingerprint="c", progress=False)
        grow_vectors(pages, places, encoder, tmp_path / name, corpus_fingerprint="d", crew=helped, progress=False)
    assert digests_of(tmp_path / "crew") == digests_of(tmp_path / "alone")
    assert crew.asked == [("encode", 2)]
    assert VectorStore.open(tmp_path / "crew").page_ids[80:] == tuple(pages[place].page.page_id for place in places)


def test_a_page_that_cannot_be_encoded_is_named_and_whole_shards_stay(tmp_path: Path) -> None:
    bad = partial(HashEncoder, fail_at=made_pages(PAGES)[10].page.number)
    with pytest.raises(MedvragError, match="no such luck"):
        encode(tmp_path / "v", UnkindCrew(), bad)
    assert sorted(path.name for path in (tmp_path / "v").glob("shard-*")) == ["shard-00001", "shard-00002"]
    crew = UnkindCrew()
    encode(tmp_path / "v", crew)
    assert crew.asked == [("encode", 1)]
    encode(tmp_path / "alone", None)
    assert digests_of(tmp_path / "v") == digests_of(tmp_path / "alone")


def test_vectors_that_no_index_can_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MedvragError, match="wide, not"):
        encode(tmp_path / "v", UnkindCrew(), Narrow)


class Narrow(HashEncoder):
    """Gives vectors of another width than it says."""

    def load(self, folder: Path) -> None:
        super().load(folder)
        self.dim = 8

    def encode_pages(self, pages):  # type: ignore[no-untyped-def]
        for page in super().encode_pages(pages):
            yield type(page)(page.page_id, page.vectors[:, :4], page.boxes, page.vector_of)


def test_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_build, "SEGMENT_NUMBERS", 64 * 8)  # one shard a segment
    store = encode(tmp_path / "v", None)
    settings, crew = IndexSettings(), UnkindCrew()
    write_index(store, settings, tmp_path / "alone", near_duplicate=0.99, progress=False)
    write_index(store, settings, tmp_path / "crew", near_duplicate=0.99, crew=crew, progress=False)
    assert digests_of(tmp_path / "crew") == digests_of(tmp_path / "alone")
    assert crew.asked == [("index", 3)]


def summarized(pdfs: Path, folder: Path, url: str) -> CorpusStore:
    values = {
        "corpus.summarizer": "model",
        "serve.summary_model.model": "chaos",
        "serve.summary_model.base_url": url,
        "serve.summary_model.tokenizer": "estimate",
        "calls.pause_s": 0.0,
        "calls.attempts": 1,
    }
    profile = load_profile("test", values)
    return prepare.build_store(pdfs, folder, profile, calls_of=run_of(folder), progress=False)


def run_of(folder: Path) -> Workspace:
    return Workspace(folder.with_name(f"{folder.name}-run"))


def test_summaries_by_a_model_whose_calls_are_kept_and_paid_for_once(
    made_pdfs: Path, tmp_path: Path, chaos: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_summaries, "PAGES_A_TIME", 2)
    alone = summarized(made_pdfs, tmp_path / "alone", chaos.url)
    asked_alone = chaos.log()["finished"]
    crew = UnkindCrew()
    monkeypatch.setattr(prepare, "crew_of", lambda profile: crew)
    store = summarized(made_pdfs, tmp_path / "crew", chaos.url)
    assert digests_of(tmp_path / "crew") == digests_of(tmp_path / "alone")
    assert crew.asked == [("render", 3), ("summarize", 3)]
    assert chaos.log()["finished"] == {call: 2 * times for call, times in asked_alone.items()}, "none twice by the crew"
    with CallStore(run_of(tmp_path / "crew").calls) as calls:
        assert {call.key for call in calls.calls()} == {summary.call for summary in store.summaries.values()}
        assert len(list(calls.token_counts())) == len({summary.text for summary in alone.summaries.values()})


def test_a_server_that_is_lost_stops_a_crew_and_what_was_asked_stays(
    made_pdfs: Path, tmp_path: Path, chaos_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "crew_of", lambda profile: UnkindCrew())
    server = chaos_server()
    server.control(faults=["", "", "401"])
    with pytest.raises(RunStopped, match="status 401"):
        summarized(made_pdfs, tmp_path / "c", server.url)
    assert not (tmp_path / "c" / "summaries.jsonl").exists()
    store = summarized(made_pdfs, tmp_path / "c", server.url)
    assert not any(summary.flags for summary in store.summaries.values())
    assert sorted(server.log()["finished"].values()) == [1] * len(store.pages)
    server.close()
