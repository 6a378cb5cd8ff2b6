"""Exports a model folder with sentence-transformers, from a hub id or local path. Needs the extra ``export``.

PyTorch exports the transformer that sentence-transformers has loaded; pooling, dense layers and L2 norm are then
appended to the graph by the modules' configuration. T5's encoder is instead written by :mod:`braid_cli.model_export.t5`
from the loaded weights, so that its graph is the same as with ``--via direct``.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from braid.engines.onnx.model_files import ModelKind, Pooling, Precision
from braid.errors import ConfigurationError, ModelError, ModelMissing, needs_extra
from braid.models.enums_and_scalars import printable

from braid_cli.model_export import t5
from braid_cli.model_export.from_safetensors import build, chosen_tokens, plain_tokenizer
from braid_cli.model_export.model_folder import write_folder
from braid_cli.model_export.onnx_graph_builder import GraphWriter
from braid_cli.model_export.pooling_head import Head, head_from_modules, read_json, write_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx

_CODE_FREE = ("*.json", "*.txt", "*.model", "*.safetensors", "README.md")
# Attention as basic operators, which every ONNX Runtime has.
_LOADED_WITH = {"attn_implementation": "eager"}
_MODULE: Final = re.compile(
    r"sentence_transformers\.([a-z_]+\.)*(Transformer|Pooling|Dense|Normalize)|sentence_transformers\.cross_encoder(\.\w+)+"
)
"""Supported modules; other modules of sentence-transformers import code that further files name."""
_ACTIVATION_FIELDS: Final = ("activation_function", "activation_fn", "sbert_ce_default_activation_function")
_ACTIVATION: Final = re.compile(r"torch\.nn(\.\w+)+")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def export_via_sentence_transformers(
    source: str,
    out: Path,
    *,
    model_id: str,
    kind: ModelKind = ModelKind.ENCODER,
    precision: Precision = Precision.FP32,
    max_tokens: int | None = None,
    revision: str | None = None,
    allow_checkpoint: bool = False,
    origin: str | None = None,
    licence: str = "as stated by the source",
    force: bool = False,
) -> Path:
    """Write a model folder, as :func:`braid_cli.model_export.from_safetensors.export_direct`, whose errors it raises.

    Parameters are as there, and:

    Parameters
    ----------
    source : str
        Hub id, or a local folder in the format of transformers or sentence-transformers.
    revision : str, optional
        Branch, tag or commit on the hub. With a commit the export is reproducible.
    allow_checkpoint : bool
        Whether to read weights that exist only as a PyTorch checkpoint, with PyTorch's restricted unpickler. Otherwise
        only safetensors are downloaded and read.
    origin : str, optional
        Source in the manifest; by default hub id and revision, or the folder's name.

    Raises
    ------
    ConfigurationError
        Also if the extra ``export`` is not installed.
    """
    _require_extra()
    folder = _fetch(source, revision, allow_checkpoint=allow_checkpoint)
    if not allow_checkpoint:
        _refuse_checkpoints(folder)
    _refuse_foreign_code(folder)
    try:
        with warnings.catch_warnings():
            # PyTorch's export warns about its own code and the models', which users cannot change.
            warnings.simplefilter("ignore")
            read = _cross_encoder if kind is ModelKind.CROSS_ENCODER else _encoder
            described, model, tokenizer = read(folder, max_tokens)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, ImportError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{source}: sentence-transformers cannot export it ({first})") from error
    return write_folder(
        out,
        {"id": model_id, "kind": kind, "source": origin or _origin(source, revision), "licence": licence} | described,
        model,
        tokenizer,
        precision=precision,
        force=force,
    )


def _require_extra() -> None:
    try:
        import onnxscript  # noqa: F401 - what PyTorch writes ONNX with
        import sentence_transformers  # noqa: F401 - gigabytes, and only here
    except ImportError as error:
        raise ConfigurationError(f"{needs_extra('export')}, several GB; or use --via direct") from error


def _fetch(source: str, revision: str | None, *, allow_checkpoint: bool) -> Path:
    """Return a local folder; download a hub id, without files that may contain code unless checkpoints are allowed."""
    local = Path(source)
    if local.is_dir():
        return local
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise ModelMissing(f"{source}: no such folder")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = [*_CODE_FREE, *(("*.bin",) if allow_checkpoint else ())]
    try:
        found = snapshot_download(
            source, revision=revision, allow_patterns=patterns, ignore_patterns=["onnx/*", "openvino/*"]
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelMissing(f"{source}: cannot be read from the hub ({first})") from error
    return Path(found)


def _refuse_checkpoints(folder: Path) -> None:
    """Raise ModelError if weights, also of a module, exist only as a pickle; ModelMissing if there are none."""
    for checkpoint in sorted(folder.rglob("pytorch_model*.bin")):
        if not any(checkpoint.parent.glob("*.safetensors")):
            raise ModelError(
                f"{checkpoint}: is a pickle and there is no safetensors file beside it; "
                "--allow-checkpoint reads it with PyTorch's restricted unpickler"
            )
    if not any(folder.glob("*.safetensors")):
        raise ModelMissing(
            f"{folder}: holds no safetensors file; --allow-checkpoint reads a PyTorch checkpoint where there is one"
        )


def _refuse_foreign_code(folder: Path) -> None:
    """Raise ModelError if a module or an activation is neither of sentence-transformers nor of PyTorch.

    sentence-transformers imports their names: from a file of the local folder (to which a hub id has been downloaded),
    from a file of another repository of the hub (``REPOSITORY--FILE.CLASS``), or from any installed package.
    """
    modules = folder / "modules.json"
    named = [(modules, one.get("type"), _MODULE) for one in _objects(modules)] if modules.exists() else []
    for path in sorted(folder.rglob("config*.json")):
        (config,) = _objects(path)
        nested = config.get("sentence_transformers")
        fields = [config.get(name) for name in _ACTIVATION_FIELDS]
        fields += [nested.get("activation_fn")] if isinstance(nested, dict) else []
        # One without a dot is a name of the transformer's own.
        named += [(path, name, _ACTIVATION) for name in fields if isinstance(name, str) and "." in name]
    for path, name, known in named:
        if not isinstance(name, str) or not known.fullmatch(name):
            raise ModelError(f"{path}: {printable(str(name))} is not supported: it may be anybody's code")


def _objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON file that is an object or an array of objects."""
    content = read_json(path)
    found = content if isinstance(content, list) and path.name == "modules.json" else [content]
    if not all(isinstance(one, dict) for one in found):
        raise ModelError(f"{path}: is not in the format of sentence-transformers")
    return found


def _encoder(folder: Path, max_tokens: int | None) -> tuple[dict[str, Any], onnx.ModelProto, str]:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoConfig

    # A folder of this machine, whose revision was chosen when it was fetched.
    settings = AutoConfig.from_pretrained(folder, trust_remote_code=False)  # nosec B615
    config = settings.to_dict()
    if config.get("model_type") in t5.MODEL_TYPES:
        loaded = SentenceTransformer(str(folder), device="cpu")
        head = _head(loaded)
        weights = {name: value.detach().float().numpy() for name, value in loaded[0].auto_model.state_dict().items()}
        built = build(config, weights, head)
        model, inputs, dimension = built.model, built.inputs, built.dimension
    else:
        loaded = SentenceTransformer(str(folder), device="cpu", model_kwargs=dict(_LOADED_WITH))
        head = _head(loaded)
        model = _graph(loaded[0].auto_model, loaded.tokenizer, "last_hidden_state")
        dimension = head.dimension(int(settings.hidden_size))  # the attribute maps to the architecture's own name
        inputs = append_head(model, head, dimension)
    described = {
        "dimension": dimension,
        "max_tokens": chosen_tokens(max_tokens, loaded.max_seq_length, _token_limit(config)),
        "pooling": head.pooling,
        "inputs": inputs,
        "pad_token_id": int(config.get("pad_token_id") or 0),
    }
    return described, model, _tokenizer(loaded.tokenizer)


def _cross_encoder(folder: Path, max_tokens: int | None) -> tuple[dict[str, Any], onnx.ModelProto, str]:
    from sentence_transformers import CrossEncoder

    loaded = CrossEncoder(str(folder), device="cpu", model_kwargs=dict(_LOADED_WITH))
    config = loaded.config.to_dict()
    labels = len(config.get("id2label") or {0: ""})
    if labels != 1:
        raise ModelError(f"{folder}: the classifier has {labels} labels; a reranker has one")
    model = _graph(loaded.model, loaded.tokenizer, "logits")
    described = {
        "dimension": 1,
        "max_tokens": chosen_tokens(max_tokens, loaded.max_length, _token_limit(config)),
        "pooling": Pooling.NONE,
        "inputs": tuple(node.name for node in model.graph.input),
        "pad_token_id": int(config.get("pad_token_id") or 0),
    }
    return described, model, _tokenizer(loaded.tokenizer)


def _head(loaded: Any) -> Head:  # noqa: ANN401 - a type of the extra
    def modules() -> Iterator[tuple[str, dict[str, Any], Any]]:
        for module in loaded:
            kind = type(module).__name__
            config = module.get_config_dict() if kind in {"Pooling", "Dense"} else {}
            yield (
                kind,
                config,
                lambda module=module: {
                    name: value.detach().float().numpy() for name, value in module.state_dict().items()
                },
            )

    return head_from_modules(modules())


def _graph(transformer: Any, tokenizer: Any, output: str) -> onnx.ModelProto:  # noqa: ANN401 - types of the extra
    """Export a transformer with its tokenizer's inputs and one of its outputs, with dynamic batch and sequence axes."""
    import torch

    # Two texts of several tokens, as an axis of size 1 would be exported as a constant.
    tokens = tokenizer(["one text", "and another one"], padding=True, return_tensors="pt")
    given = {name: tokens[name] for name in _INPUTS if name in tokens}

    def forward(*tensors: Any) -> Any:  # noqa: ANN401 - tensors
        return getattr(transformer(**dict(zip(given, tensors, strict=True))), output)

    chosen = torch.nn.Module()
    chosen.transformer, chosen.forward = transformer, forward
    any_size = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with torch.no_grad():
        program = torch.onnx.export(
            chosen.eval(),
            tuple(given.values()),
            input_names=list(given),
            output_names=[output],
            dynamic_shapes=(tuple(any_size for _ in given),),
            dynamo=True,
            verbose=False,
        )
    model: onnx.ModelProto = program.model_proto
    return model


def append_head(model: onnx.ModelProto, head: Head, dimension: int) -> tuple[str, ...]:
    """Append the head to a graph's last hidden state, and make the vector its only output.

    Raises ModelError if the graph is older than opset 13 or has no last hidden state.

    Returns
    -------
    tuple of str
        The graph's inputs.
    """
    from onnx import TensorProto, helper

    opset = max(item.version for item in model.opset_import if item.domain in {"", "ai.onnx"})
    if opset < 13:  # noqa: PLR2004 - the operators of the head have their form since then
        raise ModelError(f"the exported graph has opset {opset}, older than 13")
    hidden = next(
        (node.name for node in model.graph.output if node.name in {"last_hidden_state", "token_embeddings"}), None
    )
    if hidden is None:
        raise ModelError("the exported graph has no last_hidden_state")
    writer = GraphWriter(prefix="braid_")
    for name in head.inputs:
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]))
    output = write_head(writer, head, hidden, head.inputs[0] if head.inputs else "attention_mask")
    model.graph.node.extend(writer.nodes)
    model.graph.initializer.extend(writer.weights)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", dimension]))
    return tuple(node.name for node in model.graph.input)


def _token_limit(config: dict[str, Any]) -> int | None:
    positions = config.get("max_position_embeddings")
    if not positions:
        return None
    offset = config.get("model_type") in {"roberta", "xlm-roberta", "camembert"}
    return int(positions) - (int(config.get("pad_token_id") or 0) + 1 if offset else 0)


def _tokenizer(tokenizer: Any) -> str:  # noqa: ANN401 - a type of the extra
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError("the tokenizer has no fast form, so it cannot be stored as tokenizer.json")
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "tokenizer.json"
        backend.save(str(path))
        return plain_tokenizer(path)


def _origin(source: str, revision: str | None) -> str:
    name = Path(source).name if Path(source).is_dir() else source
    return f"{name}@{revision}" if revision else name
