"""OpenSearch client: signed requests, time limits, retries, and conversion of its errors to Braid's.

:mod:`braid.retrieval.pipeline` handles these errors for a question.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from opensearchpy import OpenSearch, Urllib3AWSV4SignerAuth
from opensearchpy.exceptions import (
    ConnectionError as UnreachableError,
)
from opensearchpy.exceptions import (
    ImproperlyConfigured,
    OpenSearchException,
    SerializationError,
    SSLError,
    TransportError,
)

from braid import deadline
from braid.engines.opensearch.connection import BoundedConnection
from braid.engines.retries_and_deadlines import CallDeadline, retrying, too_slow_after
from braid.errors import ConfigurationError, StoreError, StoreTooSlow, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from braid.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")

TRANSIENT_STATUSES = frozenset({408, 429, 502, 503, 504})
_NOT_YET = frozenset({"no_shard_available_action_exception", "unavailable_shards_exception"})
_MISSING = "index_not_found_exception"


class IndexMissing(StoreError):
    """The index does not exist: nothing was written yet, or it was removed."""


class ShardUnavailable(TransientStoreError):
    """A shard does not serve yet, such as one of a new index, or one that moves to another node."""


_LEAST_S = 0.001
"""Shortest timeout of a request in seconds: the client refuses 0."""


def open_client(settings: Settings) -> OpenSearch:
    """Return a client without retries of its own; :func:`call` retries.

    Raises ConfigurationError if requests must be signed and credentials or the region are missing.
    """
    endpoint = settings.opensearch_endpoint
    signer = None
    if not endpoint.startswith("http://"):
        signer = _signer(str(settings.opensearch_service))
    try:
        return OpenSearch(
            hosts=[endpoint],
            http_auth=signer,
            connection_class=BoundedConnection,
            timeout=settings.opensearch_timeout_s,
            max_retries=0,
            retry_on_timeout=False,
            retry_on_status=(),
            http_compress=not endpoint.startswith("http://"),
            pool_maxsize=8,
        )
    except (ImproperlyConfigured, ValueError) as error:
        raise ConfigurationError(f"BRAID_OPENSEARCH_ENDPOINT {endpoint!r} cannot be used: {error}") from error


def _signer(service: str) -> Urllib3AWSV4SignerAuth:
    from braid.engines.aws.clients import signing_credentials

    # The credentials refresh themselves, and every request is signed when it is sent.
    return Urllib3AWSV4SignerAuth(*signing_credentials("requests to OpenSearch"), service)


def change_timeout_s(settings: Settings) -> float:
    """Return the timeout in seconds of a write or a change of an index, which nodes have to agree on."""
    return 5 * settings.opensearch_timeout_s


def call(attempts: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call the client, retry transient errors, and convert the client's errors to Braid's."""
    return retrying(attempts, until=CallDeadline.of_request())(as_braid_errors()(function), *args, **kwargs)


def question_time(settings: Settings) -> contextlib.AbstractContextManager[None]:
    """Limit the time of all requests that a question sends to the search index."""
    return deadline.within(settings.opensearch_question_s)


def call_in_time(settings: Settings, function: Callable[..., R], *, long_answer: bool = False, **kwargs: object) -> R:
    """Call the client as :func:`call` for a question. Raises StoreTooSlow if its time is over.

    Parameters
    ----------
    long_answer
        Whether an answer that comes in time may take longer to be read, until the deadline of the request.
    """
    message = f"the search index did not answer within {settings.opensearch_question_s:.1f} s"
    if deadline.is_over():  # else a request past its deadline would still be sent, with the least time limit
        raise StoreTooSlow(message)
    until = CallDeadline.after(min(settings.opensearch_question_s, deadline.left()))

    @as_braid_errors()
    def ask() -> R:
        timeout_s = min(settings.opensearch_timeout_s, max(_LEAST_S, until.left()))
        # The whole answer, not each wait for a part of it.
        with contextlib.nullcontext() if long_answer else deadline.within(timeout_s):
            return function(**kwargs, request_timeout=timeout_s)

    with too_slow_after(until, message):
        return retrying(settings.opensearch_attempts, until=until)(ask)


@contextlib.contextmanager
def as_braid_errors() -> Iterator[None]:
    """Convert the client's exceptions to Braid's."""
    try:
        yield
    except SSLError as error:
        raise StoreError("the search index's certificate was refused") from error
    except UnreachableError as error:
        # Includes timeouts.
        raise TransientStoreError(f"the search index is unreachable or too slow: {type(error).__name__}") from error
    except TransportError as error:
        status = error.status_code if isinstance(error.status_code, int) else 0
        raise error_of_status(status, {"type": str(error.error), "reason": reason_of(error.info)}) from error
    except SerializationError as error:
        raise TransientStoreError("the search index answered with something that is not JSON") from error
    except OpenSearchException as error:
        raise StoreError(f"the search index failed: {type(error).__name__}") from error


def reason_of(info: object) -> str:
    """Return the first reason in an error body."""
    if isinstance(info, dict):
        error = info.get("error", info)
        if isinstance(error, dict):
            causes = error.get("root_cause") or [error]
            return str(causes[0].get("reason", ""))[:300]
        return str(error)[:300]
    return ""


def error_of_status(status: int, error: Mapping[str, Any]) -> StoreError:
    """Return the exception for a refused request, or a refused item of a multi-item request."""
    text = f"the search index answered {status}: {error.get('type', '')}: {str(error.get('reason', ''))[:300]}"
    if error.get("type") in _NOT_YET:  # items of a multi-get carry no status
        return ShardUnavailable(text)
    if status in TRANSIENT_STATUSES:
        return TransientStoreError(text)
    if error.get("type") == _MISSING:
        return IndexMissing(text)
    return StoreError(text)


def items_of(answer: object, name: str, count: int) -> list[Any]:
    """Return the list in an answer that has one item for each requested item.

    Raises TransientStoreError if its length differs: a missing item would look like a record that is not stored.
    """
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list) or len(found) != count:
        raise TransientStoreError("the search index answered in part")
    return found


def require_complete(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response of a search or count if every shard answered.

    Raises
    ------
    TransientStoreError
        If some shards did not: a partial response looks like a complete one.
    StoreError
        If the search was refused.
    """
    if "error" in response:
        error = response["error"]
        raise error_of_status(
            int(response.get("status", 0)), {"type": error.get("type", ""), "reason": reason_of(response)}
        )
    shards = response.get("_shards", {})
    # A shard without a node that holds it counts neither as successful nor as failed.
    missing = shards.get("failed", 0) or shards.get("successful", 0) < shards.get("total", 0)
    if response.get("timed_out") or missing:
        raise TransientStoreError("the search index answered in part")
    return response
