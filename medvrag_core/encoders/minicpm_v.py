"""MiniCPM-V 2.0, the model under VisRAG-Ret, put together from classes that transformers ships.

The checkpoint comes with Python files of its own and asks to run them. This project runs no code that comes with
weights; of the checkpoint it reads ``config.json``, ``tokenizer.json`` and the safetensors, and builds the same
architecture here:

- language model (MiniCPM-2B): transformers' Granite, whose multipliers say what MiniCPM's ``scale_depth`` says.
  ``scale_emb`` is applied here and not by Granite, because it holds for words and not for the tokens of the image;
- vision tower (SigLIP So400m as timm builds it, without its last block and its pooling head): the parts of
  transformers' SigLIP, but with timm's exact GELU and its way of stretching the position table;
- resampler: one cross-attention from 64 learned queries to the patches of a slice.

:func:`weight_table` names every tensor of the checkpoint; one that lacks, or is left over, is refused. Written from
the code released with VisRAG (OpenBMB/VisRAG, commit f35d232). **Not run on the published weights**: on random weights
tests compare it with a plain second implementation and with numbers of the released code; the table is compared with
the sizes of the published files.

One known difference: in bfloat16 Granite turns positions in bfloat16, where the released code does so in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, field_validator

from medvrag_core.errors import MismatchError


@dataclass(frozen=True)
class VisionTower:
    """Sizes of a vision transformer before its last block is dropped."""

    width: int
    blocks: int
    heads: int
    mlp: int
    side: int
    """Patches along one side of the square that the position table was trained on."""


VISION_TOWERS = {"vit_so400m_patch14_siglip_384.webli": VisionTower(1152, 27, 16, 4304, 27)}
"""By timm's name, which is all that the checkpoint says of its tower."""

UNUSED = frozenset({"llm.lm_head.weight"})
"""Tensors of the checkpoint that an encoder does not need: the layer that names the next token."""


class MiniCpmVConfig(BaseModel):
    """What this implementation needs of the checkpoint's ``config.json``; other kinds of MiniCPM are refused."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    scale_emb: float
    scale_depth: float
    rope_theta: float = 10_000.0
    hidden_act: Literal["silu"] = "silu"
    attention_bias: Literal[False] = False
    rope_scaling: None = None
    vision_encoder: str = "vit_so400m_patch14_siglip_384.webli"
    drop_vision_last_layer: Literal[True] = True
    slice_mode: Literal[True] = True
    query_num: int = 64
    patch_size: int = 14
    max_slice_nums: int = 9
    scale_resolution: int = 448

    @field_validator("vision_encoder")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in VISION_TOWERS:
            raise ValueError(f"known here: {', '.join(VISION_TOWERS)}")
        return value

    @property
    def tower(self) -> VisionTower:
        """Sizes of the vision tower."""
        return VISION_TOWERS[self.vision_encoder]


@dataclass(frozen=True)
class TokenRow:
    """One input of the language model.

    Attributes
    ----------
    ids : token ids
    slots : places in ``ids`` that tokens of the image take, in their order
    image : tensor, shape (len(slots), hidden); None without slots
    """

    ids: Sequence[int]
    slots: Sequence[int] = ()
    image: Any = None


def weight_table(config: MiniCpmVConfig) -> dict[str, tuple[str, ...]]:
    """Names of the checkpoint's tensors, and of what they become here; q, k and v share one tensor by rows."""
    table: dict[str, tuple[str, ...]] = {
        "llm.model.embed_tokens.weight": ("language.embed_tokens.weight",),
        "llm.model.norm.weight": ("language.norm.weight",),
        "vpm.pos_embed": ("vision.embeddings.position_embedding.weight",),
        "resampler.attn.in_proj_weight": ("resampler.attn.in_proj_weight",),
        "resampler.attn.in_proj_bias": ("resampler.attn.in_proj_bias",),
        "resampler.kv_proj.weight": ("resampler.kv_proj.weight",),
    }
    for name in ("query", "pos_embed", "proj"):
        table[f"resampler.{name}"] = (f"learned.{name}",)
    layer = (
        *(f"self_attn.{one}_proj" for one in "qkvo"),
        *(f"mlp.{one}_proj" for one in ("gate", "up", "down")),
        *("input_layernorm", "post_attention_layernorm"),
    )
    for number in range(config.num_hidden_layers):
        for name in layer:
            table[f"llm.model.layers.{number}.{name}.weight"] = (f"language.layers.{number}.{name}.weight",)
    block = {"norm1": "layer_norm1", "norm2": "layer_norm2", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
    block["attn.proj"] = "self_attn.out_proj"
    for kind in ("weight", "bias"):
        table[f"vpm.patch_embed.proj.{kind}"] = (f"vision.embeddings.patch_embedding.{kind}",)
        table[f"vpm.norm.{kind}"] = (f"vision.post_layernorm.{kind}",)
        for name in ("attn.out_proj", "ln_q", "ln_kv", "ln_post"):
            table[f"resampler.{name}.{kind}"] = (f"resampler.{name}.{kind}",)
        for number in range(config.tower.blocks - 1):
            ours = f"vision.encoder.layers.{number}"
            for name, mine in block.items():
                table[f"vpm.blocks.{number}.{name}.{kind}"] = (f"{ours}.{mine}.{kind}",)
            table[f"vpm.blocks.{number}.attn.qkv.{kind}"] = tuple(
                f"{ours}.self_attn.{one}_proj.{kind}" for one in "qkv"
            )
    return table


class MiniCpmV:
    """From token ids and page slices to last hidden states.

    Parameters
    ----------
    config : sizes
    weights : pairs of the checkpoint's name and its tensor
    device, dtype : where and in which dtype to compute

    Raises
    ------
    MismatchError : a tensor lacks, is left over, or has another shape; names it
    """

    def __init__(self, config: MiniCpmVConfig, weights: Mapping[str, Any], *, device: str, dtype: Any) -> None:
        self._config = config
        self._parts = empty_parts(config)
        state = _renamed(weights, weight_table(config))
        expected = self._parts.state_dict()
        for name, tensor in state.items():
            if tensor.shape != expected[name].shape:
                raise MismatchError(
                    f"tensor for {name} has shape {tuple(tensor.shape)}, not {tuple(expected[name].shape)}",
                    way_out="name a checkpoint of VisRAG-Ret",
                )
        self._parts.load_state_dict(
            {name: tensor.to(device, dtype) for name, tensor in state.items()}, strict=True, assign=True
        )
        self._parts.eval().requires_grad_(False)
        # The speeds at which positions turn are no weights, so that Granite's own still hold nothing.
        language = self._parts["language"]
        language.rotary_emb = type(language.rotary_emb)(language.config).to(device)
        self._device, self._dtype = device, dtype

    def image_tokens(self, pixels: Any) -> Any:
        """What the language model sees of slices of one size.

        Parameters
        ----------
        pixels : float tensor, shape (slices, 3, height, width), values from -1 to 1, sides multiples of the patch

        Returns
        -------
        tensor, shape (slices, query_num, hidden)
        """
        vision = self._parts["vision"]
        patches = vision.embeddings.patch_embedding(pixels.to(self._device, self._dtype))
        rows, columns = patches.shape[-2:]
        hidden = patches.flatten(2).transpose(1, 2) + self._positions(rows, columns)
        hidden = vision.post_layernorm(vision.encoder(inputs_embeds=hidden).last_hidden_state)
        return self._resampled(hidden, rows, columns)

    def last_hidden(self, rows: Sequence[TokenRow]) -> Any:
        """Last hidden states, shape (rows, longest, hidden), padded on the right, where no real token sees it."""
        import torch

        language = self._parts["language"]
        longest = max(len(row.ids) for row in rows)
        given = torch.zeros((len(rows), longest, self._config.hidden_size), device=self._device, dtype=self._dtype)
        for place, row in enumerate(rows):
            ids = torch.tensor(row.ids, device=self._device)
            given[place, : len(row.ids)] = language.embed_tokens(ids) * self._config.scale_emb
            if len(row.slots):
                given[place, torch.tensor(row.slots, device=self._device)] = row.image.to(self._dtype)
        return language(inputs_embeds=given, use_cache=False).last_hidden_state

    def _positions(self, rows: int, columns: int) -> Any:
        """The position table stretched to a slice the way timm does, shape (rows * columns, width)."""
        from torch.nn.functional import interpolate

        table = self._parts["vision"].embeddings.position_embedding.weight.float()
        side = self._config.tower.side
        square = table.reshape(1, side, side, -1).permute(0, 3, 1, 2)
        stretched = interpolate(square, size=(rows, columns), mode="bicubic", antialias=True)
        return stretched.flatten(2)[0].T.to(self._dtype)

    def _resampled(self, hidden: Any, rows: int, columns: int) -> Any:
        import torch

        parts, learned = self._parts["resampler"], self._parts["learned"]
        keys = parts["ln_kv"](parts["kv_proj"](hidden))
        places = torch.from_numpy(wave_positions(keys.shape[-1], rows, columns)).to(keys)
        queries = (parts["ln_q"](learned["query"]) + learned["pos_embed"]).expand(len(hidden), -1, -1)
        out, _ = parts["attn"](queries, keys + places, keys, need_weights=False)
        return parts["ln_post"](out) @ learned["proj"]


def empty_parts(config: MiniCpmVConfig) -> Any:
    """The modules without their weights (on torch's device ``meta``), under the names of :func:`weight_table`."""
    import torch
    from transformers import GraniteConfig, GraniteModel, SiglipVisionConfig, SiglipVisionModel

    tower, width = config.tower, config.hidden_size
    language = GraniteConfig(
        vocab_size=config.vocab_size,
        hidden_size=width,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        max_position_embeddings=config.max_position_embeddings,
        rms_norm_eps=config.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        embedding_multiplier=1.0,
        residual_multiplier=config.scale_depth / math.sqrt(config.num_hidden_layers),
        attention_multiplier=(width // config.num_attention_heads) ** -0.5,
        attn_implementation="sdpa",
    )
    vision = SiglipVisionConfig(
        hidden_size=tower.width,
        intermediate_size=tower.mlp,
        num_hidden_layers=tower.blocks - 1,
        num_attention_heads=tower.heads,
        image_size=tower.side * config.patch_size,
        patch_size=config.patch_size,
        hidden_act="gelu",
        layer_norm_eps=1e-6,
        vision_use_head=False,
        attn_implementation="sdpa",
    )
    with torch.device("meta"):
        resampler = torch.nn.ModuleDict({name: torch.nn.LayerNorm(width, eps=1e-6) for name in _NORMS})
        resampler["kv_proj"] = torch.nn.Linear(tower.width, width, bias=False)
        resampler["attn"] = torch.nn.MultiheadAttention(width, width // 128, batch_first=True)
        learned = {"query": (config.query_num, width), "pos_embed": (config.query_num, width), "proj": (width, width)}
        return torch.nn.ModuleDict(
            {
                "language": GraniteModel(language),
                "vision": SiglipVisionModel(vision),
                "resampler": resampler,
                "learned": torch.nn.ParameterDict({name: torch.empty(shape) for name, shape in learned.items()}),
            }
        )


_NORMS = ("ln_q", "ln_kv", "ln_post")


def wave_positions(width: int, rows: int, columns: int) -> NDArray[np.float32]:
    """Sines and cosines of the column, then of the row, of each patch, float32, shape (rows * columns, width).

    >>> wave_positions(4, 1, 2).round(2).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8399999737739563, 0.5400000214576721, 0.0, 1.0]]
    """
    quarter = width // 4
    speeds = (10_000.0 ** -(np.arange(quarter, dtype=np.float32) / quarter)).astype(np.float32)
    row, column = np.divmod(np.arange(rows * columns), columns)
    waves = []
    for places in (column, row):
        angles = np.outer(places.astype(np.float32), speeds)
        waves += [np.sin(angles), np.cos(angles)]
    return np.concatenate(waves, axis=1)


def _renamed(weights: Mapping[str, Any], table: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The tensors under their names here, after a check that the checkpoint holds all of the table and no more."""
    missing, left_over = table.keys() - weights.keys(), weights.keys() - table.keys() - UNUSED
    for names, fault in ((missing, "lacks"), (left_over, "holds more than the model has:")):
        if names:
            raise MismatchError(
                f"the checkpoint {fault} {len(names)} tensors, for example {min(names)}",
                way_out="name a checkpoint of VisRAG-Ret",
            )
    return dict(_pieces(weights, table))


def _pieces(weights: Mapping[str, Any], table: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Any]]:
    for name, ours in table.items():
        tensor = weights[name]
        if name == "vpm.pos_embed":
            tensor = tensor[0]
        yield from zip(ours, tensor.chunk(len(ours)), strict=True)
