"""Conditions on metadata hold for whatever leads to a record: its text, a name, a walk or propagation.

An engine's own test file gives the fixture ``store``, as for :mod:`tests.contract.writes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import Fusion, Query, Record, Relationship, Strategy, Vertex
from braid.retrieval import pipeline

from tests.contract.shapes import ACME, GLOBEX

if TYPE_CHECKING:
    from braid.models import Answer

    from tests.stages import DemoStages

BERTHS = 60


class FiltersContract:
    """A name that leads to sixty records by one hop, two of which have words of the question."""

    @pytest.fixture(autouse=True)
    def berths(self, store: DemoStages) -> None:
        for tenant in (ACME, GLOBEX):
            texts = {number: f"Invoices of berth {number}." for number in range(BERTHS)}
            texts |= {0: "The ledger is closed at noon.", 1: "The ledger is opened at nine."}
            records = tuple(
                Record(
                    id=f"n{number}",
                    tenant_id=tenant,
                    content=text,
                    metadata={"floor": number, "team": f"t{number % 2}"},
                )
                for number, text in texts.items()
            )
            ledger = Vertex(id="ledger", tenant_id=tenant, entity_type="Service", name="Ledger")
            edges = tuple(
                Relationship(source="ledger", type="MENTIONS", target=one.id, tenant_id=tenant) for one in records
            )
            request = WriteRequest(tenant_id=tenant, records=records, vertices=(ledger,), relationships=edges)
            require_written(write(request, store))

    def ask(
        self, store: DemoStages, conditions: object, text: str = "When is the Ledger closed?", **fields: Any
    ) -> Answer:
        asked = {"text": text, "tenant_id": ACME, "filters": {"metadata": conditions}, "top_k": 50, **fields}
        return pipeline.answer(Query.model_validate(asked), store)

    @pytest.mark.parametrize(
        "fields",
        [
            {"hints": {"strategy": Strategy.HYBRID}},
            {"hints": {"strategy": Strategy.HYBRID}, "fusion": Fusion.WEIGHTED},
            {"hints": {"strategy": Strategy.SEMANTIC}},
            {"hints": {"strategy": Strategy.GRAPH_ONLY}},
            {"graph_constraint": {"entity": "Ledger"}},
        ],
        ids=lambda fields: "-".join(str(value) for value in fields.values()),
    )
    def test_what_does_not_meet_the_conditions_is_no_result_whatever_leads_to_it(
        self, store: DemoStages, fields: dict[str, Any]
    ) -> None:
        for conditions, expected in (
            (["floor<2"], {0, 1}),
            (["floor>=56", "team=t1"], {57, 59}),
            ({"floor": {"gt": 1, "lte": 4}, "team": {"none_of": ["t1"]}}, {2, 4}),
            ({"berth": {"exists": True}}, set()),
        ):
            answer = self.ask(store, conditions, **fields)
            assert not answer.degraded
            assert {int(result.id[1:]) for result in answer.results} == expected, conditions

    def test_what_the_graph_found_outside_of_them_weighs_nothing(self, store: DemoStages) -> None:
        answer = self.ask(store, ["floor=57"], hints={"strategy": Strategy.HYBRID})
        (result,) = answer.results
        assert result.id == "n57"
        # The record by its mention and by propagation, and the name itself.
        assert answer.counts["graph"] + answer.counts["knowledge"] <= 3

    def test_values_and_fields_are_as_the_tenants_records_have_them(self, store: DemoStages) -> None:
        answer = self.ask(store, ["floor<5", "!berth"], facets=("team", "floor", "quay"))
        assert answer.plan.unknown_fields == ("berth", "quay")
        counted = {field: [(one.value, one.count) for one in values] for field, values in answer.facets.items()}
        assert counted == {"team": [("t0", 3), ("t1", 2)], "floor": [(n, 1) for n in range(5)], "quay": []}
        with pytest.raises(InvalidRequest, match="field 'team': records have text there, and the range is of numbers"):
            self.ask(store, ["team>5"])
