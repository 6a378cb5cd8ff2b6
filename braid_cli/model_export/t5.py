"""ONNX graph of T5's encoder (Raffel et al. 2020), which the instructor and GTR models use.

Weights are named as in Hugging Face's transformers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from braid.errors import ModelError

from braid_cli.model_export.onnx_graph_builder import FUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid_cli.model_export.onnx_graph_builder import GraphWriter

MODEL_TYPES = {"t5", "mt5"}


@dataclass(frozen=True, slots=True)
class T5Config:
    """Hyperparameters of ``config.json`` that the graph depends on."""

    hidden: int
    layers: int
    heads: int
    epsilon: float
    activation: str
    gated: bool
    pad_token_id: int
    buckets: int
    max_distance: int
    token_limit: None = None
    """T5 has relative positions, and so no limit."""


def read_config(config: Mapping[str, Any]) -> T5Config:
    """Read ``config.json``.

    Raises ModelError if a value is missing or the activation is not supported.
    """
    projection = str(config.get("feed_forward_proj", "relu"))
    activation = projection.removeprefix("gated-")
    # transformers takes gated-gelu as the tanh approximation with which T5 1.1 was trained.
    activation = "gelu_new" if projection == "gated-gelu" else activation
    if activation not in {"relu", "gelu_new"}:
        raise ModelError(f"config.json: feed_forward_proj {projection!r} is not supported")
    try:
        return T5Config(
            hidden=int(config["d_model"]),
            layers=int(config["num_layers"]),
            heads=int(config["num_heads"]),
            epsilon=float(config.get("layer_norm_epsilon", 1e-6)),
            activation=activation,
            gated=projection.startswith("gated-"),
            pad_token_id=int(config.get("pad_token_id") or 0),
            buckets=int(config.get("relative_attention_num_buckets", 32)),
            max_distance=int(config.get("relative_attention_max_distance", 128)),
        )
    except KeyError as error:
        raise ModelError(f"config.json: {error.args[0]} is missing") from error


class T5Weights:
    """Weights by name."""

    def __init__(self, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._weights = weights

    def __call__(self, name: str) -> np.ndarray[Any, Any]:
        """Return one tensor as float32."""
        try:
            return self._weights[name].astype(np.float32)
        except KeyError as error:
            raise ModelError(f"model.safetensors: tensor {name} is missing") from error

    def embeddings(self) -> np.ndarray[Any, Any]:
        """Return the table of token embeddings, which is stored under either of two names."""
        shared = "shared.weight"
        return self(shared if shared in self._weights else "encoder.embed_tokens.weight")


def relative_buckets(distances: np.ndarray[Any, Any], buckets: int, max_distance: int) -> np.ndarray[Any, Any]:
    """Return the bucket of each distance (key position minus query position), bidirectionally.

    Half of the buckets are for keys after the query. Half of each half are for exact distances; the others grow
    logarithmically up to ``max_distance``: Raffel et al. 2020, section 2.1.
    """
    half = buckets // 2
    exact = half // 2
    size = np.abs(distances)
    scaled = np.log(np.maximum(size, 1).astype(np.float32) / np.float32(exact)) / math.log(max_distance / exact)
    far = np.minimum(exact + (scaled * (half - exact)).astype(np.int64), half - 1)
    found: np.ndarray[Any, Any] = np.where(distances > 0, half, 0) + np.where(size < exact, size, far)
    return found


def write_encoder(writer: GraphWriter, config: T5Config, weights: T5Weights) -> str:
    """Add the encoder; its inputs are ``input_ids`` and ``attention_mask``, both int32.

    Returns
    -------
    str
        The last hidden state after its norm, (batch, sequence, hidden).
    """
    total = writer.op("Gather", writer.weight(weights.embeddings()), "input_ids", axis=0)
    bias = _position_bias(writer, config, weights)
    normed = _first_norm(writer, config, total, weights("encoder.block.0.layer.0.layer_norm.weight"))
    for index in range(config.layers):
        at = f"encoder.block.{index}.layer"
        last = index + 1 == config.layers
        following = "encoder.final_layer_norm" if last else f"encoder.block.{index + 1}.layer.0.layer_norm"
        attended = _attention(writer, config, weights, normed, bias, at=f"{at}.0.SelfAttention")
        normed, total = _add_and_normalise(writer, config, attended, total, weights(f"{at}.1.layer_norm.weight"))
        inner = _feed_forward(writer, config, weights, normed, at=f"{at}.1.DenseReluDense")
        normed, total = _add_and_normalise(writer, config, inner, total, weights(f"{following}.weight"))
    return normed


def _position_bias(writer: GraphWriter, config: T5Config, weights: T5Weights) -> str:
    """Add the attention bias, (1, heads, sequence, sequence), looked up by distance in a precomputed table."""
    furthest = config.max_distance
    distances = np.arange(-furthest, furthest + 1)
    learned = weights("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    table = writer.weight(learned[relative_buckets(distances, config.buckets, furthest)])
    length = writer.op("Squeeze", writer.op("Shape", "input_ids", start=1, end=2))
    zero, one = (writer.weight(np.asarray(value, dtype=np.int64)) for value in (0, 1))
    positions = writer.op("Range", zero, length, one)
    distance = writer.op(
        "Sub",
        writer.op("Unsqueeze", positions, writer.integers(0)),
        writer.op("Unsqueeze", positions, writer.integers(1)),
    )
    low, high = (writer.weight(np.asarray(value, dtype=np.int64)) for value in (-furthest, furthest))
    index = writer.op("Add", writer.op("Clip", distance, low, high), high)
    looked_up = writer.op("Transpose", writer.op("Gather", table, index, axis=0), perm=[2, 0, 1])
    return writer.op("Unsqueeze", looked_up, writer.integers(0))


def _attention(writer: GraphWriter, config: T5Config, weights: T5Weights, tensor: str, bias: str, *, at: str) -> str:
    query, key, value = (writer.linear(tensor, weights(f"{at}.{name}.weight")) for name in ("q", "k", "v"))
    # T5 does not divide by the root of the head's size; its initialisation accounts for that.
    attended = writer.op(
        "MultiHeadAttention",
        query,
        key,
        value,
        "",
        "attention_mask",
        bias,
        domain=FUSED,
        num_heads=config.heads,
        scale=1.0,
        mask_filter_value=float(np.finfo(np.float32).min),
    )
    return writer.linear(attended, weights(f"{at}.o.weight"))


def _feed_forward(writer: GraphWriter, config: T5Config, weights: T5Weights, tensor: str, *, at: str) -> str:
    first = writer.linear(tensor, weights(f"{at}.{'wi_0' if config.gated else 'wi'}.weight"))
    inner = writer.op("Relu", first) if config.activation == "relu" else writer.op("FastGelu", first, domain=FUSED)
    if config.gated:
        inner = writer.op("Mul", inner, writer.linear(tensor, weights(f"{at}.wi_1.weight")))
    return writer.linear(inner, weights(f"{at}.wo.weight"))


def _first_norm(writer: GraphWriter, config: T5Config, tensor: str, gain: np.ndarray[Any, Any]) -> str:
    """Add the root-mean-square norm of the embeddings, before which there is no sum to fuse it with."""
    square = writer.op("ReduceMean", writer.op("Mul", tensor, tensor), axes=[2], keepdims=1)
    root = writer.op("Sqrt", writer.op("Add", square, writer.number(config.epsilon)))
    return writer.op("Mul", writer.op("Div", tensor, root), writer.weight(gain))


def _add_and_normalise(
    writer: GraphWriter, config: T5Config, tensor: str, skip: str, gain: np.ndarray[Any, Any]
) -> tuple[str, str]:
    """Add a sum and its root-mean-square norm as one fused operator; return norm and sum."""
    names = writer.op_all(
        "SkipSimplifiedLayerNormalization",
        tensor,
        skip,
        writer.weight(gain),
        domain=FUSED,
        outputs=4,
        epsilon=config.epsilon,
    )
    return names[0], names[3]
