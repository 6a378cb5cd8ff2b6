"""Who may reach what: the routes of the HTTP interface, every policy, and the firewall that may stand in front."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from braid.api.authorisation import FRONT_HEADER, is_open
from braid.engines.aws.dynamodb_cache import DynamoCache
from braid.engines.aws.dynamodb_graph_counts import DynamoCounts
from braid.engines.neptune.stored_counts import GraphCounts
from braid.ingestion.writer_slots import writing_in_bulk
from braid.ports.cache import ResilientCache
from braid.ports.deletion_marks import DeletionMark, refuse_while_deleted
from braid.ports.knowledge_graph import GraphPage
from moto import mock_aws

from tests.dynamo_table import cache_table
from tests.front_door import SAMPLE
from tests.operations import OPERATIONS
from tests.unit.deployment.test_template import FUNCTIONS, GLOBALS, OBSERVABILITY, RESOURCES, TEMPLATE, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.operations import Operation

ROUTES = {
    item["Properties"]["RouteKey"]: item["Properties"]
    for item in RESOURCES.values()
    if item["Type"] == "AWS::ApiGatewayV2::Route"
}
VERIFIED = ROUTES["$default"]
UNBOUNDED = {
    "bedrock:Rerank": "the model beside it is what it may call",
    "logs:": "sets up the delivery of logs",
    "xray:": "writes traces",
}
"""Actions that cannot be narrowed to a resource, by how they begin, and why they may be there."""
WORKFLOWS = [item for item in RESOURCES.values() if item["Type"] == "AWS::Serverless::StateMachine"]
ASKING = {"PlanFunction", "EmbedFunction", "VectorSearchFunction", "GraphExpandFunction", "FuseRerankFunction"}


FIREWALL = read("firewall.yaml")


def route_of(method: str, path: str) -> dict[str, Any]:
    """Return the route that API Gateway would choose: of this path, of a part of it, or of all others."""
    parent = path.rpartition("/")[0]
    found = ROUTES.get(f"{method} {path}") or next(
        (route for key, route in ROUTES.items() if key.startswith(f"{method} {parent}/{{") and parent), VERIFIED
    )
    return dict(found)


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every statement of every policy of a role, those under a condition too, with where it stands."""
    for name, item in RESOURCES.items():
        if item["Type"] == "AWS::IAM::ManagedPolicy":
            documents = [item["Properties"]["PolicyDocument"]]
        elif item["Type"] == "AWS::IAM::Role":
            documents = [policy["PolicyDocument"] for policy in item["Properties"].get("Policies", ())]
        else:
            continue
        for document in documents:
            for statement in document["Statement"]:
                chosen = statement[1:] if isinstance(statement, list) else [statement]
                yield from ((name, each) for each in chosen if isinstance(each, dict))


def actions(statement: dict[str, Any]) -> list[str]:
    given = statement["Action"]
    return [given] if isinstance(given, str) else list(given)


def of_function(name: str) -> Iterator[dict[str, Any]]:
    """Yield the statements that a function's role may hold."""
    named = [each if isinstance(each, str) else each[1] for each in FUNCTIONS[name]["Properties"].get("Policies", ())]
    yield from (statement for policy, statement in statements() if policy in named)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_every_operation_is_behind_the_authorizer_unless_anyone_may_ask(operation: Operation) -> None:
    route = route_of(operation.method, operation.path())
    assert route["Target"] == "integrations/${FrontDoorIntegration}"
    if operation.open:
        assert route["AuthorizationType"] == "NONE"
    else:
        assert route["AuthorizationType"] == ["UsesTokens", "JWT", "AWS_IAM"]
        assert route["AuthorizerId"] == ["UsesTokens", "FrontDoorTokens", "AWS::NoValue"]


def test_no_route_is_open_but_those_that_the_function_takes_for_open_and_to_be_read_only() -> None:
    opened = [key for key, route in ROUTES.items() if route["AuthorizationType"] == "NONE"]
    assert sorted(opened) == ["GET /", "GET /explorer", "GET /explorer/{file}", "GET /health", "GET /openapi.json"]
    assert all(is_open(key.partition(" ")[2]) for key in opened)


def test_tokens_are_verified_for_the_issuer_and_audience_that_were_named() -> None:
    authorizer = RESOURCES["FrontDoorTokens"]["Properties"]
    assert authorizer["AuthorizerType"] == "JWT"
    assert authorizer["JwtConfiguration"] == {"Issuer": "JwtIssuer", "Audience": "JwtAudience"}
    assert {"TokensHaveIssuer", "SignaturesHaveMembers"} <= set(TEMPLATE["Rules"])


def test_the_stage_throttles_and_logs_without_paths_and_only_the_interface_may_call_its_function() -> None:
    stage = RESOURCES["FrontDoorStage"]["Properties"]
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == "ThrottlingRate"
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == "ThrottlingBurst"
    assert "RouteSettings" not in stage  # no route throttles otherwise
    assert not {"$context.path", "$context.identity", "$context.authorizer.claims"} & set(
        stage["AccessLogSettings"]["Format"].split('"')
    )
    permission = RESOURCES["FrontDoorPermission"]["Properties"]
    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["SourceArn"].endswith(":${FrontDoor}/*")
    # Events come in the format of the sample that all tests of the interface begin with.
    assert RESOURCES["FrontDoorIntegration"]["Properties"]["PayloadFormatVersion"] == SAMPLE["version"]
    # A version is asked once that is allowed, where versions begin or cease to be asked.
    assert RESOURCES["FrontDoorIntegration"]["DependsOn"] == "FrontDoorPermission"


def test_no_statement_reaches_every_resource_but_those_that_cannot_be_narrowed() -> None:
    for name, statement in statements():
        for action in actions(statement):
            assert "*" not in action, name
            resources = statement["Resource"]
            if "*" in (resources if isinstance(resources, list) else [resources]):
                assert action.startswith(tuple(UNBOUNDED)), (name, action)


def test_every_policy_belongs_to_a_function_or_a_workflow() -> None:
    policies = {name for name, item in RESOURCES.items() if item["Type"] == "AWS::IAM::ManagedPolicy"}
    used = {
        each if isinstance(each, str) else each[1]
        for function in FUNCTIONS.values()
        for each in function["Properties"].get("Policies", ())
    }
    of_workflows = [RESOURCES[item["Properties"]["Role"].removesuffix(".Arn")]["Properties"] for item in WORKFLOWS]
    assert [role["ManagedPolicyArns"] for role in of_workflows] == [["DeliverLogsAndTracesPolicy"]] * 3
    assert policies == used | {"DeliverLogsAndTracesPolicy"}


def test_whatever_touches_the_graph_does_so_by_gremlin_and_what_asks_reads() -> None:
    found = [(name, each) for name, each in statements() if actions(each)[0].startswith("neptune-db:")]
    assert len(found) == 3
    for _, statement in found:
        assert statement["Condition"] == {"StringEquals": {"neptune-db:QueryLanguage": "Gremlin"}}
        assert statement["Resource"].endswith(":${NeptuneClusterResourceId}/*")
    for name in ASKING | {"ContextFunction"}:
        given = {action for each in of_function(name) for action in actions(each) if action.startswith("neptune-db:")}
        assert given <= {"neptune-db:ReadDataViaQuery"}


def test_whatever_touches_a_domain_names_its_indexes_and_what_asks_may_not_write_them() -> None:
    unnamed = {"_aliases"}
    for name, statement in statements():
        if not actions(statement)[0].startswith("es:"):
            continue
        resources = statement["Resource"]
        for resource in [resources] if isinstance(resources, str) else resources:
            path = resource.removeprefix("${OpenSearchResourceArn}/")
            assert path in unnamed or "${OpenSearchIndex}" in path, (name, resource)
    for name in ASKING | {"ContextFunction"}:
        for statement in of_function(name):
            if "es:ESHttpPost" in actions(statement):
                assert {each.rpartition("/")[2] for each in statement["Resource"]} == {
                    "_msearch",
                    "_search",
                    "_mget",
                    "_count",
                }
            assert not {"es:ESHttpPut", "es:ESHttpDelete"} & set(actions(statement))


def test_whoever_writes_a_graph_may_do_what_its_counts_and_marks_ask_of_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: set[tuple[str, str]] = set()
    rows = iter([[], [{"type": "Person", "record": True}]])  # of one vertex, before and after it is written

    def note(model: Any, params: dict[str, Any], **_: Any) -> None:
        body = json.loads(params["body"])
        asked.add((f"dynamodb:{model.name}", (body.get("Key") or body["Item"])["id"]["S"]))

    with monkeypatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        client = cache_table("cache")
        client.meta.events.register("before-call.dynamodb", note, unique_id="asked")
        connection = SimpleNamespace(submit=lambda _build: next(rows))
        cache, counts = ResilientCache(DynamoCache(client, "cache")), DynamoCounts(client, "cache")
        refuse_while_deleted("acme", cache)
        with (
            writing_in_bulk(cache, 4, tenant_id="acme"),
            GraphCounts(connection, counts, lambda *_, **__: GraphPage()).changing("acme", ["ada"], []),  # type: ignore[arg-type]
        ):
            pass
        cache.advance("acme")
        assert counts.read("acme") is not None, "the first write of a tenant stores them"
    assert {action for action, _ in asked} == {"dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:PutItem"}
    for name in ("IngestFunction", "SearchApiFunction"):
        assert [each for each in asked if not may_with_key(name, *each)] == []


def test_no_function_that_only_asks_keeps_or_removes_a_generation_the_counts_or_a_mark_of_a_deletion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        client = cache_table("cache")
        cache = DynamoCache(client, "cache")
        for tenant_id in ("acme", "all-tenants"):
            cache.put(tenant_id, "result|k#generation", b"1", 60)
            cache.advance(tenant_id)
            DeletionMark(tenant_id, ResilientCache(cache)).renew()
            DynamoCounts(client, "cache").replace(tenant_id, {})
        keys = {item["id"]["S"] for item in client.scan(TableName="cache")["Items"]}
    assert len(keys) == 8
    values = {"acme|result|k#generation", "all-tenants|result|k#generation"}
    counts = {"acme#counts", "all-tenants#counts"}
    for action in ("dynamodb:PutItem", "dynamodb:DeleteItem"):
        for name in ("EmbedFunction", "AnswerFunction", "ContextFunction"):
            assert {key for key in keys if may_with_key(name, action, key)} == values
    assert {key for key in keys if may_with_key("SearchApiFunction", "dynamodb:PutItem", key)} == values | counts
    assert {key for key in keys if may_with_key("SearchApiFunction", "dynamodb:DeleteItem", key)} == values


def may_with_key(function: str, action: str, key: str) -> bool:
    """Whether a function's role may do something with the item of the cache's table that has this key."""
    for statement in of_function(function):
        if statement["Resource"] != "CacheTable.Arn" or action not in actions(statement):
            continue
        conditions = statement.get("Condition", {})
        named = {how: limits["dynamodb:LeadingKeys"] for how, limits in conditions.items()}
        like = named.pop("ForAllValues:StringLike", ["*"])
        unlike = named.pop("ForAllValues:StringNotLike", [])
        assert not named, "a condition that is not read here"
        if any(fnmatchcase(key, each) for each in like) and not any(fnmatchcase(key, each) for each in unlike):
            return True
    return False


def test_the_interface_removes_records_by_bulk_and_neither_closes_nor_rewrites_an_index() -> None:
    (removes,) = (each for each in of_function("SearchApiFunction") if each.get("Sid") == "RemoveRecords")
    assert (removes["Action"], removes["Resource"].rpartition("/")[2]) == ("es:ESHttpPost", "_bulk")


def test_every_function_may_be_held_to_a_number_at_once() -> None:
    assert GLOBALS["ReservedConcurrentExecutions"] == [
        "HasReservedConcurrency",
        "ReservedConcurrency",
        "AWS::NoValue",
    ]
    assert not [name for name in FUNCTIONS if "ReservedConcurrentExecutions" in FUNCTIONS[name]["Properties"]]


def test_every_log_is_kept_for_the_stated_time_under_the_stated_key() -> None:
    groups = [item["Properties"] for item in RESOURCES.values() if item["Type"] == "AWS::Logs::LogGroup"]
    assert len(groups) >= len(FUNCTIONS) + 4
    for group in groups:
        assert group["RetentionInDays"] == "LogRetentionDays"
        assert group["KmsKeyId"] == ["HasKey", "KmsKeyArn", "AWS::NoValue"]


def test_groups_that_a_service_delivers_to_are_named_so_that_one_entry_of_the_accounts_policy_is_for_all() -> None:
    stage = RESOURCES["FrontDoorStage"]["Properties"]["AccessLogSettings"]["DestinationArn"]
    delivered = {stage.removesuffix(".Arn")}
    for item in RESOURCES.values():
        for destination in item.get("Properties", {}).get("Logging", {}).get("Destinations", ()):
            delivered.add(destination["CloudWatchLogsLogGroup"]["LogGroupArn"].removesuffix(".Arn"))
    assert len(delivered) == 4
    for name in delivered:
        # Of any other beginning each takes room of its own in a policy of 5,120 characters: full, it fails the stack.
        assert RESOURCES[name]["Properties"]["LogGroupName"].startswith("/aws/vendedlogs/")


def test_everything_that_keeps_something_is_encrypted_under_the_stated_key() -> None:
    key = ["HasKey", "KmsKeyArn", "AWS::NoValue"]
    assert GLOBALS["KmsKeyArn"] == key
    for name, item in (RESOURCES | OBSERVABILITY["Resources"]).items():
        properties = item.get("Properties", {})
        match item["Type"]:
            case "AWS::DynamoDB::Table":
                assert properties["SSESpecification"]["KMSMasterKeyId"] == key, name
            case "AWS::SQS::Queue" | "AWS::SNS::Topic":
                assert properties["KmsMasterKeyId"] == key, name
            case "AWS::SecretsManager::Secret":
                assert properties["KmsKeyId"] == key, name
            case "AWS::S3::Bucket":
                assert "HasKey" in str(properties["BucketEncryption"]), name


def test_the_firewall_is_off_unless_a_web_acl_is_named_and_needs_tokens() -> None:
    assert TEMPLATE["Parameters"]["FirewallAclArn"]["Default"] == ""
    for name in ("FrontKey", "FirewallDistribution"):
        assert RESOURCES[name]["Condition"] == "HasFirewall"
    assert TEMPLATE["Rules"]["FirewallHasTokens"]["Assertions"][0]["Assert"] == ["Authorization", "jwt"]


def test_the_firewall_lets_every_method_through_and_keeps_no_answer() -> None:
    distribution = RESOURCES["FirewallDistribution"]["Properties"]["DistributionConfig"]
    assert distribution["WebACLId"] == "FirewallAclArn"
    behaviour = distribution["DefaultCacheBehavior"]
    assert {each.method for each in OPERATIONS} <= set(behaviour["AllowedMethods"])
    assert behaviour["ViewerProtocolPolicy"] == "https-only"
    assert behaviour["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"  # CachingDisabled
    assert behaviour["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"  # AllViewerExceptHostHeader


def test_the_firewall_keeps_no_error_either_which_else_others_would_be_given() -> None:
    distribution = RESOURCES["FirewallDistribution"]["Properties"]["DistributionConfig"]
    errors = {each["ErrorCode"]: each for each in distribution["CustomErrorResponses"]}
    assert set(errors) == {400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504}  # all of which it can be told
    for code, each in errors.items():
        assert each == {"ErrorCode": code, "ErrorCachingMinTTL": 0}  # and the body stays the interface's


def test_nobody_walks_round_the_firewall() -> None:
    (origin,) = RESOURCES["FirewallDistribution"]["Properties"]["DistributionConfig"]["Origins"]
    (header,) = origin["OriginCustomHeaders"]
    assert header["HeaderName"].lower() == FRONT_HEADER
    assert header["HeaderValue"] == "{{resolve:secretsmanager:${FrontKey}}}"
    assert origin["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"
    given = FUNCTIONS["SearchApiFunction"]["Properties"]["Environment"]["Variables"]
    assert given["BRAID_FRONT_KEY_SECRET"] == ["EnforcesFirewall", "FrontKey", ""]
    readers = [name for name, each in statements() if each["Resource"] == "FrontKey"]
    assert readers == ["AnswerRequestsPolicy"]
    assert TEMPLATE["Outputs"]["Url"]["Value"] == [
        "HasFirewall",
        "https://${FirewallDistribution.DomainName}",
        "FrontDoor.ApiEndpoint",
    ]


def test_a_firewall_that_is_switched_on_refuses_nobody_until_it_is_told_to() -> None:
    assert TEMPLATE["Parameters"]["FirewallEnforced"]["Default"] == "false"
    assert TEMPLATE["Conditions"]["EnforcesFirewall"] == ["HasFirewall", ["FirewallEnforced", "true"]]
    rule = TEMPLATE["Rules"]["EnforcedHasFirewall"]
    assert rule["RuleCondition"] == ["FirewallEnforced", "true"]
    assert rule["Assertions"][0]["Assert"] == [["FirewallAclArn", ""]]
    # Its key may be read beforehand, so that enforcing changes nothing but the function's settings.
    (readable,) = [
        each
        for each in RESOURCES["AnswerRequestsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
        if isinstance(each, list) and each[0] == "HasFirewall"
    ]
    assert readable[1]["Resource"] == "FrontKey"


KNOWN_BAD = {
    *("JavaDeserializationRCE_HEADER", "JavaDeserializationRCE_BODY", "JavaDeserializationRCE_URIPATH"),
    *("JavaDeserializationRCE_QUERYSTRING", "Host_localhost_HEADER", "PROPFIND_METHOD", "ExploitablePaths_URIPATH"),
    *("Log4JRCE_HEADER", "Log4JRCE_QUERYSTRING", "Log4JRCE_BODY", "Log4JRCE_URIPATH", "ReactJSRCE_BODY"),
}
COMMON = {
    *("NoUserAgent_HEADER", "UserAgent_BadBots_HEADER", "SizeRestrictions_QUERYSTRING"),
    *("SizeRestrictions_Cookie_HEADER", "SizeRestrictions_BODY", "SizeRestrictions_URIPATH"),
    *("EC2MetaDataSSRF_BODY", "EC2MetaDataSSRF_COOKIE", "EC2MetaDataSSRF_URIPATH", "EC2MetaDataSSRF_QUERYARGUMENTS"),
    *("GenericLFI_QUERYARGUMENTS", "GenericLFI_URIPATH", "GenericLFI_BODY"),
    *("RestrictedExtensions_URIPATH", "RestrictedExtensions_QUERYARGUMENTS"),
    *("GenericRFI_QUERYARGUMENTS", "GenericRFI_BODY", "GenericRFI_URIPATH"),
    *("CrossSiteScripting_COOKIE", "CrossSiteScripting_QUERYARGUMENTS", "CrossSiteScripting_BODY"),
    "CrossSiteScripting_URIPATH",
}
"""The rules of the two groups, as AWS documents them; a name that is none of them is refused at deployment."""
TEXT = ("_BODY", "_URIPATH", "_QUERYARGUMENTS", "_QUERYSTRING")
"""How the rules end that look where text of callers is: bodies, and ids and names in paths and parameters."""


@pytest.mark.parametrize(("group", "rules"), [("known-bad", KNOWN_BAD), ("common", COMMON)])
def test_the_web_acl_only_counts_what_a_text_looks_like(group: str, rules: set[str]) -> None:
    acl = FIREWALL["Resources"]["WebAcl"]["Properties"]
    (statement,) = [rule["Statement"] for rule in acl["Rules"] if rule["Name"] == group]
    overrides = statement["ManagedRuleGroupStatement"]["RuleActionOverrides"]
    assert {each["Name"] for each in overrides} == {rule for rule in rules if rule.endswith(TEXT)}
    assert all(each["ActionToUse"] == {"Count": {}} for each in overrides)


def test_the_web_acl_refuses_too_many_of_one_address_and_logs_neither_token_nor_path() -> None:
    acl = FIREWALL["Resources"]["WebAcl"]["Properties"]
    assert acl["Scope"] == "CLOUDFRONT"
    rules = {rule["Name"]: rule for rule in acl["Rules"]}
    assert rules["rate"]["Statement"]["RateBasedStatement"]["Limit"] == "RequestsPerFiveMinutes"
    assert rules["rate"]["Action"]["Block"]["CustomResponse"]["ResponseCode"] == 429
    logging = FIREWALL["Resources"]["Logging"]["Properties"]
    assert logging["RedactedFields"] == [
        {"SingleHeader": {"Name": "authorization"}},
        {"UriPath": {}},
        {"QueryString": {}},
    ]
    assert logging["LogDestinationConfigs"] == [
        "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:${Refused}"
    ]
    assert FIREWALL["Resources"]["Refused"]["Properties"]["RetentionInDays"] == "LogRetentionDays"
