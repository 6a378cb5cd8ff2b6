"""What a deployment lacks is named before anything is created: by ``make deploy-check``."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from make import deploy_check
from make.deploy_account import GATEWAYS, INTERFACES, Finding, account
from make.templates import read_template

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[3]
TEMPLATE = read_template(ROOT / "template.yaml")
ANY_CLIENT: Any = boto3.client
"""Clients by names that are known at run time only."""
REGION, ACCOUNT, STACK = "eu-west-1", "123456789012", "braid-dev"
HOST = "vpc-braid-abc.eu-west-1.es.amazonaws.com"
GRAPH = "braid.cluster-abc.eu-west-1.neptune.amazonaws.com"
GIVEN = {
    "OpenSearchEndpoint": f"https://{HOST}",
    "OpenSearchResourceArn": f"arn:aws:es:{REGION}:{ACCOUNT}:domain/braid",
    "NeptuneEndpoint": f"wss://{GRAPH}:8182/gremlin",
    "NeptuneClusterResourceId": "cluster-ABC",
    "SubnetIds": "subnet-1a,subnet-1b",
    "SecurityGroupIds": "sg-1",
    "JwtIssuer": "https://issuer.example",
    "JwtAudience": "braid",
    "ReservedConcurrency": "10",
}
WHOLE = {"global": {"parameters": {"stack_name": "braid-dev", "language_extensions": True}}}


def values(**changed: str) -> dict[str, str]:
    return deploy_check.values_of(TEMPLATE, GIVEN | changed)


def missing(found: Any) -> dict[str, str]:
    """Return what is missing and how it is remedied."""
    return {each.what: each.remedy for each in found if each.remedy and not each.warning}


def parameters(**changed: str) -> dict[str, str]:
    return missing(deploy_check.parameters(TEMPLATE, GIVEN | changed))


def test_parameters_that_are_right_lack_nothing() -> None:
    assert parameters() == {}
    assert missing(deploy_check.rules(TEMPLATE, values())) == {}
    assert missing(deploy_check.together(values())) == {}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("OpenSearchEndpoint", "SET-ME", "is still SET-ME"),
        ("OpenSearchEndpoint", "https://host/path", "without a path"),
        ("NeptuneEndpoint", "wss://a.cluster-ro-b.x:8182/gremlin", "not one of cluster-ro"),
        ("ModelProfile", "codebert", "is none of minilm, multilingual, instructor"),
        ("RerankTimeout", "9", "has to be 0.1 to 8"),
        ("RerankTimeout", "soon", "is no number"),
        ("SubnetIds", "subnet-1a,vpc-1", "ids of subnets"),
        ("EmbeddingModel", "", "is empty"),
        ("Subnets", "subnet-1a", "no such parameter"),
    ],
)
def test_a_parameter_that_cloudformation_would_refuse_is_named_with_the_reason(name: str, value: str, why: str) -> None:
    ((what, remedy),) = parameters(**{name: value}).items()
    assert what.startswith(name)
    assert why in remedy


def test_a_parameter_without_a_value_is_named_with_what_it_is() -> None:
    given = {name: value for name, value in GIVEN.items() if name != "NeptuneEndpoint"}
    assert (
        "Where the knowledge graph is reached" in missing(deploy_check.parameters(TEMPLATE, given))["NeptuneEndpoint"]
    )


@pytest.mark.parametrize(
    ("written", "read", "wrong"),
    [
        ("'{\"number_of_replicas\": 2}'", '{"number_of_replicas": 2}', False),
        (r'"{\"number_of_replicas\": 2}"', '{"number_of_replicas": 2}', False),
        ('{"number_of_replicas":2}', '{"number_of_replicas":2}', True),
        ("cron(0 2 * * ? *)", "cron(0 2 * * ? *)", True),
        ("24", "24", False),
    ],
)
def test_a_value_is_read_as_sam_reads_it_and_one_of_which_sam_would_read_a_part_is_named(
    written: str, read: str, wrong: bool
) -> None:
    general = WHOLE["global"]["parameters"] | {"parameter_overrides": [f"OpenSearchIndexSettings={written}"]}
    given, found = deploy_check.configuration({"dev": WHOLE | {"global": {"parameters": general}}}, "dev")
    assert given == {"OpenSearchIndexSettings": read}
    assert [each.what for each in found] == ([f"OpenSearchIndexSettings={written}"] if wrong else [])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"SecurityGroupIds": ""}, "SubnetIds needs SecurityGroupIds"),
        ({"Reranker": "onnx"}, "the reranker onnx needs RerankerModel"),
        ({"Authorization": "iam"}, "needs the membership store"),
        ({"JwtIssuer": ""}, "jwt needs JwtIssuer"),
        ({"ProvisionedConcurrency": "1"}, "need Release"),
        ({"GradualDeployment": "true"}, "need Release"),
        ({"AnswerMode": "function"}, "need Release"),
        ({"FirewallEnforced": "true"}, "needs FirewallAclArn"),
        ({"ModelProfile": "instructor"}, "needs more EncoderMemory than 2048"),
        ({"NextModelProfile": "instructor"}, "needs more EncoderMemory than 2048"),
    ],
)
def test_the_templates_rules_are_evaluated_as_cloudformation_does(changed: dict[str, str], said: str) -> None:
    found = list(deploy_check.rules(TEMPLATE, values(**changed)))
    assert any(said in each.remedy for each in found)


def test_every_function_that_a_rule_uses_is_known() -> None:
    used = set(json.dumps(TEMPLATE["Rules"]).split('"'))
    assert {name for name in used if name.startswith("Fn::")} <= set(deploy_check.RULE_FUNCTIONS)


def test_a_profile_whose_models_do_not_fit_the_memory_is_refused_and_the_default_fits() -> None:
    assert deploy_check.memory_mb(values()) < 2048
    needed = deploy_check.memory_mb(values(ModelProfile="instructor"))
    assert needed > 4 * 1340  # three copies of one model, and another
    small = missing(deploy_check.together(values(ModelProfile="instructor", EncoderMemory=str(needed - 1))))
    assert f"about {needed} MB" in small[f"EncoderMemory={needed - 1}"]
    assert not missing(deploy_check.together(values(ModelProfile="instructor", EncoderMemory=str(needed))))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"OpenSearchTenantShards": "2"}, "opensearch_tenant_shards must be below opensearch_shards"),
        ({"OpenSearchIndexSettings": "{number_of_replicas}"}, "BRAID_OPENSEARCH_INDEX_SETTINGS: is not JSON"),
        ({"HostedRerankers": "none"}, "BRAID_HOSTED_RERANKERS: is not JSON"),
        ({"Reranker": "bedrock", "HostedRerankers": "[]"}, "reranker bedrock is not among BRAID_HOSTED_RERANKERS"),
        ({"TenantRequestsAtOnce": "1.5"}, "BRAID_QUOTA_REQUESTS_AT_ONCE: "),
    ],
)
def test_what_cloudformation_takes_and_every_function_would_refuse_at_its_start_is_named(
    changed: dict[str, str], why: str
) -> None:
    assert not missing([*deploy_check.parameters(TEMPLATE, GIVEN | changed), *deploy_check.together(values(**changed))])
    (found,) = missing(deploy_check.settings(TEMPLATE, values(**changed))).values()
    assert why in found
    assert not missing(deploy_check.settings(TEMPLATE, values()))


@pytest.mark.parametrize(
    ("changed", "what", "why"),
    [
        ({"EmbeddingModel": "minilm"}, "EmbeddingModel=minilm", "known are all-minilm-l6-v2, auto, "),
        ({"ProvisionedConcurrency": "11"}, "ReservedConcurrency=10", "keeps no 11 containers ready"),
        ({"ReservedConcurrency": "0"}, "ReservedConcurrency=0", "no function would ever run"),
    ],
)
def test_what_would_be_deployed_and_answer_nothing_or_not_be_deployed_is_named(
    changed: dict[str, str], what: str, why: str
) -> None:
    assert not missing(deploy_check.together(values(EmbeddingModel="codebert-code", ProvisionedConcurrency="10")))
    assert not missing(deploy_check.together(values(ReservedConcurrency="-1", ProvisionedConcurrency="10")))
    assert why in missing(deploy_check.together(values(**changed)))[what]


def test_stores_in_a_vpc_need_subnets_in_two_zones() -> None:
    assert "SubnetIds is empty" in missing(deploy_check.together(values(SubnetIds="", SecurityGroupIds="")))
    public = {
        "OpenSearchEndpoint": "https://search-x.eu-west-1.es.amazonaws.com",
        "NeptuneEndpoint": "wss://n:8182/gremlin",
    }
    assert not missing(deploy_check.together(values(SubnetIds="", SecurityGroupIds="", **public)))
    assert "two zones" in missing(deploy_check.together(values(SubnetIds="subnet-1a")))["SubnetIds"]


def test_arns_of_another_region_or_service_are_named() -> None:
    found = missing(deploy_check.together(values(KmsKeyArn=f"arn:aws:kms:us-east-1:{ACCOUNT}:key/a")))
    assert "KmsKeyArn is in us-east-1" in found["regions"]
    collection = f"arn:aws:aoss:{REGION}:{ACCOUNT}:collection/x"
    assert "OpenSearchService=es" in missing(deploy_check.together(values(OpenSearchResourceArn=collection)))


def test_parameters_that_sam_deploy_guided_saved_are_refused_as_the_build_does_not_read_them() -> None:
    guided = WHOLE | {"deploy": {"parameters": {"parameter_overrides": ["ModelProfile=instructor"]}}}
    _, found = deploy_check.configuration({"dev": guided}, "dev")
    ((what, remedy),) = missing(found).items()
    assert what == "[dev.deploy.parameters] parameter_overrides"
    assert "[dev.global.parameters]" in remedy


def test_a_section_that_cannot_be_built_or_named_is_refused() -> None:
    given, found = deploy_check.configuration({"version": 0.1, "dev": WHOLE}, "prod")
    assert (given, missing(found)) == ({}, {"samconfig.toml [prod]": "there is no such section; there are dev"})
    _, found = deploy_check.configuration({"dev": {"global": {"parameters": {"stack_name": "x" * 71}}}}, "dev")
    assert {what.split()[0] for what in missing(found)} == {"language_extensions", "stack_name"}


def said_by(**outputs: str) -> Callable[[tuple[str, ...]], str | None]:
    return lambda command: outputs.get(command[0].replace("python3.13", "python"))


def test_a_build_needs_python_3_13_a_new_sam_docker_and_the_aws_cli() -> None:
    assert set(missing(deploy_check.tools(values(), said_by()))) == {
        "Python 3.13 as python3.13 on the PATH",
        "AWS SAM CLI",
        "Docker",
        "AWS CLI 2",
    }
    there = said_by(python="3.13.5", sam="SAM CLI, version 1.170.0", docker="aarch64", aws="aws-cli/2.31")
    assert missing(deploy_check.tools(values(), there)) == {}
    # A version manager's stand-in, a SAM CLI that knows no loops, and an AWS CLI that reads no AWS_REGION.
    other = said_by(python="3.12.1", sam="SAM CLI, version 1.169.0", docker="x86_64", aws="aws-cli/1.45.11")
    found = list(deploy_check.tools(values(), other))
    assert set(missing(found)) == {"Python 3.13 as python3.13 on the PATH", "AWS SAM CLI", "AWS CLI 2"}
    assert any("set Architecture=x86_64" in each.remedy for each in found if each.warning)


def test_without_an_account_everything_else_is_checked_and_the_exit_status_says_that_something_is_missing() -> None:
    command = [sys.executable, "-m", "make.deploy_check", "prod", "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own script
    assert done.returncode == 1, done.stderr
    assert "MISSING  OpenSearchEndpoint: is still SET-ME" in done.stdout
    assert "nothing was created" in done.stdout


DOMAIN = {
    "DomainId": "1/braid",
    "DomainName": "braid",
    "ARN": GIVEN["OpenSearchResourceArn"],
    "ClusterConfig": {},
    "EngineVersion": "OpenSearch_2.19",
    "Endpoints": {"vpc": HOST},
}
CLUSTER = {
    "DBClusterIdentifier": "braid",
    "DbClusterResourceId": "cluster-ABC",
    "EngineVersion": "1.4.6.0",
    "IAMDatabaseAuthenticationEnabled": True,
    "Endpoint": GRAPH,
    "ReaderEndpoint": GRAPH.replace("cluster-", "cluster-ro-"),
    "Port": 8182,
    "DBClusterMembers": [{"DBInstanceIdentifier": "braid-1", "IsClusterWriter": True}],
    "VpcSecurityGroups": [],
}


class Places:
    """A VPC with two subnets, made in moto."""

    def __init__(self) -> None:
        self.ec2 = boto3.client("ec2", region_name=REGION)
        self.vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"10.0.{part}.0/24", AvailabilityZone=f"{REGION}{zone}")[
                "Subnet"
            ]["SubnetId"]
            for part, zone in enumerate("ab")
        ]
        self.group = self.made_group("functions")

    def made_group(self, name: str) -> str:
        made = self.ec2.create_security_group(GroupName=name, Description=name, VpcId=self.vpc)
        return str(made["GroupId"])

    def endpoints(self, *services: str, private_dns: bool = True) -> None:
        for service in services:
            kind = {"VpcEndpointType": "Gateway"} if service in GATEWAYS else {"VpcEndpointType": "Interface"}
            dns = {} if service in GATEWAYS else {"PrivateDnsEnabled": private_dns, "SubnetIds": self.subnets}
            self.ec2.create_vpc_endpoint(VpcId=self.vpc, ServiceName=f"com.amazonaws.{REGION}.{service}", **kind, **dns)

    def given(self, **changed: str) -> dict[str, str]:
        return values(SubnetIds=",".join(self.subnets), SecurityGroupIds=self.group, **changed)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield Places()


def stack(**parameters: str) -> dict[str, Any]:
    """Return what CloudFormation says of a stack with these parameters."""
    given = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
    made = {"StackName": STACK, "CreationTime": datetime(2026, 1, 1, tzinfo=UTC), "StackStatus": "UPDATE_COMPLETE"}
    return {**made, "Parameters": given}


def resource(kind: str) -> dict[str, Any]:
    """Return what CloudFormation says of a resource."""
    state = {"ResourceStatus": "CREATE_COMPLETE", "LastUpdatedTimestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    return {"LogicalResourceId": "One", "ResourceType": kind, **state}


def asked(
    given: dict[str, str],
    *,
    domain: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    limit: int = 1000,
    functions: int = 9,
    deployed: tuple[dict[str, Any], list[dict[str, Any]]] | None = None,
    published: str | None = '{"issuer": "https://issuer.example", "jwks_uri": "https://issuer.example/keys"}',
) -> list[Finding]:
    """Ask an account whose stores are as stated; EC2 and STS are moto's."""

    def clients(service: str) -> Any:
        client = ANY_CLIENT(service, region_name=REGION)
        stub = Stubber(client)
        if service == "opensearch" and domain is None:
            stub.add_client_error("describe_domain", "ResourceNotFoundException")
        elif service == "opensearch":
            stub.add_response("describe_domain", {"DomainStatus": domain}, {"DomainName": "braid"})
        elif service == "neptune":
            stub.add_response("describe_db_clusters", {"DBClusters": [cluster] if cluster else []})
        elif service == "cloudformation" and deployed is None:
            stub.add_client_error("describe_stacks", "ValidationError", f"Stack with id {STACK} does not exist")
        elif service == "cloudformation":
            stub.add_response("describe_stacks", {"Stacks": [deployed[0]]}, {"StackName": STACK})
            stub.add_response("list_stack_resources", {"StackResourceSummaries": deployed[1]}, {"StackName": STACK})
        elif service == "lambda":
            stub.add_response("get_account_settings", {"AccountLimit": {"ConcurrentExecutions": limit}})
        else:
            return client
        stub.activate()
        return client

    def fetch(address: str) -> str:
        assert address == "https://issuer.example/.well-known/openid-configuration"
        if published is None:
            raise OSError("refused")
        return published

    return account(given, region=REGION, functions=functions, stack=STACK, clients=clients, fetch=fetch)


def test_an_account_that_has_everything_lacks_nothing(places: Places) -> None:
    places.endpoints(*GATEWAYS, *INTERFACES)
    store = places.made_group("stores")
    for port in (443, 8182):
        pairs = [{"GroupId": places.group}]
        rule = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "UserIdGroupPairs": pairs}
        places.ec2.authorize_security_group_ingress(GroupId=store, IpPermissions=[rule])
    domain = DOMAIN | {"VPCOptions": {"SecurityGroupIds": [store]}}
    cluster = CLUSTER | {"VpcSecurityGroups": [{"VpcSecurityGroupId": store}]}
    found = asked(places.given(), domain=domain, cluster=cluster)
    assert missing(found) == {}
    assert {"OpenSearch admits the functions on port 443", "Neptune admits the functions on port 8182"} <= {
        each.what for each in found
    }


def test_an_empty_account_is_told_everything_that_it_lacks(places: Places) -> None:
    found = missing(asked(places.given(), published=None, limit=10))
    assert "there is none of this name" in found["OpenSearch domain braid"]
    assert "none with this resource id" in found["Neptune cluster cluster-ABC"]
    assert {f"VPC endpoint {service}" for service in (*GATEWAYS, *INTERFACES)} <= set(found)
    assert "set -1" in found["ReservedConcurrency=10 of 10"]
    assert "API Gateway refuses such an issuer" in found["JwtIssuer=https://issuer.example"]


def test_stores_that_are_too_old_closed_or_elsewhere_are_named_with_the_way_out(places: Places) -> None:
    places.endpoints(*GATEWAYS, *INTERFACES)
    store = places.made_group("stores")
    # Another port of the functions' group, and the port of another group.
    for port, group in ((22, places.group), (443, places.made_group("others"))):
        rule = {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "UserIdGroupPairs": [{"GroupId": group}]}
        places.ec2.authorize_security_group_ingress(GroupId=store, IpPermissions=[rule])
    domain = DOMAIN | {"EngineVersion": "OpenSearch_2.9", "Endpoints": {"vpc": "other.example"}}
    domain |= {"VPCOptions": {"SecurityGroupIds": [store]}}
    cluster = CLUSTER | {"EngineVersion": "1.3.1.0", "IAMDatabaseAuthenticationEnabled": False, "DBClusterMembers": []}
    given = places.given() | {"NeptuneReaderEndpoint": f"wss://{GRAPH}:8182/gremlin"}
    found = missing(asked(given, domain=domain, cluster=cluster | {"Endpoint": "other.example"}))
    assert "cluster-ro-" in found["NeptuneReaderEndpoint"]
    assert "2.11" in found["domain braid, OpenSearch_2.9"]
    assert "other.example" in found["OpenSearchEndpoint"]
    assert "1.3.2" in found["cluster braid, 1.3.1.0"]
    assert "modify-db-cluster" in found["IAM authentication of Neptune"]
    assert found["NeptuneEndpoint"].endswith("wss://other.example:8182/gremlin")
    assert "create-db-instance" in found["an instance of Neptune that writes"]
    opening = found["OpenSearch admits the functions on port 443"]
    assert f"--group-id {store} --source-group {places.group}" in opening


def test_a_network_in_one_zone_or_without_names_of_its_endpoints_is_refused_and_a_nat_gateway_is_enough(
    places: Places,
) -> None:
    places.endpoints(*GATEWAYS, *INTERFACES, private_dns=False)
    one = places.given() | {"SubnetIds": places.subnets[0]}
    found = missing(asked(one, domain=DOMAIN, cluster=CLUSTER))
    assert "another zone" in found["subnets in 1 zones"]
    assert "private DNS of the endpoint lambda" in found
    address = places.ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = places.ec2.create_nat_gateway(SubnetId=places.subnets[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
    (table,) = places.ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [places.vpc]}])["RouteTables"]
    places.ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    assert missing(asked(places.given(), domain=DOMAIN, cluster=CLUSTER)) == {}


def test_an_internet_gateway_is_no_way_out_for_a_function(places: Places) -> None:
    gateway = places.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    places.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=places.vpc)
    (table,) = places.ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [places.vpc]}])["RouteTables"]
    places.ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    assert "VPC endpoint sqs" in missing(asked(places.given(), domain=DOMAIN, cluster=CLUSTER))


def test_more_reserved_than_the_account_gives_is_answered_with_how_much_it_may_be(places: Places) -> None:
    places.endpoints(*GATEWAYS, *INTERFACES)
    given = places.given(ReservedConcurrency="101")
    found = missing(asked(given, domain=DOMAIN, cluster=CLUSTER, limit=1000, functions=9))
    assert "may reserve 100 each" in found["ReservedConcurrency=101 of 1000"]
    given = places.given(ReservedConcurrency="100")
    assert not missing(asked(given, domain=DOMAIN, cluster=CLUSTER, limit=1000, functions=9))


def test_a_key_and_a_secret_that_there_are_not_are_missing(places: Places) -> None:
    places.endpoints(*GATEWAYS, *INTERFACES)
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
    found = missing(asked(places.given(KmsKeyArn=key), domain=DOMAIN, cluster=CLUSTER))
    assert "NotFound" in found["key"]
    made = boto3.client("kms", region_name=REGION).create_key()["KeyMetadata"]["Arn"]
    secret = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:voyage-a1b2c3"
    given = places.given(KmsKeyArn=made, VoyageApiKeySecretArn=secret)
    assert "ResourceNotFound" in missing(asked(given, domain=DOMAIN, cluster=CLUSTER))["key"]
    assert not missing(asked(places.given(KmsKeyArn=made), domain=DOMAIN, cluster=CLUSTER))


def test_what_may_not_be_read_is_a_warning_and_the_rest_is_asked_all_the_same(places: Places) -> None:
    places.endpoints(*GATEWAYS, *INTERFACES)

    def clients(service: str) -> Any:
        client = ANY_CLIENT(service, region_name=REGION)
        operations = {
            "opensearch": "describe_domain",
            "neptune": "describe_db_clusters",
            "lambda": "get_account_settings",
            "cloudformation": "describe_stacks",
        }
        if service in operations:
            stub = Stubber(client)
            stub.add_client_error(operations[service], "AccessDeniedException")
            stub.activate()
        return client

    given, said = places.given(), '{"issuer": "x"}'
    found = account(given, region=REGION, functions=9, stack=STACK, clients=clients, fetch=lambda _: said)
    assert {each.what for each in found if each.warning} == {
        "search index",
        "knowledge graph",
        "concurrency",
        "stack",
    }
    assert "it calls itself 'x'" in missing(found)["JwtIssuer=https://issuer.example"]


@pytest.mark.parametrize(
    ("has", "before", "changed", "said"),
    [
        ("AWS::SQS::Queue", {"OtlpEndpoint": "", "Release": "r1"}, {"GradualDeployment": "true", "Release": "r2"}, {}),
        ("AWS::SQS::Queue", {"Release": ""}, {}, {}),
        (
            "AWS::SQS::Queue",
            {"Release": "r1"},
            {"GradualDeployment": "true", "Release": "r2"},
            {"GradualDeployment over the version that is deployed": "false for this one deployment"},
        ),
        (
            "AWS::SQS::Queue",
            {"Release": "r1"},
            {"ProvisionedConcurrency": "1", "Release": "r1"},
            {"Release=r1": "name another one"},
        ),
        (
            "AWS::SQS::Queue",
            {"Release": "r1"},
            {"AnswerMode": "function", "Release": "r1"},
            {"Release=r1": "code and settings of before stay"},
        ),
        ("AWS::CloudWatch::Alarm", {}, {}, {"alarms in a stack of their own": "two steps"}),
    ],
)
def test_an_update_of_a_stack_is_told_what_it_needs_beside_a_first_deployment(
    places: Places, has: str, before: dict[str, str], changed: dict[str, str], said: dict[str, str]
) -> None:
    deployed = stack(**before), [resource(has)]
    alone = ("stack ", "Gradual", "Release", "alarms")
    found = missing(asked(places.given(**changed), deployed=deployed))
    update = {what: remedy for what, remedy in found.items() if what.startswith(alone)}
    assert update.keys() == said.keys()
    assert all(part in update[what] for what, part in said.items())


def test_a_stack_that_cannot_be_updated_is_named_and_one_that_is_not_there_lacks_nothing(places: Places) -> None:
    failed = {**stack(), "StackStatus": "ROLLBACK_COMPLETE"}
    found = missing(asked(places.given(), deployed=(failed, [])))
    assert "delete it where its first deployment failed" in found["stack braid-dev, ROLLBACK_COMPLETE"]
    assert "stack braid-dev is made anew" in {each.what for each in asked(places.given()) if not each.remedy}
