"""A corpus of the growth bench is written in slices, and anew where its servers are new ones."""

from __future__ import annotations

import json
import math
from contextlib import closing
from typing import TYPE_CHECKING

from braid.app import Application
from braid.settings import Settings

from bench.growth import _DONE, fill
from bench.synthetic import OTHER_TENANT, TENANT

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SIZE = 500


def written(home: Path) -> tuple[int, int]:
    """Return the numbers of vertices and relationships in the store."""
    with closing(Application(Settings(home=home))) as application:
        counted = [application.graph.stats(tenant) for tenant in (TENANT, OTHER_TENANT)]
    return sum(each.vertices for each in counted), sum(each.edges for each in counted)


def test_a_corpus_is_written_on_from_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fill(tmp_path, SIZE, until=-math.inf) is False
    assert fill(tmp_path, SIZE, until=math.inf) is True
    assert written(tmp_path) == (SIZE, 4 * SIZE)
    kept = json.loads((tmp_path / _DONE).read_text(encoding="utf-8"))
    assert (kept["records"], kept["relationships"], kept["whole"]) == (SIZE, 4 * SIZE, True)
    monkeypatch.setenv("BRAID_OPENSEARCH_ENDPOINT", "http://127.0.0.1:1")
    assert fill(tmp_path, SIZE, until=-math.inf) is False, "other servers have nothing of it"
