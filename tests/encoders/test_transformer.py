"""BGE, MedCPT and cross-encoders: recipes here, the real classes on tiny random models where torch is.

Any Python with torch and transformers will do; the environment of the vLLM tests is one (MEDVRAG_VLLM_PYTHON).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from medvrag_core.encoders.factory import make_text_encoder
from medvrag_core.encoders.transformer import CrossEncoder, open_pretrained
from medvrag_core.errors import MedvragError
from medvrag_core.settings import TextSettings

REPO = Path(__file__).resolve().parents[2]
HERE = find_spec("torch") is not None and find_spec("transformers") is not None
PYTHON = sys.executable if HERE else os.environ.get("MEDVRAG_VLLM_PYTHON", "")
BGE = TextSettings(encoder="bge", model="q")
MEDCPT = TextSettings(encoder="medcpt", model="q", passage_model="a")
needs_torch = pytest.mark.skipif(
    not PYTHON, reason="no torch here, and MEDVRAG_VLLM_PYTHON is not set (tests/models/vllm_cpu/setup.sh FOLDER)"
)


def fingerprint(settings: TextSettings, **changes: Any) -> str:
    return make_text_encoder(settings.model_copy(update=changes)).fingerprint


def test_bc28_the_prefix_is_part_of_the_fingerprint() -> None:
    assert "Represent this sentence for searching relevant passages: " in fingerprint(BGE)


def test_the_fingerprint_tells_weights_of_both_sides_and_nothing_else() -> None:
    assert fingerprint(BGE, model="other") != fingerprint(BGE) != fingerprint(MEDCPT)
    assert fingerprint(MEDCPT, passage_model="other") != fingerprint(MEDCPT) != fingerprint(MEDCPT, model="other")
    assert fingerprint(BGE, device="cuda:0", chunk_tokens=9, passage_model="unused") == fingerprint(BGE)
    scorers = [CrossEncoder(TextSettings(rerank_model=name, device=d)) for name, d in ("ab", "ac", "bb")]
    assert scorers[0].fingerprint == scorers[1].fingerprint != scorers[2].fingerprint


@pytest.mark.skipif(HERE, reason="torch and transformers are installed")
def test_a_missing_package_names_the_extra() -> None:
    for use in (
        lambda: make_text_encoder(BGE).encode_query("x"),
        lambda: make_text_encoder(MEDCPT).encode_passages(["x"]),
        lambda: CrossEncoder(TextSettings(rerank_model="m")).scores("x", ["y"]),
    ):
        with pytest.raises(MedvragError, match=r"needs the package torch; install the extra 'gpu'"):
            use()


@pytest.mark.parametrize(
    ("given", "bare", "revision"),
    [("o/m", "o/m", None), ("o/m@0a1b", "o/m", "0a1b"), ("{folder}", "{folder}", None)],
)
def test_a_revision_pins_tokenizer_and_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, bare: str, revision: str | None
) -> None:
    """Against stand-ins for both packages: what the hub would be asked for."""
    folder = tmp_path / "a@b"
    folder.mkdir()
    asked: list[tuple[str, str | None]] = []

    class Auto:
        @staticmethod
        def from_pretrained(name: str, *, revision: str | None = None, **_: object) -> object:
            asked.append((name, revision))
            model = SimpleNamespace(to=lambda device: SimpleNamespace(eval=lambda: "model"))
            return (model, {"missing_keys": []}) if len(asked) == 2 else "tokenizer"

    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    sys.modules["torch"].float32 = "float32"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    sys.modules["transformers"].AutoTokenizer = sys.modules["transformers"].AutoModel = Auto  # type: ignore[attr-defined]
    opened = open_pretrained("AutoModel", given.format(folder=folder), "cpu", field="text.model")
    assert asked == [(bare.format(folder=folder), revision)] * 2
    assert (opened.tokenizer, opened.model) == ("tokenizer", "model")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    # The path `site` lets the environment of the vLLM tests import torchvision, which transformers looks for.
    paths = [str(REPO), str(REPO / "tests" / "models" / "vllm_cpu" / "site")]
    done = subprocess.run(
        [PYTHON, str(Path(__file__).with_name("tiny_transformers.py")), str(tmp_path_factory.mktemp("tiny"))],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    "what",
    [
        "bge_passages",  # BC-28: no prefix
        "bge_query",  # BC-28: with it
        "medcpt_passages",
        "medcpt_untitled",  # BC-29
        "medcpt_query",
        "medcpt_long_query",
        "medcpt_long_passage",
        "scores",
    ],
)
def test_vectors_are_those_of_the_model_card(tiny: dict[str, Any], what: str) -> None:
    got, expected = np.array(tiny[what]), np.array(tiny[f"{what}_expected"])
    assert got.shape == expected.shape
    assert np.allclose(got, expected, atol=1e-5)
    if got.ndim == 2 and len(got) > 1:
        assert np.ptp(expected, axis=0).max() > 0.01, "the texts are told apart"


@pytest.mark.slow
@needs_torch
def test_sides_titles_and_runs_differ_where_they_should(tiny: dict[str, Any]) -> None:
    titled, untitled = np.array(tiny["medcpt_passages"]), np.array(tiny["medcpt_untitled"])
    assert np.allclose(titled[0], untitled[0], atol=1e-5), "the first has no title"
    assert not np.allclose(titled[1], untitled[1], atol=1e-3)
    assert tiny["none"][0] == 0
    assert tiny["scores"] == tiny["scores_again"]
    assert np.allclose(np.linalg.norm(tiny["bge_passages"], axis=1), 1, atol=1e-5)


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("missing", "nowhere' cannot be opened"),
        ("pickled", "weights must be safetensors"),
        ("two_scores", "gives 2 scores a pair; name a cross-encoder"),
        ("no_head", "lacks 2 weights of an AutoModelForSequenceClassification, for example classifier.bias"),
        ("no_name", "text.rerank_model: names no weights; set it to a hub id or to a folder"),
        ("device", "text.device: 'cuda:99' cannot be used"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tiny: dict[str, Any], case: str, words: str) -> None:
    assert words in tiny["errors"][case]
