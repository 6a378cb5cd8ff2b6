"""Writes the items of one call or of one message of the ingestion queue.

A message is the body of one call, with its tenant. A message that fails stays in the queue until its redrive policy
moves it to the dead-letter queue; messages of other groups are written. Delivery is at least once, and writing a
message again changes nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from braid.errors import InvalidRequest
from braid.ingestion.item_parsing import KINDS, Items
from braid.ingestion.writing import require_written, write
from braid.ports.ingestion import MissingEnds, WriteReport
from braid.ports.keys import check_tenant
from braid.strict_json import NotJson, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.ports.ingestion import WriteStore

MAX_INLINE = 100
"""Most items of one synchronous call."""


def write_items(items: Items, store: WriteStore, *, partial: bool = False, **fields: Any) -> WriteReport:  # noqa: ANN401 - WriteRequest checks them
    """Write parsed items, with further fields of :class:`~braid.ingestion.writing.WriteRequest`.

    If any is invalid, nothing is written, or with ``partial`` the valid ones are. Raises as
    :func:`braid.ingestion.writing.write`.
    """
    if items.errors and not partial:
        return WriteReport(tenant_id=items.tenant_id, errors=tuple(items.errors))
    report = write(items.request(partial=partial, **fields), store)
    return report.altered(errors=(*items.errors, *report.errors))


def read_missing(body: Mapping[str, Any]) -> MissingEnds:
    """Return the field ``missing`` of a call or event. Raises InvalidRequest if it is no value of it."""
    try:
        return MissingEnds(body.get("missing", MissingEnds.REFUSE))
    except ValueError:
        raise InvalidRequest.of("missing", "must be refuse or stub") from None


def _read_body(body: Mapping[str, Any], tenant_id: str) -> tuple[Items, dict[str, Any]]:
    """Parse the body of one call into items and the arguments ``missing`` and ``partial`` of :func:`write_items`."""
    unknown = sorted(set(body) - {*KINDS.values(), "missing", "partial"})
    if unknown:
        raise InvalidRequest(f"{unknown[0]}: unknown field", field=unknown[0])
    options = {"missing": read_missing(body), "partial": body.get("partial", False)}
    if not isinstance(options["partial"], bool):
        raise InvalidRequest.of("partial", "must be true or false")
    items = Items(tenant_id)
    count = 0
    for kind, name in KINDS.items():
        rows = body.get(name) or []
        if not isinstance(rows, list):
            raise InvalidRequest.of(name, "must be a list")
        count += len(rows)
        if count > MAX_INLINE:
            raise InvalidRequest.of(
                name, f"more than {MAX_INLINE} items; write a file of lines to the object store instead"
            )
        for position, row in enumerate(rows):
            items.add(f"{name}[{position}]", row, kind)
    if not count:
        raise InvalidRequest.of("records", "there is nothing to write")
    return items, options


def write_body(body: Mapping[str, Any], tenant_id: str, store: WriteStore) -> WriteReport:
    """Write the body of one call; if the report has errors, nothing was written.

    It has lists ``records``, ``entities`` and ``relationships``, and may have ``missing`` (``refuse`` or ``stub``) and
    ``partial``. Raises InvalidRequest, which names the field, if it is not of this form, is empty or too long, and
    StoreError or ModelError as :func:`braid.ingestion.writing.write`.
    """
    items, options = _read_body(body, tenant_id)
    return write_items(items, store, **options)


def write_message(text: str, store: WriteStore) -> WriteReport:
    """Write the items of one message: the body of :func:`write_body` as JSON, and ``tenant_id``.

    Senders to the queue are trusted with every tenant. If any item is invalid, InvalidRequest is raised and nothing is
    written.
    """
    try:
        body = read_json(text)
    except json.JSONDecodeError:
        raise InvalidRequest.of("body", "not JSON") from None
    except NotJson as error:
        raise InvalidRequest.of("body", str(error)) from None
    if not isinstance(body, dict) or not isinstance(body.get("tenant_id"), str):
        raise InvalidRequest.of("tenant_id", "missing")
    tenant_id = check_tenant(body.pop("tenant_id"))
    return require_written(write_body(body, tenant_id, store))
