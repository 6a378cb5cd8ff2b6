"""The page of costs says what the script works out, of what the template deploys."""

from __future__ import annotations

from bench import costs
from tests.unit.deployment.test_operations import ALARMS, watched, written
from tests.unit.deployment.test_template import FUNCTIONS, RESOURCES


def test_the_page_has_the_tables_that_the_script_works_out() -> None:
    page = costs.PAGE.read_text(encoding="utf-8")
    assert page == costs.written(page), "run python -m bench.costs"
    assert all(table in page for table in costs.tables().values())


def test_what_is_counted_is_what_is_deployed() -> None:
    # The function that answers alone is there on request, and then the stages write nothing; so is the canary.
    assert len({metric for metric in written() if metric[0] != "answer"}) == costs.METRICS
    assert sum(service in ("search_api", "reembed") for service, _ in written()) == costs.SMALL.metrics
    there = [alarm for name, alarm in ALARMS.items() if name not in ("AnswerErrors", "CanaryFailing")]
    assert sum(len(list(watched(alarm))) for alarm in there) == costs.ALARM_METRICS
    folders = {stage.name for stage in costs.STAGES}
    assert folders == {
        function["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for name, function in FUNCTIONS.items()
        if f"{name}.Arn" in str(RESOURCES["RetrieveStateMachine"]) or name == "SearchApiFunction"
    }
    fixed = {FUNCTIONS[name]["Properties"]["MemorySize"] for name in ("PlanFunction", "GraphExpandFunction")}
    assert fixed == {stage.mb for stage in costs.STAGES if stage.name in ("plan", "graph_expand")}


def test_a_hosted_reranker_costs_more_than_the_rest_of_a_question_together() -> None:
    rest = sum(costs.question().values())
    assert all(each > 10 * rest for each in costs.RERANKERS.values())


def test_the_cost_of_a_question_by_hand() -> None:
    # .7 s of 1 GB, .24 s of half a GB, .25 s of 2 GB.
    assert costs.question()["Lambda"] == (0.7 + 0.3 / 2 + 0.25 * 2) * costs.LAMBDA_GB_S + 7 * 0.2e-6


def test_the_cost_of_a_record_follows_from_what_was_measured() -> None:
    times, seconds = costs.record_times(), costs.function_seconds()
    core = costs.SLOWER * 1769 / 2048
    assert seconds["as files"] == times.written_s * core + times.indexed_s + times.graphed_s
    assert seconds["as late messages"] == seconds["as files"] + 0.08
    assert seconds["embedded again"] < seconds["as files"]  # the graph is left as it is
    (files, *_) = costs.million_records()["Lambda"]
    assert files == 1e6 * seconds["as files"] * 2 * costs.LAMBDA_GB_S + 8_000 * 0.2e-6
