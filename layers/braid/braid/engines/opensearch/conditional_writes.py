"""Writing documents only as long as nobody else changed them since they were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.opensearch import mapping
from braid.engines.opensearch.bulk import Outcome, write_items
from braid.engines.opensearch.client import call, change_timeout_s, refusal
from braid.ports.index_migration import WriteBackResult
from braid.settings import OpenSearchService, Refresh

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from opensearchpy import OpenSearch

    from braid.models import Embedding, Record
    from braid.ports.index_migration import ReembeddedRecord
    from braid.settings import Settings

_READ_AT_ONCE = 200


class _Stored(NamedTuple):
    """A document as it is at this moment, searchable or not."""

    seq_no: int
    primary_term: int
    record: Record | None
    """With its vectors; None when only its being there was asked for."""

    def unchanged(self) -> dict[str, int]:
        """Return the condition that nobody wrote it since."""
        return {"if_seq_no": self.seq_no, "if_primary_term": self.primary_term}


class ConditionalWriter:
    """Reads and writes documents of the indexes behind aliases.

    Parameters
    ----------
    client
        Made by :func:`braid.engines.opensearch.client.open_client`.
    settings
        Those that begin with ``opensearch_``.
    """

    def __init__(self, client: OpenSearch, settings: Settings) -> None:
        self._client = client
        self._attempts = settings.opensearch_attempts
        self._timeout_s = change_timeout_s(settings)
        serverless = settings.opensearch_service is OpenSearchService.SERVERLESS
        self._refresh = str(Refresh.NONE if serverless else settings.opensearch_refresh)

    def update(self, alias: str, tenant_id: str, changes: Sequence[ReembeddedRecord]) -> WriteBackResult:
        """Write each record that is still as it was read, with its vectors of other spaces as they are."""
        stored = self._read(alias, tenant_id, [change.read.id for change in changes])
        operations: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        for change in changes:
            now = stored.get(change.read.id)
            if now is None or now.record is None or _bare(now.record) != _bare(change.read):
                continue
            written = change.write.model_copy(
                update={"embeddings": _merged(now.record.embeddings, change.write.embeddings)}
            )
            action = {"index": {"_id": mapping.document_id(tenant_id, change.read.id), **now.unchanged()}}
            operations[change.read.id] = (action, mapping.document(written))
        outcomes = self._write(alias, operations)
        done = {name for name, outcome in outcomes.items() if outcome.result != "conflict"}
        lost = tuple(change.read.id for change in changes if change.read.id not in done)
        return WriteBackResult(written=len(done), lost=lost)

    def copy(
        self, source: str, target: str, tenant_id: str, changes: Sequence[ReembeddedRecord], *, spaces: Collection[str]
    ) -> WriteBackResult:
        """Write each record that the source still has as it was read to the target, with its vectors of these spaces.

        A writer writes to the source first and to the target then. So what is in the target with another state than
        was looked at is newer and is left; and what has gone from the source while it was copied is taken out again.
        """
        ids = [change.read.id for change in changes]
        # The target first: what is written to both meanwhile then makes the condition on it fail.
        there = self._read(target, tenant_id, ids)
        stored = self._read(source, tenant_id, ids)
        operations: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        for change in changes:
            name = change.read.id
            now, before = stored.get(name), there.get(name)
            if now is None or now.record is None or _bare(now.record) != _bare(change.read):
                continue
            held = [*now.record.embeddings, *(before.record.embeddings if before and before.record else ())]
            known = {each.space: each for each in held if each.space in spaces}
            written = change.read.model_copy(
                update={
                    "embeddings": _merged(tuple(known.values()), change.write.embeddings),
                    "supplied_spaces": change.write.supplied_spaces,
                }
            )
            key = {"_id": mapping.document_id(tenant_id, name)}
            action = {"index": {**key, **before.unchanged()}} if before else {"create": key}
            operations[name] = (action, mapping.document(written))
        outcomes = self._write(target, operations)
        done = {name: outcome for name, outcome in outcomes.items() if outcome.result != "conflict"}
        after = self.states(source, tenant_id, list(done))
        self._take_out(target, tenant_id, {name: outcome for name, outcome in done.items() if name not in after})
        kept = [name for name in done if name in after]
        return WriteBackResult(written=len(kept), lost=tuple(name for name in ids if name not in kept))

    def remove_different(self, source: str, target: str, tenant_id: str, ids: Sequence[str]) -> int:
        """Remove from the target what the source has not, or not just so, vectors aside; return how many are wrong.

        What the source has and the target has not is counted as wrong, too.
        """
        there = self._read(target, tenant_id, ids)
        stored = self._read(source, tenant_id, ids)
        wrong = [name for name in ids if name in there or name in stored]
        wrong = [name for name in wrong if _content(there.get(name)) != _content(stored.get(name))]
        states = {name: Outcome("", there[name].seq_no, there[name].primary_term) for name in wrong if name in there}
        self._take_out(target, tenant_id, states)
        return len(wrong)

    def states(self, alias: str, tenant_id: str, ids: Sequence[str]) -> set[str]:
        """Return which records there are."""
        return set(self._read(alias, tenant_id, ids, whole=False))

    def _take_out(self, alias: str, tenant_id: str, states: dict[str, Outcome]) -> None:
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

    def _read(self, alias: str, tenant_id: str, ids: Sequence[str], *, whole: bool = True) -> dict[str, _Stored]:
        found: dict[str, _Stored] = {}
        for start in range(0, len(ids), _READ_AT_ONCE):
            keys = {mapping.document_id(tenant_id, name): name for name in ids[start : start + _READ_AT_ONCE]}
            what = {"_source_excludes": [mapping.DIGEST]} if whole else {"_source": False}
            answer = call(self._attempts, self._client.mget, index=alias, body={"ids": list(keys)}, **what)
            for entry in answer["docs"]:
                if "error" in entry:
                    raise refusal(int(entry["error"].get("status", 0)), entry["error"])
                if entry["found"]:
                    record = mapping.record_of(entry["_source"]) if whole else None
                    found[keys[entry["_id"]]] = _Stored(entry["_seq_no"], entry["_primary_term"], record)
        return found

    def _write(
        self,
        alias: str,
        operations: dict[str, tuple[dict[str, Any], dict[str, Any]]] | dict[str, tuple[dict[str, Any], None]],
    ) -> dict[str, Outcome]:
        if not operations:
            return {}
        outcomes = write_items(
            self._client,
            alias,
            list(operations.values()),
            refresh=self._refresh,
            attempts=self._attempts,
            timeout_s=self._timeout_s,
        )
        return dict(zip(operations, outcomes, strict=True))


def _bare(record: Record) -> Record:
    """Return a record without its vectors and what is said of them."""
    return record.model_copy(update={"embeddings": (), "supplied_spaces": ()})


def _content(stored: _Stored | None) -> Record | None:
    return None if stored is None or stored.record is None else _bare(stored.record)


def _merged(stored: Sequence[Embedding], new: Sequence[Embedding]) -> tuple[Embedding, ...]:
    """Return the stored vectors with the new ones instead of those of their spaces."""
    replaced = {embedding.space for embedding in new}
    return (*(embedding for embedding in stored if embedding.space not in replaced), *new)
