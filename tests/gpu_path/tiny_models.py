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
TEXT = "user\nDescribe the image. Query: which drug lowers urate in gout? system\nYou are a helpful assistant."
LARGEST_IMAGE = 64 * 28 * 28
"""Pixels that a tiny processor of the Qwen family takes by itself: 64 visual tokens."""


def need(*packages: str) -> None:
    """Skip, saying why, where a package of the GPU path is missing; make torchvision importable beside a CPU torch."""
    said = "needs {}: `python3 run.py test --gpu-path`"
    pytest.importorskip("torch", reason=said.format("torch"))
    pytest.importorskip("transformers", reason=said.format("transformers"))
    declare_vision_operators()
    for package in packages:
        pytest.importorskip(package, reason=said.format(package))


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
            **_small_text(tokenizer),
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


def make_adapter(folder: Path, base: Path, *, renamed: tuple[str, str] = ("", ""), trained: bool = True) -> Path:
    """A LoRA adapter on the ColQwen2.5 in ``base``, shaped as that of vidore/colqwen2.5-v0.2, with the processor.

    ``renamed`` replaces a part of the keys in its file by another, as other releases would have written them.
    """
    import torch
    from colpali_engine.models import ColQwen2_5, ColQwen2_5_Processor
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file, save_file

    layers = "down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj"
    config = LoraConfig(
        r=4,
        lora_alpha=4,
        init_lora_weights="gaussian",
        task_type="FEATURE_EXTRACTION",
        target_modules=rf"(.*(model).*({layers}).*$|.*(custom_text_proj).*$)",
    )
    adapted = get_peft_model(ColQwen2_5.from_pretrained(base), config)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weights in adapted.named_parameters():
            if trained and "lora_B" in name:
                weights.copy_(torch.randn(weights.shape, generator=generator) * 0.2)
    adapted.save_pretrained(folder)
    file = folder / "adapter_model.safetensors"
    save_file({name.replace(*renamed): weights for name, weights in load_file(file).items()}, file)
    ColQwen2_5_Processor.from_pretrained(base).save_pretrained(folder)
    return folder


def make_colpali(folder: Path, *, seed: int = 0) -> Path:
    """A whole checkpoint of a ColPali that sees a page as 4 x 4 patches."""
    from colpali_engine.models import ColPali, ColPaliProcessor
    from transformers import PaliGemmaConfig, SiglipImageProcessor

    images = SiglipImageProcessor(size={"height": 56, "width": 56})
    images.image_seq_length = 16
    tokenizer = make_tokenizer(
        ("<pad>", "<eos>", "<bos>", "<image>"), pad_token="<pad>", eos_token="<eos>", bos_token="<bos>"
    )
    processor = ColPaliProcessor(image_processor=images, tokenizer=tokenizer)
    processor.save_pretrained(folder)
    config = PaliGemmaConfig(
        vision_config={
            "model_type": "siglip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "patch_size": 14,
            "vision_use_head": False,
        },
        text_config={**_small_text(tokenizer), "model_type": "gemma", "head_dim": 16},
        image_token_index=processor.image_token_id,
        projection_dim=64,
        hidden_size=64,
        vocab_size=len(tokenizer),
    )
    fill(ColPali(config), seed).save_pretrained(folder)
    return folder


def make_colsmol(folder: Path, *, seed: int = 0) -> Path:
    """A whole checkpoint of a ColIdefics3 that cuts a page into up to four tiles of 2 x 2 tokens."""
    from colpali_engine.models import ColIdefics3, ColIdefics3Processor
    from transformers import Idefics3Config, Idefics3ImageProcessor

    tiles = [f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)]
    special = ("<pad>", "<|im_start|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>")
    tokenizer = make_tokenizer((*special, *tiles), pad_token="<pad>", eos_token="<end_of_utterance>")
    images = Idefics3ImageProcessor(size={"longest_edge": 112}, max_image_size={"longest_edge": 56})
    processor = ColIdefics3Processor(image_processor=images, tokenizer=tokenizer, image_seq_len=4)
    processor.save_pretrained(folder)
    config = Idefics3Config(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "patch_size": 14,
        },
        text_config={**_small_text(tokenizer), "model_type": "llama"},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
    )
    fill(ColIdefics3(config), seed).save_pretrained(folder)
    return folder


def _small_text(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
    }


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
