"""API keys: from a setting, or from a secret that AWS Secrets Manager keeps. Neither is ever part of a message."""

from __future__ import annotations

from secrets import token_bytes
from typing import TYPE_CHECKING

from braid.errors import ConfigurationError, RerankFailed, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.parameters import SecretsProvider
    from pydantic import SecretStr

MAX_AGE_S = 300
"""For how long a secret is not read again; a changed one is used after that."""


def api_key(key: SecretStr, secret_arn: str, *, names: tuple[str, str], timeout_s: float) -> Callable[[], str]:
    """Return what returns the key.

    Parameters
    ----------
    key
        The key itself; wins over the secret.
    secret_arn
        ARN of a secret whose string is the key.
    names
        What ``key`` and ``secret_arn`` are called where an operator sets them.
    timeout_s
        Bound on connecting to Secrets Manager, and on each wait for its answer.

    Raises
    ------
    ConfigurationError
        If there is neither key nor secret, or the key cannot be one.
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
    """Return what returns a key that this deployment signs with; one of this process alone where none is set.

    Parameters
    ----------
    key, secret_arn, names, timeout_s
        As of :func:`api_key`.

    Raises
    ------
    ConfigurationError
        If the key cannot be one. Reading the secret raises StoreError.
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
    from botocore.config import Config

    config = Config(
        connect_timeout=timeout_s, read_timeout=timeout_s, retries={"mode": "standard", "total_max_attempts": 2}
    )
    client = boto3.client("secretsmanager", region_name=secret_arn.split(":")[3], config=config)
    return SecretsProvider(boto3_client=client)


def _is_key(text: str) -> bool:
    """Whether a text may stand in a header: a client quotes one that may not in its error."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text and not text.startswith("{")


def _kind(error: Exception) -> str:
    """Return what kind of error lies beneath, without its message."""
    cause = error.__cause__ or error.__context__
    code = getattr(cause, "response", {}).get("Error", {}).get("Code") if cause is not None else None
    return str(code or type(cause or error).__name__)
