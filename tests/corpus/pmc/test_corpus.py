"""From the fake services to a corpus: facts in the articles, refusals in the ledger, one way to name a source."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medvrag_core.corpus.build import build_corpus
from medvrag_core.corpus.pmc.packages import PackageSource
from medvrag_core.corpus.pmc.source import PmcSource
from medvrag_core.corpus.source import FolderSource, SourceFacts
from medvrag_core.corpus.sources import absolute_source, page_source
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError, SettingsError
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Article
from medvrag_core.runs.workspace import Workspace
from medvrag_core.settings import CorpusSettings, Profile, answering_settings, fingerprint
from medvrag_core.settings.pmc import PmcSettings

Make = Callable[..., PmcSettings]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def build(settings: PmcSettings, ids: Path, folder: Path) -> CorpusStore:
    corpus = CorpusSettings(dpi=72, seconds_per_page=60, pmc=settings)
    return build_corpus(page_source(f"pmc-ids:{ids}", corpus), folder, corpus, workers=2, progress=False)


@pytest.fixture
def ids(pmc: Any, made_pdfs: Path, tmp_path: Path) -> Path:
    pmc.add(1)
    pdf = (made_pdfs / "asthma.pdf").read_bytes()
    pmc.add(2, 3, licence="CC BY-NC", sentence="Open access under CC BY 4.0.", pdf=pdf)
    pmc.add(3, is_retracted=True)
    path = tmp_path / "ids.txt"
    path.write_text("PMC1\nPMC2\nPMC3\n19000001\n")
    return path


def test_the_corpus_keeps_what_the_source_knows_of_each_article(settings: Make, ids: Path, tmp_path: Path) -> None:
    store = build(settings(), ids, tmp_path / "c")
    first, second = store.articles
    assert (first.article_id, first.file, first.version, first.pages) == ("PMC1", "PMC1.pdf", 1, 2)
    assert (first.title, first.journal, first.published, first.pmid) == (
        "On gout", "Journal of Joints", "2018-07-02", "9001",
    )  # fmt: skip
    assert (first.licence, second.version) == ("CC BY 4.0", 3)
    assert first.attribution.startswith("Lovelace AK. On gout.")
    assert second.licence.startswith("conflict:")
    told = {(entry.file, entry.state, entry.reason) for entry in store.ledger if not entry.page_id}
    assert ("PMC3", "dropped", "retracted") in told
    assert ("19000001", "dropped", "looks_like_pmid") in told
    assert ("PMC2.pdf", "changed", "licence_conflict") in told
    assert sum(reason == "licence_conflict" for _, _, reason in told) == 1


@pytest.mark.slow
def test_the_same_articles_give_the_same_bytes_whatever_happened_in_between(
    pmc: Any, settings: Make, ids: Path, tmp_path: Path
) -> None:
    build(settings(), ids, tmp_path / "a")
    pmc.fail(".pdf", "truncate", times=1)
    pmc.fail("metadata/", "status:503", times=1)
    build(settings(cache=str(tmp_path / "other"), parallel=1), ids, tmp_path / "b")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_what_is_known_of_an_article_changes_without_rendering_it_again(
    pmc: Any, settings: Make, ids: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(settings(), ids, tmp_path / "c")
    pmc.add(
        1,
        sentence="Open access, under a licence that was told later.",
        link="https://creativecommons.org/licenses/by/3.0/",
    )
    monkeypatch.setattr("medvrag_core.corpus.build.render_document", lambda *a, **k: pytest.fail("rendered again"))
    store = build(settings(cache=str(tmp_path / "new")), ids, tmp_path / "c")
    assert store.articles[0].licence == "CC BY 3.0"


def test_a_folder_of_pdfs_gives_the_fields_it_gave_before(made_run: Workspace) -> None:
    for line in (made_run.corpus / "articles.jsonl").read_text().splitlines():
        assert list(json.loads(line)) == ["article_id", "file", "sha256", "pages", "title", "doi", "pmid", "licence"]


def test_a_source_knows_only_what_an_article_can_hold() -> None:
    known = {name: field.default for name, field in SourceFacts.model_fields.items()}
    assert known == {name: Article.model_fields[name].default for name in known}


# --- naming a source ---------------------------------------------------------------------


def test_every_form_of_a_source(tmp_path: Path) -> None:
    settings = CorpusSettings(pmc=PmcSettings(query="asthma", email="a@example.org"))
    for text in (str(tmp_path), f"folder:{tmp_path}", tmp_path):
        source = page_source(text, settings)
        assert isinstance(source, FolderSource) and source.folder == tmp_path
    packages = page_source(f"packages:{tmp_path}", settings)
    assert isinstance(packages, PackageSource) and packages.folder == tmp_path
    for text, chosen in (
        ("pmc:gout AND 2018:2020[pdat]", ("gout AND 2018:2020[pdat]", "", "")),
        ("pmc-ids:a/b.txt", ("", "a/b.txt", "")),
        ("pmc-inventory:latest", ("", "", "latest")),
        ("pmc:", ("asthma", "", "")),
    ):
        found = page_source(text, settings)
        assert isinstance(found, PmcSource)
        assert (found.settings.query, found.settings.ids_file, found.settings.inventory) == chosen
        assert found.settings.email == "a@example.org"


def test_a_source_that_names_nothing_is_an_error() -> None:
    for text in ("folder:", "packages:", "pmc-ids:"):
        with pytest.raises(InputError, match="names nothing"):
            page_source(text, CorpusSettings())
    with pytest.raises(SettingsError, match="exactly one"):
        page_source("pmc:", CorpusSettings())
    source = page_source("pcm:gout", CorpusSettings())
    with pytest.raises(InputError, match="pcm:gout: no such folder"):
        list(source.documents())


def test_a_source_is_the_same_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    first = [absolute_source(x) for x in ("a", "folder:a", "packages:a", "pmc-ids:a")]
    monkeypatch.chdir(tmp_path / "a")
    assert [absolute_source(x) for x in (".", "folder:.", "packages:.", "pmc-ids:.")] == first
    assert absolute_source("pmc:a") == "pmc:a"


def test_settings_of_the_source_leave_old_files_and_fingerprints_as_they_were() -> None:
    profile = load_profile("cpu")
    assert "pmc" not in profile.corpus.model_dump()
    other = load_profile("cpu", {"corpus.pmc.email": "a@example.org", "corpus.pmc.query": "gout"})
    assert other.corpus.model_dump()["pmc"]["query"] == "gout"
    assert fingerprint(answering_settings(other)) == fingerprint(answering_settings(profile))
    assert Profile.model_validate(other.model_dump()) == other


@pytest.mark.slow
def test_the_commands_take_it(
    pmc: Any, ids: Path, tmp_path: Path, medvrag: Callable[..., SimpleNamespace], settings: Make
) -> None:
    chosen = settings()
    values = [f"--set=corpus.pmc.{name}={getattr(chosen, name)}" for name in ("bucket", "eutils", "converter", "cache")]
    out = tmp_path / "corpus"
    done = medvrag("corpus", "build", "--source", f"pmc-ids:{ids}", "--out", out, "--profile", "test", *values)
    assert done.code == 0, done.err
    assert {article.article_id for article in CorpusStore.open(out).articles} == {"PMC1", "PMC2"}
    for place in ("retracted", "looks_like_pmid", "licence_conflict"):
        assert place in done.out
    run = tmp_path / "run"
    done = medvrag("embed", "--source", f"pmc-ids:{ids}", "--out", run, "--profile", "test", *values)
    assert done.code == 0, done.err
    assert (run / "corpus" / "pages.jsonl").read_bytes() == (out / "pages.jsonl").read_bytes()
    done = medvrag("corpus", "build", "--source", "pmc:gout", "--out", tmp_path / "no", "--profile", "test")
    assert done.code == 2 and "corpus.pmc.email is empty" in done.err


@pytest.mark.slow
def test_real_articles_from_the_fake_bucket(pmc: Any, settings: Make, shared_data: Path, tmp_path: Path) -> None:
    """Every real article that has PDF and JATS, as the bucket would give it."""
    folder = shared_data / "articles"
    names = sorted(path.name.removesuffix(".nxml.gz") for path in (folder / "jats").glob("PMC*"))
    for name in names:
        xml = gzip.decompress((folder / "jats" / f"{name}.nxml.gz").read_bytes())
        pmc.add(int(name[3:]), pdf=(folder / "pdf" / f"{name}.pdf").read_bytes(), xml=xml, license_code=None)
    path = tmp_path / "ids.txt"
    path.write_text("\n".join(names))
    source = PmcSource(settings(ids_file=str(path), seconds_per_file=60))
    documents = list(source.documents())
    assert [document.article_id for document in documents] == sorted(names)
    assert source.ledger() == ()
    for document in documents:
        assert document.facts.title and document.facts.licence and document.facts.attribution
