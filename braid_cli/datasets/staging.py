"""Staging tables of one dataset: ids, places, edges and supersessions, in a temporary SQLite file.

A dataset may be larger than memory, and some checks need all of it: duplicate ids, edges without ends, and items that
the previous ingest wrote and the dataset no longer has. The file has no name; the system deletes it with the process.
"""

from __future__ import annotations

import json
import sqlite3
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.models import SUPERSEDES, Kind, Record, Relationship, Vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from braid.models import EdgeId

_TABLES = """
CREATE TABLE records (id TEXT PRIMARY KEY, place TEXT, version INT, is_entity INT, at INT, written INT)
    WITHOUT ROWID;
CREATE TABLE vertices (id TEXT PRIMARY KEY, place TEXT) WITHOUT ROWID;
CREATE TABLE edges (source TEXT, type TEXT, target TEXT, predicate TEXT, place TEXT, at INT,
    PRIMARY KEY (source, type, target, predicate)) WITHOUT ROWID;
CREATE TABLE repeated (place TEXT, id TEXT, first TEXT);
CREATE TABLE beside (id TEXT PRIMARY KEY, vertex TEXT) WITHOUT ROWID;
CREATE TABLE superseding (id TEXT PRIMARY KEY, record TEXT, place TEXT) WITHOUT ROWID;
CREATE TABLE links (source TEXT, target TEXT, predicate TEXT, edge TEXT, place TEXT,
    PRIMARY KEY (target, source, predicate)) WITHOUT ROWID;
CREATE TABLE claims (key TEXT, by TEXT, edge TEXT, place TEXT, PRIMARY KEY (by, key)) WITHOUT ROWID;
CREATE INDEX claims_on ON claims (key);
CREATE TABLE entries (snapshot TEXT, kind TEXT, a TEXT, b TEXT, c TEXT, d TEXT,
    PRIMARY KEY (snapshot, kind, a, b, c, d)) WITHOUT ROWID;
"""
_SLIM = {"id", "tenant_id", "kind", "supersedes", "valid_at", "timestamp"}
_PAGE = 500
_CACHE_KIB = 16_384
_ROWS_AT_ONCE = 100
"""Items that are inserted together, and are in memory until then."""


class Snapshot(StrEnum):
    """A set of ids and edge identities, as in a manifest."""

    CURRENT = "now"
    """Items of the current dataset."""
    PREVIOUS = "before"
    """Items that the previous ingest of the dataset wrote."""
    OTHERS = "others"
    """Items that ingests of the tenant's other datasets wrote."""


class Item(NamedTuple):
    """A record, the vertex of an entity, or both, with its place, such as ``corpus.jsonl:12``."""

    place: str
    record: Record | None
    vertex: Vertex | None


class _Row(NamedTuple):
    """An item without its text, to be inserted."""

    place: str
    record: tuple[object, ...]
    """Its row in the table of records; empty if it has none."""
    vertex: Vertex | None


class Dangling(NamedTuple):
    """An end of an edge that is neither an entity nor a record of the dataset."""

    place: str
    side: str
    end: str
    edge: tuple[str, str, str]


class Staging:
    """Staging tables of one dataset."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        fast = f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -{_CACHE_KIB:d};"
        self._db.executescript(f"{fast} {_TABLES} BEGIN")
        self.record_count = self.relationship_count = 0
        self._at = 0
        self._have_claims = False

    def close(self) -> None:
        """Close and delete the tables."""
        self._db.close()

    def add_items(self, items: Iterable[Item]) -> None:
        """Add records, entities, or both."""
        rows = map(self._without_text, items)
        while page := list(islice(rows, _ROWS_AT_ONCE)):
            self._insert_once("records", [one.record for one in page if one.record])
            vertices = [(one.vertex, one) for one in page if one.vertex is not None]
            described = self._places("records", [vertex.id for vertex, one in vertices if not one.record])
            self._db.executemany(
                "INSERT OR IGNORE INTO beside VALUES (?, ?)",
                [
                    (vertex.id, vertex.model_dump_json())
                    for vertex, one in vertices
                    if not one.record and vertex.id in described
                ],
            )
            self._insert_once("vertices", [(vertex.id, one.place) for vertex, one in vertices])

    def _without_text(self, item: Item) -> _Row:
        """Return the row of an item, after adding the supersessions of its record."""
        self._at += 1
        record = item.record
        if record is None:
            return _Row(item.place, (), item.vertex)
        self.record_count += 1
        self._add_supersession(item.place, record)
        is_entity = record.kind is Kind.ENTITY
        return _Row(item.place, (record.id, item.place, record.schema_version, is_entity, self._at, 0), item.vertex)

    def _add_supersession(self, place: str, record: Record) -> None:
        if record.supersedes:
            slim = record.model_dump_json(include=_SLIM)
            self._db.execute("INSERT OR IGNORE INTO superseding VALUES (?, ?, ?)", (record.id, slim, place))
        since = record.valid_at or record.timestamp
        for old in record.supersedes:
            link = Relationship(
                tenant_id=record.tenant_id, source=record.id, type=SUPERSEDES, target=old, valid_at=since
            )
            self._add_supersedes_edge("IGNORE", link, place)

    def add_edges(self, edges: Iterable[tuple[str, Relationship]]) -> None:
        """Add edges with their places; an edge replaces an earlier one of the same identity, and its supersessions."""
        self._db.executemany(
            "INSERT OR REPLACE INTO edges VALUES (?, ?, ?, ?, ?, ?)",
            (self._edge_row(place, edge) for place, edge in edges),
        )

    def _edge_row(self, place: str, edge: Relationship) -> tuple[object, ...]:
        """Return the row of an edge, after adding its supersessions."""
        self.relationship_count += 1
        if edge.type == SUPERSEDES:  # an explicit edge takes precedence over the one implied by a record
            self._add_supersedes_edge("REPLACE", edge, place)
        self._have_claims = self._have_claims or bool(edge.supersedes)
        if self._have_claims:  # otherwise there are no claims to replace
            by = json.dumps(edge.identity())
            self._db.execute("DELETE FROM claims WHERE by = ?", (by,))
            for key in edge.supersedes:
                said = (json.dumps(key.identity()), by, edge.model_dump_json(), place)
                self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", said)
        return (*edge.identity(), place, self.relationship_count)

    def _add_supersedes_edge(self, otherwise: str, edge: Relationship, place: str) -> None:
        source, _, target, predicate = edge.identity()
        said = (source, target, predicate, edge.model_dump_json(), place)
        self._db.execute(f"INSERT OR {otherwise} INTO links VALUES (?, ?, ?, ?, ?)", said)  # noqa: S608 - IGNORE or REPLACE

    def _insert_once(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows, which begin with id and place; rows with a known id go to the table of repeated ids instead."""
        first = self._places(table, [row[0] for row in rows])
        new: list[tuple[Any, ...]] = []
        for row in rows:
            identity, place = row[:2]
            if identity in first:
                self._db.execute("INSERT INTO repeated VALUES (?, ?, ?)", (place, identity, first[identity]))
            else:
                first[identity] = place
                new.append(row)
        if new:
            marks = ", ".join("?" * len(new[0]))
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", new)  # noqa: S608 - our own table

    def _places(self, table: str, ids: Sequence[str]) -> dict[str, str]:
        """Return the places of the ids that a table has."""
        query = f"SELECT id, place FROM {table} WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own table
        return dict(self._db.execute(query, (json.dumps(ids),)).fetchall())

    def clear_snapshots(self) -> None:
        """Empty all snapshots."""
        self._db.execute("DELETE FROM entries")

    def add_to_snapshot(self, snapshot: Snapshot, lines: Iterable[dict[str, Any]]) -> None:
        """Add the lines of a manifest to a snapshot."""
        for line in lines:
            ((kind, name),) = line.items()
            row = tuple(name) if kind == "edge" else (name, "", "", "")
            self._db.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?)", (snapshot, kind, *row))

    def snapshot_current(self) -> None:
        """Fill the current snapshot with records, edges, and vertices, including those implied by edges."""
        for kind, columns, of in (
            ("record", "id, '', '', ''", "records"),
            ("vertex", "id, '', '', ''", "vertices"),
            ("vertex", "source, '', '', ''", "edges"),
            ("vertex", "target, '', '', ''", "edges"),
            ("edge", "source, type, target, predicate", "edges"),
        ):
            chosen = f"SELECT '{Snapshot.CURRENT}', '{kind}', {columns} FROM {of}"  # noqa: S608 - from the lines above
            self._db.execute(f"INSERT OR IGNORE INTO entries {chosen}")

    def duplicate_ids(self) -> Iterator[tuple[str, str, str]]:
        """Yield the place of a duplicate id, the id, and its first place."""
        yield from self._db.execute("SELECT place, id, first FROM repeated ORDER BY rowid")

    def dangling_ends(self) -> Iterator[Dangling]:
        """Yield the dangling ends of edges, in the order of the edges."""
        known = "SELECT 1 FROM vertices WHERE id = {0} UNION ALL SELECT 1 FROM records WHERE id = {0}"
        absent = "NOT EXISTS (" + known + ")"
        source, target = absent.format("source"), absent.format("target")
        for place, head, kind, tail, no_source, no_target in self._db.execute(
            f"SELECT place, source, type, target, {source}, {target} FROM edges"  # noqa: S608 - made above
            f" WHERE {source} OR {target} ORDER BY at"
        ):
            for side, end, wrong in (("source", head, no_source), ("target", tail, no_target)):
                if wrong:
                    yield Dangling(place, side, end, (head, kind, tail))

    def newer_than(self, version: int) -> Iterator[tuple[str, int]]:
        """Yield place and schema version of each record of a newer schema version, in the records' order."""
        yield from self._db.execute("SELECT place, version FROM records WHERE version > ? ORDER BY at", (version,))

    def superseding_records(self) -> tuple[dict[str, Record], dict[str, str]]:
        """Return superseding and superseded records, without their text, and the places of the former."""
        records: dict[str, Record] = {}
        places: dict[str, str] = {}
        for name, slim, place in self._db.execute("SELECT id, record, place FROM superseding ORDER BY id"):
            records[name] = Record.model_validate_json(slim)
            places[name] = place
        for name, is_entity, edge in self._db.execute(
            "SELECT id, is_entity, edge FROM links JOIN records ON records.id = links.target"
        ):
            tenant_id = json.loads(edge)["tenant_id"]
            kind = Kind.ENTITY if is_entity else Kind.CHUNK
            records.setdefault(name, Record(id=name, tenant_id=tenant_id, kind=kind))
        return records, places

    def superseding_edges(self) -> tuple[dict[EdgeId, Relationship], dict[EdgeId, str]]:
        """Return superseding edges and the dataset's edges that they supersede, and the places of the former."""
        found: dict[EdgeId, Relationship] = {}
        places: dict[EdgeId, str] = {}
        for text, place in self._db.execute(
            "SELECT edge, place FROM edges JOIN links USING (source, target, predicate, place) WHERE type = ?"
            " UNION SELECT edge, place FROM claims",
            (SUPERSEDES,),
        ):
            edge = Relationship.model_validate_json(text)
            found[edge.identity()], places[edge.identity()] = edge, place
        for edge in list(found.values()):
            for key in edge.supersedes:
                where = "source = ? AND type = ? AND target = ? AND predicate = ?"
                if self._value(f"SELECT 1 FROM edges WHERE {where}", *key.identity()):  # noqa: S608 - the line above
                    ended = Relationship(tenant_id=edge.tenant_id, **key.model_dump())
                    found.setdefault(key.identity(), ended)
        return found, places

    def supersedes_edges(self) -> Iterator[tuple[str, Relationship]]:
        """Yield the ``SUPERSEDES`` edges with their places, including those implied by records."""
        for place, text in self._db.execute("SELECT place, edge FROM links ORDER BY source, target"):
            yield place, Relationship.model_validate_json(text)

    def ending_edges(self) -> Iterator[tuple[str, Relationship]]:
        """Yield edges that supersede other edges, with their places."""
        for place, text in self._db.execute("SELECT place, edge FROM claims GROUP BY by"):
            yield place, Relationship.model_validate_json(text)

    def ended_identities(self, edges: Iterable[Relationship]) -> frozenset[EdgeId]:
        """Return the identities of the edges that another edge of the dataset supersedes."""
        if not self._have_claims:
            return frozenset()
        named = {json.dumps(edge.identity()): edge.identity() for edge in edges}
        keys = json.dumps(list(named))
        query = "SELECT DISTINCT key FROM claims WHERE key IN (SELECT value FROM json_each(?))"
        return frozenset(named[key] for (key,) in self._db.execute(query, (keys,)))

    def superseded_but_removed(self) -> Iterator[tuple[str, str]]:
        """Yield records and edges that the dataset both supersedes and would delete: place and name of each."""
        records = f"SELECT place, a FROM links JOIN entries AS h ON kind = 'record' AND a = target WHERE {_REMOVED}"  # noqa: S608 - names of ours
        yield from ((place, repr(name)) for place, name in self._db.execute(records))
        same = " AND ".join(f"{column} = json_extract(key, '$[{at}]')" for at, column in enumerate("abcd"))
        edges = f"SELECT place, a, b, c FROM claims JOIN entries AS h ON kind = 'edge' AND {same} WHERE {_REMOVED}"  # noqa: S608 - names of ours
        yield from ((place, f"{head!r} {kind} {tail!r}") for place, head, kind, tail in self._db.execute(edges))

    def last_of_each_edge(self, edges: Iterable[tuple[str, Relationship]]) -> Iterator[tuple[str, Relationship]]:
        """Yield the last edge of each identity; ``edges`` are all edges, in the order in which they were added."""
        if self._value("SELECT count(*) FROM edges") == self.relationship_count:  # no identity twice
            yield from edges
            return
        where = "source = ? AND type = ? AND target = ? AND predicate = ?"
        for at, (place, edge) in enumerate(edges, start=1):
            if self._value(f"SELECT at FROM edges WHERE {where}", *edge.identity()) == at:  # noqa: S608 - the line above
                yield place, edge

    def note_written(self, records: Iterable[str]) -> None:
        """Mark records as written, by their ids."""
        chosen = "id IN (SELECT value FROM json_each(?))"
        self._db.execute(f"UPDATE records SET written = 1 WHERE {chosen}", (json.dumps(list(records)),))  # noqa: S608 - ours

    def wait_for_records(self, edges: Iterable[Relationship]) -> bool:
        """Return whether an end or the evidence of one of these edges is a record that is not written yet."""
        ids = {name for edge in edges for name in (edge.source, edge.target, edge.evidence) if name}
        chosen = "NOT written AND id IN (SELECT value FROM json_each(?))"
        return bool(self._value(f"SELECT EXISTS (SELECT 1 FROM records WHERE {chosen})", json.dumps(list(ids))))  # noqa: S608 - ours

    def vertices_with_a_record(self, ids: Iterable[str]) -> dict[str, Vertex]:
        """Return the vertices of the ids that have both their own line and a record in the corpus."""
        rows = self._db.execute(
            "SELECT id, vertex FROM beside WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
        )
        return {name: Vertex.model_validate_json(text) for name, text in rows}

    def vertex_count(self) -> int:
        """Return the number of vertices, including those implied by edges."""
        return int(self._value("SELECT count(*) FROM entries WHERE snapshot = ? AND kind = 'vertex'", Snapshot.CURRENT))

    def manifest_lines(self, *snapshots: Snapshot) -> Iterator[str]:
        """Yield the lines of a manifest of the union of one or two snapshots, in order, as JSON."""
        # The entries of a single snapshot are unique, and already in this order by the primary key.
        chosen, distinct = ("snapshot = ?2", "") if len(snapshots) == 1 else ("snapshot IN (?2, ?3)", "DISTINCT")
        for kind in ("record", "vertex", "edge"):
            value = "json_array(a, b, c, d)" if kind == "edge" else "a"
            rows = self._db.execute(
                f"SELECT json_object(?1, {value}) FROM (SELECT {distinct} a, b, c, d FROM entries"  # noqa: S608 - ours
                f" WHERE kind = ?1 AND {chosen} ORDER BY a, b, c, d)",
                (kind, *snapshots),
            )
            yield from (line for (line,) in rows)

    def edges_unchanged(self) -> bool:
        """Return whether the current edges are those of the previous ingest."""
        these, those = ("SELECT a, b, c, d FROM entries WHERE kind = 'edge' AND snapshot = ?" for _ in range(2))
        differing = f"SELECT EXISTS (SELECT * FROM ({these} EXCEPT {those}))"  # noqa: S608 - the line above
        return not (
            self._value(differing, Snapshot.CURRENT, Snapshot.PREVIOUS)
            or self._value(differing, Snapshot.PREVIOUS, Snapshot.CURRENT)
        )

    def removed_edges(self) -> Iterator[list[EdgeId]]:
        """Yield pages of edges of the previous ingest that no dataset of the tenant has any more."""
        yield from self._pages("SELECT a, b, c, d FROM entries AS h WHERE kind = 'edge' AND " + _REMOVED, tuple)  # noqa: S608 - names of ours

    def removed_ids(self) -> Iterator[list[str]]:
        """Yield pages of ids of the previous ingest that no dataset has any more, neither as record nor as vertex."""
        nodes = "kind IN ('record', 'vertex')"
        stay = [_IN.format(of, nodes) for of in (Snapshot.CURRENT, Snapshot.OTHERS)]
        query = f"SELECT DISTINCT a FROM entries AS h WHERE {nodes} AND {_REMOVED} AND NOT ({' OR '.join(stay)})"  # noqa: S608 - names of ours
        yield from self._pages(f"{query} ORDER BY a", lambda row: row[0])

    def demoted_ids(self, *, by_others: bool = False) -> Iterator[list[str]]:
        """Yield pages of ids whose record is deleted while the vertex stays: in this dataset, or in others alone."""
        here, there = (_IN.format(of, "kind = 'vertex'") for of in (Snapshot.CURRENT, Snapshot.OTHERS))
        stays = f"{there} AND NOT {here}" if by_others else here
        query = f"SELECT a FROM entries AS h WHERE kind = 'record' AND {_REMOVED} AND {stays} ORDER BY a"  # noqa: S608 - names of ours
        yield from self._pages(query, lambda row: row[0])

    def _pages(self, query: str, read: Callable[[Any], Any]) -> Iterator[list[Any]]:
        rows = self._db.execute(query)
        while page := rows.fetchmany(_PAGE):
            yield [read(row) for row in page]

    def _value(self, query: str, *parameters: object) -> Any:  # noqa: ANN401 - any column
        row = self._db.execute(query, parameters).fetchone()
        return None if row is None else row[0]


_IN = "EXISTS (SELECT 1 FROM entries WHERE snapshot = '{}' AND {} AND a = h.a)"
_REMOVED = (
    f"snapshot = '{Snapshot.PREVIOUS}' AND NOT EXISTS (SELECT 1 FROM entries"  # noqa: S608 - names of ours
    f" WHERE snapshot IN ('{Snapshot.CURRENT}', '{Snapshot.OTHERS}')"
    " AND kind = h.kind AND a = h.a AND b = h.b AND c = h.c AND d = h.d)"
)
