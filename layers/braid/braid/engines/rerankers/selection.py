"""Selects rerankers by kind, the local cross-encoder included, and opens each on first use.

``engines/rerankers/__init__.py`` lists what a new reranker needs.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from braid.errors import ConfigurationError, ModelError, RerankFailed
from braid.models import RerankerKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.ports.encoder import Reranker
    from braid.settings import Settings


class LazyReranker:
    """A reranker that is opened on first use; failing to open it is a failed rerank, not a failed question.

    Parameters
    ----------
    settings
        Settings of all rerankers; validated when one is opened, because a question may choose another kind.
    """

    def __init__(self, kind: RerankerKind, settings: Settings) -> None:
        self.name: str = kind.value
        self._kind = kind
        self._settings = settings
        self._opening = threading.Lock()
        self._opened: Reranker | None = None

    def open(self) -> Reranker:
        """Open the reranker, once. Raises ConfigurationError or ModelError if a setting or its model is missing."""
        with self._opening:
            self._opened = self._opened or _open(self._kind, self._settings)
            return self._opened

    def cost_usd(self, query: str, texts: Sequence[str]) -> float:
        """Return the estimated price in US dollars of one call. Raises as :meth:`open`."""
        return self.open().cost_usd(query, texts)

    def rerank(self, query: str, texts: Sequence[str], *, timeout_s: float) -> list[float]:
        """Return one score in [0, 1] per text.

        Raises RerankFailed if it cannot be opened, fails or needs more than ``timeout_s`` seconds.
        """
        try:
            reranker = self.open()
        except (ConfigurationError, ModelError) as error:
            raise RerankFailed(str(error)) from error
        return reranker.rerank(query, texts, timeout_s=timeout_s)


def _open(kind: RerankerKind, settings: Settings) -> Reranker:
    match kind:
        case RerankerKind.NONE:
            raise ConfigurationError("there is no reranker of the kind none")
        case RerankerKind.BEDROCK:
            from braid.engines.rerankers.bedrock import BedrockReranker

            return BedrockReranker.connect(settings)
        case RerankerKind.VOYAGE:
            from braid.engines.rerankers.voyage import VoyageReranker

            return VoyageReranker.connect(settings)
        case RerankerKind.ONNX:
            from braid.engines.onnx.encoders import OnnxCrossEncoder

            if not settings.reranker_model:
                raise ConfigurationError("reranker onnx needs BRAID_RERANKER_MODEL")
            folder = settings.models_path() / settings.reranker_model
            return OnnxCrossEncoder.load(folder, threads=settings.encoder_threads)
