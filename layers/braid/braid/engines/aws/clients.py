"""Clients of AWS services: time limits, retries, and conversion of their errors to Braid's.

``boto3`` is imported when the first client is opened, because that import is slow.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as NoConnection

from braid.errors import ConfigurationError, StoreError, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from botocore.config import Config
    from botocore.credentials import Credentials
    from botocore.model import OperationModel


TRANSIENT_CODES = frozenset(
    {
        "ExecutionLimitExceeded",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "KMS.ThrottlingException",
        "KmsThrottled",
        "KmsThrottlingException",
        "LimitExceededException",
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "ResourceConflictException",
        "ServiceUnavailable",
        "SlowDown",
        "SnapStartNotReadyException",
        "SnapStartTimeoutException",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",
    }
)
_SERVER_FAULT = 500
_TOO_MANY = 429


def open_client(
    service: Literal["dynamodb", "lambda", "sqs", "s3", "stepfunctions"], *, timeout_s: float, attempts: int
) -> Any:  # noqa: ANN401 - its methods are made at run time
    """Return a client; no request is sent yet.

    Raises StoreError if there is no region.

    Parameters
    ----------
    timeout_s
        Limit in seconds on connecting, and on each wait for an answer.
    attempts
        How often a request is sent at most, with the client's jittered pauses of up to 1 s, then 2 s, between.
    """
    import boto3

    with as_braid_errors(service):
        return with_whole_answers(boto3.client(service, config=client_config(timeout_s=timeout_s, attempts=attempts)))


def with_whole_answers(client: Any) -> Any:  # noqa: ANN401 - as of open_client
    """Have a client raise IncompleteReadError for an answer that ends before its announced length, and return it.

    botocore itself reads what has arrived: of an item that was cut off, that there is none. It is not sent again.
    """
    client.meta.events.register("before-parse", _require_whole)
    return client


def _require_whole(*, operation_model: OperationModel, response_dict: Mapping[str, Any], **_: object) -> None:
    body, announced = response_dict["body"], response_dict["headers"].get("Content-Length", "")
    # A body that is streamed checks its length itself, and an answer to HEAD announces that of another.
    if not isinstance(body, bytes) or not announced.isdigit() or operation_model.http.get("method") == "HEAD":
        return
    if len(body) < int(announced):
        raise IncompleteReadError(actual_bytes=len(body), expected_bytes=int(announced))


def client_config(*, timeout_s: float, attempts: int) -> Config:
    """Return the configuration of a client: timeouts and attempts as of :func:`open_client`."""
    from botocore.config import Config

    return Config(
        connect_timeout=timeout_s,
        read_timeout=timeout_s,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )


def signing_credentials(what: str) -> tuple[Credentials, str]:
    """Return the credentials and the region that requests are signed with; ``what`` names them in the error.

    Raises ConfigurationError if either is missing.
    """
    from botocore.session import Session

    session = Session()
    credentials, region = session.get_credentials(), session.get_config_variable("region")
    if credentials is None or not region:
        missing = "are no AWS credentials" if credentials is None else "is no AWS region"
        raise ConfigurationError(f"{what} must be signed, and there {missing}")
    return credentials, region


@contextmanager
def as_braid_errors(what: str) -> Iterator[None]:
    """Convert the client's exceptions to Braid's. The client itself retries; nothing is retried here.

    Raises TransientStoreError if the service throttled the request, was unreachable, or failed internally, and
    StoreError if the service refused the request.
    """
    try:
        yield
    except ClientError as error:
        code = code_of(error)
        if is_transient(error):
            raise TransientStoreError(f"{what}: {code}", maybe_done=status_of(error) >= _SERVER_FAULT) from error
        raise StoreError(f"{what}: {code}") from error
    except (NoConnection, HTTPClientError, IncompleteReadError) as error:
        lost = not isinstance(error, NoConnection)
        raise TransientStoreError(f"{what}: {type(error).__name__}", maybe_done=lost) from error
    except BotoCoreError as error:
        raise StoreError(f"{what}: {error}") from error


def is_transient(error: ClientError) -> bool:
    """Return whether the service throttled the request or failed internally."""
    status = status_of(error)
    return code_of(error) in TRANSIENT_CODES or status == _TOO_MANY or status >= _SERVER_FAULT


def code_of(error: ClientError) -> str:
    """Return the error's code, such as ``ResourceNotFoundException``."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status, 0 when there is none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
