"""ONNX graph of BERT, MiniLM, RoBERTa, CodeBERT and XLM-R, with ONNX Runtime's fused operators.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa). Weights are named as in Hugging Face's transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from braid.errors import ModelError

from braid_cli.model_export.onnx_graph_builder import FUSED, GraphWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    Weights = Mapping[str, np.ndarray[Any, Any]]

MODEL_TYPES = {"bert", "roberta", "xlm-roberta", "camembert"}


@dataclass(frozen=True, slots=True)
class BertConfig:
    """Hyperparameters of ``config.json`` that the graph depends on."""

    hidden: int
    layers: int
    heads: int
    epsilon: float
    activation: str
    pad_token_id: int
    max_positions: int
    type_vocabulary: int
    offset_positions: bool
    """RoBERTa numbers positions from ``pad_token_id + 1``."""

    @property
    def token_limit(self) -> int:
        """Maximum of tokens, special ones included, by the size of the position table."""
        return self.max_positions - (self.pad_token_id + 1 if self.offset_positions else 0)


def read_config(config: Mapping[str, Any]) -> BertConfig:
    """Read ``config.json`` of a supported architecture.

    Raises ModelError if the architecture is not supported.
    """
    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        raise ModelError(
            f"config.json: model_type {kind!r} is not one of {', '.join(sorted(MODEL_TYPES))}; "
            "use --via sentence-transformers"
        )
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ModelError("config.json: position_embedding_type is not absolute; use --via sentence-transformers")
    if config.get("hidden_act", "gelu") not in _ACTIVATIONS:
        raise ModelError(f"config.json: hidden_act {config['hidden_act']!r} is not one of {', '.join(_ACTIVATIONS)}")
    try:
        return BertConfig(
            hidden=int(config["hidden_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            epsilon=float(config.get("layer_norm_eps", 1e-12)),
            activation=str(config.get("hidden_act", "gelu")),
            pad_token_id=int(config.get("pad_token_id") or 0),
            max_positions=int(config["max_position_embeddings"]),
            type_vocabulary=int(config.get("type_vocab_size", 1)),
            offset_positions=kind != "bert",
        )
    except KeyError as error:
        raise ModelError(f"config.json: {error.args[0]} is missing") from error


_ACTIVATIONS = {"gelu": "BiasGelu", "gelu_new": "FastGelu", "gelu_fast": "FastGelu", "relu": ""}


class BertWeights:
    """Weights by name within the encoder, without the file's prefix, and with old names replaced by current ones."""

    def __init__(self, weights: Weights) -> None:
        self._weights = {_modern(name): value for name, value in weights.items()}
        anchor = "embeddings.word_embeddings.weight"
        found = [name for name in self._weights if name == anchor or name.endswith(f".{anchor}")]
        if len(found) != 1:
            raise ModelError(f"model.safetensors: {len(found)} tensors are named {anchor}, not one")
        self._prefix = found[0].removesuffix(anchor)

    def __call__(self, name: str, *, outside: bool = False) -> np.ndarray[Any, Any]:
        """Return a tensor as float32; ``outside`` is set for one of the head, which has no encoder prefix."""
        full = name if outside else self._prefix + name
        try:
            return self._weights[full].astype(np.float32)
        except KeyError as error:
            raise ModelError(f"model.safetensors: tensor {full} is missing") from error

    def has(self, name: str) -> bool:
        """Return whether there is a tensor of the head with this name."""
        return name in self._weights


def _modern(name: str) -> str:
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(f"LayerNorm{old}"):
            return name.removesuffix(old) + new
    return name


def write_encoder(writer: GraphWriter, config: BertConfig, weights: BertWeights, *, token_types: bool) -> str:
    """Add the encoder; its inputs are ``input_ids``, ``attention_mask`` and optionally ``token_type_ids``, all int32.

    Returns
    -------
    str
        The last hidden state, (batch, sequence, hidden).
    """
    tensor = _embeddings(writer, config, weights, token_types=token_types)
    for layer in range(config.layers):
        tensor = _layer(writer, config, weights, tensor, f"encoder.layer.{layer}")
    return tensor


def _embeddings(writer: GraphWriter, config: BertConfig, weights: BertWeights, *, token_types: bool) -> str:
    positions = weights("embeddings.position_embeddings.weight")
    if config.offset_positions:
        # Padding is on the right, so the position of a token is its column plus this offset.
        positions = positions[config.pad_token_id + 1 :]
    types = weights("embeddings.token_type_embeddings.weight")
    if not token_types:
        positions = positions + types[0]
    return writer.op(
        "EmbedLayerNormalization",
        "input_ids",
        "token_type_ids" if token_types else "",
        writer.weight(weights("embeddings.word_embeddings.weight")),
        writer.weight(positions),
        writer.weight(types) if token_types else "",
        writer.weight(weights("embeddings.LayerNorm.weight")),
        writer.weight(weights("embeddings.LayerNorm.bias")),
        domain=FUSED,
        outputs=2,
        epsilon=config.epsilon,
    )


def _layer(writer: GraphWriter, config: BertConfig, weights: BertWeights, tensor: str, at: str) -> str:
    names = ("query", "key", "value")
    attended = writer.op(
        "Attention",
        tensor,
        writer.weight(np.concatenate([weights(f"{at}.attention.self.{name}.weight").T for name in names], axis=1)),
        writer.weight(np.concatenate([weights(f"{at}.attention.self.{name}.bias") for name in names])),
        "attention_mask",
        domain=FUSED,
        num_heads=config.heads,
        mask_filter_value=float(np.finfo(np.float32).min),
    )
    tensor = _add_and_normalise(writer, config, weights, attended, tensor, at=f"{at}.attention.output")
    inner = writer.op("MatMul", tensor, writer.weight(weights(f"{at}.intermediate.dense.weight").T))
    bias = writer.weight(weights(f"{at}.intermediate.dense.bias"))
    fused = _ACTIVATIONS[config.activation]
    inner = writer.op(fused, inner, bias, domain=FUSED) if fused else writer.op("Relu", writer.op("Add", inner, bias))
    return _add_and_normalise(writer, config, weights, inner, tensor, at=f"{at}.output")


def _add_and_normalise(
    writer: GraphWriter, config: BertConfig, weights: BertWeights, tensor: str, skip: str, *, at: str
) -> str:
    return writer.op(
        "SkipLayerNormalization",
        writer.op("MatMul", tensor, writer.weight(weights(f"{at}.dense.weight").T)),
        skip,
        writer.weight(weights(f"{at}.LayerNorm.weight")),
        writer.weight(weights(f"{at}.LayerNorm.bias")),
        writer.weight(weights(f"{at}.dense.bias")),
        domain=FUSED,
        epsilon=config.epsilon,
    )


def write_classifier(writer: GraphWriter, weights: BertWeights, hidden: str) -> str:
    """Add the head of a cross-encoder with one label: BERT's pooler and classifier, or RoBERTa's two layers.

    Returns
    -------
    str
        One logit a pair, (batch, 1), before the logistic function.
    """
    first = writer.op("Gather", hidden, writer.weight(np.asarray(0, dtype=np.int64)), axis=1)
    roberta = weights.has("classifier.out_proj.weight")
    before, last = ("classifier.dense", "classifier.out_proj") if roberta else ("pooler.dense", "classifier")
    pooled = writer.op(
        "Tanh",
        writer.linear(first, weights(f"{before}.weight", outside=roberta), weights(f"{before}.bias", outside=roberta)),
    )
    weight = weights(f"{last}.weight", outside=True)
    if weight.shape[0] != 1:
        raise ModelError(f"model.safetensors: the classifier has {weight.shape[0]} labels; a reranker has one")
    return writer.linear(pooled, weight, weights(f"{last}.bias", outside=True))
