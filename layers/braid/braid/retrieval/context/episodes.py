"""Episodes, that is decisions and tool calls: writes them to the search index, and searches them by words."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Protocol

from braid.errors import InvalidRequest, as_invalid_request
from braid.models import Filters, Kind, Record
from braid.models.records import too_much
from braid.ports.deletion_marks import refuse_while_deleted
from braid.ports.search_index import SearchRequest
from braid.retrieval.context.message_selection import episode_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from braid.models import FieldCondition
    from braid.models.enums_and_scalars import MetadataValue
    from braid.ports.cache import ResilientCache
    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.schema_registry import SchemaRegistry
    from braid.ports.search_index import SearchIndex

EPISODES = (Kind.DECISION, Kind.TOOL_CALL)


class EpisodeStore(Protocol):
    """Stores that an episode is written to; :class:`braid.app.Application` is one."""

    @property
    def index(self) -> SearchIndex:
        """The search index that episodes are written to."""

    @property
    def graph(self) -> WritableGraph:
        """The knowledge graph, in which edges may name an episode before it is written."""

    @property
    def schemas(self) -> SchemaRegistry:
        """The schema registry, for the record's schema version."""

    @property
    def cache(self) -> ResilientCache:
        """The cache, which holds the marks of tenants that are being deleted."""

    def transaction(self, tenant_id: str) -> AbstractContextManager[None]:
        """Commit the block's writes and a new write generation, as :class:`braid.ports.ingestion.DeleteStore` does."""

    def now(self) -> datetime:
        """Return the present moment, in UTC."""


def search_episodes(
    index: SearchIndex,
    query: str,
    *,
    tenant_id: str,
    as_of: datetime,
    limit: int = 5,
    task_id: str | None = None,
    tool_name: str | None = None,
    trusted_only: bool = False,
    metadata: Sequence[FieldCondition] = (),
) -> list[Record]:
    """Return the decisions and tool calls that have any of the query's words of more than 3 characters, newest first.

    Raises StoreError if the index does not answer.

    Parameters
    ----------
    as_of
        Only those that are valid at this time.
    limit
        Most records, 1 to 200.
    task_id, tool_name
        Only those of this task, of this tool.
    trusted_only
        Whether records that are marked as not trusted are left out.
    metadata
        Conditions on their metadata, with values of the fields' types.
    """
    words = episode_words(query)
    if not words:
        return []
    found = index.search(
        SearchRequest(
            tenant_id=tenant_id,
            text=" ".join(words),
            k=limit,
            filters=Filters(
                kinds=EPISODES,
                task_id=task_id,
                tool_name=tool_name,
                trusted_only=trusted_only,
                metadata=tuple(metadata),
            ),
            as_of=as_of,
            newest_first=True,
        )
    )
    read = index.get_many(tenant_id, [hit.id for hit in found.lexical])
    return [record for record in read if record.tenant_id == tenant_id]


def record_decision(
    text: str,
    *,
    tenant_id: str,
    store: EpisodeStore,
    task_id: str | None = None,
    action_type: str = "decision",
    status: str | None = None,
    timestamp: datetime | None = None,
    record_id: str | None = None,
    metadata: Mapping[str, MetadataValue] | None = None,
    trusted: bool = True,
) -> Record:
    """Write a decision to the search index durably, and return its record.

    Parameters
    ----------
    text
        The decision and its reasons: the text that is searched and shown.
    tenant_id
        The tenant.
    store
        Where it is written, such as :func:`braid.app.application` returns.
    task_id, action_type, status
        Its task, its kind and its outcome.
    timestamp
        When it was made; by default now.
    record_id
        Id of the record; by default a hash of all other values, the time included, so that a repeated call writes once.
        An episode that is stored under it is replaced, and stays ended if another record supersedes it.
    metadata
        More fields; those whose names end in ``_id`` are shown in contexts.
    trusted
        False leaves the record out of contexts unless they ask for it; for text from sources that are not trusted.

    Raises
    ------
    InvalidRequest
        Naming the argument, if a value is invalid, or if ``record_id`` is the id of a record that is no episode, or
        that is trusted while this one is not.
    StoreError
        If it was not written.
    """
    return _write(
        store,
        kind=Kind.DECISION,
        content=text,
        tenant_id=tenant_id,
        task_id=task_id,
        status=status,
        timestamp=timestamp,
        record_id=record_id,
        metadata={**(metadata or {}), "action_type": action_type},
        **({} if trusted else {"trusted": False}),  # only if False, so that ids of older records do not change
    )


def record_tool_call(
    tool_name: str,
    text: str,
    *,
    tenant_id: str,
    store: EpisodeStore,
    task_id: str | None = None,
    action_type: str = "tool_call",
    status: str | None = None,
    timestamp: datetime | None = None,
    record_id: str | None = None,
    metadata: Mapping[str, MetadataValue] | None = None,
    trusted: bool = True,
) -> Record:
    """Write a tool call to the search index durably, and return its record.

    Raises InvalidRequest or StoreError as :func:`record_decision`.

    Parameters
    ----------
    tool_name
        Name of the tool; searched by its words and filtered by as a whole.
    text
        Its input and output: the text that is searched and shown.
    tenant_id, store, task_id, action_type, status, timestamp, record_id, metadata, trusted
        As of :func:`record_decision`.
    """
    return _write(
        store,
        kind=Kind.TOOL_CALL,
        content=text,
        name=tool_name,
        tool_name=tool_name,
        tenant_id=tenant_id,
        task_id=task_id,
        status=status,
        timestamp=timestamp,
        record_id=record_id,
        metadata={**(metadata or {}), "action_type": action_type},
        **({} if trusted else {"trusted": False}),  # only if False, so that ids of older records do not change
    )


def _write(store: EpisodeStore, *, record_id: str | None, timestamp: datetime | None, **fields: Any) -> Record:  # noqa: ANN401 - pydantic checks them
    if isinstance(fields["content"], str) and not fields["content"].strip():
        raise InvalidRequest.of("text", "is empty, so that it would never be found")
    at = timestamp or store.now()
    digest = hashlib.sha256(json.dumps([fields, at.isoformat()], sort_keys=True, default=str).encode()).hexdigest()
    with as_invalid_request({"content": "text", "id": "record_id"}):
        record = Record(
            id=f"{fields['kind']}:{digest[:32]}" if record_id is None else record_id,
            timestamp=at,
            created_at=store.now(),
            **fields,
        )
    if found := too_much(record):
        field = "text" if found.field == "content" else found.field
        raise InvalidRequest.of(field, found.message)
    record = record.altered(schema_version=store.schemas.current(record.tenant_id))
    if record_id is not None and not record.trusted:
        store.graph.distrust_most_relationships(record.tenant_id, [record.id])
    with store.transaction(record.tenant_id):
        refuse_while_deleted(record.tenant_id, store.cache)
        if record_id is not None:
            record = _in_place_of_stored(record, store.index)
        store.index.upsert([record])
        if record_id is not None and not record.trusted:
            _distrust_in_graph(record, store.graph)
    return record


def _distrust_in_graph(record: Record, graph: WritableGraph) -> None:
    """Mark the edges that named a record as their evidence before it was written, and its vertex, as untrusted."""
    graph.distrust_relationships(record.tenant_id, [record.id])
    if stubs := [vertex for vertex in graph.get_many(record.tenant_id, [record.id]) if vertex.trusted]:
        graph.upsert([vertex.altered(trusted=False) for vertex in stubs], [])


def _in_place_of_stored(record: Record, index: SearchIndex) -> Record:
    """Return an episode with the end of the one that it replaces.

    Raises InvalidRequest where the stored one is no episode, or would no longer be trusted.
    """
    for before in index.get_many(record.tenant_id, [record.id]):
        if before.kind not in EPISODES:
            raise InvalidRequest.of("record_id", f"{record.id!r} is no decision and no tool call")
        if before.trusted and not record.trusted:
            message = f"trusted: {record.id!r} is stored as trusted; write it as any other record to take that back"
            raise InvalidRequest(message, field="trusted")
        record = record.altered(invalid_at=before.invalid_at)
    return record
