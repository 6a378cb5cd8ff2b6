"""Head of an encoder: pooling, dense layers and L2 norm, read from the model's configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from braid.engines.onnx.model_files import Pooling
from braid.errors import ModelError, ModelMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from braid_cli.model_export.onnx_graph_builder import GraphWriter

    Weights = Mapping[str, np.ndarray[Any, Any]]

_ACTIVATIONS = {"Identity": None, "Tanh": "Tanh", "ReLU": "Relu", "Sigmoid": "Sigmoid"}
_POOLING = {"pooling_mode_mean_tokens": Pooling.MEAN, "pooling_mode_cls_token": Pooling.CLS}


@dataclass(frozen=True, slots=True)
class Dense:
    """One dense layer on the pooled vector."""

    weight: np.ndarray[Any, Any]
    bias: np.ndarray[Any, Any] | None
    activation: str | None


@dataclass(frozen=True, slots=True)
class Head:
    """Layers between the last hidden state and the vector: pooling, dense layers and L2 norm."""

    pooling: Pooling = Pooling.MEAN
    pool_instruction: bool = True
    """Whether an instruction's tokens are pooled too (``include_prompt`` of sentence-transformers)."""
    dense: tuple[Dense, ...] = ()

    def dimension(self, hidden: int) -> int:
        """Return the length of the vector."""
        return int(self.dense[-1].weight.shape[0]) if self.dense else hidden

    @property
    def inputs(self) -> tuple[str, ...]:
        """Inputs of the head in addition to the encoder's."""
        return ("pooling_mask",) if self.pooling is Pooling.MEAN and not self.pool_instruction else ()


def head_from_modules(modules: Iterable[tuple[str, dict[str, Any], Callable[[], Weights]]]) -> Head:
    """Return the head of some modules, in their order: kind, configuration and, for a dense layer, its weights.

    Raises ModelError if a module or its setting is not supported; the message names it.
    """
    pooling, pool_instruction = None, True
    dense: list[Dense] = []
    for kind, config, weights in modules:
        if kind == "Pooling":
            pooling = _pooling(config)
            pool_instruction = bool(config.get("include_prompt", True))
        elif kind == "Dense":
            dense.append(_dense(config, weights()))
        elif kind not in {"Transformer", "Normalize"}:
            raise ModelError(f"module {kind} is not supported")
    if pooling is None:
        raise ModelError("there is no Pooling module")
    return Head(pooling=pooling, pool_instruction=pool_instruction, dense=tuple(dense))


def read_head(folder: Path) -> Head:
    """Read the head from ``modules.json`` and the modules' files. A folder without it has mean pooling.

    Raises ModelError if a module or its setting is not supported; the message names it.
    """
    if not (folder / "modules.json").is_file():
        return Head()
    try:
        return head_from_modules(_modules(folder))
    except (ModelError, KeyError, TypeError) as error:
        raise ModelError(f"{folder / 'modules.json'}: {error}") from error


def _modules(folder: Path) -> Iterator[tuple[str, dict[str, Any], Callable[[], Weights]]]:
    for module in read_json(folder / "modules.json"):
        kind = str(module["type"]).rsplit(".", 1)[-1]
        place = folder / str(module["path"])
        config = read_json(place / "config.json") if kind in {"Pooling", "Dense"} else {}
        yield kind, config, partial(read_safetensors, place / "model.safetensors")


def _pooling(config: dict[str, Any]) -> Pooling:
    """Return the pooling mode of a configuration: a flag for each mode or, in newer files, one name."""
    if "pooling_mode" in config:
        modes = [str(config["pooling_mode"])]
        known = {"mean": Pooling.MEAN, "cls": Pooling.CLS}
    else:
        modes = [name for name, on in config.items() if name.startswith("pooling_mode_") and on]
        known = _POOLING
    if len(modes) != 1 or modes[0] not in known:
        raise ModelError(f"pooling {', '.join(modes) or 'none'} is not supported")
    return known[modes[0]]


def _dense(config: dict[str, Any], weights: Weights) -> Dense:
    activation = str(config.get("activation_function", "torch.nn.modules.linear.Identity")).rsplit(".", 1)[-1]
    if activation not in _ACTIVATIONS:
        raise ModelError(f"activation {activation} of a Dense module is not supported")
    return Dense(weights["linear.weight"], weights.get("linear.bias"), _ACTIVATIONS[activation])


def write_head(writer: GraphWriter, head: Head, hidden: str, mask: str) -> str:
    """Add pooling, dense layers and L2 norm.

    Parameters
    ----------
    writer : GraphWriter
        The graph.
    head : Head
        The layers to add.
    hidden : str
        Last hidden state, (batch, sequence, hidden).
    mask : str
        Integer mask of the pooled tokens, (batch, sequence): ``pooling_mask`` or ``attention_mask``.

    Returns
    -------
    str
        Vectors of length 1, (batch, dimension).
    """
    if head.pooling is Pooling.CLS:
        pooled = writer.op("Gather", hidden, writer.weight(np.asarray(0, dtype=np.int64)), axis=1)
    else:
        weights = writer.op("Unsqueeze", writer.op("Cast", mask, to=1), writer.integers(1))
        total = writer.op("Squeeze", writer.op("MatMul", weights, hidden), writer.integers(1))
        count = writer.op("ReduceSum", weights, writer.integers(2), keepdims=0)
        pooled = writer.op("Div", total, writer.op("Max", count, writer.number(1e-9)))
    for layer in head.dense:
        pooled = writer.linear(pooled, layer.weight, layer.bias)
        if layer.activation:
            pooled = writer.op(layer.activation, pooled)
    # Not ReduceL2, whose axes changed from attribute to input in opset 18; these operators are the same since 13.
    square = writer.op("ReduceSum", writer.op("Mul", pooled, pooled), writer.integers(1), keepdims=1)
    norm = writer.op("Sqrt", square)
    return writer.op("Div", pooled, writer.op("Max", norm, writer.number(1e-12)))


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON
    """Read a JSON file.

    Raises ModelMissing or ModelError if it is missing or malformed; the message names it.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelMissing(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ModelError(f"{path}: not JSON ({error})") from error


def read_safetensors(path: Path) -> Weights:
    """Read a safetensors file. No other format of weights is read, as others may contain code.

    Raises ModelMissing or ModelError if it is missing or malformed; the message names it.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.is_file():
        raise ModelMissing(
            f"{path}: no such file; weights must be one safetensors file, or use --via sentence-transformers"
        )
    try:
        return load_file(path)
    except (SafetensorError, TypeError, KeyError) as error:
        raise ModelError(f"{path}: cannot be read as NumPy arrays ({error})") from error
