"""Going through a tenant's records page by page: a point in time, and the id to go on after.

The point in time keeps the index as it was when the scan began. It lives for a few minutes after each page; one that is
gone is replaced by a new one, and the scan goes on after the last id, so that it loses nothing but the earlier view.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from opensearchpy.exceptions import TransportError

from braid.engines import opensearch_mapping as mapping
from braid.engines.opensearch_client import call, complete
from braid.engines.ports import ScanPage
from braid.engines.scan_cursor import Cursor, check_limit, decode, encode
from braid.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opensearchpy import OpenSearch

KEEP_ALIVE = "5m"
"""How long a point in time is kept after each page; an abandoned scan holds its segments for no longer."""
_GONE = "search_context_missing_exception"
_NOT_THIS_ONE = (400, 404, 500)
"""Statuses for one that expired (404), and for a name that a server of another version cannot read (400, 500). When the
point in time is not to blame, the same request with a new one says what is.
"""


def page(
    client: OpenSearch,
    alias: str,
    *,
    tenant_id: str,
    query: dict[str, Any],
    after: str | None,
    limit: int,
    with_vectors: bool,
    frozen: bool,
    attempts: int,
) -> ScanPage:
    """Return one page of a scan.

    Parameters
    ----------
    query
        What a record must meet, its tenant included.
    frozen
        Whether to read from a point in time; without one every page is read as the index is then.
    attempts
        Tries of each request.

    Raises
    ------
    InvalidRequest
        If the cursor or the limit is not one.
    """
    cursor = decode(tenant_id, after)
    body = {
        "size": check_limit(limit) + 1,
        "track_total_hits": False,
        "sort": [{"id": "asc"}],
        "query": query,
        "search_after": [cursor.record_id],
        "_source": {"excludes": [mapping.DIGEST] if with_vectors else mapping.SOURCE_EXCLUDES},
    }
    answer = None
    if frozen and cursor.point_in_time is not None:
        answer = call(attempts, _resumed, client, cursor.point_in_time, body)
    if answer is None and frozen:
        opened = call(attempts, client.create_pit, index=alias, params={"keep_alive": KEEP_ALIVE})
        answer = call(attempts, _search_in, client, str(opened["pit_id"]), body)
    elif answer is None:
        answer = call(attempts, _search, client, alias, body)
    hits = answer["hits"]["hits"]
    records = tuple(mapping.record_of(hit["_source"]) for hit in hits[:limit])
    point = answer.get("pit_id")
    if len(hits) <= limit:
        if point is not None:
            with contextlib.suppress(StoreError):  # it goes by itself
                call(1, client.delete_pit, body={"pit_id": [point]})
        return ScanPage(records=records)
    return ScanPage(records=records, cursor=encode(tenant_id, Cursor(records[-1].id, point)))


def _search(client: OpenSearch, alias: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return complete(client.search(index=alias, body=body))


def _search_in(client: OpenSearch, point: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return complete(client.search(body=_within(point, body)))


def _resumed(client: OpenSearch, point: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the answer from a point in time; None when it expired, or its node or index is gone."""
    try:
        answer: Mapping[str, Any] = client.search(body=_within(point, body))
    except TransportError as error:
        if error.status_code not in _NOT_THIS_ONE:
            raise
        return None
    failures = answer["_shards"].get("failures", ())
    return None if any(_GONE in str(failure) for failure in failures) else complete(answer)


def _within(point: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "pit": {"id": point, "keep_alive": KEEP_ALIVE}}
