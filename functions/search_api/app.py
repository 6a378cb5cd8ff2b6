"""Lambda function: the HTTP API behind API Gateway."""

from braid.api.handler import make_handler
from braid.app import wired
from braid.lambda_runtime.warm_up import open_beforehand

open_beforehand(lambda: wired().index, lambda: wired().graph, lambda: wired().cache)
handler = make_handler(wired())
