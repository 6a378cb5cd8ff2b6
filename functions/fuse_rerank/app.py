"""Lambda: the fuse_rerank stage of the retrieval workflow."""

from braid.models import Answer
from braid.observability import stage_handler
from braid.stages.states import FuseRequest
from braid.wiring import wired


def _outdated(answer: Answer) -> dict[str, int]:
    """Count the outdated records that an answer met, and those that were, or could not be, queued."""
    return {"OutdatedMet": answer.counts["outdated"], **wired().outdated_counts()}


handler = stage_handler("fuse_rerank", FuseRequest, wired().fuse_rerank, measure=_outdated)
