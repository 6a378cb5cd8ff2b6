"""Writes the messages of the ingestion queue: each is the body of one call, with its tenant.

A message that fails stays in the queue until its redrive policy moves it to the dead-letter queue; the other messages
of its batch are written. Delivery is at least once, and writing a message again changes nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.errors import InvalidRequest
from braid.ingestion.items import write_body
from braid.ingestion.writing import require_written
from braid.strict_json import NotJson, read_json

if TYPE_CHECKING:
    from braid.ingestion.writing import WriteReport, WriteStore


def write_message(text: str, store: WriteStore) -> WriteReport:
    """Write the items of one message.

    Parameters
    ----------
    text
        JSON: the body of :func:`braid.ingestion.items.write_body`, and ``tenant_id``. Senders to the queue are
        trusted with every tenant.

    Raises
    ------
    InvalidRequest
        If any item is invalid; nothing of the message is written.
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
    tenant_id = body.pop("tenant_id")
    return require_written(write_body(body, tenant_id, store))
