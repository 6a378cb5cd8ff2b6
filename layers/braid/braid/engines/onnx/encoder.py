"""Encoder on ONNX Runtime; pooling and normalisation are part of the ONNX graph.

NumPy, ONNX Runtime and tokenizers are imported when a model is loaded, not when this module is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.deadline import check
from braid.engines.onnx.model_files import ModelKind, Precision, open_model
from braid.engines.onnx.session import TokenisedText, first_line, load_session
from braid.errors import ConfigurationError, ModelError
from braid.models.model_profiles import space_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from braid.engines.onnx.session import LoadedModel

_BATCH_TOKENS = 1_024
"""Most tokens in one batch, padding included: larger batches only fall out of the processor's cache."""
_BATCH_WASTE = 1.1
"""A batch stops growing when padding would make it this many times larger than its tokens."""
_TOKENISE_AT_ONCE = 4_096


class OnnxEncoder:
    """Implements :class:`braid.ports.encoder.Encoder`. Make one with :meth:`load`; safe to share between threads."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._instructions: dict[str, int] = {}
        self.model_id: str = loaded.manifest.id
        self.space: str = space_of(loaded.manifest.id)
        self.dimension: int = loaded.manifest.dimension
        self.max_tokens: int = loaded.manifest.max_tokens - loaded.tokenizer.num_special_tokens_to_add(is_pair=False)

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> OnnxEncoder:
        """Verify and load a model folder.

        Parameters
        ----------
        folder : Path
            Model folder of kind ``encoder``.
        threads : int
            Threads of one call. One is fastest for a single question on a shared machine.

        Raises
        ------
        ModelMissing, ModelTampered
            As :func:`braid.engines.onnx.model_files.open_model`.
        """
        opened = open_model(folder, ModelKind.ENCODER)
        loaded = load_session(opened, threads)
        loaded.tokenizer.enable_truncation(max_length=opened.manifest.max_tokens)
        return cls(loaded)

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[bytes]:
        """Return one L2-normalised vector a text, as little-endian float32 bytes, in the order of ``texts``.

        Parameters
        ----------
        texts : sequence of str
            Any number, of any length; each is cut at the model's ``max_tokens``.
        instruction : str
            Put before each text. Whether its tokens count in the mean is the model's own setting.
        on_progress : callable, optional
            Called after every batch with the number of texts done and the number of all.

        Raises
        ------
        ConfigurationError
            If the instruction leaves no room for a text.
        ModelError
            If the model fails or its output is not finite.
        """
        vectors: list[bytes] = [b""] * len(texts)
        instruction = instruction.strip()
        unpooled = self._unpooled(instruction)
        done = 0
        for start in range(0, len(texts), _TOKENISE_AT_ONCE):
            part = texts[start : start + _TOKENISE_AT_ONCE]
            rows = [
                TokenisedText(start + offset, encoding.ids, encoding.type_ids, unpooled)
                for offset, encoding in enumerate(
                    self._loaded.tokenizer.encode_batch([f"{instruction} {text}".strip() for text in part])
                )
            ]
            for batch in self._batches(rows):
                check()
                for row, vector in zip(batch, self._run(batch), strict=True):
                    vectors[row.index] = vector
                done += len(batch)
                if on_progress is not None:
                    on_progress(done, len(texts))
        return vectors

    def token_ends(self, text: str) -> list[int]:
        """Return the character at which each token of a text ends, without the special tokens."""
        encoding = self._loaded.tokenizer.encode(text, add_special_tokens=False)
        return [end for part in (encoding, *encoding.overflowing) for _, end in part.offsets]

    def _batches(self, rows: list[TokenisedText]) -> list[list[TokenisedText]]:
        # Dynamic int8 scales activations over the whole batch: a text's vector would depend on the others in its batch.
        if self._loaded.manifest.precision is Precision.INT8:
            return [[row] for row in rows]
        return _length_batches(rows)

    def _run(self, batch: Sequence[TokenisedText]) -> list[bytes]:
        import numpy as np

        try:
            (output,) = self._loaded.session.run([self._loaded.output], self._loaded.feed(batch))
        except Exception as error:  # ONNX Runtime has no common base for what it raises
            raise ModelError(f"model {self.model_id}: {first_line(error)}") from error
        vectors = np.ascontiguousarray(output, dtype="<f4")
        if vectors.shape != (len(batch), self.dimension):
            raise ModelError(f"model {self.model_id}: output has shape {vectors.shape}, manifest says {self.dimension}")
        if not np.isfinite(vectors).all():
            raise ModelError(f"model {self.model_id}: output is not finite")
        return [vector.tobytes() for vector in vectors]

    def _unpooled(self, instruction: str) -> int:
        """Return how many leading tokens are not pooled: those of the instruction, where the model leaves them out."""
        if not instruction:
            return 0
        known = self._instructions.get(instruction)
        if known is None:
            encoding = self._loaded.tokenizer.encode(instruction)
            # The closing special token of the instruction alone stands after the text when there is one.
            closing = 1 if encoding.special_tokens_mask and encoding.special_tokens_mask[-1] else 0
            known = len(encoding.ids) - closing
            if known + 2 > self._loaded.manifest.max_tokens:
                raise ConfigurationError(
                    f"model {self.model_id}: the instruction leaves no room for a text within the "
                    f"{self._loaded.manifest.max_tokens} tokens that the model takes"
                )
            self._instructions[instruction] = known
        return known


def _length_batches(rows: list[TokenisedText]) -> list[list[TokenisedText]]:
    """Group texts of similar length, longest first: little padding, and the first batch needs the most memory."""
    batches: list[list[TokenisedText]] = []
    batch: list[TokenisedText] = []
    tokens = 0
    for row in sorted(rows, key=lambda row: (-len(row.ids), row.index)):
        padded = len(batch[0].ids) * (len(batch) + 1) if batch else 0
        if batch and (padded > _BATCH_TOKENS or padded > (tokens + len(row.ids)) * _BATCH_WASTE):
            batches.append(batch)
            batch, tokens = [], 0
        batch.append(row)
        tokens += len(row.ids)
    if batch:
        batches.append(batch)
    return batches
