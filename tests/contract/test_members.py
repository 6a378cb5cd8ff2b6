"""Memberships keep the contract on either engine, and the front door keeps to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid.app import Application
from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoMembers
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedMembers
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import TransientStoreError
from braid.ports.members import Membership, Role
from braid.settings import Membership as DecidedBy
from braid.settings import Settings
from moto import mock_aws

from tests.contract.members import MembersContract
from tests.contract.shapes import ACME
from tests.front_door import FrontDoor, claims

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = "members"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


def make_table() -> None:
    boto3.client("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[
            {"AttributeName": "subject", "KeyType": "HASH"},
            {"AttributeName": "tenant_id", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "subject", "AttributeType": "S"},
            {"AttributeName": "tenant_id", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )


class TestEmbeddedMembers(MembersContract):
    @pytest.fixture
    def members(self, tmp_path: Path) -> Iterator[EmbeddedMembers]:
        with EmbeddedStore(tmp_path) as store:
            yield EmbeddedMembers(store)


class TestDynamoMembers(MembersContract):
    @pytest.fixture
    def members(self) -> Iterator[DynamoMembers]:
        with mock_aws():
            make_table()
            yield DynamoMembers.connect(Settings(members_table=TABLE))


def test_more_memberships_than_one_page_are_all_listed() -> None:
    class Paged:
        def query(self, **request: Any) -> dict[str, Any]:
            start = request.get("ExclusiveStartKey")
            items = [{"tenant_id": {"S": "b" if start else "a"}, "role": {"S": "reader"}}]
            return {"Items": items} | ({} if start else {"LastEvaluatedKey": {"subject": {"S": "user:ada"}}})

        put_item = get_item = delete_item = query

    found = DynamoMembers(Paged(), TABLE).of("user:ada")
    assert [membership.tenant_id for membership in found] == ["a", "b"]


def test_a_table_that_does_not_answer_is_worth_trying_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")
    members = DynamoMembers.connect(Settings(members_table=TABLE, dynamodb_attempts=1))
    with pytest.raises(TransientStoreError, match="table members"):
        members.role("user:ada", ACME)


GRAPH = {"start": {"names": ["Anything"]}}
IAM = {"iam": {"userArn": "arn:aws:sts::123456789012:assumed-role/Ask/session-1"}}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Application]:
    application = Application(Settings(home=tmp_path, membership=DecidedBy.STORE))
    yield application
    application.close()


@pytest.fixture
def door(library: Application) -> FrontDoor:
    return FrontDoor(library)


def test_a_claim_is_not_enough_where_memberships_count(door: FrontDoor, library: Application) -> None:
    assert door.ask("POST", "/graph/query", GRAPH, authorizer=claims(ACME)).status == 403
    library.members.add(Membership(subject="user:ada", tenant_id=ACME))
    assert door.ask("POST", "/graph/query", GRAPH, authorizer=claims(ACME)).status == 200
    library.members.remove("user:ada", ACME)
    assert door.ask("POST", "/graph/query", GRAPH, authorizer=claims(ACME)).status == 403


def test_a_membership_is_not_enough_where_the_token_names_another_tenant(door: FrontDoor, library: Application) -> None:
    library.members.add(Membership(subject="user:ada", tenant_id=ACME))
    for headers in ({}, {"braid-tenant": ACME}):
        answered = door.ask("POST", "/graph/query", GRAPH, authorizer=claims("globex"), headers=headers)
        assert answered.status == 403


def test_a_token_or_signature_without_tenants_asks_for_its_only_one_or_says_which(
    door: FrontDoor, library: Application
) -> None:
    library.members.add(Membership(subject="iam:arn:aws:sts::123456789012:assumed-role/Ask", tenant_id=ACME))
    library.members.add(Membership(subject="user:ada", tenant_id=ACME))
    for authorizer in (IAM, claims(None)):
        assert door.ask("POST", "/graph/query", GRAPH, authorizer=authorizer).status == 200
    library.members.add(Membership(subject="user:ada", tenant_id="globex", role=Role.WRITER))
    assert door.ask("POST", "/graph/query", GRAPH, authorizer=claims(None)).fields == ["Braid-Tenant"]
    chosen = door.ask("POST", "/graph/query", GRAPH, authorizer=claims(None), headers={"braid-tenant": "globex"})
    assert chosen.status == 200


def test_a_user_cannot_pass_for_a_role_of_the_same_name(door: FrontDoor, library: Application) -> None:
    arn = "arn:aws:sts::123456789012:assumed-role/Ask"
    library.members.add(Membership(subject=f"iam:{arn}", tenant_id=ACME))
    answered = door.ask("POST", "/graph/query", GRAPH, authorizer=claims(ACME, sub=arn))
    assert answered.status == 403


def test_memberships_that_cannot_be_read_let_nobody_in(
    door: FrontDoor, library: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        def role(self, *_: str) -> None:
            message = "table members: timed out"
            raise TransientStoreError(message)

    monkeypatch.setattr(library, "members", Lost())
    assert door.ask("POST", "/graph/query", GRAPH, authorizer=claims(ACME)).problem == "unavailable"


@pytest.mark.parametrize("sub", ["a\x00b", "a" * 2_000, "a\nb"])
def test_a_subject_that_can_be_none_is_nobody(door: FrontDoor, sub: str) -> None:
    assert door.ask("POST", "/graph/query", GRAPH, authorizer=claims(ACME, sub=sub)).status == 401
