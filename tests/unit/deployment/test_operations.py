"""What operators see: every metric that is watched is written, and every alarm is explained."""

from __future__ import annotations

import io
import json
import re
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from braid.lambda_runtime.stage_handlers import answer_metrics, lost_metric
from braid.models import Query
from braid.reembedding.queue_from_answers import OutdatedRecordSender
from braid.retrieval.caches.keys_and_generations import CacheCounts, CacheName
from braid.retrieval.context.building import measures
from braid.retrieval.context.message_selection import Context, ContextMetrics

from bench import costs
from tests.fakes import fused, record, searched
from tests.unit.deployment.test_template import FOLDERS, FUNCTIONS, GLOBALS, OBSERVABILITY, RESOURCES, ROOT, TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = "Braid/${WatchedStack}"
ANSWERED_BY = ["HasAnswerFunction", "answer", "fuse_rerank"]
"""The service that measures answers, as alarms name it; on the dashboard it is a variable of this value."""
WATCHING: dict[str, Any] = OBSERVABILITY["Resources"]
ALARMS = {name: item for name, item in WATCHING.items() if item["Type"] == "AWS::CloudWatch::Alarm"}
DASHBOARD: dict[str, Any] = json.loads(
    re.sub(r"(?<=: )\$\{\w+\}", "0", WATCHING["Dashboard"]["Properties"]["DashboardBody"][0])
)
WIDGETS: list[dict[str, Any]] = [item for item in DASHBOARD["widgets"] if item["type"] == "metric"]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
SERVICES = {
    "AWS/Lambda": ({"Errors", "Invocations", "Throttles", "ConcurrentExecutions"}, {"FunctionName"}),
    "AWS/States": (
        {"ExecutionsStarted", "ExecutionsFailed", "ExecutionsTimedOut", "ExecutionTime"},
        {"StateMachineArn"},
    ),
    "AWS/SQS": ({"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"}, {"QueueName"}),
    "AWS/ApiGateway": ({"Count", "4xx", "5xx", "Latency"}, {"ApiId", "Stage"}),
    "AWS/ES": (
        {"ClusterStatus.red", "JVMMemoryPressure", "FreeStorageSpace", "ClusterUsedSpace"},
        {"DomainName", "ClientId"},
    ),
    "AWS/Neptune": ({"CPUUtilization"}, {"DBClusterIdentifier"}),
    "AWS/Events": ({"FailedInvocations", "InvocationsFailedToBeSentToDlq"}, {"RuleName"}),
}
"""Metrics that AWS documents for each namespace, of those that are used here, and their dimensions."""
TYPES = {
    "FunctionName": "AWS::Serverless::Function",
    "StateMachineArn": "AWS::Serverless::StateMachine",
    "QueueName": "AWS::SQS::Queue",
    "ApiId": "AWS::ApiGatewayV2::Api",
}

every_alarm = pytest.mark.parametrize("name", sorted(ALARMS))


def parts_that_may_be_lost() -> set[str]:
    """Return the parts that the workflow and the last stage mark as lost, as they stand there."""
    workflow = (ROOT / "shared/statemachines/retrieve.asl.yaml").read_text(encoding="utf-8")
    stage = (ROOT / "layers/braid/braid/retrieval/stages/fuse_rerank.py").read_text(encoding="utf-8")
    (of_the_stage,) = re.findall(r"lost_here = \{(.*)\}", stage)
    return {
        *re.findall(r"ResultPath: \$\.lost\.(\w+)", workflow),
        *re.findall(r'yield "(\w+)"', stage),
        *re.findall(r'"(\w+)":', of_the_stage),
    }


def written() -> set[tuple[str, str]]:
    """Return service and name of every metric that the code can write."""
    found: set[tuple[str, str]] = set()
    for folder in FOLDERS.values():
        code = (ROOT / "functions" / folder / "app.py").read_text(encoding="utf-8")
        names = {"Latency"}
        if "stage_handler" in code:
            names |= {"Errors", "ColdStart"}
        if "cache_counts" in code or folder == "search_api":
            counts = CacheCounts()
            for cache in CacheName:
                counts.add(cache, hit=True)
                counts.add(cache, hit=False)
            names |= set(counts.drain())
        if "measure=answer_metrics" in code:
            names |= set(answer_metrics(fused([record("a")], searched=searched(("a", 0.9)))))
            names |= {lost_metric(part) for part in parts_that_may_be_lost()}
        if "measure=measures" in code:
            means = ContextMetrics(mean_relevance=1, mean_recency=1, mean_final=1)
            names |= set(measures(Context(messages=(), metrics=means)))
        if folder == "search_api":
            names |= {f"Status{hundred}xx" for hundred in (2, 3, 4, 5)}
        if "outdated_counts" in code:
            names |= set(OutdatedRecordSender(lambda: pytest.fail("nothing is sent")).take_counts())
        found |= {(folder, name) for name in names}
    return found


def shown(widget: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield namespace, name and dimensions of each metric of a widget, and check its expressions."""
    ids, used = set(), set()
    for line in widget["properties"]["metrics"]:
        options = line[-1] if isinstance(line[-1], dict) else {}
        ids |= {options["id"]} if "id" in options else set()
        if "expression" in options:
            used |= set(re.findall(r"\b[a-z]\w*", options["expression"]))
            continue
        words = [word for word in line if isinstance(word, str)]
        yield words[0], words[1], dict(zip(words[2::2], words[3::2], strict=True))
    assert used <= ids, widget["properties"]["title"]


def watched(alarm: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield namespace, name and dimensions of each metric of an alarm."""
    properties = alarm["Properties"]
    metrics = (
        [item["MetricStat"]["Metric"] for item in properties["Metrics"] if "MetricStat" in item]
        if "Metrics" in properties
        else [properties]
    )
    for metric in metrics:
        yield (
            metric["Namespace"],
            metric["MetricName"],
            {item["Name"]: item["Value"] for item in metric["Dimensions"]},
        )


def check(namespace: str, name: str, dimensions: dict[str, str]) -> None:
    """Check that a metric is one that somebody writes, of a resource that is there."""
    if namespace == OWN:
        assert set(dimensions) == {"service"}
        service = dimensions["service"]
        # Of answers the one function writes what the last stage of the workflow does.
        both = service in (ANSWERED_BY, "${AnsweredBy}")
        assert {(each, name) for each in (("answer", "fuse_rerank") if both else (service,))} <= written()
        return
    names, expected = SERVICES[namespace]
    assert name in names
    assert set(dimensions) == expected
    for dimension, value in dimensions.items():
        if wanted := TYPES.get(dimension):
            logical = value.removeprefix("${").removesuffix("}")
            assert logical == "Canary" or RESOURCES[logical]["Type"] == wanted


@pytest.mark.parametrize("widget", WIDGETS, ids=lambda widget: widget["properties"]["title"])
def test_every_metric_of_the_dashboard_is_written(widget: dict[str, Any]) -> None:
    metrics = list(shown(widget))
    assert metrics
    for metric in metrics:
        check(*metric)


@every_alarm
def test_every_metric_of_an_alarm_is_written(name: str) -> None:
    metrics = list(watched(ALARMS[name]))
    assert 0 < len(metrics) <= 10  # CloudWatch takes no more
    for metric in metrics:
        check(*metric)


@every_alarm
def test_an_expression_of_an_alarm_uses_the_metrics_that_it_names(name: str) -> None:
    metrics = ALARMS[name]["Properties"].get("Metrics", [])
    ids = {item["Id"] for item in metrics if not item["ReturnData"]}
    for item in metrics:
        if "Expression" in item and "METRICS()" not in item["Expression"]:
            assert set(re.findall(r"\b[a-z]\w*", item["Expression"])) == ids
    assert sum(item["ReturnData"] for item in metrics) == (1 if metrics else 0)


@every_alarm
def test_an_alarm_is_announced_named_after_the_stack_and_explained_in_the_runbook(name: str) -> None:
    properties = ALARMS[name]["Properties"]
    assert properties["AlarmActions"] == properties["OKActions"] == ["AlarmTopic"]
    slug = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
    assert properties["AlarmName"] == f"${{WatchedStack}}-{slug}"
    says, _, anchor = properties["AlarmDescription"].partition(". What to do: docs/runbook.md#")
    assert len(says) > 30
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"(?m)^## (.+)$", RUNBOOK)
    }
    assert anchor in sections
    assert f"`{slug}`" in RUNBOOK


def test_the_runbook_explains_no_alarm_that_is_not_there() -> None:
    slugs = {re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower() for name in ALARMS}
    listed = re.findall(r"(?m)^\| `([a-z-]+)`", RUNBOOK.split("\n## ")[0])
    assert sorted(listed) == sorted(slugs)


@pytest.mark.parametrize("page", ["deploy.md", "runbook.md"])
def test_commands_name_outputs_and_resources_that_the_stack_has(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    outputs = set(re.findall(r"(?:\$\(|`)output (\w+)", text))
    assert outputs
    assert outputs <= TEMPLATE["Outputs"].keys()
    assert set(re.findall(r"--logical-resource-id (\w+)", text)) <= RESOURCES.keys()


def test_every_function_has_an_alarm_for_errors_and_counts_among_the_throttled_and_on_the_dashboard() -> None:
    throttled = {dimensions["FunctionName"] for _, _, dimensions in watched(ALARMS["FunctionsThrottled"])}
    assert throttled == set(FUNCTIONS)
    for name in FUNCTIONS:
        alarm = ALARMS[name.removesuffix("Function") + "Errors"]
        assert {dimensions["FunctionName"] for _, _, dimensions in watched(alarm)} == {name}
    of_lambda = [list(shown(widget)) for widget in WIDGETS if widget["properties"]["title"].startswith("Functions: ")]
    assert len(of_lambda) == 3
    for metrics in of_lambda:
        assert {dimensions["FunctionName"] for _, _, dimensions in metrics} == {f"${{{name}}}" for name in FUNCTIONS}


def test_every_workflow_queue_part_and_cache_is_on_the_dashboard() -> None:
    metrics = [metric for widget in WIDGETS for metric in shown(widget)]
    for kind, dimension in (("AWS::Serverless::StateMachine", "StateMachineArn"), ("AWS::SQS::Queue", "QueueName")):
        seen = {dimensions[dimension].strip("${}") for _, _, dimensions in metrics if dimension in dimensions}
        assert seen == {name for name, item in RESOURCES.items() if item["Type"] == kind}
    names = {name for _, name, _ in metrics}
    assert {lost_metric(part) for part in parts_that_may_be_lost()} <= names
    assert {f"{cache.value}Cache{way}" for cache in CacheName for way in ("Hit", "Miss")} <= names


def test_every_queue_of_what_was_set_aside_and_every_workflow_has_an_alarm() -> None:
    metrics = [metric for alarm in ALARMS.values() for metric in watched(alarm)]
    set_aside = {
        dimensions["QueueName"] for _, name, dimensions in metrics if name == "ApproximateNumberOfMessagesVisible"
    }
    of_queues = {
        item["Properties"]["RedrivePolicy"]["deadLetterTargetArn"].removesuffix(".Arn")
        for item in RESOURCES.values()
        if item["Type"] == "AWS::SQS::Queue" and "RedrivePolicy" in item["Properties"]
    }
    assert set_aside == of_queues | {"StartsDeadLetters"}
    failed = {dimensions["StateMachineArn"] for _, name, dimensions in metrics if name == "ExecutionsFailed"}
    assert failed == {name for name, item in RESOURCES.items() if item["Type"] == "AWS::Serverless::StateMachine"}


def test_no_two_widgets_of_the_dashboard_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for item in DASHBOARD["widgets"]:
        cells = {
            (x, y)
            for x in range(item["x"], item["x"] + item["width"])
            for y in range(item["y"], item["y"] + item["height"])
        }
        assert not cells & taken
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def test_alarms_reach_the_topic_from_this_account_only_and_an_address_if_one_is_given() -> None:
    (statement,) = WATCHING["AlarmTopicPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert (statement["Action"], statement["Resource"]) == ("sns:Publish", "AlarmTopic")
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "AWS::AccountId"}}
    assert WATCHING["AlarmMail"]["Condition"] == "HasAlarmEmail"


def test_a_missed_schedule_is_only_an_alarm_where_there_is_one_and_silence_is_the_sign() -> None:
    alarm = ALARMS["ReembedMissed"]
    assert alarm["Condition"] == RESOURCES["ReembedNightly"]["Condition"] == "HasReembedSchedule"
    assert alarm["Properties"]["TreatMissingData"] == "breaching"
    hours = TEMPLATE["Parameters"]["ReembedMissedHours"]
    window = RESOURCES["ReembedNightly"]["Properties"]["FlexibleTimeWindow"]["MaximumWindowInMinutes"]
    assert hours["Default"] * 60 >= 24 * 60 + window
    assert hours["MaxValue"] * alarm["Properties"]["Period"] <= 7 * 86400  # CloudWatch looks back no further


@pytest.mark.parametrize("name", ["CanaryFailing", "IndexUnhealthy", "IndexMemoryFull", "GraphBusy"])
def test_silence_of_what_always_says_something_is_an_alarm_of_those_who_asked_for_it(name: str) -> None:
    assert ALARMS[name]["Properties"]["TreatMissingData"] == "breaching"
    assert ALARMS[name]["Condition"] in ("HasCanary", "WatchesDomain", "WatchesStores")


def test_the_canary_may_read_its_settings_which_are_encrypted_under_the_stated_key() -> None:
    assert WATCHING["Canary"]["Properties"]["KmsKeyArn"] == ["HasKey", "KmsKeyArn", "AWS::NoValue"]
    has, named, _ = WATCHING["CanaryRole"]["Properties"]["Policies"][1]
    (read,) = named["PolicyDocument"]["Statement"]
    assert (has, read["Action"], read["Resource"]) == ("HasKey", "kms:Decrypt", "KmsKeyArn")
    assert read["Condition"]["StringEquals"]["kms:ViaService"].startswith("lambda.")


def canary(monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], function: str = "", tenants: str = "acme") -> None:
    """Run the canary's code against a workflow, or a function, that answers so."""
    asked: list[dict[str, Any]] = []

    def answer(**request: Any) -> dict[str, Any]:
        asked.append(request)
        return said

    clients = SimpleNamespace(client=lambda _: SimpleNamespace(start_sync_execution=answer, invoke=answer))
    monkeypatch.setitem(sys.modules, "boto3", clients)
    environment = {"TENANTS": tenants, "QUESTION": "Who?", "STATE_MACHINE": "arn:retrieve", "FUNCTION": function}
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    names: dict[str, Any] = {}
    exec(WATCHING["Canary"]["Properties"]["Code"]["ZipFile"], names)  # noqa: S102 - the template's own code
    try:
        names["handler"]({}, None)
    finally:
        for request, tenant in zip(asked, tenants.split(","), strict=False):
            query = json.loads(request.get("input") or request["Payload"])["query"]
            assert Query.model_validate(query).tenant_id == tenant
            assert request.get("stateMachineArn", request.get("FunctionName")) == (function or "arn:retrieve")


def an_answer(**fields: Any) -> str:
    return json.dumps({"results": [{"id": "a"}], "degraded": [], **fields})


def test_the_canary_is_content_with_a_whole_answer_of_the_workflow_or_the_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canary(monkeypatch, {"status": "SUCCEEDED", "output": an_answer()})
    canary(monkeypatch, {"Payload": io.BytesIO(an_answer().encode())}, "arn:answer:live")


def test_the_canary_asks_of_each_class_of_tenants_and_names_the_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = "small,large-own,graph"
    assert re.fullmatch(TEMPLATE["Parameters"]["CanaryTenant"]["AllowedPattern"], classes)
    canary(monkeypatch, {"status": "SUCCEEDED", "output": an_answer()}, tenants=classes)
    answers = iter([an_answer(), an_answer(results=[])])

    class Said(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return next(answers) if name == "output" else "SUCCEEDED"

    with pytest.raises(RuntimeError, match="large-own: the answer has no results"):
        canary(monkeypatch, Said(), tenants=classes)


def test_what_tenants_cost_is_summed_of_lines_that_functions_write_at_the_price_of_the_costs() -> None:
    (widget,) = (item["properties"] for item in DASHBOARD["widgets"] if item["type"] == "log")
    query = widget["query"]
    groups = set(re.findall(r"/aws/lambda/\$\{WatchedStack\}/(\S+)'", query))
    assert groups == {*FOLDERS.values(), "${AnsweredBy}"} - {"answer", "fuse_rerank"}
    assert {"GbSeconds", "tenant_id", "RerankCostUsd"} <= set(re.findall(r"\w+", query))
    assert f"{costs.LAMBDA_GB_S:.10f}" in query


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ({"status": "FAILED", "error": "StoresUnavailable"}, "FAILED StoresUnavailable"),
        ({"status": "TIMED_OUT"}, "TIMED_OUT"),
        ({"status": "SUCCEEDED", "output": an_answer(degraded=["embed", "link"])}, "lacks embed, link"),
        ({"status": "SUCCEEDED", "output": an_answer(results=[])}, "no results"),
    ],
)
def test_the_canary_fails_unless_the_answer_is_whole(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], because: str
) -> None:
    with pytest.raises(RuntimeError, match=because):
        canary(monkeypatch, said)
    with pytest.raises(RuntimeError, match="acme: the function that answers failed"):
        canary(monkeypatch, {"FunctionError": "Unhandled", "Payload": io.BytesIO(b"{}")}, "arn:answer:live")


def test_new_code_goes_back_when_an_alarm_of_this_stack_fires() -> None:
    gradual = GLOBALS["DeploymentPreference"]
    assert gradual["Enabled"] == "GradualDeployment"
    names = {ALARMS[name]["Properties"]["AlarmName"] for name in ("FrontDoorFailing", "AnswersDegraded")}
    assert {name.replace("AWS::StackName", "WatchedStack") for name in gradual["Alarms"]} == names
    minutes = int(re.search(r"(\d+)Minutes", gradual["Type"]).group(1))  # type: ignore[union-attr]
    slowest = max(
        ALARMS[name]["Properties"]["DatapointsToAlarm"] * 300 for name in ("FrontDoorFailing", "AnswersDegraded")
    )
    assert minutes * 60 > slowest, "an alarm has time to fire"
    for name, function in FUNCTIONS.items():
        by_alias = "AutoPublishAlias" in function["Properties"]
        assert by_alias or function["Properties"]["DeploymentPreference"] == {"Enabled": False}, name
        assert not by_alias or function["Properties"]["AutoPublishCodeSha256"] == "Release"


def test_reserved_concurrency_leaves_what_an_account_must_keep() -> None:
    samconfig = (ROOT / "samconfig.toml").read_text(encoding="utf-8")
    for reserved in re.findall(r"ReservedConcurrency=(\d+)", samconfig):
        assert int(reserved) * len(FUNCTIONS) <= 1000 - 100  # an account's first limit, and what stays unreserved
