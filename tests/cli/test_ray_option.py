"""Where Ray is not asked for it is not imported; where it is asked for and absent, one sentence says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvrag_core.cli.given import profile_for
from medvrag_core.cluster import session
from medvrag_core.profiles.load import load_profile
from medvrag_core.settings import Profile, RaySettings, answering_settings, fingerprint


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: None)


@pytest.mark.parametrize(
    "verb", [["corpus", "build"], ["embed"], ["run", "--questions", "q.jsonl"]], ids=lambda verb: verb[0]
)
@pytest.mark.usefixtures("no_ray")
def test_absent_ray_is_told_with_the_way_out(
    medvrag: Callable[..., SimpleNamespace], made_pdfs: Path, tmp_path: Path, verb: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text('{"id": "q", "question": "Which?", "options": {"A": "a", "B": "b"}, "answer": "A"}\n')
    done = medvrag(*verb, "--source", made_pdfs, "--profile", "test", "--out", "out", "--ray", "local")
    assert done.code == 2
    assert "Ray is not installed; run `python3 run.py setup --with ray`" in done.err


def test_off_wins_over_the_profile() -> None:
    assert profile_for(None, "cluster", None).ray.asked_for
    assert not profile_for(None, "cluster", None, ray="off").ray.asked_for
    assert profile_for(None, "cpu", None, ray="auto").ray.where == "auto"


def test_ray_changes_no_answer_and_no_old_fingerprint() -> None:
    plain = load_profile("cpu")
    spread = load_profile("cpu", {"ray.where": "auto", "ray.index_servers": 3})
    assert answering_settings(plain) == answering_settings(spread)
    assert "ray" not in plain.model_dump()
    assert fingerprint(plain) == fingerprint(Profile.model_validate(plain.model_dump() | {"ray": RaySettings()}))


def test_nothing_imports_ray_unless_it_is_asked_for() -> None:
    code = "import sys, medvrag_core.cli.app, medvrag_core.systems.prepare; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
