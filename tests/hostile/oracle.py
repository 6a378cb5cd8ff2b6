"""Bad input that no endpoint may fall for, and what an answer to it must not show."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.bulk import import_queue

from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.front_door import Answered

CANARY = "canary-of-pellworth"
"""In the records of the other tenant, and nowhere in what its neighbour asks."""
WORDS = "Osprey heron bittern"
"""In both tenants' records, so that a search for them could find the canary."""
INSIDE = ("Traceback", "site-packages", "pydantic", 'File "', "sqlite3", "aws_lambda_powertools", "errors.pydantic.dev")


def harmless(answered: Answered) -> Answered:
    """Return an answer that shows nothing of the inside and nothing of another tenant."""
    assert answered.status < 500, answered.text
    assert CANARY not in answered.text
    if answered.status >= 400:
        assert answered.problem
        for sign in INSIDE:
            assert sign not in answered.text
    return answered


@contextmanager
def two_tenants(folder: Path) -> Iterator[DemoStages]:
    """Yield stages in which a tenant and its neighbour, who has the canary, have records that answer to the words."""
    stages = demo_stages(folder)
    patch = pytest.MonkeyPatch()
    # One too many is answered with 503, which is no fault, and here could hide one.
    patch.setattr(import_queue, "WAITING", 10**6)
    door = FrontDoor(stages)
    for tenant, name in (("saltmarrow", "heron"), ("pellworth", CANARY)):
        record = {"id": name, "kind": "entity", "entity_type": "Event", "name": "Canary", "content": f"{WORDS} {name}"}
        body = {
            "records": [record, {"id": f"{name}-2", "content": name}],
            "relationships": [{"source": name, "type": "CAUSES", "target": f"{name}-2"}],
        }
        assert door.ask("POST", "/records", body, authorizer=claims(tenant)).status == 200
    yield stages
    patch.undo()
    stages.close()


def raw(text: str | bytes) -> dict[str, Any]:
    return {"raw": text}


UNREADABLE: dict[str, tuple[dict[str, Any], int]] = {
    "no body": ({}, 400),
    "empty body": (raw(""), 400),
    "spaces only": (raw("   "), 400),
    "3 MB of text": (raw(json.dumps({"text": "x" * 3_000_000})), 413),
    "3 MB of base64": (raw(b"\xff" * 3_000_000), 413),
    "lone surrogate": (raw('{"text": "a\\ud800b"}'), 400),
    "lone surrogate in a key": (raw('{"text": "a", "\\udfff": 1}'), 400),
    "NaN": (raw('{"text": "a", "vector_weight": NaN}'), 400),
    "a number of 5,000 digits": (raw('{"text": "a", "top_k": ' + "9" * 5_000 + "}"), 400),
    "a key twice": (raw('{"text": "a", "text": "b"}'), 400),
    "depth 10⁴ of arrays": (raw("[" * 10_000 + "]" * 10_000), 400),
    "depth 10⁴ of objects": (raw('{"text":' * 10_000 + "1" + "}" * 10_000), 400),
    "an array": (raw('[{"text": "a"}]'), 400),
    "a string": (raw('"text"'), 400),
    "half of JSON": (raw('{"text": "a"'), 400),
    "two values": (raw('{"text": "a"} {}'), 400),
    "a comment": (raw('{"text": "a"} // b'), 400),
    "a wrong content type": ({"body": {}, "headers": {"content-type": "text/plain"}}, 415),
    "a form": ({"raw": "text=a", "headers": {"content-type": "application/x-www-form-urlencoded"}}, 415),
    "another charset": ({"body": {}, "headers": {"content-type": "application/json; charset=utf-16"}}, 415),
    "no content type": ({"body": {}, "headers": {"content-type": ""}}, 415),
    "invalid UTF-8": (raw(b'{"text": "\xff\xfe"}'), 400),
    "UTF-16": (raw('{"text": "a"}'.encode("utf-16")), 400),
    "a byte order mark": (raw(b'\xef\xbb\xbf{"text": "a"}'), 400),
}
"""Bodies that are refused before anybody asks what they say, and how."""

NO_TENANTS = {
    "a space": "a b",
    "a path": "../x",
    "other digits": "ten٣nté",
    "any": "*",
    "two": "saltmarrow,pellworth",
    "colons": "a::b",
    "a bar": "saltmarrow|pellworth",
    "a line feed": "saltmarrow\npellworth",
    "no name": "",
    "another tenant": "pellworth",
}
"""Names in the header Braid-Tenant that are no tenant, or not the caller's."""

VALUES = {
    '"5"': '"5"',
    "true": "true",
    "NUL": '"a\\u0000b"',
    "lone surrogate": '"a\\ud800b"',
    "NaN": "NaN",
    "infinity": "1e999",
    "0": "0",
    "-1": "-1",
    "10⁹": "1000000000",
    "99": "99",
    "5.5": "5.5",
    "null": "null",
    "empty": '""',
    "blank": '" \\n\\t "',
    "1 MB": json.dumps("x" * 1_000_000),
    "right to left and zero width": '"\\u202eabc\\u200b\\u200d\\u2066"',
    "an empty list": "[]",
    "an empty object": "{}",
    "a thousand": json.dumps(["A"] * 1_000),
    "a list in a list": '[["a"]]',
    "a script": '{"script": {"source": "ctx._source"}}',
    "match_all": '{"match_all": {}}',
    "Gremlin": json.dumps("'); g.V().drop().iterate(); ('"),
    "a query string": json.dumps("*:* OR _exists_:tenant_id AND tenant_id:pellworth"),
    "SQL": json.dumps("' UNION SELECT * FROM records WHERE tenant = 2 --"),
    "a bomb of a regular expression": json.dumps("(a+)+" * 400 + "a" * 400 + "!"),
    "a path": '"../pellworth"',
    "all": '"*"',
    "a bar": '"pellworth|heron"',
}
"""What stands in the place of a right value, as JSON."""
NEVER_READ = ("lone surrogate", "NaN")
"""Of these values, those that make a body unreadable wherever they stand."""
