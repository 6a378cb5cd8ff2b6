"""Vectors that a caller brings to the front door: one tenant's never change what another can write or find."""

from __future__ import annotations

import base64
import sqlite3
import struct
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import BraidError
from braid.ingestion.writing import WriteRequest, write
from braid.models import Embedding, Record
from braid.settings import Settings

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.contract.supplied_vectors import HOSTILE, QUESTION, axis, shown
from tests.front_door import FrontDoor, claims
from tests.hostile.oracle import harmless
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHERS = 1_000
"""Made-up embedding spaces: as many as an OpenSearch index has fields."""


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[DemoStages]:
    made = DemoStages(Settings(home=tmp_path / "home"))
    yield made
    made.close()


def post(stages: DemoStages, tenant: str, *records: dict[str, Any]) -> int:
    door = FrontDoor(stages)
    return harmless(door.ask("POST", "/records", {"records": records}, authorizer=claims(tenant))).status


def found(stages: DemoStages, tenant: str) -> tuple[list[str], list[str]]:
    answered = FrontDoor(stages).ask("POST", "/search", {"text": QUESTION}, authorizer=claims(tenant))
    assert answered.status == 200
    return [result["id"] for result in answered.json()["results"]], answered.json()["degraded"]


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("allowed", [False, True])
def test_a_record_of_one_tenant_breaks_no_other(
    stages: DemoStages, hostile: str, monkeypatch: pytest.MonkeyPatch, *, allowed: bool
) -> None:
    monkeypatch.setattr(DemoStages, "allow_supplied_vectors", allowed, raising=False)
    bad = {"id": "bad", "content": "x", "embeddings": [HOSTILE[hostile][0]]}
    assert post(stages, "attacker", bad) == 422
    assert post(stages, "neighbour", {"id": "r", "content": QUESTION}) == 200
    assert found(stages, "neighbour") == (["r"], [])
    assert post(stages, "attacker", {"id": "good", "content": QUESTION}) == 200


def test_a_thousand_made_up_spaces_leave_nothing_behind(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DemoStages, "allow_supplied_vectors", True, raising=False)
    for first in range(0, OTHERS, 100):
        vectors = [shown(axis(8), f"made-up-{number}", "x") for number in range(first, first + 100)]
        records = [{"id": f"r{place}", "content": "x", "embeddings": [each]} for place, each in enumerate(vectors)]
        assert post(stages, "attacker", *records) == 422
    assert post(stages, "neighbour", {"id": "r", "content": QUESTION}) == 200
    connection = sqlite3.connect(stages.settings.home / "braid.db")
    assert connection.execute("SELECT DISTINCT space FROM vectors").fetchall() == [("all_minilm_l6_v2",)]
    connection.close()


def test_a_folder_brings_no_vectors_whatever_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DemoStages, "allow_supplied_vectors", True, raising=False)
    stages = DemoStages(Settings(home=tmp_path / "home"))
    folder = tmp_path / "papers"
    folder.mkdir()
    vector = base64.b64encode(axis()).decode()
    (folder / "corpus.jsonl").write_text(
        '{"_id": "a", "text": "x", "embeddings": [{"space": "all_minilm_l6_v2", "model_id": "all-minilm-l6-v2",'
        f' "vector": "{vector}"}}]}}\n'
    )
    with pytest.raises(BraidError, match="embeddings"):
        ingest(read_dataset(folder, "acme"), stages)
    assert stages.index.get_many("acme", ["a"]) == []
    stages.close()


def test_vectors_that_an_earlier_braid_took_are_their_own_tenants_trouble_alone(stages: DemoStages) -> None:
    """A store may hold a poisoned space from before spaces were configured: whoever wrote it is told, no one else."""
    assert post(stages, "attacker", {"id": "bad", "content": QUESTION}) == 200
    with stages.store.transaction() as connection:
        connection.execute("UPDATE vectors SET vector = ?", (struct.pack("<f", 1.0),))
    assert post(stages, "neighbour", {"id": "r", "content": QUESTION}) == 200
    assert found(stages, "neighbour") == (["r"], [])
    assert found(stages, "attacker") == ([], ["vector_search"])
    door = FrontDoor(stages)
    assert door.ask("DELETE", "/records/bad", authorizer=claims("attacker")).status == 200
    assert post(stages, "attacker", {"id": "bad", "content": QUESTION}) == 200
    assert found(stages, "attacker") == (["bad"], [])


def test_a_model_that_is_configured_no_more_does_not_stop_a_record_from_being_written_again(
    stages: DemoStages,
) -> None:
    assert post(stages, "acme", {"id": "r", "content": QUESTION}) == 200
    gone = Embedding(space="gone", model_id="gone", vector=axis(8))
    with stages.store.transaction() as connection:
        connection.execute(
            "INSERT INTO vectors (tenant, space, record, model_id, key, vector)"
            " SELECT tenant, 'gone', number, 'gone', 1, ? FROM records",
            (gone.vector,),
        )
    again = Record(id="r", tenant_id="acme", content=QUESTION, importance=0.9)
    assert not write(WriteRequest(tenant_id="acme", records=(again,)), stages).errors
    assert found(stages, "acme") == (["r"], [])
