"""Idempotency keys: a request sent several times under one key runs once, and gets the same answer each time.

The first request claims the key in the cache by a compare-and-set. While it runs, others with the key are refused with
409; afterwards they get its answer. A claim ends with the request, or after :data:`CLAIM_S` if its process ended first.
Without a cache a repeated request is a repeated write, which is harmless: writing the same record again changes
nothing (:mod:`braid.ingestion.writing`, by the hash of its content).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Header as InHeader

from braid.api.problems import RETRY_AFTER_S, FieldProblem, Problem
from braid.models import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ports.cache import ResilientCache

KEPT_S: Final = 86_400
CLAIM_S: Final = 60
"""Lifetime of a claim, in seconds; longer than the function's timeout."""
IdempotencyKey = Annotated[
    str | None,
    InHeader(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,255}$",
        description="A request repeated with the same key within a day runs once, and gets the same response.",
    ),
]
_Shape = TypeVar("_Shape", bound=Frozen)


def run_once(
    cache: ResilientCache,
    tenant_id: str,
    key: str | None,
    *,
    asked: Frozen,
    do: Callable[[], _Shape],
    shape: type[_Shape],
) -> _Shape:
    """Run a request, or return its answer if it ran under this key before.

    Raises Problem 422 if the key was used for another request, 409 while an equal request is running.

    Parameters
    ----------
    key
        As sent by the caller; None always runs the request.
    asked
        The request; a repeated one must equal it.
    do
        Runs the request.
    shape
        Model of the answer.
    """
    if key is None:
        return do()
    name = f"once/{hashlib.sha256(key.encode()).hexdigest()}"
    same = hashlib.sha256(f"{type(asked).__name__}\n{asked.model_dump_json()}".encode()).hexdigest()
    claim = json.dumps([same, None, secrets.token_hex(16)]).encode()
    kept = cache.exchange(tenant_id, name, None, claim, CLAIM_S)
    # The cache returns the claim itself where it was asked again because its first answer was lost.
    if kept is not None and kept != claim:
        try:
            return _answered(kept, same, shape)
        except (ValueError, TypeError, RecursionError):
            # Damaged, or written by another version of Braid: the claim is taken over.
            if cache.exchange(tenant_id, name, kept, claim, CLAIM_S) != kept:
                raise _in_progress() from None
    try:
        done = do()
    except BaseException:
        cache.exchange(tenant_id, name, claim, None, CLAIM_S)
        raise
    answer = json.dumps([same, done.model_dump(mode="json")]).encode()
    if cache.exchange(tenant_id, name, claim, answer, KEPT_S) is None:
        cache.exchange(tenant_id, name, None, answer, KEPT_S)  # the claim expired before the request ended
    return done


def _answered(kept: bytes, same: str, shape: type[_Shape]) -> _Shape:
    """Return the answer stored under a key. Raises Problem as :func:`run_once` does."""
    before, answer, *_ = json.loads(kept)
    if before != same:
        field = FieldProblem(field="Idempotency-Key", detail="stood for another request before")
        detail = "the header Idempotency-Key stood for another request before"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency-key-reused", detail, errors=[field])
    if answer is None:
        raise _in_progress()
    return shape.model_validate(answer)


def _in_progress() -> Problem:
    return Problem(
        HTTPStatus.CONFLICT,
        "idempotency-key-in-progress",
        "a request with this Idempotency-Key is being done; send it again for its answer",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )
