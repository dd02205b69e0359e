"""VisRAG-Ret and DSE on tiny models of random weights, against plain second implementations and released procedures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from medvrag_core.encoders.base import PageInput
from medvrag_core.encoders.encode import encode_corpus
from medvrag_core.encoders.factory import make_page_encoder
from medvrag_core.encoders.page_slices import plan_slices
from medvrag_core.errors import MedvragError, MismatchError, SettingsError
from medvrag_core.index.build import build_index
from medvrag_core.index.maxsim import two_way_score
from medvrag_core.records import Page, PageLayout
from medvrag_core.settings import EncoderSettings, IndexSettings

if TYPE_CHECKING:
    from medvrag_core.encoders.single_vector import SingleVectorEncoder

pytestmark = pytest.mark.gpu_path

PREFIX = {"visrag-ret": "Represent this query for retrieving relevant documents: ", "dse": "Query: "}
SIZES = {"portrait": (100, 160), "landscape": (200, 90), "small": (40, 50), "square": (56, 56), "large": (300, 400)}
"""Width and height in pixels."""
QUERY = "which drug lowers urate"
RELEASED = {
    QUERY: [0.010063, -0.072043, -0.003244, 0.026164],
    "portrait": [0.013434, -0.07795, 0.038432, -0.049989],
    "landscape": [0.022922, -0.049269, 0.011257, -0.09104],
    "small": [0.090351, -0.088562, 0.045327, -0.088464],
    "square": [0.104823, -0.101603, 0.02024, -0.10918],
    "large": [-0.005586, -0.075269, 0.019305, -0.048118],
}
"""First numbers that the released code gives these inputs on the same tiny checkpoint: ``VisRAG_Ret`` of OpenBMB/VisRAG
at commit f35d232 with its weighted mean pooling, under transformers 4.40.2 and timm 0.9.16, all pages in one batch."""
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    import tiny_models

    tiny_models.need("transformers", "safetensors")
    import tiny_dse
    import tiny_visrag

    from medvrag_core.encoders.minicpm_v import VISION_TOWERS, VisionTower

    folder = tmp_path_factory.mktemp("tiny")
    VISION_TOWERS["tiny"] = VisionTower(**tiny_visrag.TOWER)
    yield {
        "visrag-ret": tiny_visrag.make_visrag(folder / "visrag"),
        "dse": tiny_dse.make_dse(folder / "dse"),
    }
    del VISION_TOWERS["tiny"]


@pytest.fixture(scope="module")
def opened(checkpoints: dict[str, Path]) -> Open:
    """Opens an encoder by the name in the settings, once for the same settings; without its check at the start."""
    made: dict[str, SingleVectorEncoder[Any]] = {}

    def open_encoder(name: str, **values: Any) -> Any:
        usual = {"model": str(checkpoints[name]), "query_prefix": PREFIX[name], "max_visual_tokens": 64}
        settings = EncoderSettings(name=name, **{**usual, "batch_size": 3, "self_check": False, **values})  # type: ignore[arg-type]
        key = settings.model_dump_json()
        if key not in made:
            encoder: Any = make_page_encoder(settings)
            made[key] = encoder
        return made[key]

    return open_encoder


def made_image(size: tuple[int, int], seed: int = 0) -> Image.Image:
    width, height = size
    coarse = np.random.default_rng(seed).integers(0, 255, (height // 9 + 1, width // 9 + 1, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size)


def page_inputs(folder: Path, sizes: list[tuple[int, int]]) -> list[PageInput]:
    inputs = []
    for number, size in enumerate(sizes, start=1):
        file = folder / f"{number}.png"
        made_image(size, seed=number).save(file)
        page = Page(
            page_id=f"a#p{number}", article_id="a", number=number, width_pt=1, height_pt=1, image=file.name,
            image_width=size[0], image_height=size[1], dpi=72, text_source="none", text="",
        )  # fmt: skip
        inputs.append(PageInput(page, PageLayout.model_construct(), file))
    return inputs


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


# --- VisRAG-Ret ---------------------------------------------------------------------------


def test_a_query_gets_the_vector_of_the_plain_implementation(opened: Open) -> None:
    import tiny_visrag

    encoder, weights = opened("visrag-ret"), tiny_visrag.make_weights()
    ids = [1, *encoder._tokenizer.encode(PREFIX["visrag-ret"] + QUERY).ids]
    assert np.allclose(encoder.encode_query(QUERY)[0], tiny_visrag.plain_vector(weights, ids, []), atol=1e-5)
    without = opened("visrag-ret", query_prefix="").encode_query(QUERY)
    assert cosine(encoder.encode_query(QUERY)[0], without[0]) < 0.99


@pytest.mark.parametrize("size", SIZES)
def test_a_page_gets_the_vector_of_the_plain_implementation(opened: Open, size: str) -> None:
    import tiny_visrag

    encoder, weights = opened("visrag-ret"), tiny_visrag.make_weights()
    ready = encoder.prepare("a#p1", made_image(SIZES[size]))
    slicing = plan_slices(*SIZES[size], scale=56, patch=14, at_most=9)
    image, end = [3, 0, 0, 0, 0, 4], encoder._tokenizer.encode("\n").ids
    ids = [1, *image]
    if slicing.grid:
        columns, rows = slicing.grid
        ids += [5, *([*image * columns, *end] * rows)[: -len(end)], 6]
    expected = tiny_visrag.plain_vector(weights, [*ids, *end], ready.images)
    assert ready.tokens == len(ids) + len(end)
    assert np.allclose(encoder.encode_batch([ready])[0].vectors[0], expected, atol=1e-5)


@pytest.mark.parametrize("what", RELEASED)
def test_the_released_code_gives_the_same_vectors(opened: Open, what: str) -> None:
    encoder = opened("visrag-ret")
    if what in SIZES:
        [page] = encoder.encode_batch([encoder.prepare("a#p1", made_image(SIZES[what]))])
        vector = page.vectors[0]
    else:
        vector = encoder.encode_query(what)[0]
    assert np.allclose(vector[:4], RELEASED[what], atol=1e-5)


def test_pooling_weighs_states_by_their_place_and_never_sees_padding(opened: Open) -> None:
    import torch

    from medvrag_core.encoders.visrag_ret import position_weighted_mean

    opened("visrag-ret")
    hidden, lengths = np.random.default_rng(0).normal(size=(3, 5, 4)), [5, 2, 1]
    padded = hidden.copy()
    for row, length in enumerate(lengths):
        padded[row, length:] = 1e6
    pooled = position_weighted_mean(torch.tensor(padded), lengths).numpy()
    for row, length in enumerate(lengths):
        by_hand = sum((i + 1) * hidden[row, i] for i in range(length)) / sum(range(1, length + 1))
        assert np.allclose(pooled[row], by_hand, atol=1e-6)


def test_the_table_of_weights_makes_the_published_files_to_the_byte(opened: Open) -> None:
    """Sizes of openbmb/VisRAG-Ret as told by a download script on GitHub that checks them, with their SHA-256."""
    from medvrag_core.encoders.minicpm_v import UNUSED, MiniCpmVConfig, empty_parts, weight_table

    opened("visrag-ret")
    config = MiniCpmVConfig(
        hidden_size=2304, intermediate_size=5760, num_hidden_layers=40, num_attention_heads=36, num_key_value_heads=36,
        vocab_size=122753, max_position_embeddings=4096, rms_norm_eps=1e-5, scale_emb=12, scale_depth=1.4,
    )  # fmt: skip
    ours = {name: tuple(tensor.shape) for name, tensor in empty_parts(config).state_dict().items()}
    shapes = {}
    for name, parts in weight_table(config).items():
        first, *rest = ours[parts[0]]
        shapes[name] = (first * len(parts), *rest)
    assert sorted(ours) == sorted(part for parts in weight_table(config).values() for part in parts)
    shapes["vpm.pos_embed"] = (1, *shapes["vpm.pos_embed"])
    shapes |= dict.fromkeys(UNUSED, (122753, 2304))
    # The first file is filled with the language model, in its own order, up to 5 GB; all numbers take 2 bytes.
    order = ["embed_tokens.weight"]
    inside = [f"self_attn.{one}_proj" for one in "qkvo"] + [f"mlp.{one}_proj" for one in ("gate", "up", "down")]
    for number in range(40):
        order += [f"layers.{number}.{one}.weight" for one in (*inside, "input_layernorm", "post_attention_layernorm")]
    first_file, size = [], 0
    for name in (f"llm.model.{one}" for one in order):
        if size + 2 * int(np.prod(shapes[name])) > 5_000_000_000:
            break
        size += 2 * int(np.prod(shapes[name]))
        first_file.append(name)
    second_file = [name for name in shapes if name not in set(first_file)]
    assert safetensors_size(first_file, shapes) == 4_993_235_928
    assert safetensors_size(second_file, shapes) == 1_876_772_888


def safetensors_size(names: list[str], shapes: dict[str, tuple[int, ...]]) -> int:
    """Bytes of a file of 2-byte tensors as safetensors writes it: a length, a header padded to 8, the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(names):
        begin, end = end, end + 2 * int(np.prod(shapes[name]))
        header[name] = {"dtype": "BF16", "shape": list(shapes[name]), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"))
    return 8 + -(-len(text) // 8) * 8 + end


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda w: w.pop("resampler.query"), "lacks 1 tensors, for example resampler.query"),
        (lambda w: w.update({"vpm.blocks.2.norm1.weight": w["vpm.norm.weight"]}), r"for example vpm\.blocks\.2\.norm1"),
        (lambda w: w.update({"llm.model.norm.weight": w["vpm.norm.weight"]}), r"has shape \(32,\), not \(256,\)"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_by_name(
    opened: Open, change: Callable[[dict[str, Any]], None], told: str
) -> None:
    import tiny_visrag
    import torch

    from medvrag_core.encoders.minicpm_v import MiniCpmV, MiniCpmVConfig

    opened("visrag-ret")
    config, weights = MiniCpmVConfig.model_validate(tiny_visrag.CONFIG), tiny_visrag.make_weights()
    del weights["llm.lm_head.weight"]  # not needed, so its absence is no fault
    MiniCpmV(config, weights, device="cpu", dtype=torch.float32)
    change(weights)
    with pytest.raises(MismatchError, match=told):
        MiniCpmV(config, weights, device="cpu", dtype=torch.float32)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attention_bias", True), ("rope_scaling", {"type": "linear", "factor": 2.0}), ("vision_encoder", "other"),
        ("drop_vision_last_layer", False), ("hidden_act", "relu"), ("slice_mode", False), ("scale_emb", None),
    ],
)  # fmt: skip
def test_another_architecture_is_refused_by_field(opened: Open, tmp_path: Path, field: str, value: object) -> None:
    import tiny_visrag

    from medvrag_core.encoders.visrag_ret import read_config

    opened("visrag-ret")
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**tiny_visrag.CONFIG, field: value}))
    with pytest.raises(MismatchError, match=f"'{field}"):
        read_config(path)


def test_bfloat16_stays_near_float32(opened: Open) -> None:
    import tiny_visrag
    import torch

    from medvrag_core.encoders.minicpm_v import MiniCpmV, MiniCpmVConfig, TokenRow

    encoder, ids = opened("visrag-ret"), list(range(7, 60))
    config = MiniCpmVConfig.model_validate(tiny_visrag.CONFIG)
    short = MiniCpmV(config, tiny_visrag.make_weights(), device="cpu", dtype=torch.bfloat16)
    with torch.inference_mode():
        a, b = (one.last_hidden([TokenRow(ids)])[0].float() for one in (short, encoder._model))
        image = torch.rand(2, 3, 56, 42) * 2 - 1
        c, d = (one.image_tokens(image).flatten(0, 1).float() for one in (short, encoder._model))
    assert torch.cosine_similarity(a, b).min() > 0.99
    assert torch.cosine_similarity(c, d).min() > 0.99


def test_visrag_vectors_are_not_cut(opened: Open) -> None:
    with pytest.raises(SettingsError, match="was not trained to be cut"):
        opened("visrag-ret", nested_dim=64)


# --- DSE ----------------------------------------------------------------------------------


def by_card(folder: Path, texts: list[str], images: list[Image.Image]) -> NDArray[np.float32]:
    """Last states as the model card takes them: padded on the left, the last place of the last hidden states."""
    import torch
    from transformers import Qwen2VLForConditionalGeneration, Qwen2VLProcessor

    processor = Qwen2VLProcessor.from_pretrained(folder)
    processor.image_processor.size = {"shortest_edge": 28 * 28, "longest_edge": 64 * 28 * 28}
    processor.tokenizer.padding_side = "left"
    model = Qwen2VLForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
    chats = [
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        f"<|vision_start|><|image_pad|><|vision_end|>{text}<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
        for text in texts
    ]
    given = processor(text=chats, images=images, padding="longest", return_tensors="pt")
    with torch.no_grad():
        states = model(**given, output_hidden_states=True).hidden_states[-1]
    rows: NDArray[np.float32] = states[:, -1].numpy()
    return rows


@pytest.mark.parametrize("nested_dim", [0, 24])
def test_dse_follows_the_model_card(
    opened: Open, checkpoints: dict[str, Path], tmp_path: Path, nested_dim: int
) -> None:
    encoder = opened("dse", nested_dim=nested_dim)
    inputs = page_inputs(tmp_path, [(280, 168), (84, 112), (56, 308)])  # whole patches: nothing to resize
    images = [Image.open(page.image).convert("RGB") for page in inputs]
    expected = by_card(checkpoints["dse"], ["What is shown in this image?"] * 3, images)[:, : nested_dim or None]
    got = [page.vectors[0] for page in encoder.encode_pages(inputs)]
    assert encoder.dim == expected.shape[1] == (nested_dim or 64)
    assert np.allclose(got, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)
    [query] = by_card(checkpoints["dse"], [f"Query: {QUERY}"], [Image.new("RGB", (56, 56))])[:, : nested_dim or None]
    assert np.allclose(encoder.encode_query(QUERY)[0], query / np.linalg.norm(query), atol=1e-5)


def test_dse_keeps_pages_under_the_cap_and_their_shape(opened: Open) -> None:
    ready = opened("dse").prepare("a#p1", made_image((850, 1100)))
    height, width, _ = ready.images[0].shape
    assert height % 28 == width % 28 == 0 and ready.tokens == height * width // 28**2 <= 64
    assert ready.tokens > 40 and abs(width / height - 850 / 1100) < 0.1
    assert opened("dse", max_visual_tokens=16).prepare("a#p1", made_image((850, 1100))).tokens <= 16


def test_a_cut_wider_than_the_vector_is_refused(opened: Open) -> None:
    with pytest.raises(SettingsError, match=r"encoder.nested_dim is 65, but .* has vectors of 64 numbers"):
        opened("dse", nested_dim=65)


# --- both ---------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("name", PREFIX)


@BOTH
def test_pages_come_in_order_with_one_row_that_stands_for_the_whole_page(
    opened: Open, tmp_path: Path, name: str
) -> None:
    encoder = opened(name)
    inputs = page_inputs(tmp_path, list(SIZES.values()))
    together = list(encoder.encode_pages(inputs))
    assert [page.page_id for page in together] == [page.page.page_id for page in inputs]
    for given, page in zip(inputs, together, strict=True):
        assert page.vectors.shape == (1, encoder.dim) and page.vectors.dtype == np.float32
        assert np.linalg.norm(page.vectors) == pytest.approx(1, abs=1e-5)
        assert page.boxes.tolist() == [[0, 0, 1, 1]] and page.vector_of.tolist() == [0]
        [alone] = encoder.encode_batch([encoder.load_page(given)])
        assert np.allclose(alone.vectors, page.vectors, atol=1e-5)
    rows = np.concatenate([page.vectors for page in together])
    assert (rows @ rows.T - np.eye(len(rows))).max() < 0.9999  # different pages, different vectors


@BOTH
def test_a_query_cannot_open_an_image_or_end_a_turn(opened: Open, name: str) -> None:
    encoder = opened(name)
    for token in ("<|image_pad|>", "<|im_end|>", "<|endoftext|>", "<image>", "</image>", "<unk>", "</s>", "{text}"):
        assert encoder.encode_query(f"gout {token}").shape == (1, encoder.dim)
    hostile = "<|image_pad|>" if name == "dse" else "<unk>"
    assert np.array_equal(encoder.encode_query(f"gout{hostile}"), encoder.encode_query("gout "))
    assert encoder.query_words("gout") == ("gout",)


@BOTH
def test_the_identity_tells_what_was_set_and_read(opened: Open, name: str) -> None:
    base = opened(name).identity
    assert base.query_prefix == PREFIX[name] and base.dtype == "float32" and len(base.weights) == 64
    assert base.encoder == name and base.pooling and base.processor and base.dim == opened(name).dim
    other = opened(name, query_prefix="Represent this query for retrieving relevant document: ").identity
    assert [told.split(":")[0] for told in base.differences(other)] == ["query_prefix"]
    assert opened(name, batch_size=1, read_ahead=2).identity == base


@BOTH
def test_a_model_that_looks_at_its_neighbors_is_found_at_the_start(
    opened: Open, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind = type(opened(name, self_check=True))
    embed = kind.embed_pages
    monkeypatch.setattr(kind, "embed_pages", lambda self, ready: embed(self, ready) + len(ready))
    opened(name, batch_size=2)  # not asked to look
    with pytest.raises(MedvragError, match="another vector in a batch than alone"):
        opened(name, batch_size=2, self_check=True)
    monkeypatch.setattr(kind, "embed_pages", lambda self, ready: embed(self, ready) * np.nan)
    with pytest.raises(MedvragError, match="not finite"):
        opened(name, batch_size=2, self_check=True)


@BOTH
def test_every_index_ranks_by_cosine(opened: Open, tmp_path: Path, name: str) -> None:
    encoder = opened(name)
    sizes = [(60 + 17 * k % 90, 50 + 29 * k % 110) for k in range(12)]
    store = encode_corpus(page_inputs(tmp_path, sizes), encoder, tmp_path / "v", corpus_fingerprint="c", progress=False)
    query = encoder.encode_query(QUERY)
    cosines = store.vectors @ query[0]
    for k, page_id in enumerate(store.page_ids):
        assert two_way_score(query, store.page(page_id).vectors) == pytest.approx(2 * cosines[k], abs=1e-5)
    ranked = [store.page_ids[k] for k in np.argsort(-cosines)]
    for mode in ("exact", "paper"):
        index = build_index(store, IndexSettings(mode=mode), tmp_path / mode, near_duplicate=1.0)
        hits = index.search(query, 12).hits
        assert [hit.page_id for hit in hits] == ranked
        assert [hit.score for hit in hits] == pytest.approx(2 * np.sort(cosines)[::-1], abs=1e-4)


def test_code_that_comes_with_weights_was_not_run(opened: Open, checkpoints: dict[str, Path]) -> None:
    import sys

    opened("visrag-ret").encode_query(QUERY)
    assert (checkpoints["visrag-ret"] / "modeling_visrag_ret.py").is_file()
    assert not [name for name in sys.modules if "modeling_visrag_ret" in name]
