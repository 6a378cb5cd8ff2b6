"""Vector search: the k nearest records of a tenant in one space by cosine, among those that pass a filter.

A long text has a vector for each part; the record's score is that of its nearest part.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from itertools import islice
from operator import neg
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from braid.engines.embedded.search.filters import VALID
from braid.engines.embedded.search.hnsw_segments import COSINE_ERROR
from braid.engines.embedded.search.row_reads import has_more_vectors
from braid.ranking.scoring import from_cosine

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from braid.engines.embedded.search.filters import RowFilter
    from braid.engines.embedded.search.hnsw_graph import HnswGraph, NearestKeys

_OVERFETCH = 4
"""The HNSW graph is first asked for this many times ``k`` vectors, and each further time for this many times more."""
_MIN_FETCH, _MAX_FETCH = 100, 4_096
"""Fewest and most vectors that the graph is asked for; beyond, all rows are scored instead."""
_MAX_SCORED = 50_000
"""Most rows that meet a condition which are scored before all rows are; a tenth of a second."""
_LEAST_READ = 8
"""Fewest rows that are read at once."""
_DIGITS = 6  # precision of float32; without rounding, cosines of equal vectors may differ by their row in the matrix
_SCORED_AT_ONCE = 1_024


class NearRecord(NamedTuple):
    """A record and its nearest part."""

    score: float
    id: str
    part_start: int
    """Character of the record's text at which the part begins."""


VectorRow: TypeAlias = tuple[str, int, int, bytes]
"""A vector of a record that passes the filter: record id, 1 if it is valid else 0, start of the part, vector."""


class ScoredRows(NamedTuple):
    """Scored vectors of records that pass the filter, as parallel sequences."""

    cosines: NDArray[np.float64]
    ids: list[str]
    valid: list[int]
    part_starts: list[int]


def search(
    connection: sqlite3.Connection,
    hnsw: Callable[[], HnswGraph] | None,
    query: NDArray[np.float32],
    row_filter: RowFilter,
    *,
    tenant: int,
    space: str,
    k: int,
    exact_rows: int,
) -> tuple[list[NearRecord], set[str]]:
    """Return the best ``k`` valid records, and the ids of superseded ones among the first ``k`` of all.

    The rows that are scored are the first of these:

    ==================================================================  ==============================================
    There is no HNSW graph                                              all that pass the filter
    The numbers of the rows that pass are known, as they are few        these
    There are at most ``exact_rows`` vectors                            all that pass the filter
    ``k`` of the vectors that the HNSW graph finds pass the filter      these, see :func:`_through_hnsw`
    A condition of the filter is met by at most ``_MAX_SCORED`` rows    all that pass the filter
    Otherwise: so a filter never costs hits                             all that pass the filter
    ==================================================================  ==============================================

    As long as the graph compares all of its vectors, the result is exact, and does not depend on the order of writes.

    Parameters
    ----------
    hnsw
        Returns the HNSW graph of the vectors, called only if there are too many rows to score. None scores all rows.
    exact_rows
        Most rows that are all read and scored, rather than searched through the HNSW graph.
    query
        Shape (dimension,), of length 1.
    """
    scored = None
    if hnsw is not None and row_filter.few is None and has_more_vectors(connection, tenant, space, than=exact_rows):
        scored = _through_hnsw(connection, hnsw(), query, row_filter=row_filter, space=space, k=k)
        if scored is None:
            row_filter = row_filter.with_few(connection, _MAX_SCORED)
    if scored is None:
        scored = _score_all(connection, query, row_filter, space)
    return _best(scored, k)


def _score_all(
    connection: sqlite3.Connection, query: NDArray[np.float32], row_filter: RowFilter, space: str
) -> ScoredRows:
    rows = connection.execute(
        f"SELECT r.id, {VALID}, v.start, v.vector FROM {row_filter.rows}"  # noqa: S608 - conditions hold bound values only
        f" CROSS JOIN vectors AS v ON v.record = r.number AND v.space = :space WHERE {row_filter.where}",
        {**row_filter.values, "space": space},
    )
    return _score(rows, query)


def _through_hnsw(
    connection: sqlite3.Connection,
    hnsw: HnswGraph,
    query: NDArray[np.float32],
    *,
    row_filter: RowFilter,
    space: str,
    k: int,
) -> ScoredRows | None:
    """Return scored rows of at least ``k`` valid records; None when the HNSW graph finds too few of them.

    The graph is asked for more than ``k`` vectors, as some will not pass the filter, and each time for more. If it
    compares all of its vectors, it is asked until no other vector can be among the best, rounding considered.
    """
    fetch = max(_OVERFETCH * k, _MIN_FETCH)
    while True:
        nearest = hnsw.nearest(connection, query, fetch)
        if nearest is None:
            return None
        rows, complete = _rows_of_nearest(connection, nearest, row_filter, space, k)
        enough = len({row[0] for row in rows if row[1]}) >= k
        if complete or (enough and not nearest.exact):
            return _score(rows, query)
        if fetch >= min(nearest.size, _MAX_FETCH):
            return None
        fetch *= _OVERFETCH


def _rows_of_nearest(
    connection: sqlite3.Connection, nearest: NearestKeys, row_filter: RowFilter, space: str, k: int
) -> tuple[list[VectorRow], bool]:
    """Return the rows of the nearest vectors that may belong to the ``k`` best valid records, nearest first.

    Also returns whether no other vector may. Reading rows takes most of the time of a search, and most keys are needed
    only if the filter excludes others.
    """
    statement = (
        f"SELECT r.id, {VALID}, v.start, v.vector, n.key FROM json_each(:keys) AS n"  # noqa: S608 - as above
        " CROSS JOIN vectors AS v ON v.space = :space AND v.tenant = :tenant AND v.key = n.value"
        f" CROSS JOIN records AS r ON r.number = v.record WHERE {row_filter.where}"
    )
    rows: list[VectorRow] = []
    valid: dict[str, int] = {}
    """Index of the nearest key of each valid record, nearest first."""

    def beyond(kth: int) -> int:
        """Return the first index whose vector is certainly less near than the one at index ``kth``."""
        least = nearest.cosines[kth] - 2 * COSINE_ERROR
        return bisect_right(nearest.cosines, -least, key=neg)

    start, end = 0, beyond(min(k, len(nearest.keys)) - 1) if nearest.keys else 0
    while start < len(nearest.keys):
        keys = nearest.keys[start:end]
        for record_id, is_valid, part_start, vector, place in connection.execute(
            statement, {**row_filter.values, "space": space, "keys": json.dumps(keys)}
        ):
            rows.append((record_id, is_valid, part_start, vector))
            if is_valid:
                valid.setdefault(record_id, start + place)
        if len(valid) >= k:
            needed = beyond(list(valid.values())[k - 1])
            if needed <= end < len(nearest.keys):
                return rows, True
        else:  # assumes that the next rows pass the filter as often as the rows so far
            missing = (k - len(valid)) * end // max(1, len(valid))
            needed = beyond(min(end + missing, len(nearest.keys)) - 1)
        start, end = end, max(needed, end + _LEAST_READ)
    return rows, len(nearest.keys) == nearest.size


def _score(rows: Iterable[VectorRow], query: NDArray[np.float32]) -> ScoredRows:
    cosines, ids, valid, part_starts = array("d"), list[str](), list[int](), list[int]()
    left = iter(rows)
    # A few at a time: all vectors of a large tenant together would take a gigabyte.
    while some := list(islice(left, _SCORED_AT_ONCE)):
        matrix = np.frombuffer(b"".join(row[3] for row in some), dtype="<f4").reshape(-1, len(query))
        # In double precision: the order of a sum depends on the matrix's shape, and must not change the result.
        cosines.frombytes((matrix.astype(np.float64) @ query.astype(np.float64)).tobytes())
        ids += [row[0] for row in some]
        valid += [row[1] for row in some]
        part_starts += [row[2] for row in some]
    return ScoredRows(np.array(cosines, np.float64).round(_DIGITS), ids, valid, part_starts)


def _best(scored: ScoredRows, k: int) -> tuple[list[NearRecord], set[str]]:
    """Return the best ``k`` valid records by their nearest parts, and the superseded among the first ``k`` of all."""
    nearest: dict[str, tuple[float, str, int]] = {}
    cosines: list[float] = scored.cosines.tolist()
    valid, least = 0, -np.inf
    # Down to the k-th valid record and its ties.
    for row in np.argsort(-scored.cosines, kind="stable").tolist():
        cosine, record_id = cosines[row], scored.ids[row]
        if cosine < least:
            break
        if record_id not in nearest:
            nearest[record_id] = (-cosine, record_id, row)
            valid += scored.valid[row]
            if valid == k:
                least = cosine
    ranked = sorted(nearest.values())
    superseded = {record_id for _, record_id, row in ranked[:k] if not scored.valid[row]}
    kept = [each for each in ranked if scored.valid[each[2]]][:k]
    # All cosines below zero score 0; ties by id.
    hits = sorted([(-from_cosine(-negative), record_id, row) for negative, record_id, row in kept])
    return [NearRecord(-negative, record_id, scored.part_starts[row]) for negative, record_id, row in hits], superseded
