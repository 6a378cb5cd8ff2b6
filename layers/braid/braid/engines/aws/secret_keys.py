"""Keys of hosted rerankers and signing keys, from a setting or from Secrets Manager.

AWS's packages, which only the extra ``aws`` brings, are imported when a key is in Secrets Manager.
"""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING

from braid.deadline import CircuitBreaker
from braid.errors import ConfigurationError, RerankFailed, StoreError, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.parameters import SecretsProvider
    from pydantic import SecretStr

MAX_AGE_S = 300
"""Seconds for which a secret is cached; a changed secret is used after that."""
REST_S = 30
"""Seconds for which the last value is used without asking, after Secrets Manager has failed."""


def api_key(key: SecretStr, secret_arn: str, *, names: tuple[str, str], timeout_s: float) -> Callable[[], str]:
    """Return a function that returns the API key of a reranker, and raises RerankFailed if it cannot be read.

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
    read = _key(key, secret_arn, names=names, timeout_s=timeout_s)

    def read_for_reranker() -> str:
        try:
            return read()
        except StoreError as error:
            raise RerankFailed(str(error)) from None

    return read_for_reranker


def signing_key(key: SecretStr, secret_arn: str, *, names: tuple[str, str], timeout_s: float) -> Callable[[], bytes]:
    """Return a function that returns the signing key; a random key of this process where none is set.

    Parameters
    ----------
    key, secret_arn, names, timeout_s
        As of :func:`api_key`.

    Raises
    ------
    ConfigurationError
        If the key is not a valid one. Reading the secret raises StoreError, which is transient if it may be read soon.
    """
    if not key.get_secret_value().strip() and not secret_arn:
        own = token_bytes(32)
        return lambda: own
    read = _key(key, secret_arn, names=names, timeout_s=timeout_s)
    return lambda: read().encode("ascii")


def _key(key: SecretStr, secret_arn: str, *, names: tuple[str, str], timeout_s: float) -> Callable[[], str]:
    own = key.get_secret_value().strip()
    if own:
        if not _is_key(own):
            raise ConfigurationError(f"{names[0]}: holds a character that no API key has")
        return lambda: own
    if not secret_arn:
        raise ConfigurationError(f"neither {names[0]} nor {names[1]} is set")
    provider = _provider(secret_arn, timeout_s)
    last, breaker = "", CircuitBreaker(REST_S)

    def read() -> str:
        from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

        nonlocal last
        if last and breaker.is_open():
            return last
        try:
            value = provider.get(secret_arn, max_age=MAX_AGE_S)
        except GetParameterError as error:
            transient = _is_transient(error)
            # It was right a few minutes ago, and without it every request would fail while the service does.
            if last and transient:
                breaker.open()
                return last
            last = ""  # what was refused once is not used again
            failure = TransientStoreError if transient else StoreError
            raise failure(f"{names[1]}: the secret cannot be read ({_kind(error)})") from None
        found = value.strip() if isinstance(value, str) else ""
        if not _is_key(found):
            raise StoreError(f"{names[1]}: the secret's value is not an API key alone")
        last = found
        return found

    return read


def _provider(secret_arn: str, timeout_s: float) -> SecretsProvider:
    import boto3
    from aws_lambda_powertools.utilities.parameters import SecretsProvider

    from braid.engines.aws.clients import client_config, with_whole_answers

    config = client_config(timeout_s=timeout_s, attempts=2)
    client = boto3.client("secretsmanager", region_name=secret_arn.split(":")[3], config=config)
    return SecretsProvider(boto3_client=with_whole_answers(client))


def _is_key(text: str) -> bool:
    """Return whether a text is valid in a header; HTTP clients quote invalid ones in their errors."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text and not text.startswith("{")


def _is_transient(error: Exception) -> bool:
    """Return whether Secrets Manager was throttled, failed or did not answer; not if it refused or has no secret."""
    from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError
    from botocore.exceptions import ConnectionError as NoConnection

    from braid.engines.aws.clients import is_transient

    cause = error.__cause__ or error.__context__
    if isinstance(cause, ClientError):
        return is_transient(cause)
    return isinstance(cause, (NoConnection, HTTPClientError, IncompleteReadError))


def _kind(error: Exception) -> str:
    """Return the code or type of the underlying error, without its message."""
    from botocore.exceptions import ClientError

    from braid.engines.aws.clients import code_of

    cause = error.__cause__ or error.__context__ or error
    return (code_of(cause) if isinstance(cause, ClientError) else "") or type(cause).__name__
