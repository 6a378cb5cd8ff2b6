"""What every store of a graph's counts must do."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from braid.ports.knowledge_graph import StoredCounts

from tests.contract.shapes import ACME, GLOBEX

if TYPE_CHECKING:
    from collections.abc import Mapping


class MemoryCounts:
    """Counts in this process."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._lock = Lock()

    def read(self, tenant_id: str) -> dict[str, int] | None:
        with self._lock:
            return dict(self._counts[tenant_id]) if tenant_id in self._counts else None

    def add(self, tenant_id: str, changes: Mapping[str, int]) -> bool:
        with self._lock:
            if tenant_id not in self._counts:
                return False
            counts = self._counts[tenant_id]
            counts.update(changes)
            for name in [name for name, amount in changes.items() if amount and not counts[name]]:
                del counts[name]
            return True

    def replace(self, tenant_id: str, counts: Mapping[str, int]) -> None:
        with self._lock:
            self._counts[tenant_id] = Counter({"records": 0} | {name: count for name, count in counts.items() if count})


class StoredCountsContract:
    """Subclass this and provide the fixture ``counts``, empty for every test."""

    def test_the_port_is_implemented(self, counts: StoredCounts) -> None:
        assert isinstance(counts, StoredCounts)

    def test_nothing_is_added_to_what_was_never_counted(self, counts: StoredCounts) -> None:
        assert counts.read(ACME) is None
        assert not counts.add(ACME, {"edges/CAUSES": 1})
        assert counts.read(ACME) is None

    def test_changes_add_up_for_each_tenant_alone(self, counts: StoredCounts) -> None:
        counts.replace(ACME, {"edges/CAUSES": 5})
        counts.replace(GLOBEX, {})
        assert counts.add(ACME, {"edges/CAUSES": -2, "vertices/Größe 東京": 4, "records": 0})
        assert counts.read(ACME) == {"edges/CAUSES": 3, "vertices/Größe 東京": 4, "records": 0}
        assert counts.read(GLOBEX) == {"records": 0}

    def test_what_is_counted_again_replaces_everything(self, counts: StoredCounts) -> None:
        counts.replace(ACME, {"edges/OLD": 7, "records": 2})
        counts.replace(ACME, {"edges/NEW": 1})
        assert counts.read(ACME) == {"edges/NEW": 1, "records": 0}

    def test_what_is_counted_down_to_nothing_takes_no_room(self, counts: StoredCounts) -> None:
        counts.replace(ACME, {"edges/OLD": 2, "sources/OLD": 1, "edges/NEW": 1})
        assert counts.add(ACME, {"edges/OLD": -2, "sources/OLD": -1, "edges/NEW": 1})
        assert counts.read(ACME) == {"edges/NEW": 2, "records": 0}
        assert counts.add(ACME, {"edges/OLD": 1})
        assert counts.read(ACME) == {"edges/OLD": 1, "edges/NEW": 2, "records": 0}

    def test_any_number_of_types_is_counted(self, counts: StoredCounts) -> None:
        many = {f"edges/{number:03}" + "N" * 60: number for number in range(1, 260)}
        counts.replace(ACME, many)
        counts.add(ACME, many)
        assert counts.read(ACME) == {"records": 0, **{name: 2 * number for name, number in many.items()}}

    def test_writers_at_once_lose_nothing(self, counts: StoredCounts) -> None:
        counts.replace(ACME, {})
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: counts.add(ACME, {"records": 2}), range(20)))
        assert counts.read(ACME) == {"records": 40}
