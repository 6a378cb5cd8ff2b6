"""Lambda function: the HTTP API behind API Gateway."""

from braid.api.handler import make_handler
from braid.app import application
from braid.lambda_runtime.warm_up import open_beforehand

open_beforehand(lambda: application().index, lambda: application().graph, lambda: application().cache)
handler = make_handler(application())
