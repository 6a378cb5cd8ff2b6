"""Fingerprints of edges are found again, in little more room than they take."""

from __future__ import annotations

import os
import tracemalloc

from braid.ingestion.bulk.fingerprints import SIZE, Fingerprints, contains, fingerprint_of


def test_every_fingerprint_is_found_and_no_other() -> None:
    edges = [(f"r{number}", "COSTS", "b", "") for number in range(2_000)]
    fingerprints = Fingerprints()
    for edge in [*edges[::2], *edges[::4]]:
        fingerprints.add(fingerprint_of("ended", edge))
    kept = fingerprints.in_order()
    assert len(kept) == 1_000 * SIZE
    assert [contains(kept, fingerprint_of("ended", edge)) for edge in edges] == [True, False] * 1_000
    assert not contains(kept, fingerprint_of("stated", edges[0]))
    assert not contains(b"", fingerprint_of("ended", edges[0]))


def test_putting_fingerprints_in_order_takes_less_room_than_an_object_for_each() -> None:
    count = 200_000
    random = os.urandom(count * SIZE)
    fingerprints = Fingerprints()
    tracemalloc.start()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    for at in range(0, len(random), SIZE):
        fingerprints.add(random[at : at + SIZE])
    fingerprints.in_order()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert peak < 8 * count * SIZE  # 3 by itself; 17 with all of them in a list
