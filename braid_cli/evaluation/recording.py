"""Stages that record the input of the last stage: all that was found for a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.app import Application
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


class RecordingStages:
    """Delegates to the stages, and keeps the request of the fuse and rerank stage.

    Attributes
    ----------
    fuse_request
        What was found for the last question.
    """

    def __init__(self, stages: Application) -> None:
        self._stages = stages
        self.fuse_request: FuseRequest | None = None
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
        """Make the answer, and keep the request."""
        self.fuse_request = request
        return self._stages.fuse_rerank(request)
