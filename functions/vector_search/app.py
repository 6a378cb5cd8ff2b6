"""Lambda: the vector_search stage of the retrieval workflow."""

from braid.observability import stage_handler
from braid.readiness import open_beforehand
from braid.stages.states import SearchStageRequest
from braid.wiring import wired

open_beforehand(lambda: wired().index, lambda: wired().schemas)
handler = stage_handler("vector_search", SearchStageRequest, wired().vector_search)
