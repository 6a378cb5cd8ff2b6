"""Lambda: the fuse_rerank stage of the retrieval workflow."""

from braid.answer_figures import figures
from braid.observability import stage_handler
from braid.readiness import load_beforehand
from braid.stages.states import FuseRequest
from braid.wiring import wired

load_beforehand(lambda: wired().index, wired().open_reranker)
handler = stage_handler("fuse_rerank", FuseRequest, wired().fuse_rerank, measure=figures, count=wired().outdated_counts)
