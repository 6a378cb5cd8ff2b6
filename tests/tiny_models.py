"""Tiny random models of real architectures, written to a folder as the hub would hold them, without PyTorch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN, LAYERS, HEADS, INNER = 32, 2, 4, 48
MAX_TOKENS = 40
WORDS = tuple(
    "the outage was caused by a deploy of checkout service on march and fixed with index rebuild "  # noqa: SIM905 - read as text
    "represent query for retrieving relevant entities : ?".split()
)
SENTENCES = (
    "the outage was caused by a deploy",
    "checkout",
    "",
    "a deploy of the checkout service on march was fixed with index rebuild and the outage was fixed",
    "the index " * 60,
)
INSTRUCTION = "represent the query for retrieving relevant entities :"

Weights = dict[str, np.ndarray[Any, Any]]


def write_bert(folder: Path, *, labels: int = 0) -> Weights:
    """Write a BERT encoder, or a sequence classifier when ``labels`` is not 0."""
    config = _bert_config("bert", max_positions=MAX_TOKENS, pad=0, types=2, name="Bert", labels=labels)
    weights = _bert_weights(config, prefix="bert." if labels else "")
    if labels:
        rng = np.random.default_rng(7)
        weights |= _linear(rng, "bert.pooler.dense", HIDDEN, HIDDEN) | _linear(rng, "classifier", labels, HIDDEN)
    return _write(folder, config, weights, special=("[PAD]", "[UNK]", "[CLS]", "[SEP]"))


def write_multilingual(folder: Path, dimension: int) -> Weights:
    """Write a BERT encoder with XLM-R's tokenizer of pieces, as paraphrase-multilingual-MiniLM-L12-v2 is.

    Returns the weights, those of the layer that brings vectors to ``dimension`` as ``linear.weight``.
    """
    weights = write_bert(folder)
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((f"▁{word}", -3.0) for word in WORDS[:14])]
    pieces += [("▁", -6.0), *((letter, -5.0) for letter in "aeinrst")]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = _post_processor(("<s>", "</s>"), {"<s>": 0, "</s>": 2})
    tokenizer.save(str(folder / "tokenizer.json"))
    return weights | write_modules(folder, dense=dimension)


def write_roberta(folder: Path, *, labels: int = 0) -> Weights:
    """Write a RoBERTa encoder (CodeBERT's architecture), or a sequence classifier when ``labels`` is not 0."""
    config = _bert_config("roberta", max_positions=MAX_TOKENS + 2, pad=1, types=1, name="Roberta", labels=labels)
    weights = _bert_weights(config, prefix="roberta." if labels else "")
    if labels:
        rng = np.random.default_rng(7)
        weights |= _linear(rng, "classifier.dense", HIDDEN, HIDDEN)
        weights |= _linear(rng, "classifier.out_proj", labels, HIDDEN)
    return _write(folder, config, weights, special=("<s>", "<pad>", "</s>", "<unk>"))


def write_t5(folder: Path, *, gated: bool = False) -> Weights:
    """Write a T5 encoder (the instructor models' architecture), gated as in T5 1.1 on request."""
    rng = np.random.default_rng(11)
    config = {
        "model_type": "t5",
        "architectures": ["T5EncoderModel"],
        "vocab_size": len(WORDS) + 3,
        "d_model": HIDDEN,
        "d_kv": 8,
        "d_ff": INNER,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 12,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        "is_encoder_decoder": False,
        "use_cache": False,
    }
    weights: Weights = {
        "shared.weight": _random(rng, len(WORDS) + 3, HIDDEN, scale=1.0),
        "encoder.final_layer_norm.weight": 1 + _random(rng, HIDDEN),
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": _random(rng, 8, HEADS, scale=1.0),
    }
    for layer in range(LAYERS):
        at = f"encoder.block.{layer}.layer"
        for name, shape in (("q", (32, HIDDEN)), ("k", (32, HIDDEN)), ("v", (32, HIDDEN)), ("o", (HIDDEN, 32))):
            weights[f"{at}.0.SelfAttention.{name}.weight"] = _random(rng, *shape)
        for name in ("wi_0", "wi_1") if gated else ("wi",):
            weights[f"{at}.1.DenseReluDense.{name}.weight"] = _random(rng, INNER, HIDDEN)
        weights[f"{at}.1.DenseReluDense.wo.weight"] = _random(rng, HIDDEN, INNER)
        weights[f"{at}.0.layer_norm.weight"] = 1 + _random(rng, HIDDEN)
        weights[f"{at}.1.layer_norm.weight"] = 1 + _random(rng, HIDDEN)
    return _write(folder, config, weights, special=("<pad>", "</s>", "<unk>"))


def write_modules(
    folder: Path, *, pooling: str = "mean", include_prompt: bool = True, dense: int | None = None, max_tokens: int = 24
) -> Weights:
    """Add the files that make a folder a sentence-transformers model; return the dense layer's weights."""
    kinds = ["Transformer", "Pooling", *(["Dense"] if dense else []), "Normalize"]
    places = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds) if index)]
    modules = [
        {"idx": index, "name": str(index), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, place) in enumerate(zip(kinds, places, strict=True))
    ]
    _dump(folder / "modules.json", modules)
    _dump(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    flags = {f"pooling_mode_{mode}": mode == f"{pooling}_token{'s' * (pooling == 'mean')}" for mode in _POOLING_MODES}
    _dump(
        folder / "1_Pooling" / "config.json",
        {"word_embedding_dimension": HIDDEN, "include_prompt": include_prompt, **flags},
    )
    (folder / places[-1]).mkdir()
    if not dense:
        return {}
    weights = {"linear.weight": _random(np.random.default_rng(5), dense, HIDDEN)}
    config = {"in_features": HIDDEN, "out_features": dense, "bias": False}
    _dump(folder / "2_Dense" / "config.json", {**config, "activation_function": "torch.nn.modules.linear.Identity"})
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    return weights


_POOLING_MODES = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")


def _bert_config(kind: str, *, max_positions: int, pad: int, types: int, name: str, labels: int) -> dict[str, Any]:
    return {
        "model_type": kind,
        "architectures": [f"{name}ForSequenceClassification" if labels else f"{name}Model"],
        "vocab_size": len(WORDS) + 4,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": max_positions,
        "type_vocab_size": types,
        "pad_token_id": pad,
        "bos_token_id": 0,
        "eos_token_id": 2,
        **({"num_labels": labels, "id2label": {str(index): f"L{index}" for index in range(labels)}} if labels else {}),
        **({"label2id": {f"L{index}": index for index in range(labels)}} if labels else {}),
    }


def _bert_weights(config: dict[str, Any], prefix: str) -> Weights:
    rng = np.random.default_rng(3)
    weights: Weights = {
        "embeddings.word_embeddings.weight": _random(rng, config["vocab_size"], HIDDEN, scale=1.0),
        "embeddings.position_embeddings.weight": _random(rng, config["max_position_embeddings"], HIDDEN, scale=0.5),
        "embeddings.token_type_embeddings.weight": _random(rng, config["type_vocab_size"], HIDDEN, scale=0.5),
        **_norm(rng, "embeddings.LayerNorm"),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            weights |= _linear(rng, f"{at}.attention.self.{name}", HIDDEN, HIDDEN)
        weights |= _linear(rng, f"{at}.attention.output.dense", HIDDEN, HIDDEN)
        weights |= _norm(rng, f"{at}.attention.output.LayerNorm")
        weights |= _linear(rng, f"{at}.intermediate.dense", INNER, HIDDEN)
        weights |= _linear(rng, f"{at}.output.dense", HIDDEN, INNER)
        weights |= _norm(rng, f"{at}.output.LayerNorm")
    return {prefix + name: value for name, value in weights.items()}


def _random(rng: np.random.Generator, *shape: int, scale: float = 0.2) -> np.ndarray[Any, Any]:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _linear(rng: np.random.Generator, name: str, outputs: int, inputs: int) -> Weights:
    return {f"{name}.weight": _random(rng, outputs, inputs), f"{name}.bias": _random(rng, outputs)}


def _norm(rng: np.random.Generator, name: str) -> Weights:
    return {f"{name}.weight": 1 + _random(rng, HIDDEN), f"{name}.bias": _random(rng, HIDDEN)}


def _write(folder: Path, config: dict[str, Any], weights: Weights, *, special: tuple[str, ...]) -> Weights:
    folder.mkdir(parents=True, exist_ok=True)
    _dump(folder / "config.json", config)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    vocabulary = {word: index for index, word in enumerate((*special, *WORDS))}
    unknown = next(word for word in special if "unk" in word.lower())
    padding = next(word for word in special if "pad" in word.lower())
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = _post_processor(special, vocabulary)
    # Real files carry these settings, which the encoder must not obey.
    tokenizer.enable_truncation(max_length=9)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(folder / "tokenizer.json"))
    first, last = (
        ("", "</s>") if special[0] == "<pad>" else (("[CLS]", "[SEP]") if "[CLS]" in special else ("<s>", "</s>"))
    )
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_TOKENS,
        "pad_token": padding,
        "unk_token": unknown,
        "eos_token": last,
        "sep_token": last,
        "model_input_names": ["input_ids", *(["token_type_ids"] if "[CLS]" in special else []), "attention_mask"],
    }
    _dump(folder / "tokenizer_config.json", settings | ({"cls_token": first, "bos_token": first} if first else {}))
    return weights


def _post_processor(special: tuple[str, ...], vocabulary: dict[str, int]) -> processors.TemplateProcessing:
    if "[CLS]" in special:
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
    elif "<s>" in special:
        single, pair = "<s> $A </s>", "<s> $A </s> </s> $B </s>"
    else:
        single, pair = "$A </s>", "$A </s> $B </s>"
    used = [(word, vocabulary[word]) for word in special]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=used)


def _dump(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
