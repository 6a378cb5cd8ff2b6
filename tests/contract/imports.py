"""What writes objects while nobody waits: a thread of this process, or the deployed workflow."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from braid.ports.ingestion import Import, ImportAsked, ImportStatus, MissingEnds

if TYPE_CHECKING:
    from braid.ports.ingestion import Imports

    from tests.stages import DemoStages

ACME, OTHER = "acme", "acme-2"
KEY = "late/a.jsonl"
LINES: list[dict[str, Any]] = [
    {"relationship": {"source": "b", "type": "MENTIONS", "target": "a"}},
    {"record": {"id": "a", "content": "The valve stuck."}},
    {"record": {"id": "b", "content": "The turbine stood still."}},
]


def put(store: DemoStages, lines: list[dict[str, Any]], key: str = KEY) -> None:
    store.objects.put(ACME, key, "\n".join(map(json.dumps, lines)).encode())


def ended(imports: Imports, import_id: str, *, tenant: str = ACME, within_s: float = 30) -> Import:
    """Ask until it has ended."""
    until = time.monotonic() + within_s
    while True:
        found = imports.find(tenant, import_id)
        assert found is not None
        if found.status is not ImportStatus.RUNNING:
            return found
        assert time.monotonic() < until
        time.sleep(0.01)


class ImportsContract:
    """Subclass this and provide the fixtures ``imports`` and ``library``, whose objects the imports are of."""

    def test_an_object_is_written_and_its_lines_are_counted(self, imports: Imports, library: DemoStages) -> None:
        put(library, LINES)
        imports.start(ACME, "first", ImportAsked(key=KEY))
        found = ended(imports, "first")
        assert (found.status, found.error) == (ImportStatus.WRITTEN, None)
        assert found.report
        assert (found.report.job.lines, found.report.written, found.report.relationships) == (3, 2, 1)
        assert [record.id for record in library.index.get_many(ACME, ["a", "b"])] == ["a", "b"]

    def test_what_is_wrong_is_left_out_and_counted(self, imports: Imports, library: DemoStages) -> None:
        put(library, [*LINES, {"record": {"id": ""}}])
        imports.start(ACME, "wrong", ImportAsked(key=KEY))
        found = ended(imports, "wrong")
        assert found.report
        assert (found.status, found.report.written, found.report.errors) == (ImportStatus.WITH_ERRORS, 2, 1)
        (line,) = library.objects.open(ACME, found.report.report_key)
        assert json.loads(line)["place"] == "line 4"

    def test_ends_that_are_not_there_become_stubs_when_asked(self, imports: Imports, library: DemoStages) -> None:
        put(library, [{"relationship": {"source": "x", "type": "MENTIONS", "target": "y"}}])
        imports.start(ACME, "stub", ImportAsked(key=KEY, missing=MissingEnds.STUB))
        report = ended(imports, "stub").report
        assert report
        assert (report.relationships, report.errors) == (1, 0)

    def test_an_object_that_is_not_there_fails_by_that_name(self, imports: Imports) -> None:
        imports.start(ACME, "missing", ImportAsked(key="late/none.jsonl"))
        found = ended(imports, "missing")
        assert (found.status, found.error, found.report) == (ImportStatus.FAILED, "ObjectMissing", None)

    @pytest.mark.parametrize("name", ["never", "first-of-nobody"])
    def test_an_import_that_was_not_asked_for_is_none(self, imports: Imports, name: str) -> None:
        assert imports.find(ACME, name) is None

    def test_an_import_is_none_to_another_tenant(self, imports: Imports, library: DemoStages) -> None:
        put(library, LINES)
        imports.start(ACME, "mine", ImportAsked(key=KEY))
        assert imports.find(OTHER, "mine") is None
        ended(imports, "mine")
        assert imports.find(OTHER, "mine") is None
