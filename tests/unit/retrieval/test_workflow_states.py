"""What the retrieval workflow keeps of a stage's answer, against the models that the next stages read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from braid.retrieval.stages.stage_messages import RECORDED_AS, Embedded, GraphFound, GraphOperation, Planned, Searched

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKFLOW = Path(__file__).resolve().parents[3] / "shared" / "statemachines" / "retrieve.asl.yaml"
KEPT = {"$.embedded": Embedded, "$.searched": Searched, "$.linked": GraphFound, "$.expanded": GraphFound}


def selecting(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every state that selects from what a function answered, branches included."""
    for name, state in machine["States"].items():
        if "Payload" in str(state.get("ResultSelector")):
            yield name, state
        for inner in (*state.get("Branches", ()), *filter(None, [state.get("ItemProcessor")])):
            yield from selecting(inner)


STATES = dict(selecting(yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("name", STATES)
def test_nothing_that_a_stage_says_is_dropped_on_the_way(name: str) -> None:
    """A field that a selector leaves out reads as its default in the stages that follow: lost, and no error."""
    state = STATES[name]
    kept = {key.removesuffix(".$"): path for key, path in state["ResultSelector"].items() if key.endswith(".$")}
    assert set(kept) == set(KEPT.get(state.get("ResultPath"), Planned).model_fields)
    assert all(path == f"$.Payload.{field}" for field, path in kept.items())


@pytest.mark.parametrize("operation", GraphOperation)
def test_a_graph_operation_that_is_lost_has_one_name_in_the_workflow_as_in_process(operation: GraphOperation) -> None:
    asking = [each for each in STATES.values() if each["Parameters"]["Payload"].get("operation") == operation]
    marks = [catch["ResultPath"] for each in asking for catch in each["Catch"]]
    assert marks == [f"$.lost.{RECORDED_AS[operation]}"]
