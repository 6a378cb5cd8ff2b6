"""Model folders: manifest, ONNX graph and tokenizer, verified before they are loaded.

A folder has ``manifest.json`` and the files that it lists, and no others. Every file's SHA-256 is checked once a
process. JSON and ONNX are the only formats, so that loading a model executes no code of its files.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, model_validator

from braid.engines.onnx.external_data import external_tensor
from braid.errors import ModelError, ModelMissing, ModelTampered, plainly
from braid.models import Frozen
from braid.models.embedding_models import ModelId

MANIFEST = "manifest.json"
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
_ALLOWED_SUFFIXES = {".json", ".onnx", ".safetensors"}
_MAX_MANIFEST_BYTES = 1_000_000


class ModelKind(StrEnum):
    """The task of a model."""

    ENCODER = "encoder"
    CROSS_ENCODER = "cross_encoder"


class Precision(StrEnum):
    """Number format of the weights of matrix products."""

    FP32 = "fp32"
    INT8 = "int8"


class Pooling(StrEnum):
    """How token vectors are pooled into one, inside the graph."""

    MEAN = "mean"
    CLS = "cls"
    NONE = "none"
    """A cross-encoder has none."""


class ModelFile(Frozen):
    """A file's entry in the manifest."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class Manifest(Frozen):
    """The manifest of a model folder: the model, its inputs and its files."""

    format: Literal[1] = 1
    id: ModelId
    kind: ModelKind
    dimension: Annotated[int, Field(ge=1)]
    """Length of a vector; 1 for a cross-encoder."""
    max_tokens: Annotated[int, Field(ge=8, lt=2**31)]
    precision: Precision
    pooling: Pooling
    inputs: tuple[str, ...]
    """Names of the graph's inputs; ``pooling_mask`` leaves an instruction's tokens out of the mean."""
    pad_token_id: Annotated[int, Field(ge=0, lt=2**31)]
    source: str
    licence: str
    files: tuple[ModelFile, ...]

    @model_validator(mode="after")
    def _files_are_plain(self) -> Manifest:
        names = [file.name for file in self.files]
        if len(set(names)) != len(names):
            raise ValueError("files: two have the same name")
        for name in names:
            if Path(name).suffix not in _ALLOWED_SUFFIXES or name == MANIFEST:
                raise ValueError(f"files: {name} is not one of {', '.join(sorted(_ALLOWED_SUFFIXES))}")
        if missing := {GRAPH, TOKENIZER} - set(names):
            raise ValueError(f"files: {', '.join(sorted(missing))} is not listed")
        return self


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A verified model folder."""

    path: Path
    manifest: Manifest

    @property
    def graph(self) -> Path:
        """The ONNX file."""
        return self.path / GRAPH

    @property
    def tokenizer(self) -> Path:
        """The tokenizer file."""
        return self.path / TOKENIZER


def open_model(folder: Path, kind: ModelKind | None = None, *, dimension: int | None = None) -> ModelFolder:
    """Verify a model folder and return it.

    Parameters
    ----------
    folder : Path
        Folder with ``manifest.json``.
    kind : ModelKind, optional
        Kind that is required; a model of another kind is refused.
    dimension : int, optional
        Configured length of its vectors; a model of another length is refused.

    Raises
    ------
    ModelError
        If its vectors have another length.
    ModelMissing
        If the folder or a file is missing, or the model is of another kind; the message says how to make it.
    ModelTampered
        If a file's size or SHA-256 is not the manifest's, the folder holds a link or a file that the manifest does not
        list, the manifest is malformed, or the graph refers to data outside itself.
    """
    manifest = read_manifest(folder)
    if kind is not None and manifest.kind is not kind:
        raise ModelMissing(f"{folder}: is a model of kind {manifest.kind}, not {kind}")
    if dimension is not None and manifest.dimension != dimension:
        raise ModelError(
            f"{folder}: its vectors have {manifest.dimension} values, configured are {dimension}; "
            f"make the configured model with `braid models export {folder.name} --force`"
        )
    listed = {file.name for file in manifest.files}
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() or not entry.is_file():
            raise ModelTampered(f"{entry}: is a link or a folder; a model folder holds plain files only")
        if entry.name not in listed and entry.name != MANIFEST:
            raise ModelTampered(f"{entry}: is not listed in {MANIFEST}")
    for file in manifest.files:
        _verify(folder / file.name, file)
    return ModelFolder(path=folder, manifest=manifest)


def read_manifest(folder: Path) -> Manifest:
    """Read ``manifest.json`` without verifying the files that it lists.

    Raises
    ------
    ModelMissing
        If there is no such folder or manifest.
    ModelTampered
        If the manifest is malformed; the message names the field.
    """
    path = folder / MANIFEST
    if path.is_symlink():
        raise ModelTampered(f"{path}: is a link; a model folder holds plain files only")
    try:
        size = path.stat().st_size
        text = path.read_bytes() if size <= _MAX_MANIFEST_BYTES else b""
    except OSError as error:
        raise ModelMissing(
            f"{folder}: is not a model folder ({MANIFEST}: {error.strerror}); "
            f"make it with `braid models export {folder.name}`"
        ) from error
    try:
        return Manifest.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise _tampered(path, f"{field + ': ' if field else ''}{plainly(first)}") from error
    except ValueError as error:
        raise _tampered(path, f"not JSON ({error})") from error


def describe_file(path: Path) -> ModelFile:
    """Return a file's entry for a manifest."""
    return ModelFile(name=path.name, sha256=_sha256(path), size=path.stat().st_size)


def _verify(path: Path, expected: ModelFile) -> None:
    try:
        status = path.stat()
    except OSError as error:
        raise ModelMissing(
            f"{path}: {error.strerror}; make the model again with `braid models export {path.parent.name} --force`"
        ) from error
    if status.st_size != expected.size:
        raise _tampered(path, f"is {status.st_size} bytes, its manifest says {expected.size}")
    problem = _problem(path, expected.sha256, status.st_mtime_ns, status.st_size, status.st_ino)
    if problem:
        raise _tampered(path, problem)


def _tampered(path: Path, problem: str) -> ModelTampered:
    """Return the error to raise for a file that differs from its manifest."""
    return ModelTampered(
        f"{path}: {problem}; make the model again with `braid models export {path.parent.name} --force`"
    )


@cache
def _problem(path: Path, sha256: str, mtime_ns: int, size: int, inode: int) -> str:  # noqa: ARG001 - part of the key
    """Return the problem of a file, empty if none; cached per process for each state of the file."""
    found = _sha256(path)
    if found != sha256:
        return f"SHA-256 is {found}, its manifest says {sha256}"
    if path.suffix == ".onnx":
        try:
            tensor = external_tensor(path)
        except ValueError as error:
            return f"is not an ONNX graph ({error})"
        if tensor is not None:
            return f"tensor {tensor!r} is stored outside the graph"
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
