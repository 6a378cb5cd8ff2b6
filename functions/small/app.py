"""Lambda function: all of Braid in one process, over embedded stores on a network file system (``small.yaml``).

It serves the HTTP API, re-embeds outdated records on a schedule, and deletes a tenant when an operator invokes it.
Between two events the process may be frozen for good while another one opens the store: no thread may hold a lock then.
"""

import os
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any

from braid.api.handler import make_handler
from braid.app import application
from braid.ingestion.tenant_deletion import Deletion, delete_tenant
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.lambda_runtime.warm_up import open_beforehand
from braid.reembedding import RunBudget, run_to_end
from braid.reembedding.running_jobs import JobRequest, Progress, begin

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

REEMBED_S = 20.0
"""Time limit of one run of re-embedding, in seconds, during which no request is answered; the next run continues."""
PAUSE_S = 6.0
"""Time limit of waiting for threads that use the store, in seconds; above ``embedded_question_s``, their own limit."""

if "BRAID_HOME" in os.environ:  # not in the function without a store, which only serves pages
    open_beforehand(
        lambda: application().index,
        lambda: application().graph,
        lambda: application().cache,
        lambda: import_module("braid.ranking.pagerank_and_paths"),
        lambda: import_module("braid.retrieval.pipeline"),
        lambda: [application().encoder_for(model) for model in application().models()],
    )


def _reembed(asked: JobRequest) -> Progress:
    services = application().reembedding
    job = begin(asked, services)
    return Progress.of(run_to_end(services, job, budget=RunBudget(seconds=REEMBED_S)))


_answer, _reembed_outdated = make_handler(application()), stage_handler("reembed", JobRequest, _reembed)
_delete = stage_handler("delete_tenant", Deletion, lambda asked: delete_tenant(asked.delete_tenant, application()))


def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """Answer an HTTP request, delete a tenant, or re-embed outdated records."""
    of_event = _answer if "requestContext" in event else _delete if "delete_tenant" in event else _reembed_outdated
    try:
        application().resume()
        answer = of_event(event, context)
    finally:
        if not application().pause(wait_s=PAUSE_S):
            os._exit(1)  # Lambda starts another process, which rolls back what was not committed
    if answer.get("statusCode") == HTTPStatus.SERVICE_UNAVAILABLE and "Retry-After" not in answer["headers"]:
        os._exit(1)  # The store is damaged or was replaced: Lambda counts an error, and another process opens it anew.
    return answer
