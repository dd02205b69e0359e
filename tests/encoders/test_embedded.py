from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medvrag_core.encoders.base import PageEncoder, PageInput
from medvrag_core.encoders.embedded import EmbeddedEncoder, terms
from medvrag_core.errors import NotBuiltError, SettingsError
from medvrag_core.index.maxsim import two_way_score
from medvrag_core.profiles.load import load_profile
from medvrag_core.records import Page, PageLayout, Region, Word
from medvrag_core.settings import EncoderSettings

TEXTS = {
    "gout": "Urate lowering therapy in gout. Allopurinol is started at 100 mg a day and raised every four weeks.",
    "asthma": "Inhaled steroids in asthma. Rinsing the mouth prevents oral candidiasis from fluticasone.",
    "anemia": "Iron deficiency anemia in adults. A ferritin below 30 confirms the diagnosis.",
    "thyroid": "Screening for hypothyroidism. TSH is measured first and free thyroxine when it is raised.",
    "long": "Long page about amiodarone. "
    + " ".join(f"Line {k} tells of thyroid and lung checks." for k in range(120)),
}


def made_page(page_id: str, text: str) -> PageInput:
    words = tuple(
        Word(
            text=word, box=((k % 10) / 10, min(k // 10 / 100, 0.98), (k % 10 + 1) / 10, min(k // 10 / 100, 0.98) + 0.02)
        )
        for k, word in enumerate(text.split())
    )
    page = Page(
        page_id=page_id,
        article_id=page_id.partition("#")[0],
        number=1,
        width_pt=420,
        height_pt=595,
        image="none.jpg",
        image_width=1,
        image_height=1,
        dpi=72,
        text_source="pdf" if words else "none",
        text=text,
    )
    return PageInput(page, PageLayout(page_id=page_id, words=words, regions=()), Path("none.jpg"))


def in_blocks(*texts: str) -> PageInput:
    """A page on which each text is a paragraph of its own."""
    page = made_page("blocks#p1", " ".join(texts))
    numbers = [number for number, text in enumerate(texts) for _ in text.split()]
    words = tuple(
        word.model_copy(update={"box": (0.1, 0.2 * number + 0.01, 0.2, 0.2 * number + 0.02)})
        for word, number in zip(page.layout.words, numbers, strict=True)
    )
    regions = tuple(
        Region(kind="text", box=(0.0, 0.2 * number, 1.0, 0.2 * number + 0.1), text=text)
        for number, text in enumerate(texts)
    )
    return PageInput(page.page, PageLayout(page_id=page.page.page_id, words=words, regions=regions), page.image)


PAGES = [made_page(f"{name}#p1", text) for name, text in TEXTS.items()]
SETTINGS = load_profile("cpu").encoder


@pytest.fixture(scope="module")
def encoder() -> EmbeddedEncoder:
    fitted = EmbeddedEncoder(SETTINGS)
    fitted.fit(PAGES)
    return fitted


def test_rows_are_unit_and_boxes_lie_on_the_page(encoder: EmbeddedEncoder) -> None:
    encoded = list(encoder.encode_pages(PAGES))
    assert [page.page_id for page in encoded] == [page.page.page_id for page in PAGES]
    for page in encoded:
        assert page.vectors.dtype == np.float32
        assert page.vectors.shape[1] == encoder.dim
        assert 1 <= len(page.vectors) == len(page.boxes) <= SETTINGS.vectors_per_page
        assert np.allclose(np.linalg.norm(page.vectors, axis=1), 1, atol=1e-5)
        assert page.boxes.min() >= 0 and page.boxes.max() <= 1
        assert (page.boxes[:, :2] < page.boxes[:, 2:]).all()
    assert len(encoded[-1].vectors) == SETTINGS.vectors_per_page


@pytest.mark.parametrize("text", ["", "\x00 \u200b", "..."])
def test_a_page_that_says_nothing_has_one_finite_vector(encoder: EmbeddedEncoder, text: str) -> None:
    (page,) = encoder.encode_pages([made_page("blank#p1", text)])
    assert page.vectors.shape == (1, encoder.dim)
    assert np.isfinite(page.vectors).all()
    assert np.linalg.norm(page.vectors) == pytest.approx(1, abs=1e-5)


def test_a_page_has_the_same_rows_alone_and_in_company_bc_24(encoder: EmbeddedEncoder) -> None:
    together = list(encoder.encode_pages(PAGES))
    for page, beside in zip(PAGES, together, strict=True):
        (alone,) = encoder.encode_pages([page])
        assert np.allclose(alone.vectors, beside.vectors, atol=1e-5)


def test_a_title_ranks_its_own_page_first_bc_26(encoder: EmbeddedEncoder) -> None:
    encoded = list(encoder.encode_pages(PAGES))
    for name, text in TEXTS.items():
        query = encoder.encode_query(text.partition(".")[0])
        scores = {page.page_id: float((query @ page.vectors.T).max(axis=1).mean()) for page in encoded}
        assert max(scores, key=lambda page_id: scores[page_id]) == f"{name}#p1"
        assert max(scores.values()) - min(scores.values()) > 0.1, "weights that were not loaded score all pages alike"


def test_encoding_is_repeatable_across_encoders(encoder: EmbeddedEncoder) -> None:
    other = EmbeddedEncoder(SETTINGS)
    other.fit(iter(PAGES))
    for page, again in zip(encoder.encode_pages(PAGES), other.encode_pages(PAGES), strict=True):
        assert (page.vectors == again.vectors).all()
    query = "dose of allopurinol in gout"
    assert (encoder.encode_query(query) == other.encode_query(query)).all()


def test_a_saved_state_encodes_alike(encoder: EmbeddedEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path)
    loaded = EmbeddedEncoder(SETTINGS)
    loaded.load(tmp_path)
    for page, again in zip(encoder.encode_pages(PAGES), loaded.encode_pages(PAGES), strict=True):
        assert np.allclose(page.vectors, again.vectors, atol=1e-6)
    assert loaded.fingerprint == encoder.fingerprint == EmbeddedEncoder(SETTINGS).fingerprint


def test_the_fingerprint_follows_the_settings() -> None:
    other = SETTINGS.model_copy(update={"lexical_weight": 0.5})
    assert EmbeddedEncoder(other).fingerprint != EmbeddedEncoder(SETTINGS).fingerprint


def test_a_missing_state_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotBuiltError, match="no state of the encoder"):
        EmbeddedEncoder(SETTINGS).load(tmp_path)


def test_a_model_or_width_it_does_not_have_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"encoder\.model"):
        EmbeddedEncoder(EncoderSettings(model="vidore/colqwen2.5-v0.2"))
    with pytest.raises(SettingsError, match=r"encoder\.dim"):
        EmbeddedEncoder(EncoderSettings(dim=512))


@pytest.mark.parametrize("query", ["", "the of and", "?!", "\x00"])
def test_a_query_without_content_still_has_rows_of_mean_length_1(encoder: EmbeddedEncoder, query: str) -> None:
    rows = encoder.encode_query(query)
    assert rows.shape[0] >= 1
    assert np.linalg.norm(rows, axis=1).mean() == pytest.approx(1, abs=1e-5)


def test_stop_words_do_not_speak_beside_content(encoder: EmbeddedEncoder) -> None:
    assert len(encoder.encode_query("What is the dose of allopurinol?")) == 3


def test_rows_weigh_by_rarity_and_the_whole_has_its_share(encoder: EmbeddedEncoder) -> None:
    query = "Is allopurinol raised?"  # one page speaks of the one, two of the other
    lengths = np.linalg.norm(encoder.encode_query(query), axis=1)
    common, rare = (encoder.query_words(query).index(word) for word in ("raised?", "allopurinol"))
    assert lengths[-1] / lengths.sum() == pytest.approx(SETTINGS.whole_query, abs=1e-5)
    assert lengths.mean() == pytest.approx(1, abs=1e-5)
    assert lengths[rare] > lengths[common] > 0


def test_the_whole_query_finds_the_block_that_says_most_of_it(encoder: EmbeddedEncoder) -> None:
    about = "as it is told to the many who have to know of it"
    together = in_blocks(f"Allopurinol doses in gout {about}", f"Thyroxine and the lung {about}")
    apart = in_blocks(f"Allopurinol and the lung {about}", f"Thyroxine doses in gout {about}")
    whole = encoder.encode_query("allopurinol doses in gout")[-1]
    best, other = ((page.vectors @ whole).max() for page in encoder.encode_pages([together, apart]))
    assert best > other + 0.1


def test_a_longer_query_asks_more_by_exact_terms(encoder: EmbeddedEncoder) -> None:
    own = next(iter(encoder.encode_pages(PAGES[:1]))).vectors[:1]
    for count in (1, 3, 9):
        row = encoder.encode_query(" ".join(["gout"] * count))[0]
        dense, lexical = (row[part] @ own[0, part] for part in (slice(SETTINGS.dim), slice(SETTINGS.dim, None)))
        alike = [
            float(row[part] @ own[0, part] / (np.linalg.norm(row[part]) * np.linalg.norm(own[0, part])))
            for part in (slice(SETTINGS.dim), slice(SETTINGS.dim, None))
        ]
        # Of two parts that were equally alike, the lexical one brings this share of the dot product.
        share = (lexical / alike[1]) / (dense / alike[0] + lexical / alike[1])
        assert share == pytest.approx(count / (count + SETTINGS.balance_words), abs=1e-4)


def test_words_side_by_side_tell_two_pages_apart() -> None:
    beside, apart = (
        made_page("beside#p1", "red cell count and white coat of a dog"),
        made_page("apart#p1", "white cell coat and red dog of a count"),
    )
    fitted = EmbeddedEncoder(SETTINGS)
    fitted.fit([*PAGES, beside, apart])
    assert [" " in term for term in fitted._frequency].count(True) < 400, "pairs of one page alone are not kept"
    asked = fitted.encode_query("red cell count")[-1, SETTINGS.dim :]
    first, second = (float(page.vectors[0, SETTINGS.dim :] @ asked) for page in fitted.encode_pages([beside, apart]))
    assert first > second + 0.02
    plain = EmbeddedEncoder(SETTINGS.model_copy(update={"pair_weight": 0.0}))
    plain.fit([*PAGES, beside, apart])
    asked = plain.encode_query("red cell count")[-1, SETTINGS.dim :]
    first, second = (float(page.vectors[0, SETTINGS.dim :] @ asked) for page in plain.encode_pages([beside, apart]))
    assert first == pytest.approx(second, abs=1e-5)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What is the dose of allopurinol?", ("dose", "allopurinol?", "(whole query)")),
        ("the of and", ("the", "of", "and", "(whole query)")),
        ("", ("–",)),
        ("IL-6 at 2.5", ("IL-6", "2.5", "(whole query)")),
    ],
)
def test_each_row_of_a_query_has_its_word(encoder: EmbeddedEncoder, query: str, words: tuple[str, ...]) -> None:
    assert encoder.query_words(query) == words
    rows = encoder.encode_query(query)
    assert len(rows) == len(words)
    numbered = PageEncoder.query_words(encoder, query)
    assert numbered == tuple(str(k) for k in range(1, len(words) + 1))


def test_numbers_and_codes_stay_terms() -> None:
    assert terms("2.5") == ("2.5",)
    assert terms("IL-6") == ("il", "6")
    assert terms("HbA1c") != terms("HbA2")


def test_an_exact_number_tells_two_pages_apart(encoder: EmbeddedEncoder) -> None:
    low, high = (made_page(f"{d}#p1", f"Start amiodarone at {d} mg a day in adults") for d in ("137", "942"))
    fitted = EmbeddedEncoder(SETTINGS)
    fitted.fit([*PAGES, low, high])
    query = fitted.encode_query("amiodarone 942 mg")
    first, second = (two_way_score(query, page.vectors) for page in fitted.encode_pages([low, high]))
    assert second > first + 0.05


def test_an_encoder_without_lexical_part_works() -> None:
    plain = EmbeddedEncoder(EncoderSettings())
    plain.fit(PAGES)
    (page,) = plain.encode_pages(PAGES[:1])
    assert page.vectors.shape[1] == plain.dim == 128
    assert np.allclose(np.linalg.norm(page.vectors, axis=1), 1, atol=1e-5)
