"""Lambda: the embed stage of the retrieval workflow."""

from braid.observability import stage_handler
from braid.readiness import load_beforehand
from braid.stages.states import EmbedRequest
from braid.wiring import wired

load_beforehand(lambda: [wired().encoder_for(model) for model in wired().models()])
handler = stage_handler("embed", EmbedRequest, wired().embed, count=wired().cache_counts)
