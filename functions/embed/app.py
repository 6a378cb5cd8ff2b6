"""Lambda: the embed stage of the retrieval workflow."""

from braid.observability import stage_handler
from braid.stages.states import EmbedRequest
from braid.wiring import wired

handler = stage_handler("embed", EmbedRequest, wired().embed, count=wired().cache_counts)
