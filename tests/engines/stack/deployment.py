"""``sam build`` and ``sam package`` of the template for LocalStack, and LocalStack with processes for functions.

Left as deployed: the functions that answer and those that write, with all that they refer to (layers, policies, log
groups, bucket, queues and what hands them out), their workflows, what starts these, the HTTP API with its routes, and
settings. What watches is left out. Different here, for want of a container engine and of AWS:

- LocalStack's free edition has no HTTP APIs; a plugin makes them of the same resources;
- images are zips of what the Dockerfile puts into them: what all have is a layer, and models lie in a folder;
- the tables are moto's, as LocalStack's DynamoDB is a program that it downloads when it is first asked;
- LocalStack keeps schedules and never fires them, and sets aside no event that starts nothing;
- the addresses of stores and issuer may be ``http://`` and ``ws://``, as those of local servers are.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import zipfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import yaml
from botocore.config import Config

from braid_cli.local_servers import localstack_server, process
from make.templates import read_template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[3]
PLUGIN = Path(__file__).with_name("process_executor")
HTTP_API = ("Api", "Authorizer", "Integration", "Route", "Stage")
"""Kinds of resources of an HTTP API."""
REGION = "eu-west-1"
BUCKET = "packages"
KEPT = (
    "PlanFunction",
    "EmbedFunction",
    "VectorSearchFunction",
    "GraphExpandFunction",
    "FuseRerankFunction",
    "ContextFunction",
    "SearchApiFunction",
    "RetrieveStateMachine",
    "IngestStateMachine",
    "ReembedStateMachine",
    "ReembedNightly",
    "FrontDoorStage",
    "FrontDoorPermission",
    "VerifiedRoute",
    *(f"{name}Route" for name in ("Health", "Document", "Root", "Page", "PageFile")),
)
"""What answers, over HTTP too, what writes, and the schedule."""
PARAMETERS = {
    "OpenSearchResourceArn": "arn:aws:es:eu-west-1:000000000000:domain/local",
    "NeptuneClusterResourceId": "cluster-LOCAL",
    "Architecture": "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64",
}
CREDENTIALS = {"aws_access_key_id": "000000000000", "aws_secret_access_key": "test"}


@dataclasses.dataclass(frozen=True)
class LocalStack:
    """A LocalStack that runs functions as processes."""

    endpoint: str
    python: Path
    """The Python 3.13 that it runs in."""
    log: Path
    _clients: dict[str, Any] = dataclasses.field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Return a client that waits for long answers, and never asks twice; it is closed with LocalStack."""
        if service not in self._clients:
            # StartSyncExecution is sent to sync-HOST, which no resolver knows here.
            config = Config(inject_host_prefix=False, read_timeout=120, retries={"total_max_attempts": 1})
            self._clients[service] = boto3.client(
                service, endpoint_url=self.endpoint, region_name=REGION, config=config, **CREDENTIALS
            )
        return self._clients[service]

    def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            client.close()


@contextmanager
def localstack(folder: Path) -> Iterator[LocalStack]:
    """Run LocalStack with its files in an empty folder."""
    plugin = folder / "plugin"
    shutil.copytree(PLUGIN, plugin / PLUGIN.name)
    described = plugin / f"{PLUGIN.name}-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PLUGIN.name}\nVersion: 1\n", encoding="utf-8")
    entries = ["[localstack.lambda.runtime_executor]", f"process = {PLUGIN.name}.executor:ProcessExecutorPlugin"]
    entries.append("[localstack.cloudformation.resource_providers]")
    entries += [f"AWS::ApiGatewayV2::{kind} = {PLUGIN.name}.http_api:{kind}" for kind in HTTP_API]
    (described / "entry_points.txt").write_text("\n".join(entries), encoding="utf-8")
    launch = localstack_server.prepare(folder)
    added = {
        "PYTHONPATH": str(plugin),
        "TMPDIR": str(folder),
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        # The zips in place of images are as large as images may be.
        "LAMBDA_LIMITS_CODE_SIZE_UNZIPPED": str(2**30),
        # An empty queue is looked into every second, and not every ten.
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "1",
    }
    launch = dataclasses.replace(launch, environment=launch.environment | added)
    log = folder / "localstack.log"
    pid = process.start(launch, folder=folder, log=log)
    try:
        with closing(LocalStack(launch.endpoint, Path(launch.command[0]), log)) as running:
            yield running
    finally:
        # Nothing of it is wanted any more, and it takes its time to end the functions one by one.
        process.stop(pid, marker=str(folder), grace_s=1)


def deploy(to: LocalStack, parameters: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Build, package and deploy the template, and return the stack's outputs.

    Parameters
    ----------
    to
        Where.
    parameters
        Values of the template's parameters, and the names of tables that are there, by their names in the template.
    environment
        What the functions' environment has besides.
    """
    s3, cloudformation = to.client("s3"), to.client("cloudformation")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    with tempfile.TemporaryDirectory() as folder:
        template = package(to, Path(folder), s3)
    template["Globals"]["Function"]["Environment"]["Variables"] |= environment
    given = PARAMETERS | parameters
    s3.put_object(Bucket=BUCKET, Key="template.json", Body=json.dumps(template).encode())
    cloudformation.create_stack(
        StackName="braid",
        TemplateURL=f"{to.endpoint}/{BUCKET}/template.json",
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    waiter = cloudformation.get_waiter("stack_create_complete")
    waiter.wait(StackName="braid", WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    (stack,) = cloudformation.describe_stacks(StackName="braid")["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def package(to: LocalStack, folder: Path, s3: Any) -> dict[str, Any]:
    """Upload what the template names, and return the template with the places of the uploads in it."""

    def uploaded(source: Path) -> dict[str, str]:
        key = f"{source.name}.zip"
        s3.upload_file(str(zipped(source, folder / key)), BUCKET, key)
        return {"Bucket": BUCKET, "Key": key}

    template = needed(read_template(ROOT / "template.yaml"))
    resources = template["Resources"]
    layer = folder / "braid"
    install(to.python, ROOT / "layers" / "braid" / "requirements.txt", layer / "python")
    shutil.copytree(ROOT / "layers" / "braid" / "braid", layer / "python" / "braid")
    resources["BraidLayer"]["Properties"]["ContentUri"] = uploaded(layer)
    resources["SharedLayer"]["Properties"]["ContentUri"] = uploaded(ROOT / "shared")
    resources["TelemetryLayer"]["Properties"]["ContentUri"] = uploaded(ROOT / "layers" / "telemetry")
    image = folder / "image"
    install(to.python, ROOT / "functions" / "requirements.txt", image / "python")
    shutil.copytree(ROOT / "layers" / "braid" / "braid", image / "python" / "braid")
    content = {"LayerName": "image", "ContentUri": uploaded(image), "CompatibleRuntimes": ["python3.13"]}
    resources["ImageLayer"] = {"Type": "AWS::Serverless::LayerVersion", "Properties": content}
    for logical, resource in resources.items():
        if resource["Properties"].get("PackageType") == "Image":
            name = resource.pop("Metadata")["DockerBuildArgs"]["FUNCTION"]
            resource["Properties"] |= {"PackageType": "Zip", "CodeUri": f"functions/{name}", "Handler": "app.handler"}
            layers = [{"Ref": "ImageLayer"}, {"Ref": "SharedLayer"}]
            resource["Properties"] |= {"Runtime": "python3.13", "Layers": layers}
        if resource["Type"] == "AWS::Serverless::Function" and isinstance(resource["Properties"]["CodeUri"], str):
            source = ROOT / resource["Properties"]["CodeUri"]
            code = folder / source.name
            if (source / "requirements.txt").is_file():
                install(to.python, source / "requirements.txt", code)
            code.mkdir(exist_ok=True)
            shutil.copy(source / "app.py", code)
            resource["Properties"]["CodeUri"] = uploaded(code)
        if resource["Type"] == "AWS::Serverless::StateMachine":
            definition = yaml.safe_load((ROOT / resource["Properties"]["DefinitionUri"]).read_text(encoding="utf-8"))
            # AWS reads YAML as well.
            s3.put_object(Bucket=BUCKET, Key=f"{logical}.json", Body=json.dumps(definition).encode())
            resource["Properties"]["DefinitionUri"] = {"Bucket": BUCKET, "Key": f"{logical}.json"}
    tables = [name for name, resource in resources.items() if resource["Type"] == "AWS::DynamoDB::Table"]
    for table in tables:
        del resources[table]
        template["Parameters"][table] = {"Type": "String", "Default": "unused"}
    template = without_attributes(template, tables)
    for name in ("OpenSearchEndpoint", "NeptuneEndpoint", "JwtIssuer"):
        del template["Parameters"][name]["AllowedPattern"]
    return template


def needed(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template of what is kept and of what that refers to, however indirectly."""
    resources = template["Resources"]
    kept: set[str] = set()
    asked = [*KEPT, *(references(template["Globals"]) & resources.keys())]
    while asked:
        name = asked.pop()
        if name not in kept:
            kept.add(name)
            asked += references(resources[name]) & resources.keys()
    outputs = template["Outputs"].items()
    return template | {
        "Resources": {name: resource for name, resource in resources.items() if name in kept},
        "Outputs": {name: output for name, output in outputs if not references(output) & resources.keys() - kept},
    }


def references(part: object) -> set[str]:
    """Return the names that a part of a template refers to."""
    if isinstance(part, list):
        return set().union(*map(references, part))
    if not isinstance(part, dict):
        return set()
    found = set().union(*map(references, part.values()))
    for name, value in part.items():
        if name == "Ref":
            found.add(value.partition(".")[0])  # of Function.Alias, which is SAM's, the function
        elif name == "Fn::GetAtt":
            found.add(value[0])
        elif name == "Fn::Sub":
            text = value if isinstance(value, str) else value[0]
            found |= {match.partition(".")[0] for match in re.findall(r"\$\{([^!}]+)\}", text)}
        elif name == "DependsOn":
            found |= {value} if isinstance(value, str) else set(value)
    return found


def without_attributes(part: Any, tables: Sequence[str]) -> Any:
    """Return a part of a template in which any ARN of a table has become ``*``: it is a parameter and has none."""
    if isinstance(part, list):
        return [without_attributes(each, tables) for each in part]
    if not isinstance(part, dict):
        return part
    if part.keys() == {"Fn::GetAtt"} and part["Fn::GetAtt"][0] in tables:
        return "*"
    return {name: without_attributes(value, tables) for name, value in part.items()}


def install(python: Path, requirements: Path, folder: Path) -> None:
    """Install what a layer or an image carries, as ``make build`` does: locked, wheels only."""
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    command = [uv, "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--python", python]
    # The environment's own settings, such as the one of a project, are not meant for a folder of packages.
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    subprocess.run([*command, "--target", folder, "--requirement", requirements], check=True, env=environment)  # noqa: S603 - our own lock


def zipped(source: Path, to: Path) -> Path:
    """Write a folder's files to a zip, not compressed: it does not travel far."""
    with zipfile.ZipFile(to, "w", strict_timestamps=False) as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(source))
    return to
