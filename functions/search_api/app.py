"""Lambda: the front door, for API Gateway's HTTP API."""

from braid.api.handler import make_handler
from braid.wiring import wired

handler = make_handler(wired())
