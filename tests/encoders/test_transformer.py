"""Text encoders and cross-encoders: recipes everywhere, the real classes on tiny random models on the GPU path."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_berts import WORDS, make_berts
from tiny_models import need

from medvrag_core.encoders.factory import make_text_encoder
from medvrag_core.encoders.transformer import CrossEncoder, open_pretrained
from medvrag_core.errors import MedvragError
from medvrag_core.settings import TextSettings

HERE = find_spec("torch") is not None and find_spec("transformers") is not None
BGE = TextSettings(encoder="bge", model="q")
MEDCPT = TextSettings(encoder="medcpt", model="q", passage_model="a")
CONTRIEVER = TextSettings(encoder="contriever", model="q")
SPECTER = TextSettings(encoder="specter", model="q")
PREFIX = "Represent this sentence for searching relevant passages: "
PASSAGES = [f"{WORDS[k:]} {'gout ' * (7 * k % 5)}" for k in range(40)]
TITLES = ["gout" if k % 2 else "" for k in range(40)]
QUERY = "which drug lowers urate"
LONG = "gout " * 600


def fingerprint(settings: TextSettings, **changes: Any) -> str:
    return make_text_encoder(settings.model_copy(update=changes)).fingerprint


def test_bc28_the_prefix_is_part_of_the_fingerprint() -> None:
    assert PREFIX in fingerprint(BGE)


def test_the_fingerprint_tells_weights_of_both_sides_and_nothing_else() -> None:
    assert fingerprint(BGE, model="other") != fingerprint(BGE) != fingerprint(MEDCPT)
    assert fingerprint(MEDCPT, passage_model="other") != fingerprint(MEDCPT) != fingerprint(MEDCPT, model="other")
    assert fingerprint(BGE, device="cuda:0", chunk_tokens=9, passage_model="unused") == fingerprint(BGE)
    assert len({fingerprint(settings) for settings in (BGE, CONTRIEVER, SPECTER)}) == 3
    scorers = [CrossEncoder(TextSettings(rerank_model=name, device=d)) for name, d in ("ab", "ac", "bb")]
    assert scorers[0].fingerprint == scorers[1].fingerprint != scorers[2].fingerprint


def test_other_weights_in_the_same_folder_are_another_encoder(tmp_path: Path) -> None:
    told = []
    for content in (b"one", b"other"):
        (tmp_path / "model.safetensors").write_bytes(content)
        at = str(tmp_path)
        told.append(
            (
                fingerprint(BGE, model=at),
                fingerprint(MEDCPT, passage_model=at),
                CrossEncoder(TextSettings(rerank_model=at)).fingerprint,
            )
        )
    assert all(one != other for one, other in zip(*told, strict=True))


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


# --- the real classes -------------------------------------------------------------------


@pytest.fixture(scope="module")
def berts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    need("transformers")
    return make_berts(tmp_path_factory.mktemp("berts"))


@pytest.fixture
def bge(berts: dict[str, str]) -> Any:
    return make_text_encoder(BGE.model_copy(update={"model": berts["query"]}))


@pytest.fixture
def medcpt(berts: dict[str, str]) -> Any:
    return make_text_encoder(MEDCPT.model_copy(update={"model": berts["query"], "passage_model": berts["article"]}))


@pytest.fixture
def contriever(berts: dict[str, str]) -> Any:
    return make_text_encoder(CONTRIEVER.model_copy(update={"model": berts["query"]}))


@pytest.fixture
def specter(berts: dict[str, str]) -> Any:
    return make_text_encoder(SPECTER.model_copy(update={"model": berts["query"]}))


def by_card(name: str, *columns: list[str], tokens: int = 512, pooling: str = "cls") -> NDArray[np.float32]:
    """The lines of the model cards, one text at a time, so that nothing is padded."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name).eval()
    rows = []
    with torch.no_grad():
        for texts in zip(*columns, strict=True):
            given = tokenizer(*texts, truncation=True, return_tensors="pt", max_length=tokens)
            states = model(**given).last_hidden_state[0]
            rows.append((states[0] if pooling == "cls" else states.mean(dim=0)).numpy())
    return np.stack(rows)


def scores_by_card(name: str, query: str, passages: list[str]) -> NDArray[np.float32]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForSequenceClassification.from_pretrained(name).eval()
    with torch.no_grad():
        given = tokenizer([[query, p] for p in passages], truncation=True, padding=True, return_tensors="pt")
        return model(**given).logits.squeeze(dim=1).numpy()


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def assert_same(got: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert got.shape == expected.shape
    assert np.allclose(got, expected, atol=1e-5)
    if len(got) > 1:
        assert np.ptp(expected, axis=0).max() > 0.01, "the texts are told apart"


@pytest.mark.gpu_path
def test_bc28_bge_gives_the_vectors_of_its_card_with_the_prefix_on_queries_alone(
    bge: Any, berts: dict[str, str]
) -> None:
    passages = bge.encode_passages(PASSAGES)
    assert_same(passages, unit(by_card(berts["query"], PASSAGES)))
    assert_same(bge.encode_query(QUERY)[None], unit(by_card(berts["query"], [PREFIX + QUERY])))
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
    assert bge.encode_passages([]).shape[0] == 0


@pytest.mark.gpu_path
def test_bc29_medcpt_reads_titles_and_its_sides_have_encoders_of_their_own(medcpt: Any, berts: dict[str, str]) -> None:
    titled, untitled = medcpt.encode_passages(PASSAGES, TITLES), medcpt.encode_passages(PASSAGES)
    assert_same(titled, by_card(berts["article"], TITLES, PASSAGES))
    assert_same(untitled, by_card(berts["article"], [""] * 40, PASSAGES))
    assert_same(medcpt.encode_query(QUERY)[None], by_card(berts["query"], [QUERY]))
    assert np.allclose(titled[0], untitled[0], atol=1e-5), "the first has no title"
    assert not np.allclose(titled[1], untitled[1], atol=1e-3)


@pytest.mark.gpu_path
def test_contriever_is_the_mean_over_tokens_and_titles_are_sentences(contriever: Any, berts: dict[str, str]) -> None:
    titles = ["which drug?", "gout .", "", *["urate"] * 37]
    told = [f"{title}. {text}" if title else text for title, text in zip(titles, PASSAGES, strict=True)]
    told[0], told[1] = f"which drug? {PASSAGES[0]}", f"gout .. {PASSAGES[1]}".replace("..", ".")
    assert_same(contriever.encode_passages(PASSAGES, titles), by_card(berts["query"], told, pooling="mean"))
    assert_same(contriever.encode_query(QUERY)[None], by_card(berts["query"], [QUERY], pooling="mean"))
    assert not np.allclose(contriever.encode_query(QUERY), by_card(berts["query"], [QUERY])[0], atol=1e-3)


@pytest.mark.gpu_path
def test_specter_ranks_by_distance_with_the_title_before_a_separator(specter: Any, berts: dict[str, str]) -> None:
    told = [f"{title}[SEP]{text}" if title else text for title, text in zip(TITLES, PASSAGES, strict=True)]
    passages, query = by_card(berts["query"], told), by_card(berts["query"], [QUERY])[0]
    made, asked = specter.encode_passages(PASSAGES, TITLES), specter.encode_query(QUERY)
    assert_same(made[:, :-1], passages)
    distances = np.square(passages - query).sum(axis=1)
    assert np.allclose(made @ asked, 0.5 * (np.square(query).sum() - distances), atol=1e-3)
    spread = np.sort(distances)
    assert np.diff(spread).max() > 0.01, "distances tell passages apart"
    assert (made @ asked).argmax() == distances.argmin() != (passages @ query).argmax(), "the dot product would not do"


@pytest.mark.gpu_path
def test_medcpt_cuts_queries_at_64_and_articles_at_512_tokens(medcpt: Any, berts: dict[str, str]) -> None:
    assert_same(medcpt.encode_query(LONG)[None], by_card(berts["query"], [LONG], tokens=64))
    assert not np.allclose(medcpt.encode_query(LONG), by_card(berts["query"], [LONG])[0], atol=1e-4)
    assert_same(medcpt.encode_passages([LONG], ["gout"]), by_card(berts["article"], ["gout"], [LONG]))


@pytest.mark.gpu_path
def test_passages_longer_than_an_encoder_reads_are_counted(bge: Any, medcpt: Any) -> None:
    bge.encode_passages(["gout " * 510, *["gout " * 511] * 40])
    assert bge.passages_cut == 40, "two markers beside 510 words fit"
    medcpt.encode_passages(["gout " * 508] * 2, ["gout", "gout which"])
    assert medcpt.passages_cut == 1, "three markers, the title and 508 words fit"
    for encoder in (bge, medcpt):
        encoder.encode_query(LONG)
    assert (bge.passages_cut, medcpt.passages_cut) == (40, 1), "queries do not count"


@pytest.mark.gpu_path
def test_a_cross_encoder_tells_once_that_chunks_lose_their_ends(
    berts: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    scorer = CrossEncoder(TextSettings(rerank_model=berts["cross"]))
    scorer.scores("gout " * 9, ["gout " * 500])
    assert not caplog.messages
    for _ in range(2):
        scorer.scores("gout " * 9, ["gout " * 500, "gout " * 501, LONG])
    (told,) = caplog.messages
    assert "512 tokens of query and chunk together: 2 of 3 chunks lost their ends to this query" in told


@pytest.mark.gpu_path
def test_a_cross_encoder_gives_the_scores_of_its_card_each_time(berts: dict[str, str]) -> None:
    scorer = CrossEncoder(TextSettings(rerank_model=berts["cross"]))
    scores = scorer.scores(QUERY, PASSAGES)
    assert_same(scores, scores_by_card(berts["cross"], QUERY, PASSAGES))
    assert scores.tolist() == scorer.scores(QUERY, PASSAGES).tolist()


@pytest.mark.gpu_path
@pytest.mark.parametrize(
    ("weights", "device", "words"),
    [
        ("nowhere", "cpu", "nowhere' cannot be opened"),
        ("pickled", "cpu", "weights must be safetensors"),
        ("two_scores", "cpu", "gives 2 scores a pair; name a cross-encoder"),
        ("query", "cpu", "lacks 2 weights of an AutoModelForSequenceClassification, for example classifier.bias"),
        ("", "cpu", "text.rerank_model: names no weights; set it to a hub id or to a folder"),
        ("cross", "cuda:99", "text.device: 'cuda:99' cannot be used"),
    ],
)
def test_weights_that_do_not_fit_are_refused(berts: dict[str, str], weights: str, device: str, words: str) -> None:
    named = berts.get(weights, f"{berts['query']}/{weights}" if weights else "")
    with pytest.raises(MedvragError) as refused:
        CrossEncoder(TextSettings(rerank_model=named, device=device)).scores("q", ["p"])
    assert words in str(refused.value)
