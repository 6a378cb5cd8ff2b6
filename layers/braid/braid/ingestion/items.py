"""Reading what is to be written: objects of JSON, one a line or in a list, made into records, vertices and edges.

A line is ``{"record": …}``, ``{"entity": …}`` or ``{"relationship": …}``, or a record's fields themselves, so that a
corpus as BEIR names it can be written as it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from braid.errors import InvalidRequest
from braid.ingestion.writing import ItemError, MissingEnds, Places, WriteReport, WriteRequest, write
from braid.models import Kind, Record, Relationship, Vertex
from braid.models.record_limits import too_much
from braid.ports.object_store import MAX_LINE_BYTES
from braid.strict_json import NotJson, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from braid.ingestion.writing import WriteStore

MAX_INLINE = 100
"""Items of one call that is answered when they are written."""
DEFAULT_ENTITY_TYPE = "Concept"
OURS = {
    "tenant_id": "unknown field: the tenant is given beside the data",
    "content_hash": "unknown field",
    "supplied_spaces": "unknown field",
}
"""Fields of the stored shapes that nobody states."""
NO_VECTORS = {"embeddings": "unknown field"}
"""What a record may state, if the settings allow it, and neither a corpus nor an entity does."""
CORPUS_NAMES = {"id": "_id", "content": "text"}
ENTITY_NAMES = {"entity_type": "type"}
KINDS = {"record": "records", "entity": "entities", "relationship": "relationships"}


_Item = TypeVar("_Item", Record, Vertex)


class Mistake(Exception):
    """An item is wrong in a way that its shape does not know of; the message names the field."""


def refuse(row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
    """Raise a mistake when an item has one of these fields; the message of each is given."""
    for name, message in fields.items():
        if name in row:
            raise Mistake(f"{name}: {message}")


def require(row: Mapping[str, Any], *fields: str) -> None:
    """Raise a mistake when an item lacks one of these fields."""
    for name in fields:
        if row.get(name) is None:
            raise Mistake(f"{name}: missing")


def object_of(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object, empty when there is none; raise a mistake when it is anything else."""
    value = row.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Mistake(f"{name}: expected an object, found {type(value).__name__}")
    return value


def corpus_record(row: Mapping[str, Any], tenant_id: str) -> Record:
    """Make a record of a corpus' item: BEIR's ``_id``, ``title`` and ``text``, and any of a record's fields.

    Raises
    ------
    Mistake, ValidationError
        If it is none.
    """
    names = {"id": "unknown field: the corpus says _id", "content": "unknown field: the corpus says text"}
    refuse(row, OURS | NO_VECTORS | names)
    require(row, "_id", "text")
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
    """Make a record of an item that names its fields as a corpus does (``_id``) or as a record does (``id``)."""
    if "_id" in row or "text" in row:
        return corpus_record(row, tenant_id)
    refuse(row, OURS)
    require(row, "id")
    metadata = _flat(object_of(row, "metadata"))
    return _bounded(Record.model_validate({**row, "tenant_id": tenant_id, "metadata": metadata}))


def entity_of(row: Mapping[str, Any], tenant_id: str) -> tuple[Vertex, Record | None]:
    """Make a vertex of an entity, and a record as well when it has content."""
    refuse(row, OURS | NO_VECTORS | {"entity_type": "unknown field: entities say type"})
    content = row.get("content") or ""
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
    """Make an edge of an item."""
    refuse(row, OURS)
    return Relationship.model_validate({**row, "tenant_id": tenant_id})


def _bounded(item: _Item, names: Mapping[str, str] | None = None) -> _Item:
    """Return a record or vertex that holds no more than one may; ``names`` are those of the fields in the item."""
    if found := too_much(item):
        raise Mistake(f"{(names or {}).get(found.field, found.field)}: {found.message}")
    return item


class Items:
    """Items of one tenant as they are read: what could be made of them, and what is wrong with the rest."""

    def __init__(self, tenant_id: str) -> None:
        self.tenant_id = tenant_id
        self.errors: list[ItemError] = []
        self._records: dict[str, list[Any]] = {"records": [], "vertices": [], "relationships": []}
        self._places: dict[str, list[str]] = {"records": [], "vertices": [], "relationships": []}

    def add_line(self, place: str, line: bytes) -> None:
        """Read one line; an empty one is none."""
        if len(line) > MAX_LINE_BYTES:
            self._refuse(place, {}, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
            return
        if not line.strip():
            return
        try:
            row = read_json(line.decode("utf-8-sig"))
        except UnicodeDecodeError:
            self._refuse(place, {}, "not UTF-8")
        except json.JSONDecodeError as error:
            self._refuse(place, {}, f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}")
        except NotJson as error:
            self._refuse(place, {}, f"not JSON: the line {error}")
        else:
            self.add(place, row)

    def add(self, place: str, row: object, kind: str | None = None) -> None:
        """Read one item; ``kind`` is ``record``, ``entity`` or ``relationship`` when the item does not say."""
        if kind is None and isinstance(row, dict) and len(row) == 1 and next(iter(row)) in KINDS:
            ((kind, row),) = row.items()
        if not isinstance(row, dict):
            self._refuse(place, {}, f"expected an object, found {type(row).__name__}")
            return
        names = ENTITY_NAMES if kind == "entity" else CORPUS_NAMES if kind != "relationship" and "_id" in row else {}
        try:
            self._make(place, row, kind or "record")
        except ValidationError as error:
            self._refuse(place, row, str(InvalidRequest.from_validation(error, names)).removeprefix("request: "))
        except Mistake as error:
            self._refuse(place, row, str(error))

    def request(self, **fields: Any) -> WriteRequest:  # noqa: ANN401 - WriteRequest checks them
        """Return the request to write what could be made, with further fields of it."""
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

    def _refuse(self, place: str, row: Mapping[str, Any], problem: str) -> None:
        field, colon, message = problem.partition(": ")
        identity = row.get("_id", row.get("id"))
        named = bool(colon) and field.replace(".", "").replace("_", "").isalnum() and field != "not JSON"
        self.errors.append(
            ItemError(
                place=place,
                id=identity if isinstance(identity, str) else None,
                field=field if named else None,
                message=printable(message if named else problem),
            )
        )


def printable(text: str) -> str:
    """Return a message that may quote what it found, which may hold anything."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def write_items(items: Items, store: WriteStore, *, partial: bool = False, **fields: Any) -> WriteReport:  # noqa: ANN401 - WriteRequest checks them
    """Write what was read.

    Parameters
    ----------
    items
        What was read.
    store
        Where to.
    partial
        Whether what is right is written when something is wrong; else nothing is.
    fields
        Further fields of :class:`~braid.ingestion.writing.WriteRequest`.

    Raises
    ------
    StoreError, ModelError
        As :func:`braid.ingestion.writing.write`.
    """
    if items.errors and not partial:
        return WriteReport(tenant_id=items.tenant_id, errors=tuple(items.errors))
    report = write(items.request(partial=partial, **fields), store)
    return report.model_copy(update={"errors": (*items.errors, *report.errors)})


def read_body(body: Mapping[str, Any], tenant_id: str, *, limit: int = MAX_INLINE) -> tuple[Items, dict[str, Any]]:
    """Read the body of one call: lists ``records``, ``entities``, ``relationships``, and how to write them.

    Parameters
    ----------
    body
        Beside the lists ``missing`` (``refuse`` or ``stub``) and ``partial`` may be stated.
    tenant_id
        Whose, from the verified token and never from the body.
    limit
        Items of all lists together.

    Returns
    -------
    tuple
        The items, and the arguments ``missing`` and ``partial`` of :func:`write_items`.

    Raises
    ------
    InvalidRequest
        If the body is not of this form, is empty or too long; names the field.
    """
    unknown = sorted(set(body) - {*KINDS.values(), "missing", "partial"})
    if unknown:
        raise InvalidRequest(f"{unknown[0]}: unknown field", field=unknown[0])
    options = {"missing": body.get("missing", MissingEnds.REFUSE.value), "partial": body.get("partial", False)}
    if options["missing"] not in set(MissingEnds):
        raise InvalidRequest("missing: must be refuse or stub", field="missing")
    if not isinstance(options["partial"], bool):
        raise InvalidRequest("partial: must be true or false", field="partial")
    items = Items(tenant_id)
    count = 0
    for kind, name in KINDS.items():
        rows = body.get(name) or []
        if not isinstance(rows, list):
            raise InvalidRequest(f"{name}: must be a list", field=name)
        count += len(rows)
        if count > limit:
            message = f"{name}: more than {limit} items; write a file of lines to the object store instead"
            raise InvalidRequest(message, field=name)
        for position, row in enumerate(rows):
            items.add(f"{name}[{position}]", row, kind)
    if not count:
        raise InvalidRequest("records: there is nothing to write", field="records")
    return items, options


def write_body(body: Mapping[str, Any], tenant_id: str, store: WriteStore) -> WriteReport:
    """Write the body of one call, as :func:`read_body` reads it; a report with errors says that nothing was written.

    Raises
    ------
    InvalidRequest
        As :func:`read_body`.
    StoreError, ModelError
        As :func:`braid.ingestion.writing.write`.
    """
    items, options = read_body(body, tenant_id)
    return write_items(items, store, **options)


def read_lines(lines: Iterable[tuple[str, bytes]], tenant_id: str) -> Items:
    """Read lines, each with where it stands."""
    items = Items(tenant_id)
    for place, line in lines:
        items.add_line(place, line)
    return items


def _flat(metadata: dict[str, Any]) -> dict[str, Any]:
    """Keep scalars as they are and nested values as JSON text, so that any BEIR file can be read."""
    scalar = (str, int, float, bool, type(None))
    return {str(key): value if isinstance(value, scalar) else json.dumps(value) for key, value in metadata.items()}
