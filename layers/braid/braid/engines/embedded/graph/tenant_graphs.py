"""The graphs of tenants for walks: whole in memory, mapped from a file, or the part of one request read from its rows.

The choice depends on the number of edges of the tenant's graph, as of the last commit:

- at most 5,000 (:data:`MAX_LOADED_FIRST`): the first walk loads the whole graph;
- at most 1,000,000 (``_LARGE``): a walk reads the part that it can see, until this process has spent about as long on
  such reads since the last write as loading the whole graph takes; then it loads it;
- more: the graph is loaded at the end of an ingest, or when the part is too large to read;
- at least 100,000 (``_MIN_SAVED``): at the end of an ingest, or when a question loads it, the graph is also saved to a
  file, which every process memory-maps.

The writes since a graph was loaded are applied to it as an overlay. If they are unknown or more than
:data:`~braid.engines.embedded.graph.write_overlay.MAX_FOLLOWED` vertices and edges, the cases above apply anew.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

from braid.deadline import Locks, holding, suspended
from braid.engines.embedded import graph_change_log
from braid.engines.embedded.sqlite_files import GRAPHS, remove_files
from braid.engines.embedded.write_generations import Generation

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection
    from pathlib import Path

    from braid.engines.embedded.graph.adjacency import Adjacency
    from braid.engines.embedded.graph.rows_around_seeds import Walk
    from braid.engines.embedded.graph.write_overlay import FollowedGraph
    from braid.engines.embedded.store import EmbeddedStore
    from braid.ports.graph_query import GraphQuery
    from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest

_LOG = logging.getLogger(__name__)
TENANTS_IN_MEMORY = 32
"""Most tenants whose graphs a process keeps; the least recently used one is evicted."""
MAX_LOADED_FIRST = 5_000
"""Most edges of a graph that is loaded whole by the first walk."""
_LOADED_PER_EDGE_READ = 5
"""Number of edges loaded with a whole graph in the time of reading one edge of a part."""
_MIN_SAVED = 100_000
"""Fewest edges of a graph that is saved: of a smaller one, texts in memory are faster than decoding them."""
_LARGE = 1_000_000
"""Most edges of a graph that a question loads, unless the part that it can see is too large to read."""


class TenantGraphs:
    """The graphs that a process holds.

    Parameters
    ----------
    max_loaded_first
        Most edges of a graph that is loaded whole by the first walk.
    """

    def __init__(self, store: EmbeddedStore, *, max_loaded_first: int) -> None:
        self._store = store
        self._max_loaded_first = max_loaded_first
        self._lock = threading.Lock()
        self._load_locks = Locks(threading.Lock)
        self._graphs: OrderedDict[int, Adjacency] = OrderedDict()
        self._file_states: dict[int, tuple[int, int]] = {}
        """By tenant: inode and modification time of the saved file that was last looked at."""
        self._followed: dict[int, tuple[Adjacency, FollowedGraph]] = {}
        """By tenant: a graph of ``_graphs``, and the same with an overlay of later writes."""
        self._edges_read: dict[int, tuple[int, int]] = {}
        """By tenant: a write generation, and the number of edges of parts that this process read at it."""

    def seen_from(
        self,
        connection: sqlite3.Connection,
        tenant: int,
        request: ExpandRequest | PropagateRequest | GraphQuery,
        starts: Callable[[], Collection[str]] = tuple,
    ) -> Adjacency:
        """Return a tenant's graph, or the part of it that a request can see.

        The first case that applies:

        =================================================  ==================================================
        In memory, at the current write generation         the whole graph
        In memory, with few writes since, which are known  the part, from the graph and an overlay of those writes
        In a file that this process has not read           map it, then as above
        Few edges, or many read in parts since the write   load the whole graph
        Otherwise                                          read the part from its rows
        But the part is too large                          load the whole graph
        =================================================  ==================================================

        Inside a write transaction a whole graph is always loaded from the rows, and neither an older graph nor a file
        is used.

        Parameters
        ----------
        starts
            Returns the ids of the vertices at which a graph query may begin.
        """
        generation = Generation.GRAPH.read(connection, tenant)
        walk = partial(_walk, request, starts)
        graph = self._from_memory(connection, tenant, generation, walk)
        if graph is None and not self._store.in_transaction and self._map_newer_file(connection, tenant):
            graph = self._from_memory(connection, tenant, generation, walk)
        if graph is not None:
            return graph
        edges_read = self._edges_read_at(tenant, generation)
        # Loading a graph of this many edges takes no longer than the parts read since the last write.
        max_loaded = min(_LARGE, self._max_loaded_first + _LOADED_PER_EDGE_READ * edges_read)
        if graph_change_log.read_edge_count(connection, tenant) <= max_loaded:
            return self._whole(connection, tenant, generation)
        from braid.engines.embedded.graph import rows_around_seeds

        part, read = rows_around_seeds.read(connection, tenant, generation, walk())
        with self._lock:
            self._edges_read[tenant] = (generation, edges_read + read)
        return self._whole(connection, tenant, generation) if part is None else part

    def _edges_read_at(self, tenant: int, generation: int) -> int:
        """Return the number of edges of parts that this process has read at a write generation."""
        with self._lock:
            at, edges_read = self._edges_read.get(tenant, (generation, 0))
        return edges_read if at == generation else 0

    def _from_memory(
        self, connection: sqlite3.Connection, tenant: int, generation: int, read_walk: Callable[[], Walk]
    ) -> Adjacency | None:
        """Return the graph for a request from the one in memory: the first two cases of :meth:`seen_from`, else None.

        Once enough requests have used an overlay, one of them joins it with the graph, which is then kept.
        """
        known = self._in_memory(tenant)
        if known is None:
            return None
        if known.generation == generation:
            return self._whole(connection, tenant, generation)  # marks it as used last; loads in a transaction only
        if self._store.in_transaction:
            return None
        followed = self._with_later_writes(connection, tenant, generation, known)
        if followed is None:
            return None
        joined, lock = None, self._load_locks.of(tenant)
        if lock.acquire(blocking=False):  # of concurrent questions one joins, and the others do not wait for it
            try:
                joined = followed.joined()
            finally:
                lock.release()
        if joined is None:
            return followed.part(read_walk())
        self._keep(tenant, joined)
        return joined

    def _in_memory(self, tenant: int) -> Adjacency | None:
        """Return a tenant's graph in memory; one whose file was cut or overwritten is dropped, as reading may crash."""
        with self._lock:
            known = self._graphs.get(tenant)
            if known is not None and known.is_changed:
                del self._graphs[tenant]
                self._followed.pop(tenant, None)
                return None
            return known

    def _map_newer_file(self, connection: sqlite3.Connection, tenant: int) -> bool:
        """Map the tenant's saved graph if its file is new to this process, and return whether it is newer."""
        path = self._path_of(tenant)
        try:
            status = path.stat()
        except OSError:
            return False
        state = (status.st_ino, status.st_mtime_ns)
        if self._file_states.get(tenant) == state:
            return False
        with holding(self._load_locks.of(tenant)):
            found = self._read_saved(connection, tenant)
            self._file_states[tenant] = state
            known = self._in_memory(tenant)
            if found is None or (known is not None and known.generation >= found.generation):
                return False
            self._keep(tenant, found)
            return True

    def _read_saved(self, connection: sqlite3.Connection, tenant: int) -> Adjacency | None:
        from braid.engines.embedded.graph import mapped_graph

        path = self._path_of(tenant)
        try:
            return mapped_graph.read(
                path,
                mapped_graph.Owner(self._store.identity, tenant),
                partial(graph_change_log.stamp, connection, tenant),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _LOG.warning("graph %s is damaged and is read from the rows: %s", path, type(error).__name__)
            return None

    def save_large(self, connection: sqlite3.Connection, tenant: int) -> None:
        """Load and save a graph of ``_MIN_SAVED`` edges or more, unless one in memory or in a file can be followed."""
        from braid.engines.embedded.graph.adjacency import load

        if self._store.read_only or graph_change_log.read_edge_count(connection, tenant) < _MIN_SAVED:
            return
        generation = Generation.GRAPH.read(connection, tenant)
        self._map_newer_file(connection, tenant)
        known = self._in_memory(tenant)
        if known is not None and self._with_later_writes(connection, tenant, generation, known) is not None:
            return
        graph = load(connection, tenant, generation)
        mapped = self._save(connection, tenant, graph)
        if mapped is not graph:  # else it would take several times the memory
            self._keep(tenant, mapped)

    def _save(self, connection: sqlite3.Connection, tenant: int, graph: Adjacency) -> Adjacency:
        """Save a graph and return it mapped from its file; the given one if it is not saved.

        It is not saved if the store is read-only, the first walk may load it, it has no stamp, or saving fails.
        """
        from braid.engines.embedded.graph import mapped_graph

        stamp = graph_change_log.stamp(connection, tenant, graph.generation)
        if self._store.read_only or len(graph.sources) <= self._max_loaded_first or stamp is None:
            return graph
        path = self._path_of(tenant)
        try:
            mapped_graph.write(path, mapped_graph.Owner(self._store.identity, tenant), stamp, graph)
        except OSError as error:
            _LOG.warning("graph %s is not saved: %s", path, error.strerror)
            return graph
        self._remove_if_empty(tenant)  # another process may have deleted the tenant meanwhile
        return self._read_saved(connection, tenant) or graph

    def remove_saved_if_empty(self, tenant_id: str) -> None:
        """Remove the graph files of a tenant without vertices: they contain names and texts of deleted ones."""
        with self._store.read_tenant(tenant_id) as (_, tenant):
            pass
        if tenant is not None:
            self._remove_if_empty(tenant)

    def _remove_if_empty(self, tenant: int) -> None:
        # In a new snapshot: a saver's own one is older, and a deleter calls this after its commit, so that the later of
        # the two sees both the file and the empty tenant.
        with self._store.read() as connection:
            if connection.execute("SELECT 1 FROM vertices WHERE tenant = ?", (tenant,)).fetchone():
                return
        remove_files(self._store.folder / GRAPHS, f"{tenant}.*")  # including graphs that are being written

    def _path_of(self, tenant: int) -> Path:
        return self._store.folder / GRAPHS / f"{tenant}.graph"

    def _keep(self, tenant: int, graph: Adjacency) -> None:
        """Keep a tenant's graph in memory, evicting the least recently used one if there are too many."""
        with self._lock:
            if self._graphs.get(tenant) is not graph:
                self._followed.pop(tenant, None)
            self._graphs[tenant] = graph
            self._graphs.move_to_end(tenant)
            while len(self._graphs) > TENANTS_IN_MEMORY:
                gone, _ = self._graphs.popitem(last=False)
                self._followed.pop(gone, None)
                self._file_states.pop(gone, None)

    def _with_later_writes(
        self, connection: sqlite3.Connection, tenant: int, generation: int, known: Adjacency
    ) -> FollowedGraph | None:
        """Return a loaded graph with an overlay of later writes; None if these are unknown or too many."""
        from braid.engines.embedded.graph.write_overlay import MAX_FOLLOWED, ChangedRows, FollowedGraph, read_changed

        with self._lock:
            base, followed = self._followed.get(tenant, (None, None))
        if base is not known or followed is None or followed.changed.generation > generation:
            followed = FollowedGraph(known, ChangedRows(known.generation, {}, {}))
        if followed.changed.generation == generation:
            return followed
        since = graph_change_log.since(connection, tenant, followed.changed.generation)
        if since is None or len(since.vertices) + len(since.edges) + len(followed.changed) > MAX_FOLLOWED:
            return None
        changed = read_changed(connection, tenant, generation, since, followed.changed)
        followed = FollowedGraph(known, changed)
        with self._lock:
            self._followed[tenant] = (known, followed)
        return followed

    def _whole(self, connection: sqlite3.Connection, tenant: int, generation: int) -> Adjacency:
        """Return a tenant's whole graph: the one in memory if it is of the generation, else it is loaded."""
        from braid.engines.embedded.graph.adjacency import load

        if self._store.in_transaction:  # what it wrote may yet be rolled back
            return load(connection, tenant, generation)
        with holding(self._load_locks.of(tenant)):  # other tenants do not wait for it
            known = self._in_memory(tenant)
            if known is None or known.generation != generation:
                with suspended():  # half a graph would be of no use to the next walk either
                    loaded = load(connection, tenant, generation)
                    if known is not None and known.generation > generation:
                        return loaded  # this reader's snapshot is older than another thread's
                    should_save = len(loaded.sources) >= _MIN_SAVED
                    known = self._save(connection, tenant, loaded) if should_save else loaded
            self._keep(tenant, known)
            return known


def _walk(request: ExpandRequest | PropagateRequest | GraphQuery, starts: Callable[[], Collection[str]]) -> Walk:
    from braid.engines.embedded.graph.rows_around_seeds import walk_of  # only if the whole graph is not loaded

    return walk_of(request, starts())
