"""The deployment as it is written down: nothing that an operator needs is missing, and its parts agree."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from braid.engines.embedded.message_queue import MAX_RECEIVES
from braid.engines.opensearch.mapping import index_body
from braid.engines.rerankers.bedrock import USD_PER_1000_QUERIES
from braid.errors import StoreTooSlow
from braid.ingestion.bulk import manifest
from braid.ingestion.bulk.import_steps import BATCH_LINES
from braid.ingestion.bulk.manifest import PAGE_BATCHES
from braid.ingestion.bulk.step_messages import BatchRange, Phase
from braid.ingestion.writer_slots import WRITING_S
from braid.ingestion.writing import STORES_S
from braid.models import RerankerKind
from braid.models.enums_and_scalars import HOSTED_RERANKERS
from braid.ports.cache import counter_key
from braid.ports.ingestion import ARRIVING, ImportJob
from braid.ports.object_store import ObjectInfo
from braid.reembedding import ReembeddingLimits
from braid.retrieval.stages.graph_expand import TIME_FOR_MORE_MS
from braid.settings import DEPLOYED_RERANK_LIMIT_S, Settings
from braid.settings.configuration_files import load_profiles

from braid_cli.http_server.server import Bounds
from make.templates import read_template

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
STAGES = {
    "PlanFunction": "plan",
    "EmbedFunction": "embed",
    "VectorSearchFunction": "vector_search",
    "GraphExpandFunction": "graph_expand",
    "FuseRerankFunction": "fuse_rerank",
}
FOLDERS = {
    **STAGES,
    "AnswerFunction": "answer",
    "ContextFunction": "context",
    "IngestFunction": "ingest",
    "ReembedFunction": "reembed",
    "SearchApiFunction": "search_api",
}
"""The folder of each function; those that are no stage stand beside the workflow."""


def arguments(part: Any) -> Any:
    """Return a part of a template with each intrinsic as its argument: ``!GetAtt A.B`` as ``"A.B"``, and so on."""
    if isinstance(part, list):
        return [arguments(each) for each in part]
    if not isinstance(part, dict):
        return part
    if len(part) == 1:
        ((name, value),) = part.items()
        if name == "Ref" or (name == "Condition" and isinstance(value, str)):
            return value
        if name == "Fn::GetAtt":
            return ".".join(value)
        if name.startswith("Fn::"):
            return arguments(value)
    return {name: arguments(value) for name, value in part.items()}


def read(file: str) -> dict[str, Any]:
    """Return a template with its loops unrolled and its intrinsics as their arguments."""
    template: dict[str, Any] = arguments(read_template(ROOT / file))
    return template


TEMPLATE = read("template.yaml")
OBSERVABILITY = read("observability.yaml")
"""The stack of alarms and dashboard inside the other."""
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
GLOBALS: dict[str, Any] = TEMPLATE["Globals"]["Function"]
FUNCTIONS = {name: item for name, item in RESOURCES.items() if item["Type"] == "AWS::Serverless::Function"}
MACHINE: dict[str, Any] = RESOURCES["RetrieveStateMachine"]["Properties"]
DEFINITION: dict[str, Any] = yaml.safe_load((ROOT / MACHINE["DefinitionUri"]).read_text(encoding="utf-8"))
SAMCONFIG = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
ENVIRONMENTS = ("default", "dev", "prod")

USES_KEY = ["HasKey", "UseKeyPolicy", "AWS::NoValue"]
POLICIES_A_ROLE_TAKES = 10
MEGABYTES_OF_A_PROCESSOR = 1_769
"""IAM's quota of managed policies, unless an account asked for more; deploying fails beyond it."""

every_function = pytest.mark.parametrize("name", sorted(FUNCTIONS))


def tasks(states: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every task of a definition, those inside branches too."""
    for name, state in states.items():
        if state["Type"] == "Task":
            yield name, state
        for branch in state.get("Branches", ()):
            yield from tasks(branch["States"])


TASKS = dict(tasks(DEFINITION["States"]))
ASKING_THE_GRAPH = sorted(name for name, task in TASKS.items() if re.search("Plan|Graph", str(task["Parameters"])))
SEARCHING = sorted(name for name, task in TASKS.items() if "VectorSearch" in str(task["Parameters"]))


def invoked(name: str) -> Any:
    """Return what the workflow calls of a function: a version, if containers are kept ready or code is rolled out."""
    return ["AsksVersions", f"{name}.Alias", f"{name}.Arn"]


def test_the_main_template_is_short_enough_to_be_read_from_top_to_bottom() -> None:
    assert len((ROOT / "template.yaml").read_text().splitlines()) <= 1_700


def test_there_is_one_function_a_stage_and_one_for_contexts() -> None:
    assert set(FUNCTIONS) == set(FOLDERS)


@every_function
def test_a_function_logs_json_to_a_group_of_its_own_that_is_kept_for_a_stated_time(name: str) -> None:
    assert GLOBALS["LoggingConfig"] == {"LogFormat": "JSON", "ApplicationLogLevel": "LogLevel"}
    logging = FUNCTIONS[name]["Properties"]["LoggingConfig"]
    group = RESOURCES[logging["LogGroup"]]
    assert group["Type"] == "AWS::Logs::LogGroup"
    assert group["Properties"]["RetentionInDays"] == "LogRetentionDays"
    assert group["Properties"]["LogGroupName"].endswith(f"/{FOLDERS[name]}")


def test_no_level_can_be_chosen_at_which_lambda_drops_metrics_with_the_lines_that_have_none() -> None:
    assert set(TEMPLATE["Parameters"]["LogLevel"]["AllowedValues"]) == {"DEBUG", "INFO"}


@every_function
def test_a_function_names_its_stage_and_is_traced(name: str) -> None:
    assert FUNCTIONS[name]["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] == FOLDERS[name]
    assert GLOBALS["Tracing"] == "Active"


@every_function
def test_a_function_has_its_code_and_either_both_layers_or_an_image(name: str) -> None:
    properties = FUNCTIONS[name]["Properties"]
    folder = ROOT / "functions" / FOLDERS[name]
    assert (folder / "app.py").is_file()
    if properties.get("PackageType") == "Image":
        metadata = FUNCTIONS[name]["Metadata"]
        assert metadata["DockerContext"] == "."
        assert (ROOT / metadata["Dockerfile"]) == ROOT / "functions" / "Dockerfile"
        assert metadata["DockerBuildArgs"]["FUNCTION"] == metadata["DockerTag"] == FOLDERS[name]
    else:
        telemetry = ["SendsTelemetry", "TelemetryLayer", "AWS::NoValue"]
        assert properties["Layers"] == ["BraidLayer", "SharedLayer", telemetry]
        assert ROOT / properties["CodeUri"] == folder
        assert properties["Runtime"] == "python3.13"


def test_an_image_copies_only_what_is_there_and_is_told_of_every_argument_by_its_name() -> None:
    text = (ROOT / "functions" / "Dockerfile").read_text(encoding="utf-8")
    arguments = set(re.findall(r"(?m)^ARG (\w+)", text))
    for name, function in FUNCTIONS.items():
        if function["Properties"].get("PackageType") == "Image":
            assert set(function["Metadata"]["DockerBuildArgs"]) <= arguments
            paths = " ".join(re.findall(r"(?m)^COPY (?!--)(.+) \S+$", text)).replace("${FUNCTION}", FOLDERS[name])
            assert f"functions/{FOLDERS[name]}/app.py" in paths
            assert all((ROOT / path).exists() for path in paths.split())


def test_an_image_carries_all_that_is_read_from_the_shared_folder_as_the_layer_does(tmp_path: Path) -> None:
    text = (ROOT / "functions" / "Dockerfile").read_text(encoding="utf-8")
    for source, target in re.findall(r"(?m)^COPY shared/(\S+) /opt/(\S+)$", text):
        shutil.copytree(ROOT / "shared" / source, tmp_path / target)
    assert load_profiles(tmp_path) == load_profiles(ROOT / "shared")
    # Without it the first write could not make the index, and no move the next one.
    assert index_body(Settings(shared_dir=tmp_path)) == index_body(Settings(shared_dir=ROOT / "shared"))
    deploy = (ROOT / "make" / "deploy.mk").read_text(encoding="utf-8")
    (laid,) = re.findall(r'cp -r (.+) "\$\(BUILT\)/opt"', deploy)
    assert {path.name for path in tmp_path.iterdir()} == {part.removeprefix("shared/") for part in laid.split()}


def test_every_setting_that_the_template_gives_exists() -> None:
    places = [GLOBALS, *(function["Properties"] for function in FUNCTIONS.values())]
    given = {name for place in places for name in place["Environment"]["Variables"] if name.startswith("BRAID_")}
    assert {name.removeprefix("BRAID_").lower() for name in given} <= set(Settings.model_fields)


def test_every_parameter_that_the_template_takes_is_used() -> None:
    text = (ROOT / "template.yaml").read_text(encoding="utf-8").split("\nRules:", 1)[1]
    used = set(re.findall(r"!Ref (\w+)|\$\{(\w+)\}", text))
    assert set(TEMPLATE["Parameters"]) <= {name for pair in used for name in pair}


KNOWN_TO_RULES = {"Not", "Equals", "And", "Or", "Contains", "EachMemberEquals", "EachMemberIn", "Ref"}
"""What CloudFormation evaluates in the section of rules; any other function fails the validation of the template."""


def test_the_stack_of_alarms_is_given_each_thing_that_it_watches_under_its_own_name() -> None:
    given = RESOURCES["Observability"]["Properties"]["Parameters"]
    assert set(given) == set(OBSERVABILITY["Parameters"])
    assert given.pop("WatchedStack") == "AWS::StackName"
    assert given.pop("AnswerAlias") == ["AnswersInFunction", "AnswerFunction.Alias", "none"]
    assert given.pop("AnswerFunction") == ["AnswersInFunction", "AnswerFunction", "none"]
    for flag in ("PaysForReranking", "HasReembedSchedule"):
        assert given.pop(flag) == [flag, "true", "false"]
        assert OBSERVABILITY["Conditions"][flag] == [flag, "true"]
    for name, value in given.items():
        queue = RESOURCES.get(name, {}).get("Type") == "AWS::SQS::Queue"
        assert value == (f"{name}.QueueName" if queue else name)


def test_a_deployment_is_tagged_by_its_stack_and_no_resource_by_itself() -> None:
    for name in ENVIRONMENTS:
        tags = SAMCONFIG[name]["deploy"]["parameters"]["tags"]
        assert tags == ["Application=braid", f"Environment={'dev' if name == 'default' else name}"]
    resources = [*RESOURCES.values(), *OBSERVABILITY["Resources"].values()]
    assert not [item for item in [GLOBALS, *(item["Properties"] for item in resources)] if "Tags" in item]


@pytest.mark.parametrize("file", ["template.yaml", "firewall.yaml"])
def test_rules_use_only_functions_that_rules_know(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    (rules,) = re.findall(r"(?ms)^Rules:$.*?(?=^\S)", text)
    assert set(re.findall(r"!(\w+)", rules)) <= KNOWN_TO_RULES


def test_the_workflow_substitutes_exactly_the_functions_that_the_template_gives() -> None:
    used = {task["Parameters"]["FunctionName"] for task in TASKS.values()}
    given = MACHINE["DefinitionSubstitutions"]
    assert used == {f"${{{name}}}" for name in given}
    assert given == {f"{name}Arn": invoked(name) for name in STAGES}


@pytest.mark.parametrize(
    ("state", "bound_s"),
    [
        *((state, Settings().neptune_question_s) for state in ASKING_THE_GRAPH),
        *((state, Settings().opensearch_question_s) for state in SEARCHING),
    ],
)
def test_a_stage_gives_up_on_a_store_that_hangs_before_the_workflow_does_and_is_not_tried_again(
    state: str, bound_s: float
) -> None:
    assert bound_s + TIME_FOR_MORE_MS / 1_000 < TASKS[state]["TimeoutSeconds"]
    assert not any(StoreTooSlow.__name__ in retried["ErrorEquals"] for retried in TASKS[state]["Retry"])


@pytest.mark.parametrize("state", sorted(TASKS))
def test_the_workflow_gives_up_on_a_task_before_its_function_does(state: str) -> None:
    task = TASKS[state]
    function = task["Parameters"]["FunctionName"].removeprefix("${").removesuffix("Arn}")
    assert task["TimeoutSeconds"] < FUNCTIONS[function]["Properties"]["Timeout"]


def test_a_request_ends_before_the_function_that_answers_it_does() -> None:
    assert Settings().request_timeout_s < FUNCTIONS["SearchApiFunction"]["Properties"]["Timeout"]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_timed_out_can_start_anew_within_its_time_out(name: str) -> None:
    # Lambda counts a start after a time-out against the next call, and says nothing of a whole processor for it.
    function = FUNCTIONS[name]["Properties"]
    memory = function["MemorySize"]
    megabytes = memory if isinstance(memory, int) else TEMPLATE["Parameters"][memory]["MinValue"]
    slowest_start_s = 3  # docs/decisions/0093
    assert function["Timeout"] > slowest_start_s * max(1, MEGABYTES_OF_A_PROCESSOR / megabytes)


@pytest.mark.parametrize("state", sorted(TASKS))
def test_a_lost_task_is_caught(state: str) -> None:
    assert TASKS[state]["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


def test_the_workflow_is_express_traced_and_logs_no_question() -> None:
    assert MACHINE["Type"] == "EXPRESS"
    assert MACHINE["Tracing"] == {"Enabled": True}
    assert MACHINE["Logging"]["Level"] in {"ERROR", "ALL"}
    assert MACHINE["Logging"]["IncludeExecutionData"] is False
    (destination,) = MACHINE["Logging"]["Destinations"]
    group = destination["CloudWatchLogsLogGroup"]["LogGroupArn"].removesuffix(".Arn")
    assert RESOURCES[group]["Properties"]["RetentionInDays"] == "LogRetentionDays"


def test_the_workflow_may_invoke_its_functions_and_no_other() -> None:
    policies = {policy["PolicyName"]: policy for policy in RESOURCES["RetrieveRole"]["Properties"]["Policies"]}
    (statement,) = policies["InvokeStages"]["PolicyDocument"]["Statement"]
    assert statement["Action"] == "lambda:InvokeFunction"
    # Both, as the role changes before the workflow does where versions begin or cease to be asked.
    assert set(statement["Resource"]) == {each for name in STAGES for each in (f"{name}.Arn", f"${{{name}.Arn}}:live")}
    assert {FUNCTIONS[name]["Properties"]["AutoPublishAlias"] for name in STAGES} == {"live"}


@pytest.mark.parametrize("name", ["EmbedFunction", "FuseRerankFunction", "AnswerFunction"])
def test_containers_can_be_kept_ready_of_the_images_that_questions_wait_for(name: str) -> None:
    function = FUNCTIONS[name]["Properties"]
    assert function["PackageType"] == "Image"
    assert function["ProvisionedConcurrencyConfig"] == [
        "KeepsReady",
        {"ProvisionedConcurrentExecutions": "ProvisionedConcurrency"},
        "AWS::NoValue",
    ]
    # SAM makes the logical id of a version of the first ten characters, and overlooks parameters without it.
    assert function["AutoPublishCodeSha256"] == "Release"
    assert TEMPLATE["Parameters"]["Release"]["AllowedPattern"] == "^[A-Za-z0-9]{0,10}$"
    assert TEMPLATE["Rules"]["VersionsHaveRelease"]


def test_contexts_may_start_the_workflow_and_no_other_and_wait_less_than_their_function() -> None:
    (statement,) = RESOURCES["StartRetrievePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["AnswersInFunction", "lambda:InvokeFunction", "states:StartSyncExecution"]
    assert statement["Resource"] == ["AnswersInFunction", "AnswerFunction.Alias", "RetrieveStateMachine"]
    function = FUNCTIONS["ContextFunction"]["Properties"]
    variables = function["Environment"]["Variables"]
    assert variables["BRAID_RETRIEVE_STATE_MACHINE_ARN"] == "RetrieveStateMachine"
    assert float(variables["BRAID_RETRIEVE_TIMEOUT_S"]) < function["Timeout"]


@pytest.mark.parametrize(
    ("name", "policies"),
    [
        ("PlanFunction", ["ReadGraphPolicy", "ReadIndexPolicy", "ReadCachePolicy"]),
        ("EmbedFunction", ["ReadIndexPolicy", "KeepInCachePolicy"]),
        ("VectorSearchFunction", ["ReadIndexPolicy", "ReadSchemasPolicy"]),
        ("GraphExpandFunction", ["ReadGraphPolicy", "ReadIndexPolicy", "ReadCachePolicy"]),
        ("ContextFunction", ["ReadIndexPolicy", "StartRetrievePolicy", "KeepInCachePolicy"]),
        (
            "AnswerFunction",
            [
                "ReadIndexPolicy",
                "ReadGraphPolicy",
                "ReadSchemasPolicy",
                "KeepInCachePolicy",
                "QueueOutdatedPolicy",
                ["PaysForReranking", "HostedRerankerPolicy", "AWS::NoValue"],
            ],
        ),
        (
            "FuseRerankFunction",
            [
                "ReadCachePolicy",
                "ReadIndexPolicy",
                "ReadSchemasPolicy",
                "QueueOutdatedPolicy",
                ["PaysForReranking", "HostedRerankerPolicy", "AWS::NoValue"],
            ],
        ),
    ],
)
def test_a_function_may_read_the_stores_that_its_stage_asks_and_write_none(name: str, policies: list[Any]) -> None:
    assert FUNCTIONS[name]["Properties"].get("Policies", []) == [*policies, USES_KEY]


@every_function
def test_a_function_may_use_the_stated_key_and_has_no_more_policies_than_a_role_takes(name: str) -> None:
    properties = FUNCTIONS[name]["Properties"]
    assert USES_KEY in properties["Policies"]
    # SAM adds AWS's own for logs, for traces, for the VPC, and for the queues that start it.
    events = {event["Type"] for event in properties.get("Events", {}).values()}
    assert len(properties["Policies"]) + 3 + len(events) <= POLICIES_A_ROLE_TAKES
    assert all(isinstance(policy, str | list) for policy in properties["Policies"])


def test_the_stated_key_is_used_only_through_the_services_that_keep_something_under_it() -> None:
    policy = RESOURCES["UseKeyPolicy"]
    assert policy["Condition"] == "HasKey"
    (use,) = policy["Properties"]["PolicyDocument"]["Statement"]
    assert use["Resource"] == "KmsKeyArn"
    # All that DynamoDB documents but the grant, which whoever deploys makes with the tables.
    assert {*("kms:Decrypt", "kms:GenerateDataKey", "kms:Encrypt", "kms:DescribeKey")} < set(use["Action"])
    assert "kms:CreateGrant" not in use["Action"]
    services = {service.partition(".")[0] for service in use["Condition"]["StringEquals"]["kms:ViaService"]}
    # Lambda reads a function's own settings with the function's role.
    assert services == {"dynamodb", "lambda", "s3", "secretsmanager", "sqs"}


def test_the_cache_is_a_table_as_its_adapter_asks_for_and_no_function_that_only_asks_begins_a_generation() -> None:
    table = RESOURCES["CacheTable"]["Properties"]
    assert table["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert GLOBALS["Environment"]["Variables"]["BRAID_CACHE_TABLE"] == "CacheTable"
    (read,) = RESOURCES["ReadCachePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    find, keep, count = RESOURCES["KeepInCachePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert read["Resource"] == find["Resource"] == keep["Resource"] == count["Resource"] == "CacheTable.Arn"
    assert count["Action"] == "dynamodb:UpdateItem"
    # Where a counter is, and no generation: its id has "#" in place of "|".
    assert count["Condition"]["ForAllValues:StringLike"] == {"dynamodb:LeadingKeys": ["*|counter/*"]}
    assert counter_key("quota/rerank", 60, 0.0).startswith("counter/")
    assert read["Action"] == find["Action"] == "dynamodb:GetItem"
    assert keep["Action"] == ["dynamodb:PutItem", "dynamodb:DeleteItem"]


def test_a_tenant_has_as_many_requests_at_once_as_on_a_laptop_unless_it_is_set() -> None:
    assert TEMPLATE["Parameters"]["TenantRequestsAtOnce"]["Default"] == Bounds().per_tenant
    variables = GLOBALS["Environment"]["Variables"]
    assert variables["BRAID_QUOTA_REQUESTS_AT_ONCE"] == "TenantRequestsAtOnce"
    assert variables["BRAID_CACHE_TABLE"]  # where they are counted


def test_outdated_records_go_to_a_queue_that_drops_duplicates_and_keeps_what_fails() -> None:
    queue, dead = (RESOURCES[name]["Properties"] for name in ("ReembedQueue", "ReembedDeadLetters"))
    assert queue["FifoQueue"] is dead["FifoQueue"] is True
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": "ReembedDeadLetters.Arn", "maxReceiveCount": MAX_RECEIVES}
    assert FUNCTIONS["FuseRerankFunction"]["Properties"]["Environment"]["Variables"]["BRAID_REEMBED_QUEUE_URL"] == (
        "ReembedQueue"
    )
    send, *_ = RESOURCES["QueueOutdatedPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (send["Action"], send["Resource"]) == ("sqs:SendMessage", "ReembedQueue.Arn")


def test_no_policy_of_a_store_reaches_beyond_the_store_that_was_named() -> None:
    index, mappings = RESOURCES["ReadIndexPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    _, serverless, domain = index
    assert serverless["Resource"] == "OpenSearchResourceArn"
    of_index = "${OpenSearchResourceArn}/${OpenSearchIndex}*"
    assert domain["Resource"] == [f"{of_index}/{what}" for what in ("_msearch", "_search", "_mget", "_count")]
    assert domain["Action"] == ["es:ESHttpGet", "es:ESHttpPost"]
    assert (mappings[-1]["Action"], mappings[-1]["Resource"]) == ("es:ESHttpGet", of_index)
    ((_, _, writing),) = RESOURCES["WriteIndexPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert "${OpenSearchResourceArn}/*" not in writing["Resource"]
    (graph,) = RESOURCES["ReadGraphPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert graph["Action"] == "neptune-db:ReadDataViaQuery"
    assert graph["Resource"].endswith(":${NeptuneClusterResourceId}/*")
    (schemas,) = RESOURCES["ReadSchemasPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (schemas["Action"], schemas["Resource"]) == ("dynamodb:Query", "SchemaTable.Arn")


def test_a_hosted_reranker_is_allowed_only_where_it_is_chosen_and_no_more_than_its_model_and_key() -> None:
    policy = RESOURCES["HostedRerankerPolicy"]
    assert policy["Condition"] == "PaysForReranking"
    assert TEMPLATE["Conditions"]["PaysForReranking"] == ["UsesBedrock", "UsesVoyage"]
    conditions, (operation, model, read), _ = zip(*policy["Properties"]["PolicyDocument"]["Statement"], strict=True)
    assert conditions == ("UsesBedrock", "UsesBedrock", "UsesVoyage")
    assert operation["Action"] == "bedrock:Rerank"
    assert model["Action"] == "bedrock:InvokeModel"
    assert model["Resource"][0].endswith("::foundation-model/${BedrockRerankModel}")
    assert (read["Action"], read["Resource"]) == ("secretsmanager:GetSecretValue", "VoyageApiKeySecretArn")


def test_the_template_offers_every_reranker_and_the_models_of_bedrock_whose_price_is_known() -> None:
    parameters = TEMPLATE["Parameters"]
    assert set(parameters["Reranker"]["AllowedValues"]) == set(RerankerKind)
    assert tuple(json.loads(parameters["HostedRerankers"]["Default"])) == HOSTED_RERANKERS
    assert set(parameters["BedrockRerankModel"]["AllowedValues"]) == set(USD_PER_1000_QUERIES)


def test_the_template_offers_every_profile() -> None:
    configured = set(load_profiles(ROOT / "shared").profiles)
    assert set(TEMPLATE["Parameters"]["ModelProfile"]["AllowedValues"]) == configured
    assert set(TEMPLATE["Parameters"]["NextModelProfile"]["AllowedValues"]) == {"", *configured}


def test_a_reranker_gives_up_before_its_task_which_gives_up_before_its_function() -> None:
    assert float(TEMPLATE["Parameters"]["RerankTimeout"]["MaxValue"]) == DEPLOYED_RERANK_LIMIT_S
    task = TASKS["FuseRerank"]["TimeoutSeconds"]
    assert DEPLOYED_RERANK_LIMIT_S < task < FUNCTIONS["FuseRerankFunction"]["Properties"]["Timeout"]


def test_one_function_answers_in_place_of_the_workflow_only_where_that_is_asked_for() -> None:
    function = FUNCTIONS["AnswerFunction"]
    assert TEMPLATE["Parameters"]["AnswerMode"]["Default"] == "workflow"
    assert function["Condition"] == "AnswersInFunction"
    assert TEMPLATE["Conditions"]["AnswersInFunction"] == ["AnswerMode", "function"]
    for name in ("SearchApiFunction", "ContextFunction"):
        asking = FUNCTIONS[name]["Properties"]["Environment"]["Variables"]
        assert asking["BRAID_ANSWER_FUNCTION"] == ["AnswersInFunction", "AnswerFunction.Alias", ""]
        # The one gives up after the other has, and is ended by Lambda later still.
        answering = function["Properties"]["Environment"]["Variables"]
        limits = float(answering["BRAID_RETRIEVE_TIMEOUT_S"]), float(asking["BRAID_RETRIEVE_TIMEOUT_S"])
        assert limits[0] < limits[1] < function["Properties"]["Timeout"]
        assert "BRAID_ANSWER_FUNCTION" not in answering
    # Containers that are kept ready need no snapshot, and Lambda takes not both.
    assert function["Properties"]["SnapStart"] == ["KeepsReady", "AWS::NoValue", {"ApplyOn": "PublishedVersions"}]


def test_no_key_is_a_parameter_only_the_name_of_its_secret() -> None:
    assert "BRAID_VOYAGE_API_KEY" not in GLOBALS["Environment"]["Variables"]


def test_samconfig_has_three_environments_that_lint_and_build_alike() -> None:
    assert set(SAMCONFIG) - {"version", "small"} == set(ENVIRONMENTS)
    for name in ENVIRONMENTS:
        assert SAMCONFIG[name]["validate"]["parameters"] == {"lint": True}
        # At the same time, images with the same models would each be made from the start, PyTorch and all.
        assert SAMCONFIG[name]["build"]["parameters"] == {"cached": True, "parallel": False}
        # Loops cannot be built without the one, and the stack inside this one not deployed without the other.
        assert SAMCONFIG[name]["global"]["parameters"]["language_extensions"] is True
        assert "CAPABILITY_AUTO_EXPAND" in SAMCONFIG[name]["deploy"]["parameters"]["capabilities"]
    assert SAMCONFIG["prod"]["deploy"]["parameters"]["confirm_changeset"] is True


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_what_is_built_is_what_is_deployed(name: str) -> None:
    # Parameters of ``deploy`` alone leave the build with the template's defaults: another model, another processor.
    places = [command for command, given in SAMCONFIG[name].items() if "parameter_overrides" in given["parameters"]]
    assert places == ["global"]
    built = [function["Metadata"]["DockerBuildArgs"] for function in FUNCTIONS.values() if "Metadata" in function]
    read = {value for arguments in built for value in arguments.values()} & set(TEMPLATE["Parameters"])
    assert read == {"ModelProfile", "NextModelProfile", "RerankerModel"}
    assert GLOBALS["Architectures"] == ["Architecture"]
    commands = re.findall(r"(?m)^sam build.*$", (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8"))
    assert commands
    assert all("--config-env" in command for command in commands)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_is_in_the_network_of_its_stores_and_leaves_room_for_other_functions(name: str) -> None:
    overrides = dict(item.split("=", 1) for item in SAMCONFIG[name]["global"]["parameters"]["parameter_overrides"])
    assert overrides["SubnetIds"] == overrides["SecurityGroupIds"] == "SET-ME"
    # Of the 1,000 executions that an account usually has, 100 cannot be reserved.
    assert 0 < int(overrides["ReservedConcurrency"]) * len(FUNCTIONS) <= 900
    # Imports leave room for the writes of requests and of the queue, and so are seldom refused for want of it.
    writers = overrides.get("ImportWriters", TEMPLATE["Parameters"]["ImportWriters"]["Default"])
    assert 0 < int(writers) < int(overrides["ReservedConcurrency"])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_placeholder_in_samconfig_is_refused_by_the_template(name: str) -> None:
    overrides = dict(item.split("=", 1) for item in SAMCONFIG[name]["global"]["parameters"]["parameter_overrides"])
    required = {key for key, parameter in TEMPLATE["Parameters"].items() if "Default" not in parameter}
    assert required <= set(overrides)
    assert "SET-ME" in overrides.values()
    for key, value in overrides.items():
        parameter = TEMPLATE["Parameters"][key]
        if value == "SET-ME":
            assert not re.fullmatch(parameter["AllowedPattern"], value)
            assert parameter["ConstraintDescription"]
        elif "AllowedValues" in parameter:
            assert value in {str(allowed) for allowed in parameter["AllowedValues"]}


def test_the_graph_is_reached_where_it_can_be_written_and_readers_only_where_they_are_named() -> None:
    pattern = TEMPLATE["Parameters"]["NeptuneEndpoint"]["AllowedPattern"]
    assert re.fullmatch(pattern, "wss://braid.cluster-abc123.eu-west-1.neptune.amazonaws.com:8182/gremlin")
    assert not re.fullmatch(pattern, "wss://braid.cluster-ro-abc123.eu-west-1.neptune.amazonaws.com:8182/gremlin")
    assert GLOBALS["Environment"]["Variables"]["BRAID_NEPTUNE_ENDPOINT"] == "NeptuneEndpoint"
    assert not any("BRAID_NEPTUNE_ENDPOINT" in str(function) for function in FUNCTIONS.values())
    assert GLOBALS["Environment"]["Variables"]["BRAID_NEPTUNE_READER_ENDPOINT"] == "NeptuneReaderEndpoint"
    assert TEMPLATE["Parameters"]["NeptuneReaderEndpoint"]["Default"] == ""


def test_writes_may_write_both_stores_and_no_other_function_may() -> None:
    writing = {"WriteIndexPolicy", "WriteGraphPolicy", "KeepCountsPolicy", "IngestObjectsPolicy"}
    *policies, key = FUNCTIONS["IngestFunction"]["Properties"]["Policies"]
    assert (set(policies), key) == ({*writing, "ReadSchemasPolicy"}, USES_KEY)
    for name in [*STAGES, "ContextFunction"]:
        policies = FUNCTIONS[name]["Properties"].get("Policies", [])
        assert not writing & {policy for policy in policies if isinstance(policy, str)}
    (graph,) = RESOURCES["WriteGraphPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert graph["Resource"].endswith(":${NeptuneClusterResourceId}/*")
    _, listed, notes = RESOURCES["IngestObjectsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert listed["Resource"] == "ObjectsBucket.Arn"
    assert notes["Resource"] == [
        "${ObjectsBucket.Arn}/*/" + folder + "/*" for folder in ("ingest", "uploads", "posted")
    ]


def test_the_front_door_may_start_the_two_workflows_and_close_what_it_scanned() -> None:
    function = FUNCTIONS["SearchApiFunction"]["Properties"]
    given = function["Environment"]["Variables"]
    assert given["BRAID_INGEST_STATE_MACHINE_ARN"] == "IngestStateMachine"
    assert given["BRAID_REEMBED_STATE_MACHINE_ARN"] == "ReembedStateMachine"
    assert given["BRAID_REEMBED_TABLE"] == "ReembedTable"
    assert {"AnswerRequestsPolicy", "KeepJobsPolicy"} <= {
        each for each in function["Policies"] if isinstance(each, str)
    }
    found = RESOURCES["AnswerRequestsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    given = {
        each["Sid"]: each
        for every in found
        for each in (every if isinstance(every, list) else [every])
        if "Sid" in each
    }
    start, ask = given["StartWork"], given["AskHowFar"]
    assert (start["Action"], start["Resource"]) == (
        "states:StartExecution",
        ["IngestStateMachine", "ReembedStateMachine"],
    )
    assert (ask["Action"], ask["Resource"].rpartition(":execution:")[2]) == (
        "states:DescribeExecution",
        "${AWS::StackName}-ingest:*",
    )
    assert RESOURCES["IngestStateMachine"]["Properties"]["Name"] == "${AWS::StackName}-ingest"
    told = given["SayWhatWasWrong"]
    assert (told["Action"], told["Resource"]) == ("s3:GetObject", "${ObjectsBucket.Arn}/*/ingest/*/errors.jsonl")
    assert not any("es:ESHttpDelete" in str(statement["Action"]) for statement in given.values())


def test_a_message_that_fails_comes_back_alone_and_is_set_aside_in_the_end() -> None:
    function = FUNCTIONS["IngestFunction"]["Properties"]
    trigger = function["Events"]["LateWrites"]["Properties"]
    assert trigger["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    queue, dead = (RESOURCES[name]["Properties"] for name in ("WritesQueue", "WritesDeadLetters"))
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": "WritesDeadLetters.Arn", "maxReceiveCount": 5}
    assert queue["FifoQueue"] is dead["FifoQueue"] is True
    assert "ContentBasedDeduplication" not in queue  # it drops a write that takes back the one before
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert dead["MessageRetentionPeriod"] == queue["MessageRetentionPeriod"]


def test_a_file_in_an_inbox_and_a_document_start_the_workflow_and_its_own_notes_do_not() -> None:
    machine = RESOURCES["IngestStateMachine"]["Properties"]
    pattern = machine["Events"]["FileArrived"]["Properties"]["Pattern"]
    assert pattern["detail"] == {
        "bucket": {"name": ["ObjectsBucket"]},
        "object": {"key": [{"wildcard": "*/inbox/*"}, {"wildcard": f"*/{ARRIVING}*"}]},
    }
    assert RESOURCES["ObjectsBucket"]["Properties"]["NotificationConfiguration"] == {
        "EventBridgeConfiguration": {"EventBridgeEnabled": True}
    }
    assert machine["Type"] == "STANDARD"


@pytest.mark.parametrize("name", ["IngestFunction", "ReembedFunction"])
def test_a_function_that_writes_ends_while_its_slot_is_counted(name: str) -> None:
    assert FUNCTIONS[name]["Properties"]["Timeout"] <= WRITING_S


def test_every_step_of_writing_a_file_gives_up_before_its_function_and_is_tried_again() -> None:
    definition = yaml.safe_load((ROOT / "shared/statemachines/ingest.asl.yaml").read_text(encoding="utf-8"))
    states = definition["States"] | definition["States"]["WriteBatches"]["ItemProcessor"]["States"]
    steps = {name: state for name, state in states.items() if state["Type"] == "Task"}
    assert set(steps) == {"Split", "Page", "WriteBatch", "NoteLost", "Finish"}
    for state in steps.values():
        assert state["TimeoutSeconds"] < FUNCTIONS["IngestFunction"]["Properties"]["Timeout"]
        assert state["Retry"][0]["MaxAttempts"] > 1
        assert state["Parameters"]["FunctionName"] == "${IngestFunctionArn}"


EVENTS_AN_EXECUTION_HAS = 25_000
TASK, CHOICE, PASS = 5, 2, 2
"""Events: a task is entered, scheduled, started, done and left; other states are entered and left."""
MAP = 5
"""Entered, begun, its run started and done, left; its batches are executions of their own."""


def test_writing_a_file_stays_within_the_history_and_the_state_of_an_execution() -> None:
    lines = 80_000_000
    pages = lines / BATCH_LINES / PAGE_BATCHES
    assert pages * len(Phase) * (TASK + MAP + CHOICE + PASS) < EVENTS_AN_EXECUTION_HAS
    far = 80 * 1024**3  # bytes, as long as an object can be
    place = BatchRange(number=lines, start=far, end=far, line=lines, lines=BATCH_LINES, phases=tuple(Phase))
    assert len(place.model_dump_json()) * PAGE_BATCHES < 2 * 1024**2, "an object that is read at once"
    definition = yaml.safe_load((ROOT / "shared/statemachines/ingest.asl.yaml").read_text(encoding="utf-8"))
    batches = definition["States"]["WriteBatches"]
    returned = [state for state in batches["ItemProcessor"]["States"].values() if "End" in state]
    assert [state.get("ResultSelector", state.get("Result")) for state in returned] == [{}] * 3
    assert len("{},") * PAGE_BATCHES < 0.2 * 256 * 1024, "what they return comes together in a state"


def test_the_workflow_reads_what_it_maps_over_and_nothing_else_of_the_bucket() -> None:
    reader = yaml.safe_load((ROOT / "shared/statemachines/ingest.asl.yaml").read_text(encoding="utf-8"))["States"]
    items = reader["WriteBatches"]["ItemReader"]
    assert items["Parameters"]["Bucket"] == "${ObjectsBucketName}"
    given = RESOURCES["IngestStateMachine"]["Properties"]["DefinitionSubstitutions"]
    assert given["ObjectsBucketName"] == "ObjectsBucket"
    policy = RESOURCES["ReadPagesPolicy"]["Properties"]
    assert policy["Roles"] == ["IngestRole"]
    read, _ = policy["PolicyDocument"]["Statement"]
    job = ImportJob(name="j", tenant_id="acme", object=ObjectInfo(key="k", size_bytes=0, version="v"))
    key = f"acme/{manifest.folder(job)}/pages/000000-items.json"
    assert read["Action"] == "s3:GetObject"
    assert fnmatch.fnmatchcase(f"${{ObjectsBucket.Arn}}/{key}", read["Resource"])
    assert not fnmatch.fnmatchcase("${ObjectsBucket.Arn}/acme/inbox/a.jsonl", read["Resource"])


def test_embedding_again_ends_before_its_history_is_full_and_leaves_room_for_steps_that_are_repeated() -> None:
    definition = yaml.safe_load((ROOT / "shared/statemachines/reembed.asl.yaml").read_text(encoding="utf-8"))
    page = int(FUNCTIONS["ReembedFunction"]["Properties"]["Environment"]["Variables"]["BRAID_REEMBED_PAGE"])
    lists = 300_000_000 / page / ReembeddingLimits().pages
    assert lists * (TASK + CHOICE + MAP) < 0.8 * EVENTS_AN_EXECUTION_HAS
    assert definition["States"]["Pages"]["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED"


def test_gathering_that_took_too_long_is_gone_on_with_once_the_function_of_before_has_ended() -> None:
    definition = yaml.safe_load((ROOT / "shared/statemachines/ingest.asl.yaml").read_text(encoding="utf-8"))
    finish = definition["States"]["Finish"]
    (again,) = [each for each in finish["Retry"] if "States.Timeout" in each["ErrorEquals"]]
    overlap = FUNCTIONS["IngestFunction"]["Properties"]["Timeout"] - finish["TimeoutSeconds"]
    assert again["IntervalSeconds"] > overlap
    assert "JitterStrategy" not in again  # which may begin at once


def test_embedding_again_is_started_by_the_schedule_and_by_the_queue_with_no_more_than_it_needs() -> None:
    schedule = RESOURCES["ReembedNightly"]["Properties"]
    assert schedule["Target"]["Arn"] == "ReembedStateMachine"
    assert json.loads(schedule["Target"]["Input"]) == {"scheduled": True}
    start, read = RESOURCES["ReembedScheduleRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    assert (start["Action"], start["Resource"]) == ("states:StartExecution", "ReembedStateMachine")
    # A schedule under a key is read with its role, and starts nothing where that may not.
    assert schedule["KmsKeyArn"] == ["HasKey", "KmsKeyArn", "AWS::NoValue"]
    assert (read[0], read[1]["Action"], read[1]["Resource"]) == ("HasKey", "kms:Decrypt", "KmsKeyArn")
    assert set(read[1]["Condition"]) == {"ArnLike"}  # and not by way of a service, which it does not come by
    for name, machine in (("Reembed", "reembed"), ("Ingest", "ingest")):
        (policy,) = RESOURCES[f"{name}Role"]["Properties"]["Policies"]
        invoke, start, watch = policy["PolicyDocument"]["Statement"]
        assert (invoke["Action"], invoke["Resource"]) == ("lambda:InvokeFunction", f"{name}Function.Arn")
        # What it begins for each page is an execution of its own, by the name that it has.
        assert RESOURCES[f"{name}StateMachine"]["Properties"]["Name"] == f"${{AWS::StackName}}-{machine}"
        assert (start["Action"], watch["Action"]) == (
            "states:StartExecution",
            ["states:DescribeExecution", "states:StopExecution"],
        )
        for statement, kind in ((start, "stateMachine"), (watch, "execution")):
            assert statement["Resource"].rstrip("*").endswith(f":{kind}:${{AWS::StackName}}-{machine}")
    (jobs,) = RESOURCES["KeepJobsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert jobs["Resource"] == "ReembedTable.Arn"
    ((_, _, move),) = RESOURCES["MoveIndexPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (move["Action"], move["Resource"]) == ("es:ESHttpPost", "${OpenSearchResourceArn}/_aliases")
    # A body may name any index there: nobody else may ask it, least of all who reads strangers' documents.
    of_moves = {name for name, item in FUNCTIONS.items() if "MoveIndexPolicy" in item["Properties"].get("Policies", ())}
    assert of_moves == {"ReembedFunction"}
    assert [name for name, item in RESOURCES.items() if "/_aliases" in str(item)] == ["MoveIndexPolicy"]
    function = FUNCTIONS["ReembedFunction"]["Properties"]
    queue = function["Events"]["Outdated"]["Properties"]
    assert queue["Queue"] == "ReembedQueue.Arn"
    assert queue["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert RESOURCES["ReembedQueue"]["Properties"]["VisibilityTimeout"] >= 6 * function["Timeout"]
    assert RESOURCES["ReembedTable"]["Properties"]["KeySchema"] == [{"AttributeName": "name", "KeyType": "HASH"}]


@pytest.mark.parametrize(("function", "trigger"), [("IngestFunction", "LateWrites"), ("ReembedFunction", "Outdated")])
def test_a_message_that_takes_all_time_takes_none_of_another_tenant_s(function: str, trigger: str) -> None:
    """Three writes that a slow store ends by their limit fill an invocation: what is behind them is never tried."""
    properties = FUNCTIONS[function]["Properties"]
    assert properties["Timeout"] <= 3 * STORES_S
    assert properties["Events"][trigger]["Properties"]["BatchSize"] == 1


def test_a_start_that_fails_is_tried_for_an_hour_and_then_set_aside_by_the_rule_and_by_the_schedule() -> None:
    rule = RESOURCES["IngestStateMachine"]["Properties"]["Events"]["FileArrived"]["Properties"]
    schedule = RESOURCES["ReembedNightly"]["Properties"]["Target"]
    for start in (rule, schedule):
        assert start["RetryPolicy"]["MaximumRetryAttempts"] > 2
        assert start["RetryPolicy"]["MaximumEventAgeInSeconds"] == 3600
        assert start["DeadLetterConfig"] == {"Arn": "StartsDeadLetters.Arn"}
    queue = RESOURCES["StartsDeadLetters"]["Properties"]
    assert "FifoQueue" not in queue  # neither of the two takes one
    assert queue["MessageRetentionPeriod"] == RESOURCES["WritesDeadLetters"]["Properties"]["MessageRetentionPeriod"]
    (files,) = RESOURCES["StartsDeadLettersPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (files["Principal"], files["Resource"]) == ({"Service": "events.amazonaws.com"}, "StartsDeadLetters.Arn")
    assert files["Condition"] == {"ArnEquals": {"aws:SourceArn": "IngestStateMachineFileArrived.Arn"}}
    policies = {policy["PolicyName"]: policy for policy in RESOURCES["ReembedScheduleRole"]["Properties"]["Policies"]}
    send, *_ = policies["SetAside"]["PolicyDocument"]["Statement"]
    assert (send["Action"], send["Resource"]) == ("sqs:SendMessage", "StartsDeadLetters.Arn")


def test_every_step_of_embedding_again_ends_before_its_function_and_is_tried_again() -> None:
    text = (ROOT / "shared/statemachines/reembed.asl.yaml").read_text(encoding="utf-8")
    function = FUNCTIONS["ReembedFunction"]["Properties"]
    states = yaml.safe_load(text)["States"]
    page = states["Pages"]["ItemProcessor"]["States"]["Page"]
    for state in (*states.values(), page):
        if state["Type"] == "Task":
            assert state["TimeoutSeconds"] < function["Timeout"]
            assert state["Retry"][0]["JitterStrategy"] == "FULL"
            (caught,) = state["Catch"]
            expected = (["States.ALL"], "Failed") if state is page else (["TakenOver"], "TakenOver")
            assert (caught["ErrorEquals"], caught["Next"]) == expected
    assert any("States.Timeout" in retry["ErrorEquals"] for retry in page["Retry"])  # it goes on where it was
    assert Settings().reembed_step_s < 880
