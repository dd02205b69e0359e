"""Tiny models of random weights with processors made from the real classes, saved as folders that any loader opens.

Random weights rank by chance: tests on them say something about shapes, lengths, masks, repeatability and round trips,
nothing about relevance. Everything here imports torch inside functions, so that the module can be imported without it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

QWEN_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"),
)
TEXT = "user\nDescribe the image. Query: which drug lowers urate in gout? system\nYou are a helpful assistant.assistant\n"
LARGEST_IMAGE = 64 * 28 * 28
"""Pixels that a tiny processor of the Qwen family takes by itself: 64 visual tokens."""


def need(*packages: str) -> None:
    """Skip, saying why, where a package of the GPU path is missing; make torchvision importable beside a CPU torch."""
    for package in ("torch", *packages):
        pytest.importorskip(package, reason=f"needs {package}: `python3 run.py test --gpu-path`")
    declare_vision_operators()


def declare_vision_operators() -> None:
    """Let torchvision import beside a torch that it was not built for, whose operators it then cannot load.

    transformers imports it for the images of Qwen2-VL, but calls none of its compiled operators.
    """
    import torch

    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        importlib.import_module("torchvision")


_KEPT: list[Any] = []  # torch forgets the operators of a library that nobody holds


def make_tokenizer(special: Sequence[str], **roles: str) -> PreTrainedTokenizerFast:
    """Byte-level BPE with the whole byte alphabet, trained on a line of text; ``special`` get the first ids."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([TEXT], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, **roles)


def fill(model: Any, seed: int) -> Any:
    """Repeatable random weights, wide enough that different inputs get different vectors."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.copy_(torch.randn(weights.shape, generator=generator) * weights.shape[-1] ** -0.5)
            else:
                weights.add_(torch.randn(weights.shape, generator=generator) * 0.1)
    return model.eval()


def qwen_config(tokenizer: PreTrainedTokenizerFast) -> Any:
    """A Qwen2.5-VL of two small layers."""
    from transformers.models.qwen2_5_vl import Qwen2_5_VLConfig

    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "window_size": 112,
            "fullatt_block_indexes": [1],
        },
        **_qwen_ids(tokenizer),
    )


def make_colqwen2_5(folder: Path, *, seed: int = 0) -> Path:
    """A whole checkpoint of a ColQwen2.5 with its processor in ``folder``; returns the folder."""
    from colpali_engine.models import ColQwen2_5, ColQwen2_5_Processor

    processor = _qwen_processor(ColQwen2_5_Processor)
    processor.save_pretrained(folder)
    fill(ColQwen2_5(qwen_config(processor.tokenizer)), seed).save_pretrained(folder)
    return folder


def _qwen_processor(processor_class: Any) -> Any:
    from transformers.models.qwen2_vl import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    limits = {"size": {"shortest_edge": 4 * 28 * 28, "longest_edge": LARGEST_IMAGE}}
    shape = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
    return processor_class(
        image_processor=Qwen2VLImageProcessor(**shape, **limits),
        tokenizer=make_tokenizer(QWEN_TOKENS, pad_token="<|endoftext|>", eos_token="<|im_end|>"),
        video_processor=Qwen2VLVideoProcessor(**shape, **limits),
    )


def _qwen_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    names = {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    }
    return {field: tokenizer.convert_tokens_to_ids(token) for field, token in names.items()}
