"""A tiny Qwen2-VL of random weights with its processor, as DSE uses it."""

from __future__ import annotations

from pathlib import Path

from tiny_models import QWEN_TOKENS, fill, make_tokenizer


def make_dse(folder: Path, *, seed: int = 0) -> Path:
    """A whole checkpoint in ``folder``; returns the folder."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen2VLProcessor
    from transformers.models.qwen2_vl import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    tokenizer = make_tokenizer(QWEN_TOKENS, pad_token="<|endoftext|>", eos_token="<|im_end|>")
    shape = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
    processor = Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(**shape),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**shape),
    )
    processor.save_pretrained(folder)
    config = Qwen2VLConfig(
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
        vision_config={"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2},
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    )
    fill(Qwen2VLForConditionalGeneration(config), seed).save_pretrained(folder)
    return folder
