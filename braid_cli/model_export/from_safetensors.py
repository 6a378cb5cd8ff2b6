"""Exports a model folder directly from safetensors, without PyTorch.

For encoders and cross-encoders of the BERT family (:mod:`braid_cli.model_export.bert`) and T5's encoder
(:mod:`braid_cli.model_export.t5`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from braid.engines.onnx.model_files import ModelKind, Pooling, Precision
from braid.errors import ConfigurationError, ModelError, ModelMissing

from braid_cli.model_export import bert, t5
from braid_cli.model_export.model_folder import write_folder
from braid_cli.model_export.onnx_graph_builder import GraphWriter
from braid_cli.model_export.pooling_head import read_head, read_json, read_safetensors, write_head

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    import onnx

    from braid_cli.model_export.pooling_head import Head

    Weights = Mapping[str, np.ndarray[Any, Any]]

_DEFAULT_TOKENS = 512
_LONGEST = 1_000_000


def export_direct(
    source: Path,
    out: Path,
    *,
    model_id: str,
    kind: ModelKind = ModelKind.ENCODER,
    precision: Precision = Precision.FP32,
    max_tokens: int | None = None,
    origin: str | None = None,
    licence: str = "as stated by the source",
    force: bool = False,
) -> Path:
    """Write a model folder from a folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

    Parameters
    ----------
    source : Path
        Folder in the format of transformers or sentence-transformers.
    out : Path
        Model folder to write.
    model_id : str
        Id in the manifest, which names the embedding space.
    kind : ModelKind
        Encoder, or cross-encoder with one label.
    precision : Precision
        See :func:`braid_cli.model_export.model_folder.write_folder`.
    max_tokens : int, optional
        Maximum of tokens of a text; by default the source's own setting.
    origin : str, optional
        Source in the manifest; by default the folder's name.
    licence : str
        Licence of the weights in the manifest.
    force : bool
        Whether to replace an existing folder.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    ModelMissing, ModelError
        If a file of the source is missing or malformed, or the architecture is not supported.
    ConfigurationError, StoreReadOnly, StoreFull
        If the folder exists, the id is malformed, or it cannot be written.
    """
    if not source.is_dir():
        raise ModelMissing(f"{source}: no such folder; a hub id needs --via sentence-transformers")
    head = read_head(source) if kind is ModelKind.ENCODER else None
    built = build(read_json(source / "config.json"), read_safetensors(source / "model.safetensors"), head)
    described = {
        "id": model_id,
        "kind": kind,
        "dimension": built.dimension,
        "max_tokens": chosen_tokens(max_tokens, stated_tokens(source), built.token_limit),
        "pooling": head.pooling if head else Pooling.NONE,
        "inputs": built.inputs,
        "pad_token_id": built.pad_token_id,
        "source": origin or source.name,
        "licence": licence,
    }
    tokenizer = plain_tokenizer(source / "tokenizer.json")
    return write_folder(out, described, built.model, tokenizer, precision=precision, force=force)


@dataclass(frozen=True, slots=True)
class Built:
    """A finished ONNX graph with its inputs and limits."""

    model: onnx.ModelProto
    inputs: tuple[str, ...]
    dimension: int
    token_limit: int | None
    """Maximum of tokens by the size of the position table; None for relative positions."""
    pad_token_id: int


def build(config: Mapping[str, Any], weights: Weights, head: Head | None) -> Built:
    """Return the graph of an encoder with its head, or of a cross-encoder if ``head`` is None.

    Raises ModelError if the architecture is not supported or a weight is missing; the message names it.
    """
    if head is None:
        return _build_cross_encoder(config, weights)
    writer = GraphWriter()
    inputs = ("input_ids", "attention_mask", *head.inputs)
    if config.get("model_type") in t5.MODEL_TYPES:
        shape: t5.T5Config | bert.BertConfig = (t5_config := t5.read_config(config))
        hidden = t5.write_encoder(writer, t5_config, t5.T5Weights(weights))
    else:
        shape = bert_config = bert.read_config(config)
        hidden = bert.write_encoder(writer, bert_config, bert.BertWeights(weights), token_types=False)
    dimension = head.dimension(shape.hidden)
    output = write_head(writer, head, hidden, inputs[-1])
    model = writer.model(name="encoder", inputs=inputs, output=output, shape=["batch", dimension])
    return Built(model, inputs, dimension, shape.token_limit, shape.pad_token_id)


def _build_cross_encoder(config: Mapping[str, Any], weights: Weights) -> Built:
    shape, named, writer = bert.read_config(config), bert.BertWeights(weights), GraphWriter()
    types = shape.type_vocabulary > 1
    inputs = ("input_ids", "attention_mask", *(("token_type_ids",) if types else ()))
    output = bert.write_classifier(writer, named, bert.write_encoder(writer, shape, named, token_types=types))
    model = writer.model(name="cross_encoder", inputs=inputs, output=output, shape=["batch", 1])
    return Built(model, inputs, 1, shape.token_limit, shape.pad_token_id)


def plain_tokenizer(path: Path) -> str:
    """Return the content of ``tokenizer.json`` with truncation and padding switched off.

    Raises ModelMissing or ModelError if it is missing or malformed.
    """
    content: dict[str, Any] = read_json(path)
    if not isinstance(content, dict) or "model" not in content:
        raise ModelError(f"{path}: is not the file of a tokenizer")
    return json.dumps({**content, "truncation": None, "padding": None}, ensure_ascii=False)


def stated_tokens(source: Path) -> int | None:
    """Return the token limit that sentence-transformers would use: its own setting, else the tokenizer's."""
    for name, key in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        if (source / name).is_file() and (stated := read_json(source / name).get(key)):
            return int(stated)
    return None


def chosen_tokens(wanted: int | None, stated: int | None, limit: int | None) -> int:
    """Return the token limit: the wanted one, else the source's, bounded by the model's own.

    Raises ConfigurationError if the wanted one is above the model's own.
    """
    if wanted is not None and limit is not None and wanted > limit:
        raise ConfigurationError(f"max tokens {wanted}: the model reads at most {limit}")
    # A tokenizer without a limit states an astronomic one.
    known = stated if stated is not None and stated <= _LONGEST else _DEFAULT_TOKENS
    return wanted or min(known, limit or known)
