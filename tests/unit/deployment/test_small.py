"""The small mode as it is written down: one function with its store on EFS, and nothing that it does not need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from braid.api.authorisation import is_open
from braid.settings import Settings

from make import deploy_check
from make.templates import read_template
from tests.unit.deployment.test_deploy_check import asked, missing, places
from tests.unit.deployment.test_template import ROOT, SAMCONFIG, read

__all__ = ["places"]

SMALL = read("small.yaml")
MAIN = read("template.yaml")
RESOURCES: dict[str, Any] = SMALL["Resources"]
FUNCTION: dict[str, Any] = RESOURCES["SmallFunction"]["Properties"]
PAGE: dict[str, Any] = RESOURCES["PageFunction"]["Properties"]
VARIABLES: dict[str, Any] = FUNCTION["Environment"]["Variables"]


def of_type(kind: str) -> dict[str, Any]:
    return {name: item["Properties"] for name, item in RESOURCES.items() if item["Type"] == f"AWS::{kind}"}


def test_one_process_at_a_time_has_the_store_which_lies_where_it_is_mounted() -> None:
    assert FUNCTION["ReservedConcurrentExecutions"] == 1
    assert FUNCTION["FileSystemConfigs"] == [{"Arn": "Folder.Arn", "LocalMountPath": VARIABLES["BRAID_HOME"]}]
    assert VARIABLES["BRAID_STORE_JOURNAL"] == "persist"
    assert {name.removeprefix("BRAID_").lower() for name in VARIABLES if name.startswith("BRAID_")} <= set(
        Settings.model_fields
    )


def test_a_request_and_what_it_waits_for_afterwards_end_before_the_function_and_the_gateway() -> None:
    source = (ROOT / "functions" / "small" / "app.py").read_text(encoding="utf-8")
    seconds = {name: float(value) for name, value in re.findall(r"(?m)^(\w+_S) = ([\d.]+)$", source)}
    assert seconds["PAUSE_S"] > Settings().embedded_question_s
    assert Settings().request_timeout_s + seconds["PAUSE_S"] < 29 < FUNCTION["Timeout"]
    assert 2 * seconds["REEMBED_S"] < FUNCTION["Timeout"]  # the page of records that it has begun it ends


def test_the_store_is_encrypted_copied_every_day_kept_when_the_stack_goes_and_its_owners_alone() -> None:
    files = RESOURCES["Files"]
    assert (files["DeletionPolicy"], files["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert files["Properties"]["Encrypted"] is True
    assert files["Properties"]["BackupPolicy"] == {"Status": "ENABLED"}
    (statement,) = files["Properties"]["FileSystemPolicy"]["Statement"]
    assert statement["Principal"] == {"AWS": "SmallRole.Arn"}
    assert statement["Condition"]["Bool"]["aws:SecureTransport"] == "true"
    # Either this policy or the role's own is enough, and both want an access point, of which there is one.
    assert statement["Condition"]["StringLike"]["elasticfilesystem:AccessPointArn"].endswith(":access-point/*")
    assert len(of_type("EFS::AccessPoint")) == 1
    folder = RESOURCES["Folder"]["Properties"]
    owner = folder["RootDirectory"]["CreationInfo"]
    assert owner["Permissions"] == "0700"
    assert (owner["OwnerUid"], owner["OwnerGid"]) == tuple(folder["PosixUser"].values())
    (used,) = RESOURCES["UseFiles"]["Properties"]["PolicyDocument"]["Statement"]
    assert used["Condition"] == {"StringEquals": {"elasticfilesystem:AccessPointArn": "Folder.Arn"}}


def test_the_function_reaches_its_files_and_nothing_else_and_nothing_reaches_it() -> None:
    kinds = {item["Type"] for item in RESOURCES.values()}
    assert not kinds & {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::VPCEndpoint", "AWS::EC2::Route"}
    for group in of_type("EC2::SecurityGroup").values():
        for rule in group.get("SecurityGroupIngress", []) + group["SecurityGroupEgress"]:
            assert (rule["FromPort"], rule["ToPort"]) == (2049, 2049)
    assert "SecurityGroupIngress" not in RESOURCES["FunctionGroup"]["Properties"]
    assert {target["SubnetId"] for target in of_type("EFS::MountTarget").values()} == set(
        FUNCTION["VpcConfig"]["SubnetIds"]
    )


def test_what_is_open_is_shown_without_the_store_and_everything_else_needs_a_token() -> None:
    routes = of_type("ApiGatewayV2::Route")
    verified = routes.pop("VerifiedRoute")
    assert (verified["RouteKey"], verified["Target"]) == ("$default", "integrations/${SmallIntegration}")
    assert verified["AuthorizationType"] == "JWT"
    for route in routes.values():
        assert (route["AuthorizationType"], route["Target"]) == ("NONE", "integrations/${PageIntegration}")
    assert SMALL["Mappings"]["OpenRoutes"] == MAIN["Mappings"]["OpenRoutes"]
    for of in SMALL["Mappings"]["OpenRoutes"].values():
        assert is_open(of["Request"].removeprefix("GET ").replace("{file}", "explorer.js"))
    assert "BRAID_HOME" not in PAGE["Environment"]["Variables"]
    assert not {"VpcConfig", "FileSystemConfigs", "Role"} & set(PAGE)


def test_every_parameter_is_used_and_those_of_the_same_name_take_what_the_main_template_takes() -> None:
    text = (ROOT / "small.yaml").read_text(encoding="utf-8").split("\nRules:", 1)[1]
    assert set(SMALL["Parameters"]) <= {name for pair in re.findall(r"!Ref (\w+)|\$\{(\w+)\}", text) for name in pair}
    for name in set(SMALL["Parameters"]) & set(MAIN["Parameters"]) - {"ReembedSchedule"}:
        for part in ("Type", "AllowedValues"):
            assert SMALL["Parameters"][name].get(part) == MAIN["Parameters"][name].get(part), name


def test_every_log_is_kept_for_the_stated_time_and_alarms_reach_the_topic() -> None:
    groups = of_type("Logs::LogGroup")
    assert {FUNCTION["LoggingConfig"]["LogGroup"], PAGE["LoggingConfig"]["LogGroup"], "FrontDoorLogs"} == set(groups)
    assert {group["RetentionInDays"] for group in groups.values()} == {"LogRetentionDays"}
    for alarm in of_type("CloudWatch::Alarm").values():
        assert (alarm["AlarmActions"], alarm["Dimensions"][0]["Value"]) == (["AlarmTopic"], "SmallFunction")


@pytest.mark.usefixtures("places")
def test_its_section_builds_its_template_and_is_checked_by_that() -> None:
    section = SAMCONFIG["small"]
    assert section["build"]["parameters"] == {"template_file": "small.yaml", "cached": True, "parallel": False}
    assert "template_file" not in section["global"]["parameters"] | section["deploy"]["parameters"]  # what was built
    found = missing(deploy_check.check("small", offline=True, output=lambda _: None))
    assert "JwtIssuer" in found
    assert not {name for name in found if "OpenSearch" in name or "Neptune" in name}
    template = read_template(Path(ROOT / "small.yaml"))
    right = {"JwtIssuer": "https://issuer.example", "JwtAudience": "braid"}
    values = deploy_check.values_of(template, right)
    assert missing(deploy_check.parameters(template, right)) == {}
    assert missing(deploy_check.rules(template, values)) == {}
    assert missing(deploy_check.together(values)) == {}
    assert "Memory=1769" in missing(deploy_check.together(values | {"ModelProfile": "instructor", "Memory": "1769"}))
    values |= {"ReservedConcurrency": "1"}
    assert missing(asked(values, functions=1)) == {}
    (remedy,) = missing(asked(values, functions=1, limit=10)).values()
    assert remedy == "this account has 10 and keeps 100: ask for more (Service Quotas, Lambda)"


def test_both_functions_may_read_their_settings_which_are_encrypted_under_the_stated_key() -> None:
    has, named, _ = RESOURCES["SmallRole"]["Properties"]["Policies"][0]
    assert (has, [has, named["PolicyDocument"], "AWS::NoValue"]) == ("HasKey", PAGE["Policies"][0])
    (read,) = named["PolicyDocument"]["Statement"]
    assert (read["Action"], read["Resource"]) == ("kms:Decrypt", "KmsKeyArn")
    assert read["Condition"]["StringEquals"]["kms:ViaService"].startswith("lambda.")
    assert FUNCTION["KmsKeyArn"] == PAGE["KmsKeyArn"] == ["HasKey", "KmsKeyArn", "AWS::NoValue"]


@pytest.mark.parametrize("name", ["SmallFunction", "PageFunction"])
def test_both_functions_are_of_one_image_which_has_what_the_embedded_engine_needs(name: str) -> None:
    assert RESOURCES[name]["Metadata"]["DockerBuildArgs"] == {"FUNCTION": "small", "MODEL_PROFILE": "ModelProfile"}
    dockerfile = (ROOT / "functions" / "Dockerfile").read_text(encoding="utf-8")
    assert "COPY functions/small/requirements.txt small.txt" in dockerfile
    assert re.search("(?m)^usearch==", (ROOT / "functions" / "small" / "requirements.txt").read_text(encoding="utf-8"))
