"""Tenants whose names are as alike as names may be share no cached value, file, counter, key or mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid.app import Application
from braid.engines.aws.dynamodb_cache import DynamoCache
from braid.errors import InvalidRequest, TenantBeingDeleted
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, write
from braid.ports.deletion_marks import marked_as_deleted, refuse_while_deleted
from braid.settings import Settings
from moto import mock_aws

from tests.contract.shapes import record
from tests.dynamo_table import make_table
from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.ports.cache import Cache

LONG = "a" * 63
ALIKE = ("acme", "Acme", "ACME", "acme-", "acme_", "acme-1", "acme_1", "a", "0", "1", "all-tenants", "records")
ALIKE += (LONG + "a", LONG + "b", "deletion", "counter", "own")
"""Of other case, beginnings of one another, equal for 63 characters, and as what the stores name themselves."""
NO_NAMES = ("", ".", "..", "acme|x", "acme/x", "acme#generation", "acme\x00", "acme\n", "acme ", " acme", "-acme")
NO_NAMES += ("\u0430cme", "acm\u00e9", "acme\u0301", "\uff41cme", "acme\u200b", "\u017f", "\u212a", "\u0661")
NO_NAMES += ("acme%2Fx", "acme\\x", LONG + "ab")
KEYS = ("answer/1", "deletion/acme", "quota/questions", "counter", "1", "acme|answer/1", "|", "generation")


@pytest.fixture(params=["embedded", "aws"])
def cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    if request.param == "embedded":
        library = Application(Settings(home=tmp_path))
        yield library.cache.strict
        library.close()
        return
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        client = boto3.client("dynamodb")
        make_table(client, "cache")
        yield DynamoCache(client, "cache")


def test_no_value_counter_or_generation_is_anothers(cache: Cache) -> None:
    for place, tenant in enumerate(ALIKE):
        for key in KEYS:
            assert cache.get(tenant, key) is None
            cache.put(tenant, key, f"{tenant} {key}".encode(), 600)
            assert cache.count(tenant, key, place + 1, 86_400) == place + 1
        for _ in range(place + 1):
            cache.advance(tenant)
    generations = {tenant: cache.generation(tenant) for tenant in ALIKE}
    cache.forget("acme")
    for place, tenant in enumerate(ALIKE):
        kept = tenant != "acme"
        for key in KEYS:
            assert cache.get(tenant, key) == (f"{tenant} {key}".encode() if kept else None)
            assert cache.count(tenant, key, 0, 86_400) == (place + 1 if kept else 0)
    assert {tenant: cache.generation(tenant) for tenant in ALIKE} == generations


def test_what_is_no_name_has_no_values(cache: Cache) -> None:
    for name in NO_NAMES:
        for use in (cache.generation, cache.advance, cache.forget, lambda tenant: cache.get(tenant, "x")):
            with pytest.raises(InvalidRequest):
                use(name)


def test_deleting_a_tenant_called_as_what_is_kept_of_all_leaves_the_others_marks(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    try:
        write(WriteRequest(tenant_id="all-tenants", records=(record("a", "x", tenant_id="all-tenants"),)), stages)
        with marked_as_deleted("acme", stages.cache):
            assert delete_tenant("all-tenants", stages).records == 1
            with pytest.raises(TenantBeingDeleted):
                refuse_while_deleted("acme", stages.cache)
    finally:
        stages.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[FrontDoor]:
    stages = DemoStages(Settings(home=tmp_path))
    yield FrontDoor(stages)
    stages.close()


def test_each_is_answered_from_its_own_with_every_cache_filled(door: FrontDoor) -> None:
    def ask(tenant: str, method: str, path: str, body: Any = None, **how: Any) -> Any:
        return door.ask(method, path, body, authorizer=claims(tenant), **how)

    for number, tenant in enumerate(ALIKE):
        records = [
            {"id": "keel", "kind": "entity", "entity_type": "Ship", "name": "Keelson", "content": f"mark{number}."},
            {"id": "log", "content": f"Keelson was launched, mark{number}."},
        ]
        body = {"records": records, "relationships": [{"source": "keel", "type": "STATES", "target": "log"}]}
        written = ask(tenant, "POST", "/records", body, headers={"idempotency-key": "once"})
        assert written.json()["written"] == 2, "no other tenant's answer under this key"
    traces: dict[str, str] = {}
    for _ in range(2):  # the second time from the caches
        for number, tenant in enumerate(ALIKE):
            found = ask(tenant, "POST", "/search", {"text": "Where was Keelson launched?", "top_k": 5})
            assert found.status == 200
            context = ask(tenant, "POST", "/context", {"query": "Keelson"})
            related = ask(tenant, "GET", "/entities/Keelson/related")
            assert [hit["id"] for hit in related.json()["hits"]] == ["log"]
            for text in (found.text, context.text):
                assert f"mark{number}." in text
                others = {f"mark{other}." for other in range(len(ALIKE)) if other != number}
                assert not [mark for mark in others if mark in text]
            assert ask(tenant, "GET", f"/traces/{found.json()['trace_id']}").status == 200
            traces.setdefault(tenant, found.json()["trace_id"])
    cursor = ask("acme", "GET", "/records", query={"limit": "1"}).json()["next"]
    assert ask("acme", "GET", "/records", query={"limit": "1", "after": cursor}).status == 200
    for tenant in ALIKE[1:]:
        assert ask(tenant, "GET", f"/traces/{traces['acme']}").status == 404
        assert ask(tenant, "GET", "/records", query={"limit": "1", "after": cursor}).status in {400, 422}
