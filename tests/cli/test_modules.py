"""A Python file of one's own on the command line: its systems and retrievers run, its faults are told in words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.errors import InputError
from medvrag_core.evaluation.questions import write_questions
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Question
from medvrag_core.runs.workspace import Workspace
from medvrag_core.systems import base, retrievers
from medvrag_core.systems.prepare import save_profile
from medvrag_core.systems.registration import add_module

SYSTEM = '''
"""Nothing but the first page of the corpus, and a ranking of pages by their ids."""
from medvrag_core.reasoning.stages import KeepBest, Present, Read, Retrieve
from medvrag_core.records import Hit, SearchResult
from medvrag_core.systems.base import Composed, register
from medvrag_core.systems.medvrag import PageEvidence
from medvrag_core.systems.retrievers import register_retriever


@register_retriever("by_id", text_alone=True)
def by_id(resources, text, k):
    ids = sorted(page.page_id for page in resources.store.pages)[:k]
    return tuple(Hit(page_id=page_id, score=-place, rank=place) for place, page_id in enumerate(ids, 1))


class FirstPages(PageEvidence):
    def search(self, query):
        return SearchResult(hits=by_id(self.resources, query, 3))


@register("first_page", "the first page of all", overrides={"loop.max_rounds": 1})
def compose(resources):
    source, loop = FirstPages(resources), resources.profile.loop
    return Composed(loop, Retrieve(source), KeepBest(1), Present(source, 1), Read(resources.reader, loop))
'''


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a Python file; whatever it registers is gone after the test."""
    base.catalog()
    monkeypatch.setattr(base, "_BASES", dict(base._BASES))
    monkeypatch.setattr(base, "_ADDED", {})
    monkeypatch.setattr(retrievers, "RETRIEVERS", dict(retrievers.RETRIEVERS))

    def make(text: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


@pytest.fixture
def run(made_run: Workspace, tmp_path: Path) -> Path:
    """A finished run to write to."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("corpus", "vectors", "index"):
        (folder / name).symlink_to(getattr(made_run, name))
    save_profile(Workspace(folder), load_profile("test"))
    return folder


def test_a_process_of_its_own_runs_a_system_out_of_a_file(
    write: Callable[..., Path], run: Path, made_questions: list[Question], tmp_path: Path
) -> None:
    path = write(SYSTEM)
    write_questions(tmp_path / "q.jsonl", made_questions)
    command = [sys.executable, "-m", "medvrag_core.cli", "run", "--system", "first_page", "--module", str(path)]
    command += ["--questions", str(tmp_path / "q.jsonl"), "--out", str(run), "--profile", "test", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n"] == 3
    for trace in (run / "systems" / "first_page" / "traces").glob("*.json"):
        (only,) = json.loads(trace.read_text())["rounds"]
        assert only["shown"] == ["anemia#p1"]
    unknown = [*command[:6], *command[8:]]
    done = subprocess.run(unknown, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2 and "there is no system 'first_page'" in done.stderr


def test_a_retriever_and_an_arm_out_of_files(
    write: Callable[..., Path], run: Path, tmp_path: Path, medvrag: Callable[..., SimpleNamespace]
) -> None:
    path, out = write(SYSTEM), tmp_path / "out.trec"
    (tmp_path / "queries.jsonl").write_text('{"id": "q", "text": "gout"}\n')
    asked = ("retrieve", "--queries", tmp_path / "queries.jsonl", "--out", out, "--run", run, "-k", "2")
    assert "there is no retriever 'by_id'" in medvrag(*asked, "--retriever", "by_id").err
    done = medvrag(*asked, "--retriever", "by_id", "--module", path, "--module", path)
    assert done.code == 0, done.err
    assert [line.split()[2] for line in out.read_text().splitlines()] == ["anemia#p1", "asthma#p1"]
    arms = write("first_twice: {base: first_page, summary: x, set: {loop.pages_shown: 2}}", "arms.yaml")
    listed = medvrag("systems", "--module", path, "--arms", arms, "--json")
    assert {"first_page": "the first page of all", "first_twice": "x"}.items() <= json.loads(listed.out).items()


def test_one_system_is_told_in_full(
    write: Callable[..., Path], run: Path, medvrag: Callable[..., SimpleNamespace]
) -> None:
    told = medvrag("systems", "first_page", "--module", write(SYSTEM), "--run", run)
    assert told.code == 0, told.err
    assert "the first page of all" in told.out and "loop.max_rounds: 1" in told.out
    assert "Retrieve > KeepBest > Present > Read, 1 round at most" in told.out
    shown = json.loads(medvrag("systems", "medrag_rrf4", "--json").out)
    assert shown["settings"]["text.rrf_constant"] == 100 and shown["stages"] is None
    assert shown["composed_by"] == "medvrag_core.systems.medrag.compose"
    assert "settings     those of the profile" in medvrag("systems", "no_rag").out
    assert "there is no system 'medragg'" in medvrag("systems", "medragg").err
    assert "name it" in medvrag("systems", "--run", run).err
    assert "has no saved profile" in medvrag("systems", "no_rag", "--run", run / "nothing").err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n\ndef f():\n    return 1 / 0\n\nf()\n", "mine.py, line 4: ZeroDivisionError: division by zero"),
        ("x = 1\nclass X(:\n", "mine.py, line 2: SyntaxError"),
        ("import no_such_package\n", "mine.py, line 1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise SystemExit(0)\n", "mine.py, line 1: SystemExit: 0"),
        (
            SYSTEM.replace('"first_page"', '"medvrag"'),
            "line 21: system 'medvrag': there is one of this name, medvrag_core.systems.medvrag.compose; choose",
        ),
        (SYSTEM.replace('"first_page"', '"page_single"'), "system 'page_single': there is one of this name"),
        (SYSTEM.replace('"by_id"', '"stage1"'), "retriever 'stage1': there is one of this name"),
        (SYSTEM.replace('"by_id"', '"text_bm25"'), "retriever 'text_bm25': there is one of this name"),
        (SYSTEM.replace('"first_page"', '"../x"'), "system '../x': is no plain name; use letters, digits and '_'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(
    write: Callable[..., Path], medvrag: Callable[..., SimpleNamespace], text: str, words: str
) -> None:
    path = write(text)
    for _ in range(2):  # a try that failed does not get in the way of the next
        done = medvrag("systems", "--module", path)
        assert done.code == 2 and words in done.err and "Traceback" not in done.err, done.err


def test_a_file_that_is_not_there(tmp_path: Path, medvrag: Callable[..., SimpleNamespace]) -> None:
    (tmp_path / "mine.txt").write_text("x = 1")
    for name in ("nowhere.py", "mine.txt", ""):
        done = medvrag("systems", "--module", tmp_path / name)
        assert done.code == 2 and "no such Python file; give the path of a file that ends in .py" in done.err


def test_two_files_cannot_share_a_name_and_one_may_be_loaded_anew(write: Callable[..., Path]) -> None:
    first = write(SYSTEM)
    add_module(first)
    known = base.find_system("first_page")
    add_module(first)
    assert base.find_system("first_page") is known, "one file given twice is run once"
    with pytest.raises(InputError, match="system 'first_page': there is one of this name"):
        add_module(write(SYSTEM.replace('"by_id"', '"by_name"'), "other.py"))
    before = known.version(load_profile("test"))
    del sys.modules[known.make.__module__]
    first.write_text(SYSTEM + "\n# another word\n", encoding="utf-8")
    add_module(first)
    assert base.find_system("first_page").version(load_profile("test")) != before != "", "answers are made anew"
    assert base.find_system("no_rag").version(load_profile("test")) == ""
