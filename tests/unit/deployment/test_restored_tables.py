"""The script of docs/deploy.md by which a restored table's items take the place of the stack's."""

from __future__ import annotations

import re
import sys

import boto3
import pytest
from moto import mock_aws

from tests.dynamo_table import make_table
from tests.unit.deployment.test_template import ROOT

GUIDE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("before", "restored"), [((0, 1), (0, 1)), ((0, 40), (30, 40)), ((0, 60), (20, 110))])
def test_the_items_are_those_that_were_restored(
    before: tuple[int, int], restored: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (script,) = re.findall(r"<<'END'\n(.*?)\nEND\n", GUIDE, re.DOTALL)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setattr(sys, "argv", ["-", "restored", "schemas"])
    with mock_aws():
        tables = boto3.resource("dynamodb")
        for name, (first, last) in (("schemas", before), ("restored", restored)):
            make_table(boto3.client("dynamodb"), name)
            for number in range(first, last):
                tables.Table(name).put_item(Item={"id": str(number), "from": name})
        asked = []
        boto3.DEFAULT_SESSION.events.register(  # type: ignore[union-attr] - it was made by the calls above
            "before-call.dynamodb.BatchWriteItem", lambda params, **_: asked.append(params["body"])
        )
        exec(script, {})  # noqa: S102 - the guide's own
        found = tables.Table("schemas").scan()["Items"]
    assert {item["id"] for item in found} == {str(number) for number in range(*restored)}
    assert {item["from"] for item in found} == {"restored"}
    # Which DynamoDB refuses, and moto does not.
    assert not any(b"DeleteRequest" in body and b"PutRequest" in body for body in asked)
    assert asked
