"""A tiny VisRAG-Ret of random weights under the names of the published checkpoint, and a plain second implementation.

The second one reads the checkpoint's tensors by name and spells out every step on them with nothing but elementary
operations, from the VisRAG paper and the released code (OpenBMB/VisRAG, timm 0.9.16); it shares no line with the
package.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TOWER = {"width": 32, "blocks": 3, "heads": 4, "mlp": 48, "side": 4}
CONFIG = {
    "hidden_size": 256, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 4, "vocab_size": 420, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
    "scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, "hidden_act": "silu",
    "vision_encoder": "tiny", "query_num": 4, "scale_resolution": 56, "max_slice_nums": 9, "patch_size": 14,
    "model_type": "minicpmv", "auto_map": {"AutoModel": "modeling_visrag_ret.VisRAG_Ret"},
}  # fmt: skip
SPECIAL = ("<unk>", "<s>", "</s>", "<image>", "</image>", "<slice>", "</slice>")


def shapes() -> dict[str, tuple[int, ...]]:
    """Every tensor of the checkpoint with its shape."""
    hidden, mlp, v, vm = CONFIG["hidden_size"], CONFIG["intermediate_size"], TOWER["width"], TOWER["mlp"]
    out: dict[str, tuple[int, ...]] = {
        "llm.model.embed_tokens.weight": (CONFIG["vocab_size"], hidden),
        "llm.model.norm.weight": (hidden,),
        "llm.lm_head.weight": (CONFIG["vocab_size"], hidden),
        "vpm.pos_embed": (1, TOWER["side"] ** 2, v),
        "vpm.patch_embed.proj.weight": (v, 3, 14, 14),
        "vpm.patch_embed.proj.bias": (v,),
        "vpm.norm.weight": (v,),
        "vpm.norm.bias": (v,),
        "resampler.query": (CONFIG["query_num"], hidden),
        "resampler.pos_embed": (CONFIG["query_num"], hidden),
        "resampler.proj": (hidden, hidden),
        "resampler.kv_proj.weight": (hidden, v),
        "resampler.attn.in_proj_weight": (3 * hidden, hidden),
        "resampler.attn.in_proj_bias": (3 * hidden,),
        "resampler.attn.out_proj.weight": (hidden, hidden),
        "resampler.attn.out_proj.bias": (hidden,),
    }
    for norm in ("ln_q", "ln_kv", "ln_post"):
        out |= {f"resampler.{norm}.weight": (hidden,), f"resampler.{norm}.bias": (hidden,)}
    for n in range(CONFIG["num_hidden_layers"]):
        at = f"llm.model.layers.{n}"
        out |= {f"{at}.self_attn.{one}_proj.weight": (hidden, hidden) for one in "qkvo"}
        out |= {f"{at}.mlp.{one}_proj.weight": (mlp, hidden) for one in ("gate", "up")}
        out |= {f"{at}.mlp.down_proj.weight": (hidden, mlp)}
        out |= {f"{at}.{norm}.weight": (hidden,) for norm in ("input_layernorm", "post_attention_layernorm")}
    for n in range(TOWER["blocks"] - 1):
        at = f"vpm.blocks.{n}"
        for layer, (rows, columns) in {
            "attn.qkv": (3 * v, v), "attn.proj": (v, v), "mlp.fc1": (vm, v), "mlp.fc2": (v, vm),
        }.items():  # fmt: skip
            out |= {f"{at}.{layer}.weight": (rows, columns), f"{at}.{layer}.bias": (rows,)}
        for norm in ("norm1", "norm2"):
            out |= {f"{at}.{norm}.weight": (v,), f"{at}.{norm}.bias": (v,)}
    return out


def make_weights(seed: int = 0) -> dict[str, Any]:
    """Random tensors, the same on every machine; norms lie around one."""
    import torch

    draw = np.random.default_rng(seed)
    out = {}
    for name, shape in shapes().items():
        spread = shape[-1] ** -0.5 if len(shape) > 1 else 0.1
        around = 1.0 if len(shape) == 1 and name.endswith("weight") else 0.0
        out[name] = torch.from_numpy((around + spread * draw.standard_normal(shape)).astype(np.float32))
    return out


def make_visrag(folder: Path, *, seed: int = 0) -> Path:
    """A checkpoint in ``folder``, in two files of weights as the published one; returns the folder."""
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    weights = make_weights(seed)
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    places = {}
    for file, parts in {"model-00001-of-00002": ("llm.",), "model-00002-of-00002": ("vpm.", "resampler.")}.items():
        held = {name: tensor for name, tensor in weights.items() if name.startswith(parts)}
        save_file(held, folder / f"{file}.safetensors")
        places |= dict.fromkeys(held, f"{file}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}), encoding="utf-8")
    # Bytes alone, since training breaks ties by chance.
    symbols = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(models.BPE({symbol: k for k, symbol in enumerate(symbols)}, [], unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.add_special_tokens(list(SPECIAL))
    core.save(str(folder / "tokenizer.json"))
    # Code beside the weights, as in the published checkpoint: whoever runs it is found out.
    (folder / "modeling_visrag_ret.py").write_text("raise SystemExit('code of a checkpoint was run')\n")
    return folder


def plain_vector(weights: Mapping[str, Any], ids: Sequence[int], slices: Sequence[np.ndarray]) -> np.ndarray:
    """The unit vector of a row of token ids whose placeholders (between <image> and </image>) show ``slices``."""
    import torch

    given = weights["llm.model.embed_tokens.weight"][torch.tensor(ids)] * CONFIG["scale_emb"]
    shown = iter(torch.cat([plain_slice(weights, one) for one in slices]) if len(slices) else ())
    inside = False
    for place, token in enumerate(ids):
        if SPECIAL[token : token + 1] == ("</image>",):
            inside = False
        if inside:
            given[place] = next(shown)
        inside = inside or SPECIAL[token : token + 1] == ("<image>",)
    assert next(shown, None) is None
    states = plain_language(weights, given).numpy().astype(np.float64)
    share = np.arange(1, len(ids) + 1) / (len(ids) * (len(ids) + 1) / 2)
    pooled = sum(w * h for w, h in zip(share, states, strict=True))
    return pooled / np.linalg.norm(pooled)


def plain_slice(weights: Mapping[str, Any], image: np.ndarray) -> Any:
    """What the language model sees of one slice, uint8 (height, width, 3) -> (query_num, hidden)."""
    import torch

    rows, columns = image.shape[0] // 14, image.shape[1] // 14
    pixels = (torch.from_numpy(image.astype(np.float32)) / 255 - 0.5) / 0.5
    kernel, bias = weights["vpm.patch_embed.proj.weight"], weights["vpm.patch_embed.proj.bias"]
    x = torch.stack(
        [
            (kernel * pixels[14 * r : 14 * r + 14, 14 * c : 14 * c + 14].permute(2, 0, 1)).sum((1, 2, 3)) + bias
            for r in range(rows)
            for c in range(columns)
        ]
    )
    x = x + torch.from_numpy(stretched(weights["vpm.pos_embed"][0].numpy(), rows, columns))
    for n in range(TOWER["blocks"] - 1):
        at = f"vpm.blocks.{n}"
        h = layer_norm(x, weights, f"{at}.norm1")
        q, k, v = linear(h, weights, f"{at}.attn.qkv").chunk(3, dim=-1)
        x = x + linear(attend(q, k, v, TOWER["heads"]), weights, f"{at}.attn.proj")
        h = linear(layer_norm(x, weights, f"{at}.norm2"), weights, f"{at}.mlp.fc1")
        x = x + linear(h * 0.5 * (1 + torch.erf(h / math.sqrt(2))), weights, f"{at}.mlp.fc2")
    return plain_resampler(weights, layer_norm(x, weights, "vpm.norm"), rows, columns)


def plain_resampler(weights: Mapping[str, Any], patches: Any, rows: int, columns: int) -> Any:
    """(rows * columns, tower width) -> (query_num, hidden)."""
    import torch

    hidden = CONFIG["hidden_size"]
    places = np.zeros((rows * columns, hidden), dtype=np.float32)
    for r in range(rows):
        for c in range(columns):
            for half, where in enumerate((c, r)):
                for i in range(hidden // 4):
                    angle = where / 10000 ** (i / (hidden // 4))
                    places[r * columns + c, half * hidden // 2 + i] = math.sin(angle)
                    places[r * columns + c, half * hidden // 2 + hidden // 4 + i] = math.cos(angle)
    values = layer_norm(patches @ weights["resampler.kv_proj.weight"].T, weights, "resampler.ln_kv")
    asked = layer_norm(weights["resampler.query"], weights, "resampler.ln_q") + weights["resampler.pos_embed"]
    turns = weights["resampler.attn.in_proj_weight"].chunk(3)
    shifts = weights["resampler.attn.in_proj_bias"].chunk(3)
    q, k, v = (
        one @ turn.T + shift
        for one, turn, shift in zip((asked, values + torch.from_numpy(places), values), turns, shifts, strict=True)
    )
    out = linear(attend(q, k, v, hidden // 128), weights, "resampler.attn.out_proj")
    return layer_norm(out, weights, "resampler.ln_post") @ weights["resampler.proj"]


def plain_language(weights: Mapping[str, Any], x: Any) -> Any:
    """MiniCPM: (tokens, hidden) -> last hidden states (tokens, hidden)."""
    import torch

    depth = CONFIG["scale_depth"] / math.sqrt(CONFIG["num_hidden_layers"])
    causal = torch.full((len(x), len(x)), -math.inf).triu(1)
    for n in range(CONFIG["num_hidden_layers"]):
        at = f"llm.model.layers.{n}"
        h = rms_norm(x, weights[f"{at}.input_layernorm.weight"])
        q, k, v = (h @ weights[f"{at}.self_attn.{one}_proj.weight"].T for one in "qkv")
        heads = CONFIG["num_attention_heads"]
        out = attend(turned(q, heads), turned(k, heads), v, heads, causal)
        x = x + depth * (out @ weights[f"{at}.self_attn.o_proj.weight"].T)
        h = rms_norm(x, weights[f"{at}.post_attention_layernorm.weight"])
        gate, up = (h @ weights[f"{at}.mlp.{one}_proj.weight"].T for one in ("gate", "up"))
        x = x + depth * ((gate * torch.sigmoid(gate) * up) @ weights[f"{at}.mlp.down_proj.weight"].T)
    return rms_norm(x, weights["llm.model.norm.weight"])


def turned(x: Any, heads: int) -> Any:
    """Rotary positions: number i and number i + half of a head are one complex number, turned by its place."""
    import torch

    x = x.reshape(len(x), heads, -1)
    half = x.shape[-1] // 2
    speed = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    turn = torch.polar(torch.ones(len(x), half, dtype=torch.float64), torch.arange(len(x))[:, None] * speed)
    z = torch.complex(x[..., :half].double(), x[..., half:].double()) * turn[:, None]
    return torch.cat([z.real, z.imag], dim=-1).float().flatten(1)


def attend(q: Any, k: Any, v: Any, heads: int, mask: Any = 0.0) -> Any:
    q, k, v = (one.reshape(len(one), heads, -1).transpose(0, 1) for one in (q, k, v))
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + mask
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


def linear(x: Any, weights: Mapping[str, Any], name: str) -> Any:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(x: Any, weights: Mapping[str, Any], name: str) -> Any:
    spread = (x.var(-1, unbiased=False, keepdim=True) + 1e-6).sqrt()
    return (x - x.mean(-1, keepdim=True)) / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def rms_norm(x: Any, weight: Any) -> Any:
    return x / (x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]).sqrt() * weight


def stretched(table: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A square position table resized as an image of floats by Pillow, channel by channel."""
    from PIL import Image

    side = TOWER["side"]
    channels = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(one.reshape(side, side))).resize(
                (columns, rows), Image.Resampling.BICUBIC
            )
        )
        for one in table.T
    ]
    return np.stack(channels, axis=-1).reshape(rows * columns, -1)
