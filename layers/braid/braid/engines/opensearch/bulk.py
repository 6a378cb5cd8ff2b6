"""Bulk writes: requests of bounded size, a result per item, and retries of throttled items."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.opensearch.client import (
    TRANSIENT_STATUSES,
    as_braid_errors,
    change_timeout_s,
    error_of_status,
    items_of,
)
from braid.engines.opensearch.mapping import routing
from braid.engines.retries_and_deadlines import CallDeadline, retrying
from braid.errors import StoreError, TransientStoreError
from braid.ports.batches import batches
from braid.settings import OpenSearchService, Refresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opensearchpy import OpenSearch

    from braid.settings import Settings

MAX_ITEMS = 500
MAX_BYTES = 5 * 1024 * 1024
_NOT_FOUND = 404
_CONFLICT = 409
"""Only of conditional actions, ``create`` included."""
_GONE = "document_missing_exception"
_FIRST_ERROR = 300


class Outcome(NamedTuple):
    """Result of one operation."""

    result: str
    """``created``, ``updated``, ``deleted``, ``not_found``, or ``conflict`` if its condition was not met."""
    seq_no: int | None = None
    """With ``primary_term`` the version that the operation wrote, for a condition on the next one."""
    primary_term: int | None = None


def write_items(
    client: OpenSearch,
    alias: str,
    operations: Sequence[tuple[dict[str, Any], dict[str, Any] | None]],
    settings: Settings,
    *,
    refresh: Refresh | None = None,
) -> list[Outcome]:
    """Run operations, each an action line and a document or None, and return the outcome of each.

    A failed request is repeated whole, which is idempotent because documents have ids; if only some items are
    throttled, these are repeated.

    ``refresh`` overrides the settings' refresh policy.

    Raises
    ------
    TransientStoreError
        If items are still throttled after the last attempt.
    StoreError
        If an item is refused permanently; the message quotes the first refusal.
    """
    lines = [_lines(action, body, settings) for action, body in operations]
    serverless = settings.opensearch_service is OpenSearchService.SERVERLESS
    wanted = Refresh.NONE if serverless else refresh or settings.opensearch_refresh
    results = [Outcome("")] * len(lines)
    sizes = [len(line.encode()) for line in lines]
    for chunk in batches(range(len(lines)), MAX_ITEMS, size=MAX_BYTES, size_of=sizes.__getitem__):
        pending = chunk
        for attempt in retrying(settings.opensearch_attempts, until=CallDeadline.of_request()):
            with attempt, as_braid_errors():
                answer = client.bulk(
                    body="".join(lines[position] for position in pending),
                    index=alias,
                    refresh=str(wanted),
                    # A removed alias must not be recreated as an index without mappings.
                    require_alias=True,
                    request_timeout=change_timeout_s(settings),
                )
                try:
                    _read_results(items_of(answer, "items", len(pending)), pending, results)
                except _Throttled as error:
                    pending = error.positions
                    raise
    return results


def _read_results(items: Sequence[dict[str, dict[str, Any]]], pending: Sequence[int], results: list[Outcome]) -> None:
    """Store each item's result; raise for permanently refused items, and for throttled ones."""
    repeated: list[int] = []
    throttled: StoreError | None = None
    refused: list[StoreError] = []
    for position, item in zip(pending, items, strict=True):
        ((action, outcome),) = item.items()
        status = int(outcome["status"])
        if status < _FIRST_ERROR or (action == "delete" and status == _NOT_FOUND and "error" not in outcome):
            results[position] = Outcome(str(outcome["result"]), outcome.get("_seq_no"), outcome.get("_primary_term"))
        elif status == _NOT_FOUND and action == "update" and outcome["error"]["type"] == _GONE:
            results[position] = Outcome("not_found")
        elif status == _CONFLICT:
            results[position] = Outcome("conflict")
        elif status in TRANSIENT_STATUSES:
            repeated.append(position)
            throttled = error_of_status(status, outcome["error"])
        else:
            refused.append(error_of_status(status, outcome["error"]))
    if refused:
        message = f"{len(refused)} of {len(items)} records were not written; the first: {refused[0]}"
        raise type(refused[0])(message)
    if throttled is not None:
        raise _Throttled(repeated, f"{len(repeated)} of {len(items)} records were not written: {throttled}")


class _Throttled(TransientStoreError):
    """Some items were throttled and are to be sent again."""

    def __init__(self, positions: list[int], message: str) -> None:
        super().__init__(message)
        self.positions = positions


def _lines(action: dict[str, Any], body: dict[str, Any] | None, settings: Settings) -> str:
    ((kind, what),) = action.items()
    first = json.dumps({kind: {**what, **routing(what["_id"], settings)}})
    return f"{first}\n" if body is None else f"{first}\n{json.dumps(body, ensure_ascii=False)}\n"
