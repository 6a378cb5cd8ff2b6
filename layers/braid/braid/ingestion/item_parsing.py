"""Parses JSON items, from lines or lists, into records, vertices and edges.

A line is ``{"record": …}``, ``{"entity": …}`` or ``{"relationship": …}``, or a record's own fields, so that a corpus in
BEIR's format can be written unchanged.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import date
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from braid.errors import InvalidRequest
from braid.models import MAX_ID_BYTES, Kind, NewRecord, Record, RecordId, Relationship, Vertex
from braid.models.enums_and_scalars import MAX_METADATA_LIST, dates_as_text, printable, values_in
from braid.models.records import DEFAULT_ENTITY_TYPE, no_text, too_much
from braid.ports.ingestion import ItemError, Places, WriteRequest
from braid.ports.object_store import MAX_LINE_BYTES
from braid.strict_json import NotJson, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OURS = {
    "tenant_id": "unknown field: the tenant is given beside the data",
    "content_hash": "unknown field",
    "supplied_spaces": "unknown field",
}
"""Fields of the stored models that callers may not set, each with its error message."""
FOUND = {"position": "unknown field"}
"""Fields of relationships that are found in texts."""
NO_VECTORS = {"embeddings": "unknown field"}
"""Fields that only records may set, if the settings allow it; not corpus items and not entities."""
_ID = re.compile(rb'"_?id"\s*:\s*("(?:[^"\\]|\\.){1,%d}")' % (6 * MAX_ID_BYTES))
"""An id in a line of JSON, with quotes; each character may be an escape."""
_RECORD_ID: TypeAdapter[str] = TypeAdapter(RecordId)
_KEY_CHARACTERS = 64
"""Maximum length of a metadata key in an error."""
CORPUS_NAMES = {"id": "_id", "content": "text"}
ENTITY_NAMES = {"entity_type": "type"}
KINDS = {"record": "records", "entity": "entities", "relationship": "relationships"}


_Item = TypeVar("_Item", Record, Vertex)


class InvalidItem(Exception):
    """An item is invalid in a way that its schema does not express; the message names the field."""


def refuse(row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    """Raise if an item has one of these fields, with the message given for it."""
    for name, message in fields.items():
        if name in row:
            raise InvalidItem(f"{name}: {message}")


def require_fields(row: Mapping[str, Any], *fields: str) -> None:
    """Raise if an item lacks one of these fields."""
    for name in fields:
        if row.get(name) is None:
            raise InvalidItem(f"{name}: missing")


def object_of(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object, empty if it is missing; raise if it is anything else."""
    value = row.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidItem(f"{name}: expected an object, found {type(value).__name__}")
    return value


def corpus_record(row: Mapping[str, Any], tenant_id: str) -> Record:
    """Parse a corpus item into a record: BEIR's ``_id``, ``title`` and ``text``, and any of a record's fields.

    Raises InvalidItem or ValidationError if it is invalid.
    """
    names = {"id": "unknown field: the corpus says _id", "content": "unknown field: the corpus says text"}
    refuse(row, OURS | NO_VECTORS | names)
    require_fields(row, "_id", "text")
    fields = {key: value for key, value in row.items() if key not in {"_id", "title", "text", "metadata", "source"}}
    source = dict(object_of(row, "source"))
    title = " ".join(str(row.get("title") or "").split())
    if title:
        source.setdefault("title", title[:512])
    record = Record.model_validate(
        {
            **fields,
            "id": row["_id"],
            "tenant_id": tenant_id,
            "content": row["text"],
            "source": source,
            "metadata": _flat(object_of(row, "metadata")),
        }
    )
    return _bounded(record, {"content": "text"})


def record_of(row: Mapping[str, Any], tenant_id: str) -> Record:
    """Parse an item into a record; its fields are named as in a corpus (``_id``) or as in a record (``id``)."""
    if "_id" in row or "text" in row:
        return corpus_record(row, tenant_id)
    refuse(row, OURS)
    require_fields(row, "id")
    metadata = _flat(object_of(row, "metadata"))
    return _bounded(Record.model_validate({**row, "tenant_id": tenant_id, "metadata": metadata}))


def entity_of(row: Mapping[str, Any], tenant_id: str) -> tuple[Vertex, Record | None]:
    """Parse an entity into a vertex, and into a record as well if it has content."""
    refuse(row, OURS | NO_VECTORS | {"entity_type": "unknown field: entities say type"})
    content = row.get("content") or ""
    if isinstance(content, str) and not content.strip():
        content = ""
    vertex_fields = ("id", "name", "timestamp", "valid_at", "invalid_at", "trusted")
    vertex = Vertex.model_validate(
        {
            **{key: row[key] for key in vertex_fields if key in row},
            "tenant_id": tenant_id,
            "entity_type": row.get("type") or DEFAULT_ENTITY_TYPE,
            "aliases": row.get("aliases") or (),
            "has_record": bool(content),
        }
    )
    fields = {key: value for key, value in row.items() if key not in {"type", "metadata"}}
    record = Record.model_validate(
        {
            "kind": Kind.ENTITY,
            **fields,
            "tenant_id": tenant_id,
            "entity_type": vertex.entity_type,
            "content": content,
            "metadata": _flat(object_of(row, "metadata")),
        }
    )
    return _bounded(vertex), _bounded(record) if content else None


def relationship_of(row: Mapping[str, Any], tenant_id: str) -> Relationship:
    """Parse an item into an edge."""
    refuse(row, OURS | FOUND)
    return Relationship.model_validate({**row, "tenant_id": tenant_id})


def _bounded(item: _Item, names: Mapping[str, str] | None = None) -> _Item:
    """Return an item unless it exceeds the size limits or lacks a text; ``names`` maps its fields to the item's."""
    if found := too_much(item) or (no_text(item) if isinstance(item, Record) else None):
        raise InvalidItem(f"{(names or {}).get(found.field, found.field)}: {found.message}")
    return item


class Items:
    """Parsed items of one tenant, and the errors of invalid items."""

    def __init__(self, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self.errors: list[ItemError] = []
        self.unread: dict[str, None] = {}
        """Every id in the lines that could not be parsed; which one is the item's is not known."""
        self._records: dict[str, list[Any]] = {"records": [], "vertices": [], "relationships": []}
        self._places: dict[str, list[str]] = {"records": [], "vertices": [], "relationships": []}

    def add_line(self, place: str, line: bytes) -> None:
        """Parse one line; an empty line is skipped."""
        if len(line) > MAX_LINE_BYTES:
            self._refuse_unread(place, line, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
            return
        if not line.strip():
            return
        try:
            row = read_json(line.decode("utf-8-sig"))
        except UnicodeDecodeError:
            self._refuse_unread(place, line, "not UTF-8")
        except json.JSONDecodeError as error:
            self._refuse_unread(place, line, f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}")
        except NotJson as error:
            self._refuse_unread(place, line, f"not JSON: the line {error}")
        else:
            self.add(place, row)

    def add(self, place: str, row: object, kind: str | None = None) -> None:
        """Parse one item; ``kind`` is ``record``, ``entity`` or ``relationship`` if the item does not state it."""
        if kind is None and isinstance(row, dict) and len(row) == 1 and next(iter(row)) in KINDS:
            ((kind, row),) = row.items()
        if not isinstance(row, dict):
            self._refuse(place, {}, f"expected an object, found {type(row).__name__}")
            return
        names = ENTITY_NAMES if kind == "entity" else CORPUS_NAMES if kind != "relationship" and "_id" in row else {}
        try:
            self._make(place, row, kind or "record")
        except ValidationError as error:
            fields = Relationship.model_fields if kind == "relationship" else NewRecord.model_fields
            known = ["title", *(names.get(field, field) for field in fields)]
            self._refuse(place, row, str(InvalidRequest.from_validation(error, names, known)).removeprefix("request: "))
        except InvalidItem as error:
            self._refuse(place, row, str(error))

    def request(self, **fields: Any) -> WriteRequest:  # noqa: ANN401 - WriteRequest checks them
        """Return the write request of the valid items, with further fields of it."""
        return WriteRequest(tenant_id=self.tenant_id, places=Places(**self._places), **self._records, **fields)

    def _make(self, place: str, row: Mapping[str, Any], kind: str) -> None:
        if kind == "relationship":
            self._keep("relationships", place, relationship_of(row, self.tenant_id))
        elif kind == "entity":
            vertex, record = entity_of(row, self.tenant_id)
            self._keep("vertices", place, vertex)
            if record is not None:
                self._keep("records", place, record)
        else:
            self._keep("records", place, record_of(row, self.tenant_id))

    def _keep(self, what: str, place: str, item: Record | Vertex | Relationship) -> None:
        self._records[what].append(item)
        self._places[what].append(place)

    def _refuse_unread(self, place: str, line: bytes, problem: str) -> None:
        self._refuse(place, {}, problem)
        for found in _ID.findall(line):
            with suppress(ValidationError):  # an invalid id cannot be the evidence of an edge
                self.unread[_RECORD_ID.validate_json(found)] = None

    def _refuse(self, place: str, row: Mapping[str, Any], problem: str) -> None:
        field, colon, message = problem.partition(": ")
        identity = row.get("_id", row.get("id"))
        named = bool(colon) and field.replace(".", "").replace("_", "").isalnum()
        self.errors.append(
            ItemError(
                place=place,
                id=printable(identity[:MAX_ID_BYTES]) if isinstance(identity, str) else None,
                field=field if named else None,
                message=printable(message if named else problem),
            )
        )


def read_lines(lines: Iterable[tuple[str, bytes]], tenant_id: str) -> Items:
    """Parse lines, each given with its place."""
    items = Items(tenant_id)
    for place, line in lines:
        items.add_line(place, line)
    return items


def _flat(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata that a record can have: dates as ISO 8601, nested values as JSON text.

    Lists of single values stay lists; lists with null, or longer than the limit, become JSON text too. So any BEIR file
    can be read. Raises InvalidItem for other values.
    """
    flat: dict[str, Any] = {}
    for key, given in metadata.items():
        value = dates_as_text(given)
        if endless := [one for one in values_in(value) if isinstance(one, float) and not isfinite(one)]:
            told = f"key {str(key)[:_KEY_CHARACTERS]!r} is {'NaN' if isnan(endless[0]) else 'infinite'}"
            raise InvalidItem(f"metadata: {told}; give a finite number, null, or leave it out")
        try:
            flat[str(key)] = value if value is None or _is_plain(value) else json.dumps(value, default=_date)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"key {str(key)[:_KEY_CHARACTERS]!r} holds a {type(value).__name__}, which is no JSON"
            raise InvalidItem(f"metadata: {message}; give a text, a number, a date, true, false or null") from error
    return flat


def _is_plain(value: object) -> bool:
    """Whether a value is a single one, or a short list of single ones."""
    if isinstance(value, list | tuple):
        return len(value) <= MAX_METADATA_LIST and all(isinstance(one, str | int | float | date) for one in value)
    return isinstance(value, str | int | float)


def _date(value: object) -> object:
    """Return a date inside a nested value as text. Raises TypeError for other values that JSON does not have."""
    if (text := dates_as_text(value)) is value:
        raise TypeError
    return text
