"""Fixtures shared by all tests."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPO = Path(__file__).resolve().parents[1]
# A shell starts what it runs in the background with Ctrl-C ignored, and so would be every process that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, one for all tests, since a process can hold only one sync Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on PATH (Debian: apt install chromium)")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


class ChaosServer:
    """The misbehaving model server of ``tests/chaos/server.py`` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        script = REPO / "tests" / "chaos" / "server.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"

    def control(self, **values: Any) -> None:
        """Set what happens to the next requests."""
        data = json.dumps(values).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self.root}/control", data, method="POST")).close()

    def log(self) -> dict[str, Any]:
        """How often each request was started and answered in full, and the last requests."""
        with urllib.request.urlopen(f"{self.root}/log") as reply:
            return json.loads(reply.read())

    def close(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def medvrag(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """The entry point in this process; what it prints, and its exit code."""
    from medvrag_core.cli import app

    monkeypatch.setattr(app.signal, "signal", lambda *_: None)

    def run(*arguments: str | Path) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["medvrag", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code, out=out, err=err)

    return run


@pytest.fixture
def chaos() -> Iterator[ChaosServer]:
    """A model server on loopback that does what it is told, faults included."""
    server = ChaosServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def chaos_server() -> type[ChaosServer]:
    """The class, for tests that start several servers or one on a fixed port."""
    return ChaosServer


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real articles, questions and odd PDFs that lies beside the checkout."""
    folder = REPO.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real test data not found at {folder}")
    return folder


ARTICLES = {
    "gout": [
        ("Gout and its treatment", "Allopurinol is started at 100 mg daily and raised every four weeks. " * 3),
        ("Monitoring", "Serum urate is checked monthly until it is below 6 mg/dL, then every six months. " * 3),
    ],
    "asthma": [
        ("Asthma in adults", "Inhaled budesonide with formoterol is the preferred reliever. " * 3),
        ("Side effects", "Oral candidiasis is prevented by rinsing the mouth after inhaled steroids. " * 3),
    ],
    "anemia": [
        ("Iron deficiency", "Ferritin below 30 micrograms per liter confirms iron deficiency in adults. " * 3),
    ],
}


def write_pdf(path: Path, pages: list[tuple[str, str]]) -> None:
    """A plain PDF with a heading and a paragraph on each page."""
    import pymupdf

    document = pymupdf.open()
    for heading, text in pages:
        page = document.new_page(width=420, height=595)
        page.insert_text((40, 60), heading, fontsize=16)
        page.insert_textbox((40, 80, 380, 500), text, fontsize=10)
    document.save(path)
    document.close()


@pytest.fixture(scope="session")
def embedded_systems() -> list[str]:
    """Every system, but for the text arms whose encoder needs weights that are not here."""
    from medvrag_core.systems.base import catalog

    texts = {name: entry.settle(load_profile("test")).text for name, entry in catalog().items()}
    return [name for name, text in texts.items() if text.encoder == "embedded" and text.reranker != "cross_encoder"]


@pytest.fixture(scope="session")
def made_pdfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three short PDFs, five pages, written by the test run itself."""
    folder = tmp_path_factory.mktemp("pdfs")
    for name, pages in ARTICLES.items():
        write_pdf(folder / f"{name}.pdf", pages)
    return folder


@pytest.fixture(scope="session")
def made_questions() -> list[Question]:
    """Three questions on ``made_pdfs``."""
    return [
        Question(
            id="gout-1",
            question="At which daily dose is allopurinol started?",
            options={"A": "25 mg", "B": "100 mg", "C": "300 mg", "D": "600 mg"},
            answer="B",
            gold_pages=("gout#p1",),
        ),
        Question(
            id="asthma-1",
            question="How is oral candidiasis from inhaled steroids prevented?",
            options={"A": "Rinsing the mouth", "B": "Fluconazole", "C": "Iron", "D": "Allopurinol"},
            answer="A",
            gold_pages=("asthma#p2",),
        ),
        Question(
            id="anemia-1",
            question="Which test confirms iron deficiency in adults?",
            options={"A": "Serum urate", "B": "Spirometry", "C": "Ferritin", "D": "Sodium"},
            answer="C",
            gold_pages=("anemia#p1",),
        ),
    ]


@pytest.fixture(scope="session")
def made_run(made_pdfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A run with corpus, vectors and index of ``made_pdfs`` under the profile ``test``."""
    from medvrag_core.systems.prepare import prepare

    workspace = Workspace(tmp_path_factory.mktemp("runs") / "made")
    prepare(workspace, made_pdfs, load_profile("test"), progress=False)
    return workspace


@pytest.fixture(scope="session")
def model_settings() -> Callable[..., dict[str, Any]]:
    """Overrides of the profile ``test`` for a filter and a reader behind one model server."""

    def make(url: str, **more: Any) -> dict[str, Any]:
        return {
            "filter.ranker": "llm",
            "filter.shard_size": 2,
            "filter.map_keep": 1,
            "reader.name": "vlm",
            "filter_model.model": "m",
            "reader_model.model": "m",
            "filter_model.base_url": url,
            "reader_model.base_url": url,
            "calls.pause_s": 0.0,
        } | more

    return make


@pytest.fixture(scope="session")
def paid_run(
    made_run: Workspace,
    made_questions: list[Question],
    model_settings: Callable[..., dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Workspace:
    """A finished run whose filter and reader were a model server that is gone; do not write to it."""
    from medvrag_core.systems.answering import answer_all
    from medvrag_core.systems.prepare import save_profile
    from medvrag_core.systems.resources import Resources

    workspace = Workspace(tmp_path_factory.mktemp("runs") / "paid")
    shutil.copytree(made_run.root, workspace.root)
    server = ChaosServer()
    try:
        profile = load_profile("test", model_settings(server.url))
        save_profile(workspace, profile)
        resources = Resources(workspace, profile)
        answer_all("medvrag", resources, made_questions, progress=False)
        resources.close()
    finally:
        server.close()
    return workspace


@pytest.fixture
def paid_copy(paid_run: Workspace, tmp_path: Path) -> Workspace:
    """A copy of ``paid_run`` for a test that changes it."""
    shutil.copytree(paid_run.root, tmp_path / "paid")
    return Workspace(tmp_path / "paid")
