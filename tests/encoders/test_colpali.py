"""Late-interaction encoders on tiny models of random weights, against colpali-engine itself where the two agree."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from medvrag_core.encoders.base import PageInput
from medvrag_core.errors import MedvragError, NotBuiltError, SettingsError
from medvrag_core.index.maxsim import one_way_score_pages
from medvrag_core.records import Page, PageLayout, PageVectors
from medvrag_core.settings import EncoderSettings

if TYPE_CHECKING:
    from medvrag_core.encoders.colpali import LateInteractionEncoder

pytestmark = pytest.mark.gpu_path

SIZES = {"portrait": (200, 300), "landscape": (330, 190), "small": (70, 90), "letter": (638, 825)}
"""Width and height in pixels."""
QUERY = "which drug lowers urate in gout?"
Open = Callable[..., "LateInteractionEncoder"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import tiny_models

    tiny_models.need("colpali_engine", "peft", "einops", "matplotlib", "seaborn")
    folder = tmp_path_factory.mktemp("tiny")
    return {
        "colqwen2.5": tiny_models.make_colqwen2_5(folder / "colqwen2_5"),
        "colpali": tiny_models.make_colpali(folder / "colpali"),
        "colsmol": tiny_models.make_colsmol(folder / "colsmol"),
    }


@pytest.fixture(scope="module")
def opened(checkpoints: dict[str, Path]) -> Open:
    """Opens an encoder, once for the same settings; by default a ColQwen2.5 that keeps every patch."""
    made: dict[str, LateInteractionEncoder] = {}

    def open_encoder(**values: Any) -> LateInteractionEncoder:
        from medvrag_core.encoders.colpali import LateInteractionEncoder

        name = values.setdefault("name", "colqwen2.5")
        usual = {
            "model": str(checkpoints[name]),
            "query_prefix": "Query: ",
            "pool_factor": 1,
            "max_visual_tokens": 64,
            "batch_size": 2,
            "self_check": False,
        }
        settings = EncoderSettings(**{**usual, **values})
        return made.setdefault(settings.model_dump_json(), LateInteractionEncoder(settings))

    return open_encoder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[PageInput]:
    """Pages of noise in several shapes; their names are keys of SIZES."""
    folder = tmp_path_factory.mktemp("pages")
    draw = np.random.default_rng(0)
    made = []
    for number, (name, (width, height)) in enumerate(SIZES.items(), start=1):
        coarse = draw.integers(0, 255, (height // 10, width // 10, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((width, height)).save(folder / f"{name}.png")
        page = Page(
            page_id=name,
            article_id="a",
            number=number,
            width_pt=width,
            height_pt=height,
            image=f"{name}.png",
            image_width=width,
            image_height=height,
            dpi=72,
            text_source="none",
            text="",
        )
        made.append(PageInput(page, PageLayout(page_id=name, words=(), regions=()), folder / f"{name}.png"))
    return made


def encoded(encoder: LateInteractionEncoder, pages: list[PageInput]) -> dict[str, PageVectors]:
    made = list(encoder.encode_pages(pages))
    assert [page.page_id for page in made] == [page.page.page_id for page in pages]
    return {page.page_id: page for page in made}


def by_engine(encoder: LateInteractionEncoder, pages: list[PageInput]) -> tuple[Any, Any]:
    """Rows and mask of image tokens of one batch that colpali-engine processes and encodes."""
    import torch

    batch = encoder._processor.process_images([Image.open(page.image) for page in pages])
    with torch.inference_mode():
        return encoder._model(**batch), encoder._processor.get_image_mask(batch)


# --- pages ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["colqwen2.5", "colpali", "colsmol"])
def test_every_image_token_becomes_a_unit_row_and_nothing_else_does(
    opened: Open, pages: list[PageInput], name: str
) -> None:
    made = encoded(opened(name=name), pages)
    for page in made.values():
        assert page.vectors.shape == (len(page.boxes), 128)
        assert np.allclose(np.linalg.norm(page.vectors, axis=1), 1, atol=1e-5)
        assert page.vector_of.tolist() == list(range(len(page.boxes)))
        assert page.boxes.min() >= 0
        assert page.boxes.max() <= 1 + 1e-6
    if name == "colqwen2.5":
        assert len({len(page.vectors) for page in made.values()}) > 2, "padding was kept, or pages lost their shape"


@pytest.mark.parametrize("name", ["colqwen2.5", "colpali", "colsmol"])
def test_the_rows_are_those_of_colpali_engine_whatever_the_batch(
    opened: Open, pages: list[PageInput], name: str
) -> None:
    made = encoded(opened(name=name), pages)
    alone = encoded(opened(name=name, batch_size=1), pages)
    rows, masks = by_engine(opened(name=name), pages)
    for page, all_rows, mask in zip(made.values(), rows, masks, strict=True):
        assert np.allclose(page.vectors, all_rows[mask].numpy(), atol=2e-5)
        assert np.allclose(page.vectors, alone[page.page_id].vectors, atol=2e-5)


@pytest.mark.parametrize("name", ["colqwen2.5", "colpali", "colsmol"])
def test_pages_are_put_together_as_the_processor_would(opened: Open, pages: list[PageInput], name: str) -> None:
    import torch

    from medvrag_core.encoders.colpali import collate

    encoder = opened(name=name)
    together = encoder._processor.process_images([Image.open(page.image) for page in pages])
    batch = collate([encoder.load_page(page).given for page in pages], encoder._processor.tokenizer)
    assert batch.keys() == dict(together).keys()
    for key, tensor in batch.items():
        assert torch.equal(tensor, together[key]), key


def test_a_page_gets_the_same_rows_twice(opened: Open, pages: list[PageInput]) -> None:
    first, again = (encoded(opened(), pages) for _ in range(2))
    assert all(np.array_equal(first[name].vectors, again[name].vectors) for name in first)


def test_a_fault_in_an_image_names_the_page(opened: Open, pages: list[PageInput], tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    broken = PageInput(pages[1].page, pages[1].layout, tmp_path / "broken.png")
    with pytest.raises(MedvragError, match="page landscape: "):
        list(opened().encode_pages([pages[0], broken]))


# --- the cap ----------------------------------------------------------------------------


def test_no_page_has_more_image_tokens_than_the_cap(opened: Open, pages: list[PageInput]) -> None:
    encoder = opened(max_visual_tokens=20)
    assert 10 <= max(len(page.boxes) for page in encoded(encoder, pages).values()) <= 20
    assert encoder.identity.processor == {"max_visual_tokens": 20, "longest_edge": 20 * 784, "shortest_edge": 4 * 784}


def test_a_cap_that_a_family_cannot_keep_is_refused(opened: Open) -> None:
    with pytest.raises(SettingsError, match=r"max_visual_tokens is 15, but .* makes 16 of a page; set it to 16"):
        opened(name="colpali", max_visual_tokens=15)


# --- queries ----------------------------------------------------------------------------


def test_a_query_is_what_colpali_engine_makes_of_it_with_the_prefix(opened: Open) -> None:
    import torch

    encoder = opened()
    batch = encoder._processor.process_queries(["Query: " + QUERY])
    with torch.inference_mode():
        expected = encoder._model(**batch)[0].numpy()
    assert np.allclose(encoder.encode_query(QUERY), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["colqwen2.5", "colpali", "colsmol"])
def test_the_words_of_a_query_begin_with_the_prefix_and_end_in_augmentation_tokens(opened: Open, name: str) -> None:
    encoder = opened(name=name)
    words, rows = encoder.query_words(QUERY), encoder.encode_query(QUERY)
    assert len(words) == len(rows)
    assert len(set(words[-10:])) == 1
    assert words[-11] != words[-10]
    assert "Query:" in "".join(words[:4])
    assert len(opened(name=name, augmentation_tokens=3).encode_query(QUERY)) == len(rows) - 7
    assert not np.allclose(opened(name=name, query_prefix="").encode_query(QUERY)[-1], rows[-1], atol=1e-3)


def test_a_tokenizer_that_does_not_know_the_augmentation_token_is_refused(opened: Open) -> None:
    from colpali_engine.models import ColQwen2_5_Processor

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ColQwen2_5_Processor, "query_augmentation_token", "<|nobody|>")
        with pytest.raises(MedvragError, match=r"adds \d+ tokens to a query, not the 10 of encoder"):
            opened(batch_size=7)


def test_a_prefix_other_than_the_trained_one_is_told(opened: Open) -> None:
    with pytest.warns(UserWarning, match=r"encoder.query_prefix is '', but published weights of colqwen2.5"):
        opened(query_prefix="", batch_size=5)


# --- scores and maps --------------------------------------------------------------------


def test_one_way_scores_are_those_of_colpali_engine(
    opened: Open, pages: list[PageInput], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setenv("COLPALI_SCORES_BACKEND", "torch")
    encoder = opened()
    query, made = encoder.encode_query(QUERY), [page.vectors for page in encoded(encoder, pages).values()]
    expected = encoder._processor.score_multi_vector(
        [torch.from_numpy(query)], [torch.from_numpy(rows) for rows in made], device="cpu"
    )
    offsets = np.cumsum([0, *map(len, made)])
    ours = one_way_score_pages(query, np.concatenate(made), offsets) * len(query)
    assert np.allclose(ours, expected[0].numpy(), atol=1e-4)


@pytest.mark.parametrize("name", ["portrait", "landscape"])
def test_similarities_lie_where_colpali_engine_puts_them(opened: Open, pages: list[PageInput], name: str) -> None:
    import torch
    from colpali_engine.interpretability import get_similarity_maps_from_embeddings

    encoder = opened()
    page = next(page for page in pages if page.page.page_id == name)
    made, query = encoded(encoder, [page])[name], encoder.encode_query(QUERY)
    columns, rows = encoder._processor.get_n_patches(SIZES[name], encoder._model.spatial_merge_size)
    assert (columns > rows) == (name == "landscape")
    embedded, mask = by_engine(encoder, [page])
    (expected,) = get_similarity_maps_from_embeddings(embedded, torch.from_numpy(query)[None], (columns, rows), mask)
    places = cells(made.boxes, columns, rows)
    for token, here in enumerate(query @ made.vectors.T):
        assert np.allclose(here, expected[token].numpy()[places[:, 0], places[:, 1]], atol=1e-4)


@pytest.mark.parametrize("name", ["portrait", "landscape", "small"])
def test_tiles_lie_where_colpali_engine_puts_them(opened: Open, pages: list[PageInput], name: str) -> None:
    encoder = opened(name="colsmol")
    page = next(page for page in pages if page.page.page_id == name)
    made = encoded(encoder, [page])[name]
    whole = encoder._processor.image_seq_len
    batch = encoder._processor.process_images([Image.open(page.image)])
    rows, _ = by_engine(encoder, [page])
    local = encoder._processor.get_local_image_mask(batch)[0]
    down, across = (round(1 / (made.boxes[0, axis + 2] - made.boxes[0, axis])) for axis in (1, 0))
    expected = encoder._processor.rearrange_image_embeddings(rows[0], local, (across, down)).numpy()
    places = cells(made.boxes[:-whole], across, down)
    assert np.allclose(made.vectors[:-whole], expected[places[:, 0], places[:, 1]], atol=2e-5)


def cells(boxes: NDArray[np.float32], columns: int, rows: int) -> NDArray[np.int64]:
    """Column and row of the middle of each box."""
    return (np.stack([boxes[:, [0, 2]].mean(1) * columns, boxes[:, [1, 3]].mean(1) * rows], 1)).astype(np.int64)


# --- pooling and projection -------------------------------------------------------------


def test_pooled_rows_stand_for_the_patches_that_their_map_names(opened: Open, pages: list[PageInput]) -> None:
    full, pooled = encoded(opened(), pages), encoded(opened(pool_factor=7), pages)
    for name, page in pooled.items():
        patches = full[name].vectors
        assert len(page.vectors) == max(1, len(patches) // 7)
        assert np.array_equal(page.boxes, full[name].boxes)
        for row, vector in enumerate(page.vectors):
            mean = patches[page.vector_of == row].mean(axis=0)
            assert np.allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)


def test_a_projection_to_the_full_width_changes_no_score(opened: Open, pages: list[PageInput]) -> None:
    plain, turned = opened(), opened(pca_dim=128)
    turned.fit(pages)
    before, after = encoded(plain, pages), encoded(turned, pages)
    for name in before:
        here = turned.encode_query(QUERY) @ after[name].vectors.T
        assert np.allclose(here, plain.encode_query(QUERY) @ before[name].vectors.T, atol=1e-4)


def test_a_projection_is_learned_saved_and_used_for_queries_too(
    opened: Open, pages: list[PageInput], tmp_path: Path
) -> None:
    first, second = opened(pca_dim=16, pool_factor=7), opened(pca_dim=16, pool_factor=7, loaders=2)
    with pytest.raises(NotBuiltError, match="not fitted"):
        first.encode_query(QUERY)
    first.fit(pages)
    first.save(tmp_path)
    second.load(tmp_path)
    assert first.dim == 16
    ours, theirs = encoded(first, pages), encoded(second, pages)
    assert all(np.array_equal(ours[name].vectors, theirs[name].vectors) for name in ours)
    rows = second.encode_query(QUERY)
    assert np.array_equal(rows, first.encode_query(QUERY))
    assert rows.shape[1] == 16
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    full = encoded(opened(pool_factor=7), pages)
    assert all(np.array_equal(full[name].vector_of, ours[name].vector_of) for name in full)


def test_a_projection_wider_than_the_model_is_refused(opened: Open) -> None:
    with pytest.raises(SettingsError, match=r"pca_dim: 129 is more than the 128"):
        opened(pca_dim=129)


# --- identity ---------------------------------------------------------------------------


def test_the_identity_follows_what_changes_vectors_and_nothing_else(
    opened: Open, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    from tiny_models import make_colqwen2_5

    usual = opened().identity
    for same in ({"batch_size": 3}, {"loaders": 1}, {"read_ahead": 1}, {"storage": "int8"}, {"self_check": True}):
        assert opened(**same).identity == usual
    for field, change in {
        "query_prefix": {"query_prefix": "query: "},
        "augmentation_tokens": {"augmentation_tokens": 5},
        "processor": {"max_visual_tokens": 32},
        "pooling": {"pool_factor": 3},
        "projection": {"pca_dim": 8},
        "revision": {"revision": "v0.2"},
    }.items():
        told = usual.differences(opened(**change).identity)
        assert any(line.startswith(field) for line in told), field
        assert opened(**change).fingerprint != usual.fingerprint
    others = opened(model=str(make_colqwen2_5(tmp_path / "other", seed=1))).identity
    assert {line.split(":")[0] for line in usual.differences(others)} == {"model", "weights"}
    moved = shutil.copytree(checkpoints["colqwen2.5"], tmp_path / "moved")
    tokenizer = moved / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    told = usual.differences(opened(model=str(moved)).identity)
    assert {line.split(":")[0] for line in told} == {"model", "more.processor_files"}


def test_the_base_of_an_adapter_is_part_of_its_identity(
    opened: Open, checkpoints: dict[str, Path], pages: list[PageInput], tmp_path: Path
) -> None:
    from tiny_models import make_adapter

    base = checkpoints["colqwen2.5"]
    encoder = opened(model=str(make_adapter(tmp_path / "adapter", base)), self_check=True)
    assert encoder.identity.more["base"] == str(base)
    assert encoder.identity.weights != opened().identity.weights
    assert not np.allclose(encoder.encode_query(QUERY), opened().encode_query(QUERY), atol=1e-3)
    assert len(encoded(encoder, pages)) == len(pages)


# --- the check of batches ---------------------------------------------------------------


def test_padding_that_counts_is_found_at_the_start(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from medvrag_core.encoders.colpali import LateInteractionEncoder

    encoder = opened(self_check=True)
    real = LateInteractionEncoder._embed

    def leaking(self: LateInteractionEncoder, given: dict[str, Any]) -> NDArray[np.float32]:
        return real(self, given) + np.float32(0.01 * (len(given["input_ids"]) - 1))

    monkeypatch.setattr(LateInteractionEncoder, "_embed", leaking)
    with pytest.raises(MedvragError, match=r"other vectors in a batch than alone \(0\.\d+ apart\)"):
        encoder._check_batches()


def test_numbers_that_are_not_finite_are_refused(opened: Open) -> None:
    import torch

    encoder = opened(batch_size=6)
    with torch.no_grad():
        encoder._model.custom_text_proj.bias.fill_(float("nan"))
    with pytest.raises(MedvragError, match="gave vectors that are not finite"):
        encoder.encode_query(QUERY)


def test_pages_can_be_made_ready_in_many_threads(opened: Open, pages: list[PageInput]) -> None:
    encoder = opened()
    expected = {page.page.page_id: encoder.load_page(page).given["input_ids"].tolist() for page in pages}
    wrong: list[str] = []

    def load() -> None:
        for page in pages * 3:
            if encoder.load_page(page).given["input_ids"].tolist() != expected[page.page.page_id]:
                wrong.append(page.page.page_id)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
