"""A write that is sent twice under one Idempotency-Key is done once: the second time, what was answered is answered.

Every write here may be repeated safely: it is the same record again. The key spares the work, and tells a caller that
sends something else under it by mistake. What was answered is kept in the cache; a cache that is lost makes a repeated
request a repeated write.
"""

from __future__ import annotations

import hashlib
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from aws_lambda_powertools.event_handler.openapi.params import Header as InHeader
from pydantic import ValidationError

from braid.api.problems import FieldProblem, Problem
from braid.models import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ports.cache import ResilientCache

KEPT_S: Final = 86_400
IdempotencyKey = Annotated[
    str | None,
    InHeader(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,255}$",
        description="The same key with the same request, within a day: it is done once, and answered alike.",
    ),
]
_Shape = TypeVar("_Shape", bound=Frozen)


def once(
    cache: ResilientCache,
    tenant_id: str,
    key: str | None,
    *,
    asked: Frozen,
    do: Callable[[], _Shape],
    shape: type[_Shape],
) -> _Shape:
    """Do something, unless it was done under this key before.

    Parameters
    ----------
    cache
        Where answers are kept.
    tenant_id
        Whose key it is.
    key
        As the caller sent it; None does it in any case.
    asked
        The request that the key stands for.
    do
        What is done.
    shape
        What it returns.

    Raises
    ------
    Problem
        422 if the key stood for another request.
    """
    if key is None:
        return do()
    name = f"once/{hashlib.sha256(key.encode()).hexdigest()}"
    same = hashlib.sha256(f"{type(asked).__name__}\n{asked.model_dump_json()}".encode()).hexdigest()
    if kept := cache.get(tenant_id, name):
        try:
            before, answer = json.loads(kept)
            if before != same:
                field = FieldProblem(field="Idempotency-Key", detail="stood for another request before")
                detail = "the header Idempotency-Key stood for another request before"
                raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency-key-reused", detail, errors=[field])
            return shape.model_validate(answer)
        except (ValueError, ValidationError):
            pass  # written by another version
    done = do()
    cache.put(tenant_id, name, json.dumps([same, done.model_dump(mode="json")]).encode(), KEPT_S)
    return done
