from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from medvrag_core.cli.app import app
from medvrag_core.corpus.store import CorpusStore
from medvrag_core.errors import InputError, MismatchError, NotBuiltError
from medvrag_core.profiles.load import load_profile
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems.prepare import prepare_corpus

PROFILE = load_profile("test")


def medvrag(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def store(made_pdfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pdfs = Path(shutil.copytree(made_pdfs, folder / "pdfs"))
    (pdfs / "page.pdf").write_text("<html>404")
    medvrag("corpus", "build", "--source", f"folder:{pdfs}", "--out", folder / "store", "--profile", "test")
    return folder / "store"


def test_build_ends_with_a_ledger_that_any_reader_of_parquet_reads(store: Path) -> None:
    table = pq.read_table(store / "ledger.parquet").to_pylist()
    whole = {row["file"]: (row["article_id"], row["status"], row["reason"]) for row in table if row["page"] is None}
    assert whole["page.pdf"] == ("page", "dropped", "not_a_pdf")
    assert whole["gout.pdf"] == ("gout", "kept", "rendered")
    kept = [f"{row['article_id']}#p{row['page']}" for row in table if row["page"] and row["status"] == "kept"]
    assert kept == [page.page_id for page in CorpusStore.open(store).pages]


def test_report_tells_the_funnel_and_the_rules(store: Path) -> None:
    told = medvrag("corpus", "report", store)
    assert "4  files seen" in told and "3  articles kept" in told and "5  pages kept" in told
    assert "dropped     not_a_pdf" in told and "3  unknown" in told
    found = json.loads(medvrag("corpus", "report", store, "--json"))
    assert (found["files"], found["articles"], found["pages_kept"], found["pages_indexed"]) == (4, 3, 5, None)
    assert {"level": "file", "status": "dropped", "reason": "not_a_pdf", "count": 1} in found["rules"]


def test_report_of_a_run_counts_the_pages_in_its_index(made_run: Workspace) -> None:
    found = json.loads(medvrag("corpus", "report", made_run.root, "--json"))
    assert found["pages_indexed"] + found["near_duplicates"] == found["pages_kept"] == 5


def test_report_of_a_corpus_of_old_is_the_same(store: Path, tmp_path: Path) -> None:
    old = Path(shutil.copytree(store, tmp_path / "old"))
    (old / "ledger.parquet").unlink()
    assert medvrag("corpus", "report", old) == medvrag("corpus", "report", store)
    with pytest.raises(NotBuiltError, match="no corpus and no run"):
        medvrag("corpus", "report", tmp_path)


def test_runs_share_a_corpus_and_never_write_to_it(store: Path, tmp_path: Path, made_pdfs: Path) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    runs = [Workspace(tmp_path / name) for name in ("a", "b")]
    for run in (*runs, runs[0]):
        shared = prepare_corpus(run, f"store:{store}", PROFILE, progress=False)
        assert shared.fingerprint == CorpusStore.open(store).fingerprint
        assert prepare_corpus(run, None, PROFILE, progress=False).pages == shared.pages
    with pytest.raises(InputError, match=r"shares the corpus .* nothing is built into it"):
        prepare_corpus(runs[0], made_pdfs, PROFILE, progress=False)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_a_corpus_that_does_not_fit_is_refused(store: Path, tmp_path: Path) -> None:
    sharp = load_profile("test", {"corpus.dpi": 90})
    with pytest.raises(MismatchError, match=r"dpi: \d+ -> 90"):
        prepare_corpus(Workspace(tmp_path / "a"), f"store:{store}", sharp, progress=False)
    with pytest.raises(NotBuiltError, match="no finished corpus"):
        prepare_corpus(Workspace(tmp_path / "a"), f"store:{tmp_path / 'none'}", PROFILE, progress=False)
    (tmp_path / "b" / "corpus").mkdir(parents=True)
    with pytest.raises(InputError, match="has another corpus"):
        prepare_corpus(Workspace(tmp_path / "b"), f"store:{store}", PROFILE, progress=False)
