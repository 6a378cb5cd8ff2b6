"""What each function's code asks of OpenSearch, path by path, and of Neptune, step by step, its role may do."""

from __future__ import annotations

import json
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pytest
from braid.engines.neptune import element_layout
from braid.engines.neptune.connection import GremlinConnection
from braid.engines.opensearch import mapping
from braid.engines.opensearch.connection import BoundedConnection
from braid.errors import BraidError
from braid.ingestion.inline_writes import write_message
from braid.models import Query, Record, Relationship, Vertex
from braid.models.query import GraphConstraint, Ranking
from braid.retrieval import pipeline
from braid.retrieval.context.message_selection import ContextRequest
from braid.settings import Settings
from gremlin_python.process.graph_traversal import GraphTraversalSource
from gremlin_python.process.traversal import Bytecode, TraversalStrategies
from gremlin_python.structure.graph import Graph

from tests.contract.shapes import ACME
from tests.front_door import FrontDoor, claims
from tests.operations import OPERATIONS
from tests.unit.deployment.test_rights import (
    ASKING,
    RECORDS,
    REGION,
    STAGES,
    Calls,
    StagesOfFunctions,
    account,
    deployed_settings,
    of,
)
from tests.unit.deployment.test_template_front_door import actions, of_function

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INDEX: Final = "braid-records"
FUNCTIONS: Final = (*STAGES, "ContextFunction", "IngestFunction", "ReembedFunction", "SearchApiFunction")
DOCUMENT: Final = mapping.document(Record(id="r1", tenant_id=ACME, content="Heron gate.", schema_version=1))
UNASKED_HERE: Final = {"EmbedFunction", "GraphExpandFunction"}
"""They ask the index where the plan was lost, and whether a word may be a misspelt name."""
BY_STEP: Final = {
    "drop": "neptune-db:DeleteDataViaQuery",
    **dict.fromkeys(("mergeV", "mergeE", "addV", "addE", "property"), "neptune-db:WriteDataViaQuery"),
}
"""Actions of steps that do not only read."""
EDGE: Final = {
    "row": element_layout._edge_row(Relationship(tenant_id=ACME, source="r1", type="CAUSES", target="stub")),
    "time": element_layout.UNKNOWN_TIME,
    "from": element_layout.FIRST_MOMENT,
    "until": element_layout.LAST_MOMENT,
}
"""What is read of a trusted edge from a record to a stub."""
STUB: Final = {
    element_layout.ROW: [element_layout._vertex_row(Vertex(tenant_id=ACME, id="stub"))],
    element_layout.VALID_FROM: [element_layout.FIRST_MOMENT],
    element_layout.VALID_UNTIL: [element_layout.LAST_MOMENT],
}


class Asking:
    """What each function asked of both stores, which answer as if they held a record with an edge, and all vertices."""

    def __init__(self) -> None:
        self.paths: dict[str, set[tuple[str, str]]] = {name: set() for name in FUNCTIONS}
        self.steps: dict[str, set[str]] = {name: set() for name in FUNCTIONS}
        self.has_index = True
        self.moves = False

    def search(self, method: str, url: str, body: bytes | str | None) -> tuple[int, dict[str, str], str]:
        """Note a request to OpenSearch, and answer it."""
        self.paths[ASKING.get()].add((f"es:ESHttp{method.capitalize()}", unquote(url).lstrip("/")))
        text = (body.decode() if isinstance(body, bytes) else body) or ""
        return (200 if self.has_index or method != "HEAD" else 404), {}, json.dumps(self._answer(url, text))

    def _answer(self, url: str, body: str) -> Any:
        lines = [json.loads(line) for line in body.splitlines() if line]
        hit = {"_id": "r1", "_score": 1.0, "_source": DOCUMENT, "_seq_no": 1, "_primary_term": 1}

        def found(asked: dict[str, Any]) -> dict[str, Any]:
            sort = ["r1"] if asked.get("sort") == [{"id": "asc"}] else [1.0, "r1"]
            hits = {"hits": [{**hit, "sort": sort, "fields": {"valid_from_us": [0]}}], "total": {"value": 1}}
            return {"hits": hits, "_shards": {"failed": 0}, "count": 1}

        match url.split("?", maxsplit=1)[0].rpartition("/")[2]:
            case "_msearch":
                return {"responses": [found(asked) for asked in lines[1::2]]}
            case "_mget":
                return {"docs": [{**hit, "_id": each["_id"], "found": True} for each in lines[0]["docs"]]}
            case "_bulk":
                kinds = [kind for line in lines for kind in line if kind in {"index", "update", "delete", "create"}]
                return {"items": [{kind: {"status": 200, "result": "updated"}} for kind in kinds]}
            case "_search" | "_count":
                return found(lines[0])
            case _:
                names = {INDEX: {}, **({f"{INDEX}_next": {}} if self.moves else {})}
                template = mapping.index_body(Settings())["mappings"]
                return {f"{INDEX}-000001": {"aliases": names, "mappings": template}}

    def walk(self, build: Any) -> list[Any]:
        """Note the steps of a traversal, and answer it: where it asks for ids, with those that it names."""
        bytecode = build(GraphTraversalSource(Graph(), TraversalStrategies())).bytecode
        steps = [step for step, *_ in _steps(bytecode)]
        self.steps[ASKING.get()] |= {BY_STEP.get(step, "neptune-db:ReadDataViaQuery") for step in steps}
        first, *_, last = bytecode.step_instructions
        if any(step.startswith("group") for step, *_ in bytecode.step_instructions):
            return [{}]
        if ["project", *EDGE] in bytecode.step_instructions:
            return [EDGE]
        if last[0] == "valueMap":
            return [STUB]
        return list(first[1:]) if first[0] in {"V", "E"} and last[0] == "id" else []


def _steps(bytecode: Bytecode) -> Iterator[list[Any]]:
    for step in bytecode.step_instructions:
        yield step
        for argument in step[1:]:
            if isinstance(argument, Bytecode):
                yield from _steps(argument)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Asking:
    noted = Asking()
    with account(Calls()) as patch:
        patch.setattr(
            BoundedConnection,
            "perform_request",
            lambda _self, method, url, _params=None, body=None, **_: noted.search(method, url, body),
        )
        patch.setattr(GremlinConnection, "submit", lambda _self, build, **_: noted.walk(build))
        _ask_everything(noted, tmp_path_factory.mktemp("home"))
    return noted


def _stages(home: Path, **own: Any) -> StagesOfFunctions:
    """Return the stages over both deployed stores."""
    settings = deployed_settings(home, reembed_table="ReembedTable", objects_bucket="objects-bucket", **own)
    return StagesOfFunctions(settings)


def _ask_everything(noted: Asking, home: Path) -> None:
    machine = f"arn:aws:states:{REGION}:123456789012:stateMachine:braid"
    stages = _stages(home)
    api = _stages(
        home,
        retrieve_state_machine_arn=machine,
        ingest_state_machine_arn=machine,
        reembed_state_machine_arn=machine,
        ingest_function="ingest",
    )
    for noted.moves in (False, True):
        for ranking in Ranking:
            answer = pipeline.answer(Query(tenant_id=ACME, text="Who closed the heron gate?", ranking=ranking), stages)
            assert not answer.degraded
            assert answer.results
        constrained = Query(tenant_id=ACME, text="heron", graph_constraint=GraphConstraint(entity="r1"))
        with suppress(BraidError):  # the walk finds nothing
            pipeline.answer(constrained, stages)
        with of("ContextFunction"):
            api.context(ContextRequest(tenant_id=ACME, query="heron", messages=({"role": "user", "content": "Hello"},)))
            api.uses.note(ACME, ["r1"])  # as of a context's results; the workflow has none here
            api.uses.add_gathered()
        with of("IngestFunction"):
            write_message(json.dumps({"tenant_id": ACME, "records": RECORDS[:1]}), stages)
        with of("ReembedFunction"):
            _move(stages)
        with of("SearchApiFunction"):
            door = FrontDoor(api)
            for operation in OPERATIONS:
                door.ask(operation.method, operation.path(), operation.body, authorizer=claims(ACME))
    noted.has_index = False
    with of("IngestFunction"):
        stages.index.create()
    stages.close()
    api.close()


def _move(stages: StagesOfFunctions) -> None:
    """Do all that a move to another profile does, whatever comes of it."""
    moving = stages.migration
    spaces = stages.profiles.dimensions()
    for step in (
        lambda: moving.begin("minilm", "instructor", spaces),
        moving.tenants,
        lambda: moving.count(ACME),
        lambda: moving.ids(ACME),
        lambda: moving.pending(ACME, ["r1"], list(spaces)),
        lambda: moving.reconcile(ACME, ["r1"]),
        lambda: moving.count_pending([ACME], list(spaces)),
        lambda: moving.differing(ACME, list(spaces), ["r1"]),
        moving.prepare,
        moving.switch,
        moving.rollback,
        lambda: moving.drop(()),
    ):
        with suppress(BraidError, KeyError):
            step()


def rights(function: str, service: str) -> Iterator[tuple[str, str]]:
    """Yield what a function's role may do, and with which paths of a domain, as a pattern."""
    for statement in of_function(function):
        given = statement["Resource"]
        for resource in [given] if isinstance(given, str) else given:
            path = str(resource).removeprefix("${OpenSearchResourceArn}/").replace("${OpenSearchIndex}", INDEX)
            yield from ((action, path) for action in actions(statement) if action.startswith(service))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_ask_the_domain_for_each_path_that_its_code_asks_for(asking: Asking, function: str) -> None:
    allowed = list(rights(function, "es:"))
    assert asking.paths[function] or function in UNASKED_HERE
    for action, path in asking.paths[function]:
        assert any(action == may and fnmatchcase(path, pattern) for may, pattern in allowed), (action, path)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_with_the_graph_what_its_traversals_do_and_no_more(asking: Asking, function: str) -> None:
    asked = asking.steps[function]
    assert asked == {action for action, _ in rights(function, "neptune-db:")}


def test_no_path_of_the_domain_is_allowed_that_nobody_asks_for(asking: Asking) -> None:
    allowed = {(function, pattern) for function in FUNCTIONS for _, pattern in rights(function, "es:")}
    asked = {
        pattern
        for function, pattern in allowed
        if any(fnmatchcase(path, pattern) for _, path in asking.paths[function])
    }
    assert {pattern for _, pattern in allowed} == asked
