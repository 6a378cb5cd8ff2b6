"""Writes of records to the index or, during a migration, to both: :func:`dual_write`, then :func:`settle`.

The migration itself writes documents only if they are unchanged: :class:`ConditionalWriter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from braid.engines.opensearch import mapping
from braid.engines.opensearch.bulk import Outcome, write_items
from braid.engines.opensearch.client import IndexMissing, R, call
from braid.engines.opensearch.one_index import stored_entries
from braid.errors import TransientStoreError
from braid.ports.batches import batches
from braid.ports.reembedding import WriteBackResult, merged, without_vectors
from braid.settings import Refresh

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from opensearchpy import OpenSearch

    from braid.engines.opensearch.one_index import SingleIndex
    from braid.models import Record
    from braid.ports.reembedding import ReembeddedRecord
    from braid.settings import Settings

_READ_AT_ONCE = 200
_MAX_ALIAS_CHANGES: Final = 5
"""Most attempts of a write that is invalidated by changes of the aliases."""
_MAX_SETTLED: Final = 20
"""Most times that records which two writers wrote at once are brought to one version."""


def dual_write(read_aliases: Callable[[], dict[str, str]], write: Callable[[str], R]) -> list[R]:
    """Write to the next or the previous index, if there is one, then to the active one, and return all results.

    The active one is last: repeats compare with it, so that a write which breaks off in between is repeated whole.

    A migration may begin, switch or end meanwhile. Then the write is repeated through the changed aliases: a write only
    to the formerly active index would be lost.

    :func:`settle` follows it. Raises IndexMissing if an index was missing on the last attempt, and TransientStoreError
    if the aliases changed during each attempt.

    Parameters
    ----------
    read_aliases
        Returns the index behind each alias, the active one first.
    write
        Writes through one alias; must be idempotent.
    """
    results: list[R] = []
    for attempt in range(_MAX_ALIAS_CHANGES):
        before = read_aliases()
        try:
            for alias in reversed(before):
                results.append(write(alias))  # noqa: PERF401 - what was done before another index is missing counts
        except IndexMissing:  # it was removed on the way
            if attempt == _MAX_ALIAS_CHANGES - 1:
                raise
            continue
        if read_aliases() == before:
            return results
    raise TransientStoreError("the indexes are being moved; write again")


def settle(active: SingleIndex, other: SingleIndex, tenant_id: str, ids: Sequence[str]) -> None:
    """Bring the other index to the active one's version of records that were written to both just now.

    Two writers of one record may reach the indexes in different orders. Each looks at both when it has written, so that
    the last of them leaves no difference.

    Raises TransientStoreError if others write the same records all the time.
    """
    try:
        for _ in range(_MAX_SETTLED):
            here, there = active.versions(tenant_id, ids), other.versions(tenant_id, ids)
            differing = [record_id for record_id in ids if here.get(record_id) != there.get(record_id)]
            if not differing:
                return
            other.copy_from(active, tenant_id, differing)
    except IndexMissing:  # the move ended meanwhile
        return
    raise TransientStoreError("records are written by others at the same moment; write them again")


class _Stored(NamedTuple):
    """A document in its current version, searchable or not."""

    seq_no: int
    primary_term: int
    record: Record
    """With its vectors, where they were read."""

    def if_unchanged(self) -> dict[str, int]:
        """Return the parameters that make a write conditional on this version."""
        return {"if_seq_no": self.seq_no, "if_primary_term": self.primary_term}


class ConditionalWriter:
    """Writes documents on the condition that they are unchanged since they were read."""

    def __init__(self, client: OpenSearch, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._attempts = settings.opensearch_attempts

    def update(self, alias: str, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write each record that is unchanged since it was read; its vectors of other spaces are kept."""
        stored = self._read(alias, tenant_id, [change.read.id for change in changes])
        operations: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        for change in changes:
            now = stored.get(change.read.id)
            if now is None or not change.is_as_read(now.record):
                continue
            embeddings = merged(now.record.embeddings, change.write.embeddings)
            written = change.write.altered(embeddings=embeddings)
            action = {"index": {"_id": mapping.document_id(tenant_id, change.read.id), **now.if_unchanged()}}
            operations[change.read.id] = (action, mapping.document(written))
        outcomes = self._write(alias, operations)
        done = {name for name, outcome in outcomes.items() if outcome.result != "conflict"}
        lost = tuple(change.read.id for change in changes if change.read.id not in done)
        return WriteBackResult(written=len(done), lost=lost)

    def copy(
        self, source: str, target: str, tenant_id: str, changes: Sequence[ReembeddedRecord], *, spaces: Collection[str]
    ) -> WriteBackResult:
        """Copy each record that is unchanged in the source to the target, with its vectors of these spaces.

        Dual writes go to the target first and then to the source. So a document of the target that changed since it
        was read, or has other content, may be newer and is kept; and one that was deleted from the source while it was
        copied is removed again.
        """
        ids = [change.read.id for change in changes]
        # The target is read first, so that a concurrent dual write makes the condition on it fail.
        there = self._read(target, tenant_id, ids)
        stored = self._read(source, tenant_id, ids)
        operations: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        for change in changes:
            name = change.read.id
            now, before = stored.get(name), there.get(name)
            if now is None or not change.is_as_read(now.record) or (before and _content(before) != _content(now)):
                continue
            held = [*now.record.embeddings, *(before.record.embeddings if before else ())]
            known = {each.space: each for each in held if each.space in spaces}
            written = change.read.altered(
                embeddings=merged(known.values(), change.write.embeddings), supplied_spaces=change.write.supplied_spaces
            )
            key = {"_id": mapping.document_id(tenant_id, name)}
            action = {"index": {**key, **before.if_unchanged()}} if before else {"create": key}
            operations[name] = (action, mapping.document(written))
        # The target is not searched yet, and counts and scans refresh it first.
        outcomes = self._write(target, operations, refresh=Refresh.NONE)
        done = {name: outcome for name, outcome in outcomes.items() if outcome.result != "conflict"}
        after = self.existing(source, tenant_id, list(done))
        self._remove(target, tenant_id, {name: outcome for name, outcome in done.items() if name not in after})
        kept = [name for name in done if name in after]
        return WriteBackResult(written=len(kept), lost=tuple(name for name in ids if name not in kept))

    def remove_different(self, source: str, target: str, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove documents from the target that the source lacks or has with other content, vectors aside.

        Returns the number of differences, including documents that only the target lacks.
        """
        there = self._read(target, tenant_id, ids, with_vectors=False)
        stored = self._read(source, tenant_id, ids, with_vectors=False)
        wrong = [name for name in ids if name in there or name in stored]
        wrong = [name for name in wrong if _content(there.get(name)) != _content(stored.get(name))]
        states = {name: Outcome("", there[name].seq_no, there[name].primary_term) for name in wrong if name in there}
        self._remove(target, tenant_id, states)
        return len(wrong)

    def existing(self, alias: str, tenant_id: str, ids: Sequence[str], *, spaces: Collection[str] = ()) -> set[str]:
        """Return the ids of the records that exist and have a vector in each of these spaces."""
        found: set[str] = set()
        for some in batches(ids, _READ_AT_ONCE):
            keys = self._keys(tenant_id, some)
            for entry in self._entries(alias, keys, _source_includes=[mapping.SPACES]):
                if set(spaces) <= set(entry["_source"].get(mapping.SPACES, ())):
                    found.add(keys[entry["_id"]])
        return found

    def _remove(self, alias: str, tenant_id: str, states: dict[str, Outcome]) -> None:
        operations: dict[str, tuple[dict[str, Any], None]] = {
            name: (
                {
                    "delete": {
                        "_id": mapping.document_id(tenant_id, name),
                        "if_seq_no": state.seq_no,
                        "if_primary_term": state.primary_term,
                    }
                },
                None,
            )
            for name, state in states.items()
        }
        self._write(alias, operations)

    def _read(self, alias: str, tenant_id: str, ids: Sequence[str], *, with_vectors: bool = True) -> dict[str, _Stored]:
        found: dict[str, _Stored] = {}
        excluded = [mapping.DIGEST] if with_vectors else mapping.SOURCE_EXCLUDES
        for some in batches(ids, _READ_AT_ONCE):
            keys = self._keys(tenant_id, some)
            for entry in self._entries(alias, keys, _source_excludes=excluded):
                record = mapping.record_of(entry["_source"])
                found[keys[entry["_id"]]] = _Stored(entry["_seq_no"], entry["_primary_term"], record)
        return found

    def _keys(self, tenant_id: str, ids: Sequence[str]) -> dict[str, str]:
        return {mapping.document_id(tenant_id, name): name for name in ids}

    def _entries(self, alias: str, keys: Collection[str], **fields: list[str]) -> list[dict[str, Any]]:
        return call(self._attempts, stored_entries, self._client, alias, keys, self._settings, **fields)

    def _write(
        self,
        alias: str,
        operations: dict[str, tuple[dict[str, Any], dict[str, Any]]] | dict[str, tuple[dict[str, Any], None]],
        *,
        refresh: Refresh | None = None,
    ) -> dict[str, Outcome]:
        if not operations:
            return {}
        outcomes = write_items(self._client, alias, list(operations.values()), self._settings, refresh=refresh)
        return dict(zip(operations, outcomes, strict=True))


def _content(stored: _Stored | None) -> Record | None:
    return None if stored is None else without_vectors(stored.record)
