"""Lambda function: the vector_search stage of the retrieval workflow."""

from braid.app import application
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.lambda_runtime.warm_up import open_beforehand
from braid.retrieval.stages.stage_messages import SearchStageRequest

open_beforehand(lambda: application().index, lambda: application().schemas)
handler = stage_handler("vector_search", SearchStageRequest, application().vector_search)
