"""Lambda: the fuse_rerank stage of the retrieval workflow."""

from braid.answer_figures import figures
from braid.observability import stage_handler
from braid.readiness import load_beforehand, open_beforehand
from braid.stages.states import FuseRequest
from braid.wiring import wired

open_beforehand(lambda: wired().index, lambda: wired().schemas, lambda: wired().queue)
load_beforehand(wired().open_reranker)
handler = stage_handler("fuse_rerank", FuseRequest, wired().fuse_rerank, measure=figures, count=wired().outdated_counts)
