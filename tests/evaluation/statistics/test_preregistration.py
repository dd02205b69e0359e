from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from medvrag_core.errors import InputError
from medvrag_core.evaluation.statistics.contrasts import registered_contrast
from medvrag_core.evaluation.statistics.estimands import Arm
from medvrag_core.evaluation.statistics.preregistration import read_preregistration

PLAN: dict[str, Any] = {
    "title": "Components",
    "registered": "2026-11-30",
    "sets": {"x": 60, "y": 40},
    "arms": {"p": "text", "q": "pages", "r": "pages, three rounds"},
    "families": {"components": {"modality": ["p", "q"], "iteration": ["q", "r"]}},
    "exclusions": "none",
    "stopping": "after one run of every arm",
    "permutations": 1_000,
}


def write(path: Path, **changes: Any) -> Path:
    path.write_text(yaml.safe_dump({**PLAN, **changes}), encoding="utf-8")
    return path


def arm(name: str, seed: int) -> Arm:
    right = np.random.default_rng(seed).random((1, 100)) < 0.6
    sets = ("x",) * 60 + ("y",) * 40
    ids = tuple(f"{s}:{i:03}" for i, s in enumerate(sets))
    return Arm(name, ids, sets, right, right.astype(str), ("A",) * 100, (name,))


def test_the_seal_is_the_sha256_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "plan.yaml")
    registered = read_preregistration(path)
    assert registered.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert registered.content.primary == ("macro", "question_weighted")
    path.write_bytes(path.read_bytes() + b"# afterthought\n")
    assert read_preregistration(path).sha256 != registered.sha256
    assert read_preregistration(path).content == registered.content


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alhpa": 0.1}, "unknown field 'alhpa'"),
        ({"alpha": 0.7}, "alpha"),
        ({"families": {}}, "every family needs a contrast"),
        ({"families": {"f": {"m": ["p", "z"]}}}, "'z', which is no arm"),
        ({"families": {"f": {"m": ["p", "p"]}}}, "with itself"),
        ({"families": {"f": {"m": ["p", "q"]}, "g": {"n": ["q", "p"]}}}, "stands twice"),
        ({"sets": {"x": 0}}, "every set needs questions"),
        ({"primary": ["mean"]}, "primary"),
    ],
)
def test_plans_with_a_fault_are_refused_by_its_name(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_preregistration(write(tmp_path / "plan.yaml", **changes))


def test_files_that_are_no_plan(tmp_path: Path) -> None:
    path = write(tmp_path / "plan.yaml")
    for text, words in (
        (path.read_text() + "title: other\n", "'title' stands twice"),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
        ("[1, 2", "not valid YAML"),
        ("- 1", "the whole record"),
        ("? [a]\n: 1", "not valid YAML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            read_preregistration(path)
    with pytest.raises(InputError, match="no such file"):
        read_preregistration(tmp_path / "none.yaml")


def test_a_registered_contrast_is_adjusted_within_its_family(tmp_path: Path) -> None:
    registered = read_preregistration(write(tmp_path / "plan.yaml"))
    p, q, r = arm("p", 1), arm("q", 2), arm("r", 3)
    found = registered_contrast(p, q, {"r": r}, registered)
    assert (found.family, found.family_size, found.adjustment) == ("components", 2, "holm")
    assert found.sets_adjusted_for == 4
    assert found.preregistration == registered.sha256
    assert found.departures == ()
    turned = registered_contrast(q, p, {"r": r}, registered)
    assert (turned.a, turned.b) == ("q", "p")
    assert [e.p_adjusted for e in turned.estimates] == [e.p_adjusted for e in found.estimates]
    assert registered_contrast(p, q, {}, registered).adjustment == "bonferroni"


def test_departures_are_told(tmp_path: Path) -> None:
    registered = read_preregistration(write(tmp_path / "plan.yaml", sets={"x": 61, "z": 5}, seeds=3))
    found = registered_contrast(arm("p", 1), arm("r", 3), {}, registered)
    told = "; ".join(found.departures)
    assert found.family == ""
    for words in (
        "no registered family",
        "1 run(s) of 'p', 3",
        "60 questions of set 'x', 61",
        "0 questions of set 'z', 5",
    ):
        assert words in told
