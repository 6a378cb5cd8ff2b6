"""Lambda: the front door, for API Gateway's HTTP API."""

from braid.api.handler import make_handler
from braid.readiness import open_beforehand
from braid.wiring import wired

open_beforehand(lambda: wired().index, lambda: wired().graph, lambda: wired().cache)
handler = make_handler(wired())
