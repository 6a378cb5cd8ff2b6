"""Make a model folder directly from safetensors, without PyTorch.

For encoders and cross-encoders of the BERT family: see :mod:`local.export.bert`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.engines.model_files import ModelKind, Pooling, Precision
from braid.errors import ModelError, ModelMissing

from local.export.bert import BertWeights, read_config, write_classifier, write_encoder
from local.export.folder import Description, write_folder
from local.export.graph import GraphWriter
from local.export.head import read_head, read_json, read_safetensors, write_head

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

    from local.export.bert import BertConfig
    from local.export.head import Head


def export_direct(
    source: Path,
    out: Path,
    *,
    model_id: str,
    kind: ModelKind = ModelKind.ENCODER,
    precision: Precision = Precision.FP32,
    origin: str | None = None,
    licence: str = "as stated by the source",
    force: bool = False,
) -> Path:
    """Write a model folder from a folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

    Parameters
    ----------
    source : Path
        Folder in the form of transformers or sentence-transformers.
    out : Path
        Model folder to write.
    model_id : str
        Id in the manifest, which names the embedding space.
    kind : ModelKind
        Encoder, or cross-encoder with one label.
    precision : Precision
        See :func:`local.export.folder.write_folder`.
    origin : str, optional
        What the manifest gives as source; the folder's name when not given.
    licence : str
        What the manifest says of the weights' licence.
    force : bool
        Replace an existing folder.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    ModelMissing, ModelError
        If a file of the source is missing, malformed or of an architecture that this does not write.
    ConfigurationError, StoreReadOnly, StoreFull
        If the folder exists, the id is malformed, or it cannot be written.
    """
    if not source.is_dir():
        raise ModelMissing(f"{source}: no such folder; a hub id needs --via sentence-transformers")
    config = read_config(read_json(source / "config.json"))
    weights = BertWeights(read_safetensors(source / "model.safetensors"))
    head = read_head(source) if kind is ModelKind.ENCODER else None
    model, inputs = build(config, weights, head)
    description = Description(
        id=model_id,
        kind=kind,
        dimension=head.dimension(config.hidden) if head else 1,
        max_tokens=_max_tokens(source, config.max_tokens),
        pooling=head.pooling if head else Pooling.NONE,
        inputs=inputs,
        pad_token_id=config.pad_token_id,
        source=origin or source.name,
        licence=licence,
    )
    return write_folder(
        out, description, model, plain_tokenizer(source / "tokenizer.json"), precision=precision, force=force
    )


def build(config: BertConfig, weights: BertWeights, head: Head | None) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return the graph of an encoder with its head, or of a cross-encoder when ``head`` is None, and its inputs."""
    writer = GraphWriter()
    if head is None:
        types = config.type_vocabulary > 1
        inputs: tuple[str, ...] = ("input_ids", "attention_mask", *(("token_type_ids",) if types else ()))
        output = write_classifier(writer, weights, write_encoder(writer, config, weights, token_types=types))
        return writer.model(name="cross_encoder", inputs=inputs, output=output, shape=["batch", 1]), inputs
    inputs = ("input_ids", "attention_mask", *head.inputs)
    hidden = write_encoder(writer, config, weights, token_types=False)
    output = write_head(writer, head, hidden, inputs[-1])
    shape: list[int | str] = ["batch", head.dimension(config.hidden)]
    return writer.model(name="encoder", inputs=inputs, output=output, shape=shape), inputs


def plain_tokenizer(path: Path) -> str:
    """Return ``tokenizer.json`` without the truncation and padding that it was saved with.

    Raises
    ------
    ModelMissing, ModelError
        If it is missing or malformed.
    """
    content: dict[str, Any] = read_json(path)
    if not isinstance(content, dict) or "model" not in content:
        raise ModelError(f"{path}: is not the file of a tokenizer")
    return json.dumps({**content, "truncation": None, "padding": None}, ensure_ascii=False)


def _max_tokens(source: Path, limit: int) -> int:
    """Return what sentence-transformers uses: its own setting where there is one, never more than the model allows."""
    path = source / "sentence_bert_config.json"
    stated = read_json(path).get("max_seq_length") if path.is_file() else None
    if stated is None and (source / "tokenizer_config.json").is_file():
        stated = read_json(source / "tokenizer_config.json").get("model_max_length")
    return min(int(stated), limit) if stated else limit
