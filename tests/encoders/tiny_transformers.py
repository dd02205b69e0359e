"""Runs the encoders of transformers on tiny random BERTs that it makes in FOLDER; prints what came out as JSON.

    python tests/encoders/tiny_transformers.py FOLDER

For a Python with torch and transformers; the checks are in test_transformer.py.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from medvrag_core.encoders.transformer import CrossEncoder, TransformerTextEncoder
from medvrag_core.errors import MedvragError
from medvrag_core.settings import TextSettings

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = "represent this sentence for searching relevant passages gout urate lowers allopurinol none nan which drug : ."
PASSAGES = [f"{WORDS[k:]} {'gout ' * (7 * k % 5)}" for k in range(40)]
TITLES = ["gout" if k % 2 else "" for k in range(40)]
QUERY = "which drug lowers urate"


def main(folder: Path) -> None:
    tokenizer = make_tokenizer()
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    config = transformers.BertConfig(**sizes, num_hidden_layers=2, max_position_embeddings=512)
    for seed, name in enumerate(("query", "article")):
        save(folder / name, tokenizer, transformers.BertModel(config), seed)
    one_score = transformers.BertConfig(**sizes, num_hidden_layers=2, max_position_embeddings=512, num_labels=1)
    save(folder / "cross", tokenizer, transformers.BertForSequenceClassification(one_score), 2)
    save(folder / "two_scores", tokenizer, transformers.BertForSequenceClassification(config), 3)

    save(folder / "pickled", tokenizer, transformers.BertForSequenceClassification(one_score), 2)
    (folder / "pickled" / "model.safetensors").unlink()
    torch.save({}, folder / "pickled" / "pytorch_model.bin")

    query, article, cross = (str(folder / name) for name in ("query", "article", "cross"))
    bge = TransformerTextEncoder(TextSettings(encoder="bge", model=query))
    medcpt = TransformerTextEncoder(TextSettings(encoder="medcpt", model=query, passage_model=article))
    scorer = CrossEncoder(TextSettings(rerank_model=cross))
    prefix = "Represent this sentence for searching relevant passages: "
    long = "gout " * 600
    print(
        json.dumps(
            {
                "bge_passages": bge.encode_passages(PASSAGES).tolist(),
                "bge_passages_expected": unit(by_card(query, PASSAGES)).tolist(),
                "bge_query": bge.encode_query(QUERY).tolist(),
                "bge_query_expected": unit(by_card(query, [prefix + QUERY]))[0].tolist(),
                "medcpt_passages": medcpt.encode_passages(PASSAGES, TITLES).tolist(),
                "medcpt_passages_expected": by_card(article, TITLES, PASSAGES).tolist(),
                "medcpt_untitled": medcpt.encode_passages(PASSAGES).tolist(),
                "medcpt_untitled_expected": by_card(article, [""] * 40, PASSAGES).tolist(),
                "medcpt_query": medcpt.encode_query(QUERY).tolist(),
                "medcpt_query_expected": by_card(query, [QUERY])[0].tolist(),
                "medcpt_long_query": medcpt.encode_query(long).tolist(),
                "medcpt_long_query_expected": by_card(query, [long], tokens=64)[0].tolist(),
                "medcpt_long_passage": medcpt.encode_passages([long], ["gout"]).tolist(),
                "medcpt_long_passage_expected": by_card(article, ["gout"], [long]).tolist(),
                "none": list(bge.encode_passages([]).shape),
                "scores": scorer.scores(QUERY, PASSAGES).tolist(),
                "scores_again": scorer.scores(QUERY, PASSAGES).tolist(),
                "scores_expected": scores_by_card(cross, QUERY, PASSAGES).tolist(),
                "errors": {
                    "missing": error_of(TextSettings(rerank_model=str(folder / "nowhere"))),
                    "pickled": error_of(TextSettings(rerank_model=str(folder / "pickled"))),
                    "two_scores": error_of(TextSettings(rerank_model=str(folder / "two_scores"))),
                    "no_head": error_of(TextSettings(rerank_model=query)),
                    "no_name": error_of(TextSettings()),
                    "device": error_of(TextSettings(rerank_model=cross, device="cuda:99")),
                },
            }
        )
    )


def make_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Whole words and single letters, BERT's special tokens and template."""
    vocabulary = [*SPECIAL, *dict.fromkeys([*WORDS.split(), *"abcdefghijklmnopqrstuvwxyz"])]
    core = Tokenizer(models.WordPiece({token: k for k, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def save(folder: Path, tokenizer: object, model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator) * 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def by_card(name: str, *columns: list[str], tokens: int = 512) -> np.ndarray:
    """The lines of the model cards, one text at a time, so that nothing is padded."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = transformers.AutoModel.from_pretrained(name).eval()
    rows = []
    with torch.no_grad():
        for texts in zip(*columns, strict=True):
            given = tokenizer(*texts, truncation=True, return_tensors="pt", max_length=tokens)
            rows.append(model(**given).last_hidden_state[0, 0].numpy())
    return np.stack(rows)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def scores_by_card(name: str, query: str, passages: list[str]) -> np.ndarray:
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(name).eval()
    with torch.no_grad():
        given = tokenizer([[query, p] for p in passages], truncation=True, padding=True, return_tensors="pt")
        return model(**given).logits.squeeze(dim=1).numpy()


def error_of(settings: TextSettings) -> str:
    try:
        CrossEncoder(settings).scores("q", ["p"])
    except MedvragError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
