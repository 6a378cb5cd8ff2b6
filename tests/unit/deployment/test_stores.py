"""The stack of stores: what it gives the main stack, who reaches it, what is kept of it, and how it is made."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from bench import costs
from make import deploy_stores
from make.deploy_account import GATEWAYS, INTERFACES
from tests.unit.deployment.test_template import ENVIRONMENTS, ROOT, SAMCONFIG, TEMPLATE, read

if TYPE_CHECKING:
    from pathlib import Path

STORES = read("stores.yaml")
RESOURCES: dict[str, Any] = STORES["Resources"]
OUTPUTS = {
    "OpenSearchEndpoint": "https://vpc-braid-abc.eu-west-1.es.amazonaws.com",
    "OpenSearchResourceArn": "arn:aws:es:eu-west-1:123456789012:domain/braid",
    "NeptuneEndpoint": "wss://braid.cluster-abc.eu-west-1.neptune.amazonaws.com:8182/gremlin",
    "NeptuneReaderEndpoint": "wss://braid.cluster-ro-abc.eu-west-1.neptune.amazonaws.com:8182/gremlin",
    "NeptuneClusterResourceId": "cluster-ABC",
    "SubnetIds": "subnet-1a,subnet-1b",
    "SecurityGroupIds": "sg-1",
}
"""Outputs as AWS would give them."""


def of_type(kind: str) -> dict[str, Any]:
    return {name: item["Properties"] for name, item in RESOURCES.items() if item["Type"] == kind}


def test_every_output_is_a_parameter_of_the_main_template_and_takes_a_form_that_it_accepts() -> None:
    assert set(STORES["Outputs"]) == set(OUTPUTS) <= set(TEMPLATE["Parameters"])
    for name, value in OUTPUTS.items():
        pattern = TEMPLATE["Parameters"][name]["AllowedPattern"]
        assert all(re.fullmatch(pattern, each) for each in value.split(",")), name
    assert STORES["Outputs"]["NeptuneEndpoint"]["Value"].startswith("wss://${GraphCluster.Endpoint}:")


def test_what_the_stack_makes_is_what_the_outputs_leave_open_in_every_environment() -> None:
    for name in ENVIRONMENTS:
        overrides = SAMCONFIG[name]["global"]["parameters"]["parameter_overrides"]
        # Readers may be left out.
        assert {f"{output}=SET-ME" for output in OUTPUTS.keys() - {"NeptuneReaderEndpoint"}} <= set(overrides)


def test_there_is_an_endpoint_for_each_service_that_functions_call_and_the_costs_count_them() -> None:
    endpoints = of_type("AWS::EC2::VPCEndpoint").values()
    of_kind: dict[str, set[str]] = {"Interface": set(), "Gateway": set()}
    for endpoint in endpoints:
        text = endpoint["ServiceName"]
        service = text if isinstance(text, str) else text[0]
        of_kind[endpoint["VpcEndpointType"]].add(service.removeprefix("com.amazonaws.${AWS::Region}."))
        statement, *others = endpoint["PolicyDocument"]["Statement"]
        assert statement["Condition"] == {"StringEquals": {"aws:PrincipalAccount": "AWS::AccountId"}}
        # Packages of Amazon Linux are read by nobody in particular.
        assert all("al2023-repos" in each["Resource"] and each["Action"] == "s3:GetObject" for each in others)
    assert of_kind == {"Interface": set(INTERFACES), "Gateway": set(GATEWAYS)}
    assert len(INTERFACES) == costs.ENDPOINTS
    assert all(each["PrivateDnsEnabled"] for each in endpoints if each["VpcEndpointType"] == "Interface")


def test_stores_and_endpoints_take_connections_of_the_functions_alone_and_open_none() -> None:
    groups = of_type("AWS::EC2::SecurityGroup")
    assert "SecurityGroupIngress" not in groups["FunctionsGroup"]
    for name, ports in (("StoresGroup", [443, 8182]), ("EndpointsGroup", [443])):
        rules = groups[name]["SecurityGroupIngress"]
        assert [(rule["FromPort"], rule["ToPort"]) for rule in rules] == [(port, port) for port in ports]
        assert {rule["SourceSecurityGroupId"] for rule in rules} == {"FunctionsGroup"}
        assert [rule["CidrIp"] for rule in groups[name]["SecurityGroupEgress"]] == ["127.0.0.1/32"]
    (domain,) = of_type("AWS::OpenSearchService::Domain").values()
    (cluster,) = of_type("AWS::Neptune::DBCluster").values()
    assert domain["VPCOptions"]["SecurityGroupIds"] == cluster["VpcSecurityGroupIds"] == ["StoresGroup"]


def test_the_subnets_have_no_way_to_the_internet() -> None:
    kinds = {item["Type"] for item in RESOURCES.values()}
    assert not kinds & {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"}


def test_stores_are_encrypted_backed_up_and_not_lost_with_their_stack() -> None:
    domain, cluster = RESOURCES["SearchDomain"], RESOURCES["GraphCluster"]
    # A first deployment that fails leaves no domain, whose name the next one needs.
    assert (domain["DeletionPolicy"], domain["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert (cluster["DeletionPolicy"], cluster["UpdateReplacePolicy"]) == ("Snapshot", "Retain")
    assert domain["Properties"]["EncryptionAtRestOptions"]["Enabled"]
    assert domain["Properties"]["NodeToNodeEncryptionOptions"]["Enabled"]
    assert domain["Properties"]["DomainEndpointOptions"]["EnforceHTTPS"]
    for asked in ("IamAuthEnabled", "DeletionProtection"):
        assert cluster["Properties"][asked] is True
    # One of a backup is encrypted as that is.
    assert cluster["Properties"]["StorageEncrypted"] == ["IsRestored", "AWS::NoValue", True]
    assert cluster["Properties"]["BackupRetentionPeriod"] >= 7
    # Its logs would hold what is asked.
    assert "EnableCloudwatchLogsExports" not in cluster["Properties"]


def test_a_cluster_of_a_backup_has_another_name_and_its_instances_names_of_their_own() -> None:
    cluster = RESOURCES["GraphCluster"]["Properties"]
    assert cluster["DBClusterIdentifier"] == ["HasGraphName", "GraphName", "Name"]
    assert cluster["SnapshotIdentifier"][:2] == ["IsOfSnapshot", "GraphSnapshot"]
    assert cluster["SourceDBClusterIdentifier"][:2] == ["IsOfMoment", "GraphSource"]
    assert cluster["RestoreToTime"][:2] == ["IsOfMoment", "GraphSourceTime"]
    for instance in of_type("AWS::Neptune::DBInstance").values():
        assert instance["DBInstanceIdentifier"].startswith("${GraphCluster}-")
        assert instance["DBClusterIdentifier"] == "GraphCluster"


def test_the_domain_lets_roles_of_the_account_decide_and_no_one_else_in() -> None:
    (statement,) = RESOURCES["SearchDomain"]["Properties"]["AccessPolicies"]["Statement"]
    assert statement["Principal"] == {"AWS": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}
    assert statement["Resource"].endswith(":domain/${Name}/*")


def test_the_costs_are_of_the_stores_that_the_stack_makes_by_default() -> None:
    stores = next(iter(costs.LOADS.values()))
    parameters = STORES["Parameters"]
    assert stores.search == f"1 × {parameters['SearchInstanceType']['Default'].removesuffix('.search')}"
    assert parameters["GraphInstanceClass"]["Default"] == "db.serverless"
    assert stores.graph == "Serverless, 1 unit"
    assert stores.disk_gb == parameters["SearchDiskGb"]["Default"]


class Cli:
    """The AWS CLI of an account, with or without the role that OpenSearch needs."""

    def __init__(self, *, role: bool = True, fails: bool = False) -> None:
        self.calls: list[list[str]] = []
        self.role, self.fails = role, fails

    def __call__(self, arguments: list[str]) -> str:
        self.calls.append(arguments)
        if (arguments[1] == "get-role" and not self.role) or (arguments[1] == "deploy" and self.fails):
            raise subprocess.CalledProcessError(254, ["aws", *arguments])
        if arguments[1] == "describe-stacks":
            return json.dumps([{"OutputKey": key, "OutputValue": value} for key, value in OUTPUTS.items()])
        return ""


@pytest.fixture
def samconfig(tmp_path: Path) -> Path:
    file = tmp_path / "samconfig.toml"
    file.write_text((ROOT / "samconfig.toml").read_text(encoding="utf-8"), encoding="utf-8")
    return file


def test_one_command_makes_the_stores_and_notes_where_they_are(samconfig: Path) -> None:
    before = samconfig.read_text(encoding="utf-8")
    cli = Cli()
    assert deploy_stores.main(["prod", "HighlyAvailable=true"], cli, samconfig) == 0
    (deployed,) = [call for call in cli.calls if call[1] == "deploy"]
    assert deployed[deployed.index("--stack-name") + 1] == "braid-prod-stores"
    assert deployed[deployed.index("--parameter-overrides") + 1 :] == ["Name=braid-prod", "HighlyAvailable=true"]
    sections = tomllib.loads(samconfig.read_text(encoding="utf-8"))
    given = dict(each.split("=", 1) for each in sections["prod"]["global"]["parameters"]["parameter_overrides"])
    assert {name: given[name] for name in OUTPUTS} == OUTPUTS
    assert given["KmsKeyArn"] == "SET-ME"
    # Nothing else has changed: other sections, comments, order.
    kept = [line for line in before.splitlines() if not any(f'"{name}=' in line for name in OUTPUTS)]
    assert [line for line in samconfig.read_text().splitlines() if line in kept] == kept
    assert sections["dev"] == tomllib.loads(before)["dev"]


def test_making_them_again_changes_nothing_of_the_configuration(samconfig: Path) -> None:
    deploy_stores.main(["dev"], Cli(), samconfig)
    once = samconfig.read_text(encoding="utf-8")
    deploy_stores.main(["dev"], Cli(), samconfig)
    assert samconfig.read_text(encoding="utf-8") == once


@pytest.mark.parametrize("role", [True, False])
def test_an_account_without_the_role_of_opensearch_gets_it(samconfig: Path, *, role: bool) -> None:
    cli = Cli(role=role)
    deploy_stores.main(["dev"], cli, samconfig)
    assert any(call[1] == "create-service-linked-role" for call in cli.calls) is not role


def test_a_deployment_that_fails_leaves_the_configuration_as_it_was(
    samconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = samconfig.read_text(encoding="utf-8")
    assert deploy_stores.main(["dev"], Cli(fails=True), samconfig) == 1
    assert samconfig.read_text(encoding="utf-8") == before
    assert "samconfig.toml is as it was" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["staging"], "no section staging"), (["dev", "Nodes=3"], "Nodes=3: stores.yaml has Name, VpcId")],
)
def test_a_section_or_parameter_that_there_is_not_is_refused_before_anything_is_made(
    samconfig: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    cli = Cli()
    assert deploy_stores.main(arguments, cli, samconfig) == 1
    assert said in capsys.readouterr().err
    assert not cli.calls


def test_a_section_whose_parameters_are_no_list_is_refused() -> None:
    with pytest.raises(ValueError, match="no parameter_overrides, one a line"):
        deploy_stores.written('[dev.global.parameters]\nparameter_overrides = "A=b"\n', "dev", OUTPUTS)
