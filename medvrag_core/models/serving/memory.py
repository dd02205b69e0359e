"""How much memory a model takes on each GPU, and how many calls fit beside it: arithmetic, nothing measured.

Sizes are those of published ``config.json`` files. Not read from a file but known by heart: 2 bytes a number in
bfloat16, and that vLLM keeps keys and values of every token in all layers, split over GPUs by heads. What else a server
needs (activations, CUDA graphs, buffers between GPUs) is one estimate, ``workspace_gib`` of the settings. None of this
was compared with a GPU.
"""

from __future__ import annotations

from medvrag_core.records import Record

GIB = 1 << 30
BYTES_A_NUMBER = 2
_PATCH_NUMBERS = 3 * 2 * 14 * 14
_VISION_WIDTH, _VISION_LAYERS, _MERGED = 1_280, 32, 4


class Architecture(Record):
    """Sizes of one model.

    ``intermediate`` is that of one expert where there are experts; ``vision_intermediate`` is 0 for a text model, the
    other sizes of Qwen2.5-VL's image part are the same in all its models. ``max_tokens`` is the longest context that
    the model was trained for.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    max_tokens: int
    head_dim: int = 128
    experts: int = 0
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    vision_intermediate: int = 0
    reasoning_parser: str = ""


_QWEN25_VL_3B = Architecture(
    layers=36,
    hidden=2_048,
    heads=16,
    kv_heads=2,
    intermediate=11_008,
    vocabulary=151_936,
    max_tokens=128_000,
    tied=True,
    qkv_bias=True,
    vision_intermediate=3_420,
)

ARCHITECTURES = {
    "Qwen/Qwen2.5-VL-3B-Instruct": _QWEN25_VL_3B,
    "Qwen/Qwen2.5-VL-7B-Instruct": Architecture(
        layers=28,
        hidden=3_584,
        heads=28,
        kv_heads=4,
        intermediate=18_944,
        vocabulary=152_064,
        max_tokens=128_000,
        qkv_bias=True,
        vision_intermediate=3_420,
    ),
    "Qwen/Qwen2.5-VL-32B-Instruct": Architecture(
        layers=64,
        hidden=5_120,
        heads=40,
        kv_heads=8,
        intermediate=27_648,
        vocabulary=152_064,
        max_tokens=128_000,
        qkv_bias=True,
        vision_intermediate=3_456,
    ),
    "Qwen/Qwen3-4B": Architecture(
        layers=36,
        hidden=2_560,
        heads=32,
        kv_heads=8,
        intermediate=9_728,
        vocabulary=151_936,
        max_tokens=40_960,
        tied=True,
        qk_norm=True,
        reasoning_parser="qwen3",
    ),
    "Qwen/Qwen3-30B-A3B": Architecture(
        layers=48,
        hidden=2_048,
        heads=32,
        kv_heads=4,
        intermediate=768,
        vocabulary=151_936,
        max_tokens=40_960,
        experts=128,
        qk_norm=True,
        reasoning_parser="qwen3",
    ),
    # The base of the adapter; its own layer of 2,048 x 128 numbers does not count.
    "vidore/colqwen2.5-v0.2": _QWEN25_VL_3B,
}
"""Sizes by hub id. Those of the 32B model were read from a model made of it, the others from their own files."""


class Room(Record):
    """One GPU of a server, in GiB and tokens.

    ``tokens`` fit the cache of keys and values of one copy of the model, whatever number of GPUs holds it.
    """

    share_gib: float
    weights_gib: float
    workspace_gib: float
    cache_gib: float
    kib_a_token: float
    tokens: int


def text_parameters(sizes: Architecture) -> int:
    """Numbers in the language part: attention, feed-forward or experts with their router, norms, vocabulary."""
    query, key = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    attention = sizes.hidden * (2 * query + 2 * key)
    attention += (query + 2 * key if sizes.qkv_bias else 0) + (2 * sizes.head_dim if sizes.qk_norm else 0)
    forward = 3 * sizes.hidden * sizes.intermediate * max(1, sizes.experts) + sizes.hidden * sizes.experts
    layer = attention + forward + 2 * sizes.hidden
    vocabulary = sizes.vocabulary * sizes.hidden * (1 if sizes.tied else 2)
    return sizes.layers * layer + sizes.hidden + vocabulary


def vision_parameters(sizes: Architecture) -> int:
    """Numbers in Qwen2.5-VL's image part: patches, blocks, and the merger of 2 x 2 patches; 0 for a text model."""
    if not sizes.vision_intermediate:
        return 0
    width, inner = _VISION_WIDTH, sizes.vision_intermediate
    attention = width * 3 * width + 3 * width + width * width + width
    forward = 3 * width * inner + 2 * inner + width
    merged = _MERGED * width
    merger = width + merged * merged + merged + merged * sizes.hidden + sizes.hidden
    return _PATCH_NUMBERS * width + _VISION_LAYERS * (attention + forward + 2 * width) + merger


def parameters(sizes: Architecture) -> int:
    """All numbers of a model.

    >>> round(parameters(ARCHITECTURES["Qwen/Qwen3-30B-A3B"]) / 1e9, 1)
    30.5
    """
    return text_parameters(sizes) + vision_parameters(sizes)


def weight_bytes(sizes: Architecture, gpus: int) -> int:
    """Bytes of weights on each of ``gpus``; the image part stands whole on each (``--mm-encoder-tp-mode data``)."""
    return BYTES_A_NUMBER * (-(-text_parameters(sizes) // gpus) + vision_parameters(sizes))


def cache_bytes_a_token(sizes: Architecture, gpus: int) -> int:
    """Bytes of keys and values of one token on each of ``gpus``; a head is never split.

    >>> cache_bytes_a_token(ARCHITECTURES["Qwen/Qwen3-30B-A3B"], 2)
    49152
    """
    return 2 * sizes.layers * -(-sizes.kv_heads // gpus) * sizes.head_dim * BYTES_A_NUMBER


def room(sizes: Architecture, gpus: int, *, gpu_gib: float, share: float, workspace_gib: float) -> Room:
    """What is left for keys and values when a model is split over ``gpus`` and takes ``share`` of each.

    ``cache_gib`` is negative and ``tokens`` 0 where the weights do not fit.
    """
    weights = weight_bytes(sizes, gpus) / GIB
    cache = gpu_gib * share - weights - workspace_gib
    a_token = cache_bytes_a_token(sizes, gpus)
    return Room(
        share_gib=gpu_gib * share,
        weights_gib=weights,
        workspace_gib=workspace_gib,
        cache_gib=cache,
        kib_a_token=a_token / 1_024,
        tokens=max(0, int(cache * GIB) // a_token),
    )
