"""The stages, which keep what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.app import Wired
    from braid.models import Answer
    from braid.retrieval.stages.states import (
        Embedded,
        EmbedRequest,
        FuseRequest,
        GraphFound,
        GraphRequest,
        Planned,
        PlanRequest,
        Searched,
        SearchStageRequest,
    )


class Recording:
    """Stages that keep what was found, as the last of them was given it.

    Attributes
    ----------
    found
        The pieces of the last question.
    """

    def __init__(self, stages: Wired) -> None:
        self._stages = stages
        self.found: FuseRequest | None = None
        self.now = stages.now

    def plan(self, request: PlanRequest) -> Planned:
        """Plan one question."""
        return self._stages.plan(request)

    def embed(self, request: EmbedRequest) -> Embedded:
        """Embed it."""
        return self._stages.embed(request)

    def vector_search(self, request: SearchStageRequest) -> Searched:
        """Search the index."""
        return self._stages.vector_search(request)

    def graph_expand(self, request: GraphRequest) -> GraphFound:
        """Ask the graph."""
        return self._stages.graph_expand(request)

    def fuse_rerank(self, request: FuseRequest) -> Answer:
        """Make the answer, and keep what it was made from."""
        self.found = request
        return self._stages.fuse_rerank(request)
