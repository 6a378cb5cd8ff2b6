"""Cross-encoder reranker on ONNX Runtime.

ONNX Runtime and tokenizers are imported when a model is loaded, not when this module is.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from braid.engines.onnx.model_files import ModelKind, Precision, open_model
from braid.engines.onnx.session import TokenisedText, first_line, load_session, read_tokenizer
from braid.errors import RerankFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import onnxruntime as ort
    from tokenizers import Tokenizer

    from braid.engines.onnx.session import LoadedModel

_PAIRS_AT_ONCE = 4
"""Pairs scored between two checks of the deadline."""


class OnnxCrossEncoder:
    """Implements :class:`braid.ports.reranker.Reranker`. Make one with :meth:`load`; safe to share between threads."""

    def __init__(self, loaded: LoadedModel, uncut: Tokenizer) -> None:
        self._loaded = loaded
        self._uncut = uncut
        self.name: str = loaded.manifest.id

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> OnnxCrossEncoder:
        """Verify and load a model folder of kind ``cross_encoder``.

        Raises
        ------
        ModelMissing, ModelTampered
            As :func:`braid.engines.onnx.model_files.open_model`.
        """
        opened = open_model(folder, ModelKind.CROSS_ENCODER)
        loaded = load_session(opened, threads)
        # Only the text is cut, never the question; a second tokenizer, without truncation, measures the question.
        uncut = read_tokenizer(opened)
        loaded.tokenizer.enable_truncation(max_length=opened.manifest.max_tokens, strategy="only_second")
        return cls(loaded, uncut)

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:  # noqa: ARG002 - the port's
        """Return 0: a local model costs nothing a call."""
        return 0.0

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] a text, in the order of ``texts``: the logistic function of the model's output.

        Raises
        ------
        RerankFailed
            If the model fails, its output is not finite, or it needs more than ``timeout_s`` seconds; a run under
            way is then terminated.
        """
        import onnxruntime as ort

        deadline = time.monotonic() + timeout_s
        options = ort.RunOptions()
        options.log_severity_level = 4
        timer = threading.Timer(max(timeout_s, 0.0), setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            return self._scores(query, texts, options, deadline)
        except RerankFailed:
            raise
        except Exception as error:
            if time.monotonic() >= deadline:
                raise _too_slow(self.name, timeout_s) from error
            raise RerankFailed(f"reranker {self.name}: {first_line(error)}") from error
        finally:
            timer.cancel()

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
