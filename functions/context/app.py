"""Lambda: the context of the next answer, from the conversation, what is stored and what was done."""

from braid.context import ContextRequest
from braid.memory import measures
from braid.observability import stage_handler
from braid.readiness import open_beforehand
from braid.wiring import wired

open_beforehand(lambda: wired().index, lambda: wired().cache)
handler = stage_handler("context", ContextRequest, wired().context, measure=measures, count=wired().cache_counts)
