"""A run that grows: what is there stays to the byte, what is new is found, what left is not; stopped, it goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.encoders.vectors import VectorStore
from medvrag_core.errors import InputError, MedvragError, MismatchError
from medvrag_core.index.manifest import read_manifest
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems import growing
from medvrag_core.systems.growing import Growth, add_articles
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.prepare import build_store, prepare
from medvrag_core.systems.resources import Resources
from medvrag_core.systems.shared_stages import share_stages

PROFILE = load_profile("test")
ASTHMA = "oral candidiasis from inhaled budesonide"


@pytest.fixture
def source(made_pdfs: Path, tmp_path: Path) -> Path:
    """All made articles; tests take one away before the run is made."""
    return Path(shutil.copytree(made_pdfs, tmp_path / "pdfs"))


def made(source: Path, without: str = "asthma") -> tuple[Workspace, Path]:
    """A run over all articles but one, which lies elsewhere."""
    away = source.parent / f"{without}.pdf"
    shutil.move(source / f"{without}.pdf", away)
    run = Workspace(source.parent / "run")
    prepare(run, source, PROFILE, progress=False)
    return run, away


def grown(run: Workspace, source: Path) -> Growth:
    return add_articles(run, source, PROFILE, progress=False)


def found(run: Workspace, query: str = ASTHMA) -> list[str]:
    """Page ids, best first, as a question would find them."""
    resources = Resources(run, PROFILE)
    try:
        return [hit.page_id for hit in PageEvidence(resources).search(query).hits]
    finally:
        resources.close()


def large_files(run: Workspace) -> dict[str, str]:
    files = [
        path for room in (run.vectors, run.index) for path in room.rglob("*.np[yz]") if "contents" not in str(path)
    ]
    return {str(path.relative_to(run.root)): sha256(path.read_bytes()).hexdigest() for path in files}


def test_new_articles_are_found_and_what_was_there_is_untouched(source: Path) -> None:
    run, away = made(source)
    before, pages = large_files(run), set(found(run))
    assert not any(page.startswith("asthma") for page in pages)
    shutil.move(away, source)
    told = grown(run, source)
    assert (told.articles_added, told.pages_added, told.articles_gone, told.pages_gone) == (1, 2, 0, 0)
    after = large_files(run)
    assert before.items() < after.items()
    assert found(run)[0] == "asthma#p2"
    assert set(found(run)) == pages | {"asthma#p1", "asthma#p2"}
    assert len(read_manifest(run.index).segments) in (1, 2), "small segments may be made one"


def test_a_run_that_grew_is_taken_as_it_is_and_no_answer_of_another_is_taken_for_its_own(source: Path) -> None:
    run, away = made(source)
    shutil.move(away, source)
    grown(run, source)
    before = large_files(run)
    prepare(run, source, PROFILE, progress=False)
    assert large_files(run) == before
    assert grown(run, source) == Growth(articles_added=0, articles_gone=0, pages_added=0, pages_gone=0, pages=5)
    anew = Workspace(source.parent / "anew")
    prepare(anew, source, PROFILE, progress=False)
    first, other = (VectorStore.open(one.vectors).manifest for one in (run, anew))
    assert first.corpus == other.corpus and first.first_corpus != other.first_corpus == ""


def test_an_article_that_left_is_found_no_more_and_the_rest_stays(source: Path) -> None:
    run, _ = made(source, "gout")
    before = large_files(run)
    assert "asthma#p2" in found(run)
    (source / "asthma.pdf").unlink()
    told = grown(run, source)
    assert (told.articles_gone, told.pages_gone, told.pages_added) == (1, 2, 0)
    assert all(page.startswith("anemia") for page in found(run)) and found(run)
    assert large_files(run) == before
    prepare(run, source, PROFILE, progress=False)
    assert large_files(run) == before and all(page.startswith("anemia") for page in found(run))


def test_one_comes_while_another_leaves(source: Path) -> None:
    run, away = made(source)
    shutil.move(away, source)
    (source / "gout.pdf").unlink()
    told = grown(run, source)
    assert (told.articles_added, told.articles_gone) == (1, 1)
    assert {page.partition("#")[0] for page in found(run)} == {"asthma", "anemia"}
    prepare(run, source, PROFILE, progress=False)
    assert {page.partition("#")[0] for page in found(run)} == {"asthma", "anemia"}


def test_an_article_that_comes_back_is_found_again_by_its_old_vectors(source: Path) -> None:
    run, _ = made(source, "gout")
    hits, vectors = found(run), large_files(run)
    shutil.move(source / "asthma.pdf", source.parent / "asthma.pdf")
    grown(run, source)
    assert "asthma#p2" not in found(run)
    shutil.move(source.parent / "asthma.pdf", source)
    told = grown(run, source)
    assert (told.articles_added, told.pages_added, told.articles_gone) == (1, 2, 0)
    assert found(run) == hits and large_files(run) == vectors
    assert grown(run, source).articles_added == 0


def test_another_file_of_an_article_that_left_is_refused(source: Path, made_pdfs: Path) -> None:
    run, _ = made(source, "gout")
    (source / "asthma.pdf").unlink()
    grown(run, source)
    shutil.copy(made_pdfs / "gout.pdf", source / "asthma.pdf")
    with pytest.raises(MismatchError, match="article 'asthma' has vectors of another file"):
        grown(run, source)


def test_an_index_that_is_made_anew_does_not_bring_back_what_left(source: Path) -> None:
    run, _ = made(source, "gout")
    (source / "asthma.pdf").unlink()
    grown(run, source)
    hits = found(run)
    shutil.rmtree(run.index)
    prepare(run, source, PROFILE, progress=False)
    assert found(run) == hits and all(page.startswith("anemia") for page in hits)


def test_a_file_that_changed_is_refused_by_name_and_nothing_is_lost(source: Path, made_pdfs: Path) -> None:
    run, away = made(source)
    before = large_files(run)
    shutil.copy(made_pdfs / "asthma.pdf", source / "gout.pdf")
    for _ in range(2):
        with pytest.raises(MismatchError, match="article 'gout' has vectors of another file than the source has now"):
            grown(run, source)
    assert large_files(run) == before
    shutil.copy(made_pdfs / "gout.pdf", source / "gout.pdf")
    shutil.move(away, source)
    assert grown(run, source).articles_added == 1


def test_new_articles_alone_are_refused(source: Path, tmp_path: Path) -> None:
    run, away = made(source)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(away, alone)
    with pytest.raises(InputError, match="give --source all articles, not the new ones alone"):
        grown(run, alone)
    shutil.move(away, source)
    assert grown(run, source).pages == 5


@pytest.mark.parametrize("step", ["prepare_corpus", "delete_pages", "restore_pages", "grow_vectors", "prepare_index"])
def test_stopped_anywhere_it_goes_on(source: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    run, away = made(source)
    shutil.move(away, source)
    (source / "gout.pdf").unlink()

    def stops(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(growing, step, stops)
        with pytest.raises(KeyboardInterrupt):
            grown(run, source)
    grown(run, source)
    assert {page.partition("#")[0] for page in found(run)} == {"asthma", "anemia"}
    assert found(run)[0] == "asthma#p2"


def test_a_run_that_shares_the_vectors_of_another_sends_there(source: Path) -> None:
    run, away = made(source)
    other = Workspace(source.parent / "other")
    share_stages(other, run)
    shutil.move(away, source)
    before = large_files(run)
    with pytest.raises(InputError, match=r"shares the vectors of run .*; add the articles there"):
        grown(other, source)
    assert large_files(run) == before and grown(run, source).articles_added == 1


def test_a_corpus_that_lies_by_itself_grows_there_and_the_run_follows(source: Path) -> None:
    away = source.parent / "asthma.pdf"
    shutil.move(source / "asthma.pdf", away)
    corpus = source.parent / "corpus"
    build_store(source, corpus, PROFILE, calls_of=Workspace(corpus), progress=False)
    run = Workspace(source.parent / "run")
    prepare(run, f"store:{corpus}", PROFILE, progress=False)
    shutil.move(away, source)
    build_store(source, corpus, PROFILE, calls_of=Workspace(corpus), progress=False)
    told = add_articles(run, f"store:{corpus}", PROFILE, progress=False)
    assert (told.articles_added, told.pages_added, found(run)[0]) == (1, 2, "asthma#p2")


def test_the_command(source: Path, medvrag: Callable[..., SimpleNamespace]) -> None:
    run, away = made(source)
    shutil.move(away, source)
    done = medvrag("index", "add", "--run", run.root, "--source", source, "--profile", "test")
    assert done.code == 0, done.err
    assert "1 article (2 pages) added, 0 articles (0 pages) gone; 5 pages in all" in done.out


def test_a_run_without_vectors_is_refused(source: Path) -> None:
    with pytest.raises(MedvragError, match="no finished page vectors"):
        grown(Workspace(source.parent / "nothing"), source)
