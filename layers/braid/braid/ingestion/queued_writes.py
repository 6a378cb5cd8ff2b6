"""Single late writes from a queue: each message is the body of one call, with its tenant.

A message that fails stays in the queue and, after as many tries as the queue's redrive policy allows, is set aside; the
others of its batch are done. A message that is delivered twice writes once: what it writes is found unchanged.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.errors import InvalidRequest
from braid.ingestion.items import write_body
from braid.ingestion.writing import require_written
from braid.ports.keys import check_tenant
from braid.strict_json import NotJson, read_json

if TYPE_CHECKING:
    from braid.ingestion.writing import WriteReport, WriteStore


def write_message(text: str, store: WriteStore) -> WriteReport:
    """Write what one message holds.

    Parameters
    ----------
    text
        JSON: the body of :func:`braid.ingestion.items.write_body`, and ``tenant_id``. Whoever may send to the queue is
        trusted with every tenant.

    Raises
    ------
    InvalidRequest
        If anything in it is wrong; nothing of it is written.
    StoreError, ModelError
        As :func:`braid.ingestion.writing.write`.
    """
    try:
        body = read_json(text)
    except json.JSONDecodeError:
        raise InvalidRequest("body: not JSON", field="body") from None
    except NotJson as error:
        raise InvalidRequest(f"body: {error}", field="body") from None
    if not isinstance(body, dict) or not isinstance(body.get("tenant_id"), str):
        raise InvalidRequest("tenant_id: missing", field="tenant_id")
    tenant_id = check_tenant(body.pop("tenant_id"))
    return require_written(write_body(body, tenant_id, store))
