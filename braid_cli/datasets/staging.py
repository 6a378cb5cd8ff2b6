"""What has to be known of a dataset as a whole, on the disk: ids, where they stand, what is tied to what.

A dataset may be larger than memory. Whatever is about all of it, such as whether an id stands there twice, whether an
edge's ends are there, or what was there the last time and no longer is, is asked of tables in a file without a name,
which the system removes with the process.
"""

from __future__ import annotations

import json
import sqlite3
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.ingestion.supersession import SUPERSEDES
from braid.models import Kind, Record, Relationship, Vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Identity = tuple[str, str, str, str]

_TABLES = """
CREATE TABLE records (id TEXT PRIMARY KEY, place TEXT, version INT, is_entity INT, at INT) WITHOUT ROWID;
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
CREATE TABLE held (whose TEXT, kind TEXT, a TEXT, b TEXT, c TEXT, d TEXT,
    PRIMARY KEY (whose, kind, a, b, c, d)) WITHOUT ROWID;
"""
_SLIM = {"id", "tenant_id", "kind", "supersedes", "valid_at", "timestamp"}
_PAGE = 500


class Whose(StrEnum):
    """Who holds something."""

    NOW = "now"
    """The dataset as it is now."""
    BEFORE = "before"
    """The dataset as it was when it was last written."""
    OTHERS = "others"
    """Other datasets of the tenant."""


class Item(NamedTuple):
    """A record, the vertex of an entity, or both; and where they stand, such as ``corpus.jsonl:12``."""

    place: str
    record: Record | None
    vertex: Vertex | None


class Dangling(NamedTuple):
    """An end of an edge that is nothing of the dataset."""

    place: str
    side: str
    end: str
    edge: tuple[str, str, str]


class Ledger:
    """Notes of one dataset; what is noted does not stay in memory."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._db.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_TABLES} BEGIN")
        self.records = self.relationships = 0
        self._at = 0

    def close(self) -> None:
        """Forget everything."""
        self._db.close()

    # --- noting ---------------------------------------------------------------------------------------------------

    def note(self, item: Item) -> None:
        """Note a record, an entity, or both."""
        self._at += 1
        if item.record is not None:
            self.records += 1
            self._note_record(item.place, item.record)
        if item.vertex is not None:
            name = item.vertex.id
            if item.record is None and self._one("SELECT 1 FROM records WHERE id = ?", name):
                self._db.execute("INSERT OR IGNORE INTO beside VALUES (?, ?)", (name, item.vertex.model_dump_json()))
            self._once("vertices", name, item.place, (name, item.place))

    def _note_record(self, place: str, record: Record) -> None:
        row = (record.id, place, record.schema_version, record.kind is Kind.ENTITY, self._at)
        self._once("records", record.id, place, row)
        if record.supersedes:
            slim = record.model_dump_json(include=_SLIM)
            self._db.execute("INSERT OR IGNORE INTO superseding VALUES (?, ?, ?)", (record.id, slim, place))
        since = record.valid_at or record.timestamp
        for old in record.supersedes:
            link = Relationship(
                tenant_id=record.tenant_id, source=record.id, type=SUPERSEDES, target=old, valid_at=since
            )
            self._note_link("IGNORE", link, place)

    def note_edge(self, place: str, edge: Relationship) -> None:
        """Note an edge; of one identity the last stands, whatever those before it ended."""
        self.relationships += 1
        row = (*edge.identity(), place, self.relationships)
        self._db.execute("INSERT OR REPLACE INTO edges VALUES (?, ?, ?, ?, ?, ?)", row)
        if edge.type == SUPERSEDES:  # what is stated is so, whatever a record makes of it
            self._note_link("REPLACE", edge, place)
        by = json.dumps(edge.identity())
        self._db.execute("DELETE FROM claims WHERE by = ?", (by,))
        for key in edge.supersedes:
            said = (json.dumps(key.identity()), by, edge.model_dump_json(), place)
            self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", said)

    def _note_link(self, otherwise: str, edge: Relationship, place: str) -> None:
        source, _, target, predicate = edge.identity()
        said = (source, target, predicate, edge.model_dump_json(), place)
        self._db.execute(f"INSERT OR {otherwise} INTO links VALUES (?, ?, ?, ?, ?)", said)  # noqa: S608 - IGNORE or REPLACE

    def _once(self, table: str, identity: str, place: str, row: Sequence[object]) -> None:
        marks = ", ".join("?" * len(row))
        if not self._db.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row).rowcount:  # noqa: S608 - our own table
            first = self._one(f"SELECT place FROM {table} WHERE id = ?", identity)  # noqa: S608 - our own table
            self._db.execute("INSERT INTO repeated VALUES (?, ?, ?)", (place, identity, first))

    def hold_nothing(self) -> None:
        """Forget who holds what."""
        self._db.execute("DELETE FROM held")

    def hold(self, whose: Whose, lines: Iterable[dict[str, Any]]) -> None:
        """Note what a manifest's lines say that somebody holds."""
        for line in lines:
            ((kind, name),) = line.items()
            row = tuple(name) if kind == "edge" else (name, "", "", "")
            self._db.execute("INSERT OR IGNORE INTO held VALUES (?, ?, ?, ?, ?, ?)", (whose, kind, *row))

    def hold_now(self) -> None:
        """Note that the dataset holds all that was noted: records, vertices with those that edges need, and edges."""
        for kind, columns, of in (
            ("record", "id, '', '', ''", "records"),
            ("vertex", "id, '', '', ''", "vertices"),
            ("vertex", "source, '', '', ''", "edges"),
            ("vertex", "target, '', '', ''", "edges"),
            ("edge", "source, type, target, predicate", "edges"),
        ):
            chosen = f"SELECT '{Whose.NOW}', '{kind}', {columns} FROM {of}"  # noqa: S608 - from the lines above
            self._db.execute(f"INSERT OR IGNORE INTO held {chosen}")

    # --- mistakes -------------------------------------------------------------------------------------------------

    def repeated(self) -> Iterator[tuple[str, str, str]]:
        """Yield where an id stands again, the id, and where it stood first."""
        yield from self._db.execute("SELECT place, id, first FROM repeated ORDER BY rowid")

    def dangling(self) -> Iterator[Dangling]:
        """Yield the ends of edges that are neither an entity nor a record, in the order of the edges."""
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

    def newer(self, version: int) -> Iterator[tuple[str, int]]:
        """Yield place and schema version of the records of a newer version than this one, in their order."""
        yield from self._db.execute("SELECT place, version FROM records WHERE version > ? ORDER BY at", (version,))

    # --- what is superseded ---------------------------------------------------------------------------------------

    def superseding(self) -> tuple[dict[str, Record], dict[str, str]]:
        """Return the records that supersede or are superseded, without their text, and where the former stand."""
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

    def superseding_edges(self) -> tuple[dict[Identity, Relationship], dict[Identity, str]]:
        """Return the edges that state a supersession, with the dataset's edges that they end, and where they stand."""
        found: dict[Identity, Relationship] = {}
        places: dict[Identity, str] = {}
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
                if self._one(f"SELECT 1 FROM edges WHERE {where}", *key.identity()):  # noqa: S608 - the line above
                    ended = Relationship(tenant_id=edge.tenant_id, **key.model_dump())
                    found.setdefault(key.identity(), ended)
        return found, places

    def links(self) -> Iterator[tuple[str, Relationship]]:
        """Yield the ``SUPERSEDES`` edges, those that records state among them, with their places."""
        for place, text in self._db.execute("SELECT place, edge FROM links ORDER BY source, target"):
            yield place, Relationship.model_validate_json(text)

    def ends(self) -> Iterator[tuple[str, Relationship]]:
        """Yield the edges that end others, with their places."""
        for place, text in self._db.execute("SELECT place, edge FROM claims GROUP BY by"):
            yield place, Relationship.model_validate_json(text)

    def ended(self, edges: Iterable[Relationship]) -> frozenset[Identity]:
        """Return the identities of those of these edges that others of the dataset end."""
        named = {json.dumps(edge.identity()): edge.identity() for edge in edges}
        keys = json.dumps(list(named))
        query = "SELECT DISTINCT key FROM claims WHERE key IN (SELECT value FROM json_each(?))"
        return frozenset(named[key] for (key,) in self._db.execute(query, (keys,)))

    def leaving(self) -> Iterator[tuple[str, str]]:
        """Yield what the dataset supersedes though it held it before and nobody does any longer, behind the place."""
        records = f"SELECT place, a FROM links JOIN held AS h ON kind = 'record' AND a = target WHERE {_GONE}"  # noqa: S608 - names of ours
        yield from ((place, repr(name)) for place, name in self._db.execute(records))
        same = " AND ".join(f"{column} = json_extract(key, '$[{at}]')" for at, column in enumerate("abcd"))
        edges = f"SELECT place, a, b, c FROM claims JOIN held AS h ON kind = 'edge' AND {same} WHERE {_GONE}"  # noqa: S608 - names of ours
        yield from ((place, f"{head!r} {kind} {tail!r}") for place, head, kind, tail in self._db.execute(edges))

    # --- what is written, and what is gone ------------------------------------------------------------------------

    def standing(self, edges: Iterable[tuple[str, Relationship]]) -> Iterator[tuple[str, Relationship]]:
        """Yield those among all edges, in the order in which they were noted, that are the last of their identity."""
        where = "source = ? AND type = ? AND target = ? AND predicate = ?"
        for at, (place, edge) in enumerate(edges, start=1):
            if self._one(f"SELECT at FROM edges WHERE {where}", *edge.identity()) == at:  # noqa: S608 - the line above
                yield place, edge

    def vertices_beside(self, ids: Iterable[str]) -> dict[str, Vertex]:
        """Return the vertices among these ids that stand by themselves while a corpus has their record."""
        rows = self._db.execute(
            "SELECT id, vertex FROM beside WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(list(ids)),)
        )
        return {name: Vertex.model_validate_json(text) for name, text in rows}

    def vertices(self) -> int:
        """Return how many vertices the dataset holds, those that edges need among them."""
        return int(self._one("SELECT count(*) FROM held WHERE whose = ? AND kind = 'vertex'", Whose.NOW))

    def lines(self, *whose: Whose) -> Iterator[dict[str, Any]]:
        """Yield the lines of a manifest of what these hold, each once, in order."""
        chosen = json.dumps(list(whose))
        for kind in ("record", "vertex", "edge"):
            rows = self._db.execute(
                "SELECT DISTINCT a, b, c, d FROM held WHERE whose IN (SELECT value FROM json_each(?)) AND kind = ?"
                " ORDER BY a, b, c, d",
                (chosen, kind),
            )
            yield from ({kind: row if kind == "edge" else row[0]} for row in rows)

    def same_edges(self) -> bool:
        """Whether the dataset holds the edges that it held before."""
        these, those = ("SELECT a, b, c, d FROM held WHERE kind = 'edge' AND whose = ?" for _ in range(2))
        differing = f"SELECT EXISTS (SELECT * FROM ({these} EXCEPT {those}))"  # noqa: S608 - the line above
        return not (self._one(differing, Whose.NOW, Whose.BEFORE) or self._one(differing, Whose.BEFORE, Whose.NOW))

    def gone_edges(self) -> Iterator[list[Identity]]:
        """Yield pages of the edges that the dataset held and nobody holds any longer."""
        yield from self._pages("SELECT a, b, c, d FROM held AS h WHERE kind = 'edge' AND " + _GONE, tuple)  # noqa: S608 - names of ours

    def gone_ids(self) -> Iterator[list[str]]:
        """Yield pages of the records and vertices that the dataset held and nobody holds any longer."""
        kept = (
            f"NOT EXISTS (SELECT 1 FROM held WHERE whose = '{Whose.NOW}' AND kind IN ('record', 'vertex') AND a = h.a)"  # noqa: S608 - a name of ours
        )
        yield from self._pages(
            f"SELECT DISTINCT a FROM held AS h WHERE kind IN ('record', 'vertex') AND {_GONE} AND {kept} ORDER BY a",  # noqa: S608 - made above
            lambda row: row[0],
        )

    def demoted(self) -> Iterator[list[str]]:
        """Yield pages of the records that are gone while the vertex stays."""
        stays = f"EXISTS (SELECT 1 FROM held WHERE whose = '{Whose.NOW}' AND kind = 'vertex' AND a = h.a)"  # noqa: S608 - a name of ours
        yield from self._pages(
            f"SELECT a FROM held AS h WHERE kind = 'record' AND {_GONE} AND {stays} ORDER BY a",  # noqa: S608 - made above
            lambda row: row[0],
        )

    def _pages(self, query: str, read: Callable[[Any], Any]) -> Iterator[list[Any]]:
        rows = self._db.execute(query)
        while page := rows.fetchmany(_PAGE):
            yield [read(row) for row in page]

    def _one(self, query: str, *parameters: object) -> Any:  # noqa: ANN401 - whatever a column holds
        row = self._db.execute(query, parameters).fetchone()
        return None if row is None else row[0]


_GONE = (
    f"whose = '{Whose.BEFORE}' AND NOT EXISTS (SELECT 1 FROM held WHERE whose IN ('{Whose.NOW}', '{Whose.OTHERS}')"  # noqa: S608 - names of ours
    " AND kind = h.kind AND a = h.a AND b = h.b AND c = h.c AND d = h.d)"
)
