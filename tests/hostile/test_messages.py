"""Messages and events of the wrong types are refused by the field that is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest
from braid.ingestion.bulk.import_steps import split
from braid.ingestion.bulk.step_messages import Split
from braid.ingestion.inline_writes import write_message

if TYPE_CHECKING:
    from tests.stages import DemoStages

RECORDS = [{"id": "a", "content": "x"}]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("missing", {"tenant_id": "acme", "missing": [], "records": RECORDS}),
        ("missing", {"tenant_id": "acme", "missing": {}}),
        ("tenant_id", {"tenant_id": "acme/../globex", "records": RECORDS}),
        ("tenant_id", {"tenant_id": "", "records": RECORDS}),
        ("tenant_id", {"tenant_id": ["acme"], "records": RECORDS}),
    ],
)
def test_a_message_of_the_wrong_types_is_refused_by_its_field(
    stages: DemoStages, field: str, body: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        write_message(json.dumps(body), stages)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("field", "event"),
    [
        ("missing", {"tenant_id": "acme", "key": "inbox/a.jsonl", "missing": []}),
        ("tenant_id", {"tenant_id": "acme/../globex", "key": "inbox/a.jsonl"}),
    ],
)
def test_an_event_of_the_wrong_types_is_refused_by_its_field(
    stages: DemoStages, field: str, event: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        split(Split(job="one", event=event), stages)
    assert refused.value.field == field
