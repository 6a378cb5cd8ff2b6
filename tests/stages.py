"""The stages over embedded engines that hold the demo corpus, with an encoder that needs no model."""

from __future__ import annotations

import math
import re
import struct
import zlib
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.app import Application
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.models.embedding_models import space_of
from braid.retrieval.stages.stage_messages import (
    EmbedRequest,
    FuseRequest,
    GraphRequest,
    PlanRequest,
    SearchStageRequest,
)
from braid.retrieval.use_counts import UseCounts
from braid.settings import Settings
from braid.understanding.tokens import words

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.models import Answer
    from braid.models.embedding_models import ModelConfig
    from braid.retrieval.stages.stage_messages import Embedded, GraphFound, Planned, Searched

    from braid_cli.state_machine.invoke_endpoint import Handler

DEMO = Path(__file__).resolve().parent.parent / "braid_cli" / "demo"
TENANTS = ("saltmarrow", "pellworth")
NOW = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)


class WordEncoder:
    """Texts that share words have similar vectors: each word adds to one dimension, chosen by its checksum."""

    def __init__(self, model: ModelConfig) -> None:
        self.model_id = model.id
        self.space = space_of(model)
        self.dimension = model.dimension
        self.max_tokens = model.max_tokens

    def token_ends(self, text: str) -> list[int]:
        """Return where each word ends."""
        return [word.end() for word in re.finditer(r"\S+", text)]

    def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:  # noqa: ARG002 - the port's
        """Return one unit vector a text; an instruction makes no difference."""
        return [self._vector(f"{text}") for text in texts]

    def _vector(self, text: str) -> bytes:
        text = " ".join(text.split()[: self.max_tokens])
        values = [0.0] * self.dimension
        for word in words(text) or ["nothing"]:
            values[zlib.crc32(word.encode()) % self.dimension] += 1.0
        length = math.sqrt(sum(value * value for value in values))
        return struct.pack(f"<{self.dimension}f", *(value / length for value in values))


class DemoStages(Application):
    """Real stages and embedded engines; the clock stands still, and any stage can be made to fail.

    Attributes
    ----------
    faults
        By stage, or by stage and graph operation (``graph_expand:link``): called before the stage, to raise.
    calls
        How often each was called.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.faults: dict[str, Callable[[], None]] = {}
        self.calls: dict[str, int] = {}

    def now(self) -> datetime:
        """Return the moment at which all tests ask."""
        return NOW

    def encoder_for(self, model: ModelConfig, *, threads: int | None = None) -> WordEncoder:  # noqa: ARG002
        """Return an encoder of the model's dimension that needs no weights."""
        return WordEncoder(model)

    @cached_property
    def uses(self) -> UseCounts:
        """Uses that are gathered and, however long a test takes, not added: what is asked again is answered alike."""
        return UseCounts(lambda: self.cache, self.index.written, self.now, clock=lambda: 0.0)

    def make_models(self, on_progress: Callable[[int, int], None] = lambda _done, _of: None) -> None:
        """Make nothing: no model is needed."""

    def plan(self, request: PlanRequest) -> Planned:
        """Run the real stage, unless it is to fail."""
        self._meet("plan")
        return super().plan(request)

    def embed(self, request: EmbedRequest) -> Embedded:
        """Run the real stage, unless it is to fail."""
        self._meet("embed")
        return super().embed(request)

    def vector_search(self, request: SearchStageRequest) -> Searched:
        """Run the real stage, unless it is to fail."""
        self._meet("vector_search")
        return super().vector_search(request)

    def graph_expand(self, request: GraphRequest) -> GraphFound:
        """Run the real stage, unless it or this operation of it is to fail."""
        self._meet("graph_expand")
        self._meet(f"graph_expand:{request.operation.value}")
        return super().graph_expand(request)

    def fuse_rerank(self, request: FuseRequest) -> Answer:
        """Run the real stage, unless it is to fail."""
        self._meet("fuse_rerank:second" if request.without_rerank else "fuse_rerank")
        return super().fuse_rerank(request)

    def _meet(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
        if name in self.faults:
            self.faults[name]()

    def handlers(self) -> dict[str, Handler]:
        """Return Lambda handlers over these stages, made as each ``app.py`` makes its own."""
        stages: dict[str, tuple[type[Any], Any]] = {
            "plan": (PlanRequest, self.plan),
            "embed": (EmbedRequest, self.embed),
            "vector_search": (SearchStageRequest, self.vector_search),
            "graph_expand": (GraphRequest, self.graph_expand),
            "fuse_rerank": (FuseRequest, self.fuse_rerank),
        }
        return {name: stage_handler(name, request, run) for name, (request, run) in stages.items()}

    def healthy(self) -> None:
        """Forget faults and counts."""
        self.faults.clear()
        self.calls.clear()


def demo_stages(home: Path) -> DemoStages:
    """Ingest the demo corpus of both tenants and return the stages over it."""
    # Nothing rests after a failure: a test would find what the one before it has made fail.
    stages = DemoStages(Settings(home=home, cache_rest_s=0))
    for tenant in TENANTS:
        ingest(read_dataset(DEMO / tenant, tenant), stages)
    return stages
