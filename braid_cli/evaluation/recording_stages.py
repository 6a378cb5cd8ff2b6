"""Stages that record the input of the last stage: all hits of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from braid.app import Application
    from braid.models import Answer
    from braid.retrieval.stages.stage_messages import (
        FuseRequest,
        GraphFound,
        GraphRequest,
        Searched,
        SearchStageRequest,
    )


class RecordingStages:
    """Delegates to the stages, and records the request of the fuse and rerank stage.

    Attributes
    ----------
    fuse_request
        Request for the last question, with the hits of all strands.
    """

    def __init__(self, stages: Application) -> None:
        self._stages = stages
        self.fuse_request: FuseRequest | None = None
        self.plan, self.embed, self.now = stages.plan, stages.embed, stages.now

    def vector_search(self, request: SearchStageRequest) -> Searched:
        """Search the index."""
        return self._stages.vector_search(request)

    def graph_expand(self, request: GraphRequest) -> GraphFound:
        """Query the graph."""
        return self._stages.graph_expand(request)

    def fuse_rerank(self, request: FuseRequest) -> Answer:
        """Fuse and rerank; record the request."""
        self.fuse_request = request
        return self._stages.fuse_rerank(request)
