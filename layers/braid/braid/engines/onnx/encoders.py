"""Encoder and cross-encoder on ONNX Runtime; the pooling and normalisation of vectors are part of the ONNX graph.

The ONNX Runtime session is opened by ``session``, and the files are checked by ``model_files``. NumPy,
ONNX Runtime and tokenizers are imported when a model is loaded, not when this module is.
"""

from __future__ import annotations

import math
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from braid.deadline import alarmed, check
from braid.engines.onnx.model_files import ModelKind, Precision, open_model
from braid.engines.onnx.session import TokenisedText, first_line, load_session, no_panic, read_tokenizer
from braid.errors import ConfigurationError, ModelError, RerankFailed
from braid.models.embedding_models import space_of
from braid.telemetry import names
from braid.telemetry.recording import operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from typing import Self

    import onnxruntime as ort
    from tokenizers import Tokenizer

    from braid.engines.onnx.session import LoadedModel


_BATCH_TOKENS = 1_024
"""Most tokens in one batch, padding included: larger batches only fall out of the processor's cache."""
_BATCH_WASTE = 1.1
"""A batch stops growing when padding would make it this many times larger than its tokens."""
_READ_AT_ONCE = 65_536
"""Most characters of a text that are tokenised at once, cut between words: a tokenizer takes 500 bytes for each."""
_TOKENISE_AT_ONCE = 4_096
_BEGUN_A_THREAD = 2
"""Batches per thread that run or wait, so that no thread is idle while the oldest batch is awaited."""


class OnnxEncoder:
    """Implements :class:`braid.ports.encoder.Encoder`. Make one with :meth:`load`; safe to share between threads."""

    def __init__(self, loaded: LoadedModel, at_once: int = 1) -> None:
        self._loaded = loaded
        self._at_once = at_once
        self._instructions: dict[str, int] = {}
        self.model_id: str = loaded.manifest.id
        self.space: str = space_of(loaded.manifest.id)
        self.dimension: int = loaded.manifest.dimension
        self.max_tokens: int = loaded.manifest.max_tokens - loaded.tokenizer.num_special_tokens_to_add(is_pair=False)

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> OnnxEncoder:
        """Verify and load a model folder; one thread is fastest for a single question on a shared machine.

        Parameters
        ----------
        threads
            Threads that share the work of one batch.

        Raises ModelMissing or ModelTampered as :func:`braid.engines.onnx.model_files.open_model`.
        """
        opened = open_model(folder, ModelKind.ENCODER)
        loaded = load_session(opened, threads)
        loaded.tokenizer.enable_truncation(max_length=opened.manifest.max_tokens)
        return cls(loaded)

    def for_bulk(self, at_once: int) -> Self:
        """Return an encoder of the same weights and vectors that runs several batches at once, each on its own thread.

        Faster for many texts than threads that share one batch: these wait for one another after every operation.
        """
        return type(self)(self._loaded, at_once)

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[bytes]:
        """Return one L2-normalised vector per text, as little-endian float32 bytes, in the order of ``texts``."""
        with operation(
            f"{names.EMBEDDINGS} {self.model_id}",
            {
                names.OPERATION: names.EMBEDDINGS,
                names.MODEL: self.model_id,
                names.DIMENSIONS_OF_VECTORS: self.dimension,
                names.TEXTS: len(texts),
            },
            duration=names.OPERATION_DURATION,
        ):
            return self._encode(texts, instruction.strip(), on_progress)

    def _encode(
        self, texts: Sequence[str], instruction: str, on_progress: Callable[[int, int], None] | None
    ) -> list[bytes]:
        vectors: list[bytes] = [b""] * len(texts)
        unpooled = self._unpooled(instruction)
        done = 0
        for start in range(0, len(texts), _TOKENISE_AT_ONCE):
            part = texts[start : start + _TOKENISE_AT_ONCE]
            with no_panic(self.model_id):
                encodings = self._loaded.tokenizer.encode_batch([f"{instruction} {text}".strip() for text in part])
            rows = [
                TokenisedText(start + offset, encoding.ids, encoding.type_ids, unpooled)
                for offset, encoding in enumerate(encodings)
            ]
            for batch, made in self._vectors_of(self._batches(rows)):
                for row, vector in zip(batch, made, strict=True):
                    vectors[row.index] = vector
                done += len(batch)
                if on_progress is not None:
                    on_progress(done, len(texts))
        return vectors

    def token_ends(self, text: str) -> list[int]:
        """Return the character offset at which each token of a text ends, without special tokens."""
        ends: list[int] = []
        start = 0
        while start < len(text):
            stop = start + _READ_AT_ONCE
            if stop < len(text) and (space := text.rfind(" ", start, stop)) > start:
                stop = space
            with no_panic(self.model_id):
                encoding = self._loaded.tokenizer.encode(text[start:stop], add_special_tokens=False)
            ends += [start + end for part in (encoding, *encoding.overflowing) for _, end in part.offsets]
            start = stop
        return ends

    def _batches(self, rows: list[TokenisedText]) -> list[list[TokenisedText]]:
        # Dynamic int8 scales activations over the whole batch: a text's vector would depend on the others in its batch.
        if self._loaded.manifest.precision is Precision.INT8:
            return [[row] for row in rows]
        return _length_batches(rows)

    def _vectors_of(self, batches: Sequence[list[TokenisedText]]) -> Iterator[tuple[list[TokenisedText], list[bytes]]]:
        """Yield batches with their vectors, in their order. Raises StoreTooSlow if the deadline passes meanwhile."""
        at_once = min(self._at_once, len(batches))
        if at_once <= 1:
            for batch in batches:
                check()
                yield batch, self._run(batch)
            return
        begun: deque[tuple[list[TokenisedText], Future[list[bytes]]]] = deque()
        pool = ThreadPoolExecutor(at_once, "braid-encoder")
        try:
            for batch in batches:
                check()
                if len(begun) == _BEGUN_A_THREAD * at_once:
                    earlier, made = begun.popleft()
                    yield earlier, made.result()
                begun.append((batch, pool.submit(self._run, batch)))
            for batch, made in begun:
                check()
                yield batch, made.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, batch: Sequence[TokenisedText]) -> list[bytes]:
        import numpy as np

        try:
            (output,) = self._loaded.session.run([self._loaded.output], self._loaded.feed(batch))
        except Exception as error:  # ONNX Runtime's exceptions have no common base
            raise ModelError(f"model {self.model_id}: {first_line(error)}") from error
        vectors = np.ascontiguousarray(output, dtype="<f4")
        if vectors.shape != (len(batch), self.dimension):
            raise ModelError(f"model {self.model_id}: output has shape {vectors.shape}, manifest says {self.dimension}")
        if not np.isfinite(vectors).all():
            raise ModelError(f"model {self.model_id}: output is not finite")
        return [vector.tobytes() for vector in vectors]

    def _unpooled(self, instruction: str) -> int:
        """Return the number of leading tokens that are not pooled: the instruction's, if the model leaves them out."""
        if not instruction:
            return 0
        known = self._instructions.get(instruction)
        if known is None:
            encoding = self._loaded.tokenizer.encode(instruction)
            # Of the special tokens of the instruction alone, the closing one comes after the text, not before it.
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


_PAIRS_AT_ONCE = 4
"""Pairs scored between two checks of the deadline."""


class OnnxCrossEncoder:
    """Implements :class:`braid.ports.encoder.Reranker`. Make one with :meth:`load`; safe to share between threads."""

    def __init__(self, loaded: LoadedModel, uncut: Tokenizer) -> None:
        self._loaded = loaded
        self._uncut = uncut
        self.name: str = loaded.manifest.id

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> OnnxCrossEncoder:
        """Verify and load a model folder of kind ``cross_encoder``.

        Raises ModelMissing or ModelTampered as :func:`braid.engines.onnx.model_files.open_model`.
        """
        opened = open_model(folder, ModelKind.CROSS_ENCODER)
        loaded = load_session(opened, threads)
        # Only the text is cut, never the question; a second tokenizer, without truncation, measures the question.
        uncut = read_tokenizer(opened)
        loaded.tokenizer.enable_truncation(max_length=opened.manifest.max_tokens, strategy="only_second")
        return cls(loaded, uncut)

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:  # noqa: ARG002 - the port's
        """Return 0: calls of a local model cost nothing."""
        return 0.0

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] per text, in the order of ``texts``: the logistic function of the logit."""
        import onnxruntime as ort

        deadline = time.monotonic() + timeout_s
        options = ort.RunOptions()
        options.log_severity_level = 4
        try:
            with no_panic(self.name), alarmed(partial(setattr, options, "terminate", True), seconds=timeout_s):
                return self._scores(query, texts, options, deadline)
        except RerankFailed:
            raise
        except Exception as error:
            if time.monotonic() >= deadline:
                raise _too_slow(self.name, timeout_s) from error
            raise RerankFailed(f"reranker {self.name}: {first_line(error)}") from error

    def _scores(self, query: str, texts: Sequence[str], options: ort.RunOptions, deadline: float) -> list[float]:
        scores = [0.0] * len(texts)
        started = time.monotonic()
        question = self._truncated(query)
        rows: list[TokenisedText] = []
        for start in range(0, len(texts), _PAIRS_AT_ONCE * 4):
            self._check(deadline, started)
            pairs = [(question, text) for text in texts[start : start + _PAIRS_AT_ONCE * 4]]
            for offset, encoding in enumerate(self._loaded.tokenizer.encode_batch(pairs)):
                rows.append(TokenisedText(start + offset, encoding.ids, encoding.type_ids))
        single = self._loaded.manifest.precision is Precision.INT8
        rows.sort(key=lambda row: (len(row.ids), row.index))
        step = 1 if single else _PAIRS_AT_ONCE
        for start in range(0, len(rows), step):
            self._check(deadline, started)
            batch = rows[start : start + step]
            (output,) = self._loaded.session.run([self._loaded.output], self._loaded.feed(batch), options)
            logits = output.reshape(-1).tolist()
            if len(logits) != len(batch) or not all(math.isfinite(logit) for logit in logits):
                raise RerankFailed(f"reranker {self.name}: output is not one finite number a pair")
            for row, logit in zip(batch, logits, strict=True):
                scores[row.index] = _logistic(logit)
        self._check(deadline, started)
        return scores

    def _check(self, deadline: float, started: float) -> None:
        if time.monotonic() >= deadline:
            raise _too_slow(self.name, deadline - started)

    def _truncated(self, query: str) -> str:
        """Truncate a question longer than half of the model's window, at a token boundary."""
        room = self._loaded.manifest.max_tokens // 2
        encoding = self._uncut.encode(query, add_special_tokens=False)
        return query if len(encoding.ids) <= room else query[: encoding.offsets[room - 1][1]]


def _too_slow(name: str, timeout_s: float) -> RerankFailed:
    return RerankFailed(f"reranker {name}: needs more than its {timeout_s:.3g} s")


def _logistic(value: float) -> float:
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-value))
    power = math.exp(value)
    return power / (1.0 + power)
