"""BERT, RoBERTa and T5 in plain NumPy, one text at a time and without padding: the oracle of the exported graphs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.tiny_models import HEADS, HIDDEN, LAYERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.tiny_models import Weights

    Array = np.ndarray[Any, Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def bert_hidden(
    weights: Weights, ids: Sequence[int], types: Sequence[int], *, prefix: str = "", first_position: int = 0
) -> Array:
    """Return the last hidden state of one text, (tokens, hidden)."""

    def of(name: str) -> Array:
        return weights[prefix + name].astype(np.float64)

    def linear(value: Array, name: str) -> Array:
        return value @ of(f"{name}.weight").T + of(f"{name}.bias")

    def norm(value: Array, name: str) -> Array:
        centred = value - value.mean(axis=-1, keepdims=True)
        return centred / np.sqrt(value.var(axis=-1, keepdims=True) + 1e-5) * of(f"{name}.weight") + of(f"{name}.bias")

    positions = np.arange(len(ids)) + first_position
    hidden = (
        of("embeddings.word_embeddings.weight")[list(ids)]
        + of("embeddings.position_embeddings.weight")[positions]
        + of("embeddings.token_type_embeddings.weight")[list(types)]
    )
    hidden = norm(hidden, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        query, key, value = (
            _split(linear(hidden, f"{at}.attention.self.{name}")) for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(HIDDEN // HEADS)
        attended = _join(_softmax(scores) @ value)
        hidden = norm(hidden + linear(attended, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        inner = linear(hidden, f"{at}.intermediate.dense")
        inner = inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
        hidden = norm(hidden + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    return hidden


def t5_hidden(weights: Weights, ids: Sequence[int], *, gated: bool) -> Array:
    """Return the last hidden state of one text, (tokens, hidden)."""

    def of(name: str) -> Array:
        return weights[name].astype(np.float64)

    def norm(value: Array, name: str) -> Array:
        return value / np.sqrt((value**2).mean(axis=-1, keepdims=True) + 1e-6) * of(f"{name}.weight")

    learned = of("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    bias = np.array([[learned[_bucket(key - query)] for key in range(len(ids))] for query in range(len(ids))])
    hidden = of("shared.weight")[list(ids)]
    for layer in range(LAYERS):
        at = f"encoder.block.{layer}.layer"
        normed = norm(hidden, f"{at}.0.layer_norm")
        query, key, value = (_split(normed @ of(f"{at}.0.SelfAttention.{name}.weight").T) for name in ("q", "k", "v"))
        attended = _join(_softmax(query @ key.transpose(0, 2, 1) + bias.transpose(2, 0, 1)) @ value)
        hidden = hidden + attended @ of(f"{at}.0.SelfAttention.o.weight").T
        normed = norm(hidden, f"{at}.1.layer_norm")
        dense = f"{at}.1.DenseReluDense"
        if gated:
            gate = normed @ of(f"{dense}.wi_0.weight").T
            gate = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
            inner = gate * (normed @ of(f"{dense}.wi_1.weight").T)
        else:
            inner = np.maximum(normed @ of(f"{dense}.wi.weight").T, 0)
        hidden = hidden + inner @ of(f"{dense}.wo.weight").T
    return norm(hidden, "encoder.final_layer_norm")


def _bucket(distance: int, buckets: int = 8, max_distance: int = 12) -> int:
    half = buckets // 2
    exact = half // 2
    first, size = (half if distance > 0 else 0), abs(distance)
    if size < exact:
        return first + size
    return first + min(half - 1, exact + int(math.log(size / exact) / math.log(max_distance / exact) * (half - exact)))


def unit(vector: Array) -> Array:
    """Return a vector of length 1."""
    result: Array = vector / np.linalg.norm(vector)
    return result


def _split(value: Array) -> Array:
    return value.reshape(len(value), HEADS, -1).transpose(1, 0, 2)


def _join(value: Array) -> Array:
    return value.transpose(1, 0, 2).reshape(value.shape[1], -1)


def _softmax(scores: Array) -> Array:
    power = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result: Array = power / power.sum(axis=-1, keepdims=True)
    return result
