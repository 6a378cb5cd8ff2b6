"""Writing many documents: in requests of bounded size, every item's own answer read, the refused ones sent again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.opensearch.client import TRANSIENT_STATUSES, named_errors, refusal, retrying
from braid.errors import StoreError, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opensearchpy import OpenSearch

MAX_ITEMS = 500
MAX_BYTES = 5 * 1024 * 1024
_NOT_FOUND = 404
_CONFLICT = 409
"""Only actions with a condition, ``create`` among them, meet it."""
_FIRST_ERROR = 300


class Outcome(NamedTuple):
    """What became of one operation."""

    result: str
    """``created``, ``updated``, ``deleted``, ``not_found`` or, where its condition was not met, ``conflict``."""
    seq_no: int | None = None
    """With ``primary_term`` the state of the document that it left, for a condition on the next operation."""
    primary_term: int | None = None


def write_items(
    client: OpenSearch,
    alias: str,
    operations: Sequence[tuple[dict[str, Any], dict[str, Any] | None]],
    *,
    refresh: str,
    attempts: int,
    timeout_s: float,
) -> list[Outcome]:
    """Run operations, each an action line and a document or None, and return each one's outcome.

    A request that fails is sent again whole, which writing by id makes harmless; an item that is refused as too many is
    sent again alone.

    Parameters
    ----------
    refresh
        ``wait_for``, ``true`` or ``false``.
    attempts
        Requests in which one item may travel.
    timeout_s
        Bound on one request.

    Returns
    -------
    list of Outcome
        In the order of the operations.

    Raises
    ------
    TransientStoreError
        If items are still refused as too many after the last attempt.
    StoreError
        If an item is refused for good; the message names the first.
    """
    lines = [_lines(action, body) for action, body in operations]
    results = [Outcome("")] * len(lines)
    for chunk in _chunks(lines):
        pending = list(chunk)
        for attempt in retrying(attempts):
            with attempt, named_errors():
                answer = client.bulk(
                    body="".join(lines[position] for position in pending),
                    index=alias,
                    refresh=refresh,
                    # An alias that is gone must not come back as an index without mappings.
                    require_alias=True,
                    request_timeout=timeout_s,
                )
                try:
                    _settle(answer["items"], pending, results)
                except _Again as error:
                    pending = error.positions
                    raise
    return results


def write(
    client: OpenSearch,
    alias: str,
    operations: Sequence[tuple[dict[str, Any], dict[str, Any] | None]],
    *,
    refresh: str,
    attempts: int,
    timeout_s: float,
) -> list[str]:
    """Run operations as :func:`write_items` and return each one's result, in their order."""
    outcomes = write_items(client, alias, operations, refresh=refresh, attempts=attempts, timeout_s=timeout_s)
    return [outcome.result for outcome in outcomes]


def _settle(items: Sequence[dict[str, dict[str, Any]]], pending: Sequence[int], results: list[Outcome]) -> None:
    """Note each item's result; raise for those that are refused for good, and for those to be sent again."""
    again: list[int] = []
    throttled: StoreError | None = None
    refused: list[StoreError] = []
    for position, item in zip(pending, items, strict=True):
        ((action, outcome),) = item.items()
        status = int(outcome["status"])
        if status < _FIRST_ERROR or (action == "delete" and status == _NOT_FOUND and "error" not in outcome):
            results[position] = Outcome(str(outcome["result"]), outcome.get("_seq_no"), outcome.get("_primary_term"))
        elif status == _CONFLICT:
            results[position] = Outcome("conflict")
        elif status in TRANSIENT_STATUSES:
            again.append(position)
            throttled = refusal(status, outcome["error"])
        else:
            refused.append(refusal(status, outcome["error"]))
    if refused:
        message = f"{len(refused)} of {len(items)} records were not written; the first: {refused[0]}"
        raise type(refused[0])(message)
    if throttled is not None:
        raise _Again(again, f"{len(again)} of {len(items)} records were not written: {throttled}")


class _Again(TransientStoreError):
    """Some items were refused as too many."""

    def __init__(self, positions: list[int], message: str) -> None:
        super().__init__(message)
        self.positions = positions


def _lines(action: dict[str, Any], body: dict[str, Any] | None) -> str:
    first = json.dumps(action)
    return f"{first}\n" if body is None else f"{first}\n{json.dumps(body, ensure_ascii=False)}\n"


def _chunks(lines: Sequence[str]) -> Iterator[list[int]]:
    """Split positions so that a request holds at most 500 items and 5 MiB, whichever comes first."""
    chunk: list[int] = []
    size = 0
    for position, line in enumerate(lines):
        length = len(line.encode())
        if chunk and (len(chunk) >= MAX_ITEMS or size + length > MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(position)
        size += length
    if chunk:
        yield chunk
