"""Writes a model folder atomically."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.engines.onnx.model_files import (
    GRAPH,
    MANIFEST,
    TOKENIZER,
    Manifest,
    Precision,
    describe_file,
    open_model,
)
from braid.errors import ConfigurationError, ModelError, StoreFull, StoreReadOnly, plainly
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx

_NO_SPACE = 28


def write_folder(
    out: Path,
    described: Mapping[str, Any],
    model: onnx.ModelProto,
    tokenizer_json: str,
    *,
    precision: Precision,
    force: bool,
) -> Path:
    """Write graph, tokenizer and manifest to a temporary folder, verify it, and rename it to ``out``.

    Parameters
    ----------
    out : Path
        The model folder; its parent is created.
    described : mapping
        Fields of the manifest, except precision and files.
    model : onnx.ModelProto
        Graph in float32.
    tokenizer_json : str
        Content of ``tokenizer.json``.
    precision : Precision
        ``int8`` stores the weights of matrix products in 8 bits, with one scale per channel.
    force : bool
        Whether to replace an existing folder.

    Raises
    ------
    ConfigurationError
        If the folder exists and ``force`` is not set, or the id is malformed.
    StoreReadOnly, StoreFull
        If the folder cannot be written.
    """
    if out.exists() and not force:
        raise ConfigurationError(f"{out}: exists; --force replaces it")
    with _writing(out) as work:
        write_graph(model, work / GRAPH, precision)
        (work / TOKENIZER).write_text(tokenizer_json, encoding="utf-8")
        try:
            manifest = Manifest(
                **described, precision=precision, files=(describe_file(work / GRAPH), describe_file(work / TOKENIZER))
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ConfigurationError(f"model {'.'.join(map(str, first['loc']))}: {plainly(first)}") from error
        (work / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        open_model(work, manifest.kind)
    return out


def write_graph(model: onnx.ModelProto, path: Path, precision: Precision) -> None:
    """Write one self-contained ONNX file.

    Raises ModelError if the graph is larger than the 2 GB that one ONNX file can hold.
    """
    import onnx

    if model.ByteSize() >= onnx.checker.MAXIMUM_PROTOBUF:
        raise ModelError(f"{path.name}: the graph is larger than the 2 GB that one ONNX file can hold")
    if precision is Precision.FP32:
        onnx.save_model(model, path)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Per channel: with one scale per tensor, only .76 of a query's ten nearest neighbours stay the same.
    quantize_dynamic(
        model,
        path,
        per_channel=True,
        weight_type=QuantType.QInt8,
        # Shape inference does not know the fused operators' outputs, which are all float.
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


@contextmanager
def _writing(out: Path) -> Iterator[Path]:
    """Provide a temporary folder beside ``out`` that is renamed to ``out`` on success."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise _cannot_write(out, error) from error
    try:
        yield work
        work.chmod(0o755)
        if out.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{out.name}-old-", dir=out.parent))
            out.rename(old / out.name)
            work.rename(out)
            shutil.rmtree(old)
        else:
            work.rename(out)
    except OSError as error:
        raise _cannot_write(out, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _cannot_write(out: Path, error: OSError) -> StoreFull | StoreReadOnly:
    if error.errno == _NO_SPACE:
        return StoreFull(f"{out}: no space left on the device")
    return StoreReadOnly(f"{out}: cannot be written ({error.strerror})")
