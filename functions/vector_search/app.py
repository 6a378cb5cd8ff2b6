"""Lambda: the vector_search stage of the retrieval workflow."""

from braid.observability import stage_handler
from braid.stages.states import SearchStageRequest
from braid.wiring import wired

handler = stage_handler("vector_search", SearchStageRequest, wired().vector_search)
