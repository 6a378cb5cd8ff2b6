"""Opens the ONNX Runtime session and the tokenizer of a verified model folder; ``encoders`` runs them.

NumPy, ONNX Runtime and tokenizers are imported when a model is opened, not when this module is.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from braid.errors import ModelError, ModelTampered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import onnxruntime as ort
    from tokenizers import Tokenizer

    from braid.engines.onnx.model_files import Manifest, ModelFolder


@dataclass(slots=True)
class LoadedModel:
    """A session, its tokenizer, and the names and types of its inputs."""

    manifest: Manifest
    session: ort.InferenceSession
    tokenizer: Tokenizer
    dtypes: dict[str, str]
    output: str

    def feed(self, rows: Sequence[TokenisedText]) -> dict[str, np.ndarray[Any, Any]]:
        """Pad texts to the longest and return the inputs that the graph declares."""
        import numpy as np

        longest = max(len(row.ids) for row in rows)
        feeds: dict[str, np.ndarray[Any, Any]] = {}
        for name, dtype in self.dtypes.items():
            fill = self.manifest.pad_token_id if name == "input_ids" else 0
            values = np.full((len(rows), longest), fill, dtype=dtype)
            for index, row in enumerate(rows):
                values[index, : len(row.ids)] = row.value(name)
            feeds[name] = values
        return feeds


@dataclass(slots=True)
class TokenisedText:
    """A tokenised text or pair, with its position in the caller's order."""

    index: int
    ids: list[int]
    types: list[int]
    unpooled: int = 0
    """Number of leading tokens, of an instruction, that are attended but not pooled."""

    def value(self, name: str) -> list[int] | int:
        """Return the values of one graph input for this text; a single number is the value of every token."""
        if name == "input_ids":
            return self.ids
        if name == "token_type_ids":
            return self.types
        if name == "pooling_mask":
            return [0] * self.unpooled + [1] * (len(self.ids) - self.unpooled)
        return 1


_DTYPES = {"tensor(int32)": "int32", "tensor(int64)": "int64", "tensor(float)": "float32"}
_INPUTS = {"input_ids", "attention_mask", "token_type_ids", "pooling_mask"}


def load_session(folder: ModelFolder, threads: int) -> LoadedModel:
    """Open session and tokenizer of a verified folder.

    Raises ModelTampered if either cannot be read, or the graph's inputs differ from the manifest's.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # A spinning thread uses up the processor share of a Lambda.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    manifest = folder.manifest
    try:
        session = ort.InferenceSession(str(folder.graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base
        raise ModelTampered(f"{folder.path}: cannot be loaded ({first_line(error)})") from error
    declared = {node.name: node.type for node in session.get_inputs()}
    if set(declared) != set(manifest.inputs) or not set(declared) <= _INPUTS or set(declared.values()) - set(_DTYPES):
        raise ModelTampered(f"{folder.path}: graph takes {sorted(declared)}, manifest says {sorted(manifest.inputs)}")
    return LoadedModel(
        manifest=manifest,
        session=session,
        tokenizer=read_tokenizer(folder),
        dtypes={name: _DTYPES[kind] for name, kind in declared.items()},
        output=session.get_outputs()[0].name,
    )


def read_tokenizer(folder: ModelFolder) -> Tokenizer:
    """Read the tokenizer, without the padding and truncation that its file may configure."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder.tokenizer))
    except Exception as error:  # the library raises a bare Exception
        raise ModelTampered(f"{folder.tokenizer}: cannot be loaded ({first_line(error)})") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@contextmanager
def no_panic(model_id: str) -> Iterator[None]:
    """Raise ModelError if a tokenizer panics: its panic is no Exception, and would end an import's thread."""
    try:
        yield
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":  # which cannot be imported
            raise
        raise ModelError(f"model {model_id}: its tokenizer failed ({first_line(error)})") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class when it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
