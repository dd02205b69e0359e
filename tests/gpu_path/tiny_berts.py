"""Tiny random BERTs in folders of their own, with a tokenizer of whole words: the text encoders and cross-encoders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiny_models import fill

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = "represent this sentence for searching relevant passages gout urate lowers allopurinol none nan which drug : ."


def make_berts(folder: Path) -> dict[str, str]:
    """Folders by what is in them: two encoders, a cross-encoder, and two that must be refused."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    tokenizer = make_bert_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    encoder = BertConfig(**sizes, num_hidden_layers=2, max_position_embeddings=512)
    scorer = BertConfig(**sizes, num_hidden_layers=2, max_position_embeddings=512, num_labels=1)
    models: dict[str, Any] = {
        "query": BertModel(encoder),
        "article": BertModel(encoder),
        "cross": BertForSequenceClassification(scorer),
        "two_scores": BertForSequenceClassification(encoder),
        "pickled": BertForSequenceClassification(scorer),
    }
    for seed, (name, model) in enumerate(models.items()):
        fill(model, seed).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    (folder / "pickled" / "model.safetensors").unlink()
    torch.save({}, folder / "pickled" / "pytorch_model.bin")
    return {name: str(folder / name) for name in models}


def make_bert_tokenizer() -> PreTrainedTokenizerFast:
    """Whole words and single letters, BERT's special tokens and template."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = [*SPECIAL, *dict.fromkeys([*WORDS.split(), *"abcdefghijklmnopqrstuvwxyz"])]
    core = Tokenizer(models.WordPiece({token: k for k, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
