"""SQL for the rows of names: normalised names and aliases by which vertices are linked, and keys of misspellings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from braid.engines.embedded.tables import from_microseconds, is_valid
from braid.models import EntityLink, Vertex
from braid.models.records import DOCUMENT_TYPE
from braid.ports.knowledge_graph import GivenName, NameKeys
from braid.understanding.misspelling_keys import MISSPELT, misspelling_number, misspelling_numbers, names_with_keys
from braid.understanding.name_keys import is_form, match_score, other_forms
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

GIVEN_NAMES_READ = 50_000
"""Most names in the graph that are looked at for those of given entities in a batch of phrases: some 30 ms."""
StoredNames: TypeAlias = "tuple[int, str | None, str]"
"""A vertex's number, its name, and its aliases as JSON."""


def name_keys(vertex: Vertex) -> NameKeys:
    """Return the names and aliases that a vertex is linked by; a hundred long aliases take 10 ms."""
    return NameKeys(_phrases(vertex), tuple(misspelling_numbers(*_names(vertex))))


def _names(vertex: Vertex) -> list[str]:
    return [name for name in (vertex.name, *vertex.aliases) if name]


def _phrases(vertex: Vertex) -> dict[str, bool]:
    """Return the phrases that a vertex is linked by; False for its name, True for an alias or a form of either."""
    # The name comes last: it replaces an alias with the same normalised form.
    phrases = {normalise(alias): True for alias in vertex.aliases}
    if vertex.name is not None:
        phrases[normalise(vertex.name)] = False
    phrases.pop("", None)
    return phrases | dict.fromkeys(other_forms(*_names(vertex), is_text=vertex.is_text), True)


def insert_names(connection: sqlite3.Connection, tenant: int, named: Sequence[tuple[int, NameKeys]]) -> None:
    """Insert the names by which vertices of one tenant are linked, given with the vertices' numbers."""
    # Both sorted by primary key, so that pages are written sequentially.
    connection.executemany(
        f"INSERT INTO names (tenant, phrase, vertex, is_alias) VALUES ({tenant:d}, ?, ?, ?)",  # noqa: S608 - a number
        sorted([(phrase, number, is_alias) for number, own in named for phrase, is_alias in own.phrases.items()]),
    )
    connection.executemany(
        f"INSERT OR IGNORE INTO misspellings (tenant, key, vertex) VALUES ({tenant:d}, ?, ?)",  # noqa: S608 - a number
        sorted([(key, number) for number, own in named for key in own.misspellings]),
    )


def delete_names(connection: sqlite3.Connection, tenant: int, stored: Collection[StoredNames]) -> None:
    """Remove the stored names of vertices of one tenant."""
    connection.executemany(
        f"DELETE FROM misspellings WHERE tenant = {tenant:d} AND key = ? AND vertex = ?",  # noqa: S608 - a number
        sorted(
            (key, number)
            for number, name, aliases in stored
            for key in misspelling_numbers(*filter(None, (name, *json.loads(aliases))))
        ),
    )
    connection.executemany("DELETE FROM names WHERE vertex = ?", [(number,) for number, _, _ in stored])


def ids_by_phrase(connection: sqlite3.Connection, tenant: int, phrases: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the vertices with each normalised name or alias, by phrase."""
    found: dict[str, list[str]] = {}
    for phrase, vertex_id in connection.execute(
        "SELECT n.phrase, v.id FROM json_each(:phrases) AS asked"
        " CROSS JOIN names AS n ON n.tenant = :tenant AND n.phrase = asked.value"
        " CROSS JOIN vertices AS v ON v.number = n.vertex AND v.tenant = :tenant",
        {"tenant": tenant, "phrases": json.dumps(list(phrases))},
    ):
        found.setdefault(phrase, []).append(vertex_id)
    return found


def given_names(
    connection: sqlite3.Connection, tenant: int, names: Sequence[str], *, as_of: int | None, limit: int
) -> list[GivenName]:
    """Return up to ``limit`` of these names with trusted vertices that have them, valid, not found and not of texts.

    Of the names in the graph, whose vertices may be others, the first :data:`GIVEN_NAMES_READ` are looked at.
    """
    # Sorted here: with an order SQLite would read all of a name that very many have, and not stop at the limit.
    rows = connection.execute(
        "SELECT v.id, n.phrase, n.is_alias FROM (SELECT n.phrase, n.vertex, n.is_alias FROM json_each(:names) AS asked"  # noqa: S608 - a condition of the code
        " CROSS JOIN names AS n ON n.tenant = :tenant AND n.phrase = asked.value LIMIT :most) AS n"
        " CROSS JOIN vertices AS v ON v.number = n.vertex AND v.tenant = :tenant"
        " WHERE v.trusted AND NOT v.found AND NOT (v.has_record AND v.entity_type = :of_texts)"
        f" AND {is_valid('v')} LIMIT :limit",
        {
            "names": json.dumps(list(names)),
            "tenant": tenant,
            "as_of": as_of,
            "limit": limit,
            "most": GIVEN_NAMES_READ,
            "of_texts": DOCUMENT_TYPE,
        },
    )
    return sorted(GivenName(vertex_id, phrase, bool(is_alias)) for vertex_id, phrase, is_alias in rows)


_STORED = """
    SELECT j.value FROM json_each(:keys) AS j WHERE CASE j.type
        WHEN 'integer' THEN EXISTS (SELECT 1 FROM misspellings AS m WHERE m.tenant = :tenant AND m.key = j.value)
        ELSE EXISTS (SELECT 1 FROM names AS n WHERE n.tenant = :tenant AND n.phrase = j.value) END
"""
"""The keys that any vertex has."""
_BEST_MATCHES = f"""
    WITH asked AS MATERIALIZED (
        SELECT json_extract(value, '$[0]') AS key, json_extract(value, '$[1]') AS is_alias,
            json_extract(value, '$[2]') AS match, json_extract(value, '$[3]') AS rank
        FROM json_each(:asked)
    ), found AS (
        SELECT n.vertex, asked.match, asked.rank FROM asked
            CROSS JOIN names AS n ON n.tenant = :tenant AND n.phrase = asked.key AND n.is_alias = asked.is_alias
            WHERE typeof(asked.key) = 'text'
        UNION ALL
        SELECT m.vertex, asked.match, asked.rank FROM asked
            CROSS JOIN misspellings AS m ON m.tenant = :tenant AND m.key = asked.key
            WHERE typeof(asked.key) = 'integer'
    ), matched AS MATERIALIZED (
        SELECT vertex AS number, min(match) AS match, min(rank) AS rank FROM found GROUP BY vertex
    ), chosen AS MATERIALIZED (
        SELECT v.number, v.id, matched.match, matched.rank
            FROM matched CROSS JOIN vertices AS v ON v.number = matched.number AND v.tenant = :tenant
            WHERE {is_valid("v")} AND v.trusted >= :trusted ORDER BY matched.rank, v.id LIMIT :limit
    )
    SELECT chosen.id, coalesce(v.name, json_extract(v.aliases, '$[0]')), v.entity_type, v.has_record, v.invalid_at,
        chosen.match, v.name,
        CASE WHEN chosen.match IN (SELECT match FROM asked WHERE typeof(key) = 'integer') THEN v.aliases END
        FROM chosen CROSS JOIN vertices AS v ON v.number = chosen.number ORDER BY chosen.rank, chosen.id
"""  # noqa: S608 - a condition of the code
"""The vertices with the best matches, each with its own best one. Aliases may be many and long: only numbers are
compared, and texts are read only for the chosen vertices: all names of those that match by a key of misspellings."""


class _Match(NamedTuple):
    """One way in which a looked-up name may match. The better of two matches compares as the smaller."""

    negative_score: float
    negative_length: int
    name: str
    is_alias: bool
    """Whether as an alias or another form; else as a vertex's name."""
    key: str | int
    """By which it is stored: the name itself, or the number of a misspelling."""


def link(
    connection: sqlite3.Connection,
    tenant: int,
    names: Collection[str],
    *,
    as_of: int | None,
    limit: int,
    trusted_only: bool,
) -> list[EntityLink]:
    """Return the best ``limit`` entities with one of the names, valid at ``as_of``, each by its best match."""
    by_key = {misspelling_number(name) if name[:1] == MISSPELT else name: name for name in names}
    # A question's words have hundreds of forms, few of which are stored.
    stored = connection.execute(_STORED, {"keys": json.dumps(list(by_key)), "tenant": tenant})
    matches = sorted(
        _Match(-match_score(name, is_name=not is_alias), -len(name), name, is_alias, key)
        for key, name in ((key, by_key[key]) for (key,) in stored)
        for is_alias in {is_form(name), True}  # a form is never a name itself
    )
    ranks: dict[tuple[float, int], int] = {}  # of matches of equal score and length, which are ordered by entity id
    asked = [
        (match.key, match.is_alias, number, ranks.setdefault((match.negative_score, match.negative_length), len(ranks)))
        for number, match in enumerate(matches)
    ]
    rows = connection.execute(
        _BEST_MATCHES,
        {"asked": json.dumps(asked), "tenant": tenant, "as_of": as_of, "limit": limit, "trusted": trusted_only},
    )
    return [
        EntityLink.unchecked(
            entity_id=vertex_id,
            name=name,
            entity_type=entity_type,
            phrase=matches[number].name,
            score=-matches[number].negative_score,
            has_record=bool(has_record),
            invalid_at=from_microseconds(invalid_at),
            names=names_with_keys(*filter(None, (own_name, *json.loads(aliases)))) if aliases else (),
        )
        for vertex_id, name, entity_type, has_record, invalid_at, number, own_name, aliases in rows
    ]
