"""Clients of AWS services: time limits, retries, and conversion of their errors to Braid's.

``boto3`` is imported when the first client is opened, because that import is slow.
"""

from __future__ import annotations

from contextlib import contextmanager
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as NoConnection

from braid.errors import ConfigurationError, RerankFailed, StoreError, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aws_lambda_powertools.utilities.parameters import SecretsProvider
    from botocore.config import Config
    from botocore.credentials import Credentials
    from pydantic import SecretStr


TRANSIENT_CODES = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "KMS.ThrottlingException",
        "KmsThrottled",
        "LimitExceededException",
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
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
        return boto3.client(service, config=client_config(timeout_s=timeout_s, attempts=attempts))


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
        kind = TransientStoreError if code in TRANSIENT_CODES or status_of(error) >= _SERVER_FAULT else StoreError
        if status_of(error) == _TOO_MANY:
            kind = TransientStoreError
        raise kind(f"{what}: {code}") from error
    except (NoConnection, HTTPClientError, IncompleteReadError) as error:
        raise TransientStoreError(f"{what}: {type(error).__name__}") from error
    except BotoCoreError as error:
        raise StoreError(f"{what}: {error}") from error


def code_of(error: ClientError) -> str:
    """Return the error's code, such as ``ResourceNotFoundException``."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status, 0 when there is none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


MAX_AGE_S = 300
"""Seconds for which a secret is cached; a changed secret is used after that."""


def api_key(key: SecretStr, secret_arn: str, *, names: tuple[str, str], timeout_s: float) -> Callable[[], str]:
    """Return a function that returns the API key.

    Raises ConfigurationError if there is neither key nor secret, or the key is not a valid one.

    Parameters
    ----------
    key
        The key itself; takes precedence over the secret.
    secret_arn
        ARN of a secret whose string is the key.
    names
        Names of the settings of ``key`` and ``secret_arn``, for error messages.
    timeout_s
        Limit in seconds on connecting to Secrets Manager, and on each wait for its answer.
    """
    own = key.get_secret_value().strip()
    if own:
        if not _is_key(own):
            raise ConfigurationError(f"{names[0]}: holds a character that no API key has")
        return lambda: own
    if not secret_arn:
        raise ConfigurationError(f"neither {names[0]} nor {names[1]} is set")
    provider = _provider(secret_arn, timeout_s)

    def read() -> str:
        from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

        try:
            value = provider.get(secret_arn, max_age=MAX_AGE_S)
        except GetParameterError as error:
            raise RerankFailed(f"{names[1]}: the secret cannot be read ({_kind(error)})") from None
        found = value.strip() if isinstance(value, str) else ""
        if not _is_key(found):
            raise RerankFailed(f"{names[1]}: the secret's value is not an API key alone")
        return found

    return read


def signing_key(key: SecretStr, secret_arn: str, *, names: tuple[str, str], timeout_s: float) -> Callable[[], bytes]:
    """Return a function that returns the signing key; a random key of this process where none is set.

    Parameters
    ----------
    key, secret_arn, names, timeout_s
        As of :func:`api_key`.

    Raises
    ------
    ConfigurationError
        If the key is not a valid one. Reading the secret raises StoreError.
    """
    if not key.get_secret_value().strip() and not secret_arn:
        own = token_bytes(32)
        return lambda: own
    read = api_key(key, secret_arn, names=names, timeout_s=timeout_s)

    def read_bytes() -> bytes:
        try:
            return read().encode("ascii")
        except RerankFailed as error:
            raise StoreError(str(error)) from None

    return read_bytes


def _provider(secret_arn: str, timeout_s: float) -> SecretsProvider:
    import boto3
    from aws_lambda_powertools.utilities.parameters import SecretsProvider

    from braid.engines.aws.clients import client_config

    config = client_config(timeout_s=timeout_s, attempts=2)
    client = boto3.client("secretsmanager", region_name=secret_arn.split(":")[3], config=config)
    return SecretsProvider(boto3_client=client)


def _is_key(text: str) -> bool:
    """Return whether a text is valid in a header; HTTP clients quote invalid ones in their errors."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text and not text.startswith("{")


def _kind(error: Exception) -> str:
    """Return the code or type of the underlying error, without its message."""
    cause = error.__cause__ or error.__context__
    code = getattr(cause, "response", {}).get("Error", {}).get("Code") if cause is not None else None
    return str(code or type(cause or error).__name__)
