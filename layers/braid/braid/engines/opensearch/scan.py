"""Going through a tenant's records page by page, in the order of their ids.

No point in time is kept: an id never changes, so that nothing is missed or comes twice without one, and a domain has
300 of them for everybody, which as many lists that nobody reads to the end would take for minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braid.engines.opensearch import mapping
from braid.engines.opensearch.client import call, complete
from braid.ports.scan_cursor import check_limit, decode, encode
from braid.ports.search_index import ScanPage

if TYPE_CHECKING:
    from opensearchpy import OpenSearch


def page(
    client: OpenSearch,
    alias: str,
    *,
    tenant_id: str,
    query: dict[str, Any],
    after: str | None,
    limit: int,
    with_vectors: bool,
    attempts: int,
) -> ScanPage:
    """Return one page of a scan.

    Parameters
    ----------
    query
        What a record must meet, its tenant included.
    attempts
        Tries of each request.

    Raises
    ------
    InvalidRequest
        If the cursor or the limit is not one.
    """
    body = {
        "size": check_limit(limit) + 1,
        "track_total_hits": False,
        "sort": [{"id": "asc"}],
        "query": query,
        "search_after": [decode(tenant_id, after)],
        "_source": {"excludes": [mapping.DIGEST] if with_vectors else mapping.SOURCE_EXCLUDES},
    }
    answer = call(attempts, lambda: complete(client.search(index=alias, body=body)))
    records = tuple(mapping.record_of(hit["_source"]) for hit in answer["hits"]["hits"])
    more = len(records) > limit
    return ScanPage(records=records[:limit], cursor=encode(tenant_id, records[limit - 1].id) if more else None)
