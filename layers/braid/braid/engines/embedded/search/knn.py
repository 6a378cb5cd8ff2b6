"""Vector search: the k nearest of a tenant's filtered vectors of one space, by cosine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from braid.engines.embedded.search.filters import VALID
from braid.engines.embedded.search.hnsw_segments import COSINE_ERROR
from braid.ranking.scoring import from_cosine

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

    from braid.engines.embedded.search.filters import RowFilter
    from braid.engines.embedded.search.hnsw_graph import HnswGraph, NearestKeys

EXACT_ROWS = 1_000
"""Rows that are read and scored one by one rather than found through the graph."""
_OVERFETCH = 4
_MIN_FETCH = 100
_MAX_FETCH = 4_096
_DIGITS = 6  # float32 leaves about seven; without rounding two equal vectors may differ by their place in the matrix


class ScoredRows(NamedTuple):
    """Rows that pass the filter, with their cosines and whether they are valid."""

    cosines: NDArray[np.float64]
    ids: list[str]
    valid: list[bool]


def search(
    connection: sqlite3.Connection,
    graph: HnswGraph | None,
    query: NDArray[np.float32],
    row_filter: RowFilter,
    *,
    space: str,
    k: int,
    exact_rows: int = EXACT_ROWS,
) -> tuple[list[tuple[float, str]], set[str]]:
    """Return the best ``k`` valid rows as (score, id), and the ids of superseded rows among the first ``k`` of all.

    Few rows are scored exactly. Otherwise the graph is asked for more than ``k``, and for more again until ``k`` pass
    the filter; when too few do, all rows that pass it are scored, so that a filter never costs hits.

    Parameters
    ----------
    graph
        None scores all rows.
    query
        Shape (dimension,), of length 1.
    """
    values = {**row_filter.values, "space": space}
    scored = None
    if graph is None:
        scored = _score_all(connection, query, row_filter.where, values)
    elif row_filter.narrow:
        numbers = _few_numbers(connection, row_filter.where, values, exact_rows)
        if numbers is not None:
            among = "r.number IN (SELECT value FROM json_each(:numbers))"
            scored = _score_all(connection, query, among, {**values, "numbers": json.dumps(numbers)})
    elif _has_at_most(connection, values, exact_rows):
        scored = _score_all(connection, query, row_filter.where, values)
    if scored is None and graph is not None:
        scored = _through_graph(connection, graph, query, row_filter=row_filter, space=space, k=k)
    if scored is None:
        scored = _score_all(connection, query, row_filter.where, values)
    return _best(scored, k)


def _has_at_most(connection: sqlite3.Connection, values: dict[str, str | int], rows: int) -> bool:
    beyond = connection.execute(
        "SELECT 1 FROM vectors WHERE space = :space AND tenant = :tenant LIMIT 1 OFFSET :rows", {**values, "rows": rows}
    ).fetchone()
    return beyond is None


def _few_numbers(
    connection: sqlite3.Connection, where: str, values: dict[str, str | int], most: int
) -> list[int] | None:
    """Return the numbers of the rows that pass the filter, None when there are more than ``most``."""
    # Numbers alone, which for most conditions an index holds: reading a thousand vectors to find them too many is dear.
    rows = connection.execute(
        f"SELECT r.number FROM records AS r WHERE {where} LIMIT :most + 1",  # noqa: S608 - conditions hold bound values only
        {**values, "most": most},
    ).fetchall()
    return [row[0] for row in rows] if len(rows) <= most else None


def _score_all(
    connection: sqlite3.Connection, query: NDArray[np.float32], where: str, values: dict[str, str | int]
) -> ScoredRows:
    rows = connection.execute(
        f"SELECT r.id, {VALID}, v.vector FROM records AS r"  # noqa: S608 - as above
        f" CROSS JOIN vectors AS v ON v.record = r.number AND v.space = :space WHERE {where}",
        values,
    ).fetchall()
    return _score(rows, query)


def _through_graph(
    connection: sqlite3.Connection,
    graph: HnswGraph,
    query: NDArray[np.float32],
    *,
    row_filter: RowFilter,
    space: str,
    k: int,
) -> ScoredRows | None:
    """Return rows of which at least ``k`` are valid, or None when the graph finds too few of them."""
    fetch = max(_OVERFETCH * k, _MIN_FETCH)
    while True:
        nearest = graph.nearest(connection, query, fetch)
        if nearest is None:
            return None
        rows = _rows_of_nearest(connection, nearest, row_filter, space, k)
        if sum(row[1] for row in rows) >= k:
            return _score(rows, query)
        if fetch >= min(nearest.size, _MAX_FETCH):
            return None
        fetch *= _OVERFETCH


def _rows_of_nearest(
    connection: sqlite3.Connection, nearest: NearestKeys, row_filter: RowFilter, space: str, k: int
) -> list[tuple[str, int, bytes]]:
    """Return the rows of the nearest vectors, nearest first, as far as any could be among the ``k`` best valid ones.

    Reading rows is most of a search, and most of these keys are fetched only in case the filter refuses others.
    """
    statement = (
        f"SELECT r.id, {VALID}, v.vector, n.key FROM json_each(:keys) AS n"  # noqa: S608 - as above
        " CROSS JOIN vectors AS v ON v.space = :space AND v.tenant = :tenant AND v.key = n.value"
        f" CROSS JOIN records AS r ON r.number = v.record WHERE {row_filter.where}"
    )
    rows: list[tuple[str, int, bytes]] = []
    valid: list[int] = []
    at_once = k + k // 2
    for start in range(0, len(nearest.keys), at_once):
        if len(valid) >= k and nearest.cosines[start] < nearest.cosines[valid[k - 1]] - 2 * COSINE_ERROR:
            break
        keys = nearest.keys[start : start + at_once]
        for record_id, is_valid, vector, place in connection.execute(
            statement, {**row_filter.values, "space": space, "keys": json.dumps(keys)}
        ):
            rows.append((record_id, is_valid, vector))
            if is_valid:
                valid.append(start + place)
    return rows


def _score(rows: list[tuple[str, int, bytes]], query: NDArray[np.float32]) -> ScoredRows:
    if not rows:
        return ScoredRows(np.empty(0), [], [])
    matrix = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4").reshape(len(rows), -1)
    cosines = np.round((matrix @ query).astype(np.float64), _DIGITS).astype(np.float64)
    return ScoredRows(cosines, [row[0] for row in rows], [bool(row[1]) for row in rows])


def _best(scored: ScoredRows, k: int) -> tuple[list[tuple[float, str]], set[str]]:
    order = np.argsort(-scored.cosines, kind="stable")
    valid = np.array(scored.valid, dtype=bool)
    # Sorting by id costs a comparison of strings each, so only what can matter is: down to the k-th valid and its ties.
    survivors = order[valid[order]]
    if len(survivors) > k:
        order = order[scored.cosines[order] >= scored.cosines[survivors[k - 1]]]
    ranked = sorted(order.tolist(), key=lambda row: (-scored.cosines[row], scored.ids[row]))
    superseded = {scored.ids[row] for row in ranked[:k] if not scored.valid[row]}
    kept = [row for row in ranked if scored.valid[row]][:k]
    # Cosines below zero are all worth nothing, and equals stand by id.
    hits = sorted(((from_cosine(float(scored.cosines[row])), scored.ids[row]) for row in kept), key=_by_score)
    return hits, superseded


def _by_score(hit: tuple[float, str]) -> tuple[float, str]:
    return -hit[0], hit[1]
