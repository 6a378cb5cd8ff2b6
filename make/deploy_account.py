"""Ask an AWS account for what a deployment's parameters name; every call reads, and none changes anything.

What the caller may not read is said and counts as a warning: whoever deploys may have fewer rights than the checks.
"""

from __future__ import annotations

import json
import re
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

OLDEST_OPENSEARCH, OLDEST_NEPTUNE = (2, 11), (1, 3, 2)
UNRESERVED = 100
"""Executions of an account that Lambda does not let functions reserve."""
GATEWAYS = ("dynamodb", "s3")
INTERFACES = ("sync-states", "states", "lambda", "sqs", "secretsmanager")
"""AWS services that functions in a VPC call."""
SEARCH_PORT = 443
WAIT_S = 10
_TRACED = "OtlpEndpoint"
"""A parameter of every version whose functions understand what the workflow hands them since traces go with it."""

Client = Any
"""A client of some AWS service: what boto3 makes has no type of its own."""


@dataclass(frozen=True)
class Finding:
    """What was looked at, and what to do where it is not as it has to be; a warning has to be read only."""

    what: str
    remedy: str = ""
    warning: bool = False

    def line(self) -> str:
        """Return it as it is shown."""
        if not self.remedy:
            return f"ok       {self.what}"
        return f"{'warning' if self.warning else 'MISSING':8} {self.what}: {self.remedy}"


def account(
    values: Mapping[str, str],
    *,
    region: str | None,
    functions: int,
    stack: str,
    clients: Callable[[str], Client] | None = None,
    fetch: Callable[[str], str] | None = None,
) -> list[Finding]:
    """Return what the account has and lacks.

    Parameters
    ----------
    values
        Every parameter of the template.
    region
        Where it is deployed to; the caller's own region when None.
    functions
        How many functions the template makes.
    stack
        Name of the stack, which may be there already.
    clients
        Returns a client of a service.
    fetch
        Returns the content of an ``https://`` address.
    """
    if clients is None:
        session = boto3.Session(region_name=region)
        config = Config(connect_timeout=WAIT_S, read_timeout=WAIT_S, retries={"total_max_attempts": 2})

        def clients(service: str) -> Client:
            return session.client(service, config=config)  # type: ignore[call-overload]  # any service, by its name

    try:
        identity = clients("sts").get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        return [Finding("AWS credentials", f"{error}; the account was not asked (--offline leaves it out)")]
    where = f", in {region}" if region else ""
    found = [Finding(f"credentials of account {identity['Account']}{where}")]
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("ARNs", lambda: _arns(values, identity["Account"])),
        ("search index", lambda: _search(values, clients)),
        ("knowledge graph", lambda: _graph(values, clients)),
        ("network", lambda: _network(values, clients)),
        ("concurrency", lambda: _concurrency(values, clients("lambda"), functions)),
        ("key", lambda: _key(values, clients)),
        ("stack", lambda: _upgrade(values, clients("cloudformation"), stack)),
        ("issuer of tokens", lambda: _issuer(values, fetch or _fetched)),
    ]
    if "OpenSearchEndpoint" not in values:  # the small mode has its store in files of its own
        checks = [each for each in checks if each[0] not in ("search index", "knowledge graph", "network")]
    for what, check in checks:
        try:
            found += check()
        except ClientError as error:
            absent = "NotFound" in error.response["Error"]["Code"]
            found.append(Finding(what, str(error) if absent else f"could not be read: {error}", warning=not absent))
    return found


def _upgrade(values: Mapping[str, str], client: Client, stack: str) -> Iterator[Finding]:
    """Check what an update of the deployed stack needs beside what a first deployment does."""
    try:
        (deployed,) = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        yield Finding(f"stack {stack} is made anew")
        return
    before = {each["ParameterKey"]: each["ParameterValue"] for each in deployed.get("Parameters", ())}
    settled = deployed["StackStatus"].endswith("_COMPLETE") and deployed["StackStatus"] != "ROLLBACK_COMPLETE"
    way_out = "wait, or delete it where its first deployment failed (aws cloudformation delete-stack)"
    yield Finding(f"stack {stack}, {deployed['StackStatus']}", "" if settled else f"cannot be updated: {way_out}")
    if "OpenSearchEndpoint" not in values:
        return
    if values["GradualDeployment"] == "true":
        once = "set it to false for this one deployment: functions of before refuse what the workflow now hands them"
        yield Finding("GradualDeployment over the version that is deployed", "" if _TRACED in before else once)
    of_versions = {"GradualDeployment": "true", "AnswerMode": "function"}
    if values["ProvisionedConcurrency"] != "0" or any(values[name] == each for name, each in of_versions.items()):
        same = before.get("Release") == values["Release"]
        again = "is deployed already: name another one, or code and settings of before stay"
        yield Finding(f"Release={values['Release']}", again if same else "")
    pages = client.get_paginator("list_stack_resources").paginate(StackName=stack)
    kinds = {each["ResourceType"] for each in pages.search("StackResourceSummaries")}
    steps = "update in two steps, without Observability and what names it, then with it: a name is in one stack only"
    yield Finding("alarms in a stack of their own", steps if "AWS::CloudWatch::Alarm" in kinds else "")


def _arns(values: Mapping[str, str], own: str) -> Iterator[Finding]:
    for name in ("OpenSearchResourceArn", "KmsKeyArn", "VoyageApiKeySecretArn"):
        if values.get(name) and values[name].split(":")[4] != own:
            yield Finding(name, f"is of account {values[name].split(':')[4]}, and this is {own}")


def _search(values: Mapping[str, str], clients: Callable[[str], Client]) -> Iterator[Finding]:
    """Check the domain; of a collection its data policy decides, which names roles that are not made yet."""
    if values["OpenSearchService"] != "es":
        policy = "after deploying, name the functions' roles in its data access policy (docs/deploy.md, Stores)"
        yield Finding("OpenSearch Serverless collection", policy, warning=True)
        return
    name = values["OpenSearchResourceArn"].rpartition("/")[2]
    try:
        domain = clients("opensearch").describe_domain(DomainName=name)["DomainStatus"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        yield Finding(f"OpenSearch domain {name}", "there is none of this name in this region")
        return
    version = tuple(int(each) for each in re.findall(r"\d+", domain["EngineVersion"])[:2])
    enough = domain["EngineVersion"].startswith("OpenSearch_") and version >= OLDEST_OPENSEARCH
    yield Finding(f"domain {name}, {domain['EngineVersion']}", "" if enough else "needs OpenSearch 2.11 or newer")
    hosts = {domain.get("Endpoint"), *domain.get("Endpoints", {}).values()} - {None}
    host = values["OpenSearchEndpoint"].removeprefix("https://").split(":")[0]
    is_ready = host in hosts
    remedy = f"is not the domain's, which has {', '.join(sorted(hosts)) or 'none yet: it is still being made'}"
    yield Finding("OpenSearchEndpoint", "" if is_ready else remedy)
    yield from _reached("OpenSearch", domain.get("VPCOptions", {}), SEARCH_PORT, values, clients("ec2"))


def _graph(values: Mapping[str, str], clients: Callable[[str], Client]) -> Iterator[Finding]:
    wanted = values["NeptuneClusterResourceId"]
    clusters = clients("neptune").get_paginator("describe_db_clusters").paginate().search("DBClusters")
    cluster = next((each for each in clusters if each["DbClusterResourceId"] == wanted), None)
    if cluster is None:
        yield Finding(f"Neptune cluster {wanted}", "there is none with this resource id in this region")
        return
    name, version = cluster["DBClusterIdentifier"], tuple(int(each) for each in cluster["EngineVersion"].split(".")[:3])
    yield Finding(
        f"cluster {name}, {cluster['EngineVersion']}", "" if version >= OLDEST_NEPTUNE else "needs 1.3.2 or newer"
    )
    on = f"aws neptune modify-db-cluster --db-cluster-identifier {name} --enable-iam-database-authentication"
    yield Finding("IAM authentication of Neptune", "" if cluster["IAMDatabaseAuthenticationEnabled"] else on)
    expected = f"wss://{cluster['Endpoint']}:{cluster['Port']}/gremlin"
    yield Finding(
        "NeptuneEndpoint", "" if values["NeptuneEndpoint"] == expected else f"is not the cluster's: {expected}"
    )
    reader = f"wss://{cluster['ReaderEndpoint']}:{cluster['Port']}/gremlin"
    given = values.get("NeptuneReaderEndpoint", "")
    yield Finding("NeptuneReaderEndpoint", "" if given in ("", reader) else f"is not the cluster's: {reader}")
    instances = f"it has no instance: aws neptune create-db-instance … --db-cluster-identifier {name}"
    yield Finding("an instance of Neptune that writes", "" if cluster["DBClusterMembers"] else instances)
    groups = [each["VpcSecurityGroupId"] for each in cluster["VpcSecurityGroups"]]
    yield from _reached("Neptune", {"SecurityGroupIds": groups}, int(cluster["Port"]), values, clients("ec2"))


def _listed(values: Mapping[str, str], name: str) -> list[str]:
    return [each for each in values[name].split(",") if each]


def _reached(
    store: str, place: Mapping[str, Any], port: int, values: Mapping[str, str], ec2: Client
) -> Iterator[Finding]:
    """Check that a store in a VPC takes connections of the functions: same VPC, and its groups admit theirs."""
    groups, own = place.get("SecurityGroupIds", []), _listed(values, "SecurityGroupIds")
    if not groups:
        return
    if not own:
        yield Finding(f"{store} is in a VPC", "set SubnetIds and SecurityGroupIds, or no function reaches it")
        return
    described = ec2.describe_security_groups(GroupIds=groups)["SecurityGroups"]
    admitted = any(_admits(rule, port, own) for group in described for rule in group["IpPermissions"])
    opening = f"aws ec2 authorize-security-group-ingress --group-id {groups[0]} --source-group {own[0]}"
    remedy = "" if admitted else f"{opening} --protocol tcp --port {port}"
    yield Finding(f"{store} admits the functions on port {port}", remedy)


def _admits(rule: Mapping[str, Any], port: int, groups: Sequence[str]) -> bool:
    of_port = rule["IpProtocol"] == "-1" or rule.get("FromPort", 0) <= port <= rule.get("ToPort", -1)
    sources = {pair["GroupId"] for pair in rule.get("UserIdGroupPairs", [])}
    return of_port and bool(sources & set(groups) or rule.get("IpRanges") or rule.get("PrefixListIds"))


def _network(values: Mapping[str, str], clients: Callable[[str], Client]) -> Iterator[Finding]:
    subnet_ids = _listed(values, "SubnetIds")
    if not subnet_ids:
        return
    ec2 = clients("ec2")
    try:
        subnets = ec2.describe_subnets(SubnetIds=subnet_ids)["Subnets"]
        groups = ec2.describe_security_groups(GroupIds=_listed(values, "SecurityGroupIds"))["SecurityGroups"]
    except ClientError as error:
        yield Finding("SubnetIds, SecurityGroupIds", str(error))
        return
    places = {each["VpcId"] for each in (*subnets, *groups)}
    yield Finding(
        "subnets and groups of one VPC", "" if len(places) == 1 else f"they are of {', '.join(sorted(places))}"
    )
    zones = {each["AvailabilityZone"] for each in subnets}
    yield Finding(f"subnets in {len(zones)} zones", "" if len(zones) > 1 else "add one of another zone to SubnetIds")
    vpc = subnets[0]["VpcId"]
    if all(_leads_out(ec2, each, vpc) for each in subnet_ids):
        yield Finding("the subnets' way to AWS: a route to 0.0.0.0/0")
        return
    filters = [{"Name": "vpc-id", "Values": [vpc]}]
    endpoints = ec2.get_paginator("describe_vpc_endpoints").paginate(Filters=filters).search("VpcEndpoints")
    there = {each["ServiceName"].split(".", 3)[-1]: each for each in endpoints}
    wanted = (*GATEWAYS, *INTERFACES, *(("bedrock-agent-runtime",) if values["Reranker"] == "bedrock" else ()))
    for service in wanted:
        missing = "make it (docs/deploy.md, Network), or a NAT gateway; make deploy-stores makes them all"
        yield Finding(f"VPC endpoint {service}", "" if service in there else missing)
        if service in INTERFACES and service in there and not there[service].get("PrivateDnsEnabled"):
            yield Finding(f"private DNS of the endpoint {service}", "switch it on: functions ask by AWS's own names")
    if values["Reranker"] == "voyage":
        yield Finding("NAT gateway", "the reranker voyage is outside AWS, and the subnets have no route there")


def _leads_out(ec2: Client, subnet: str, vpc: str) -> bool:
    """Return whether a subnet has a default route; one by an internet gateway is of no use to Lambda."""
    tables = ec2.describe_route_tables(Filters=[{"Name": "association.subnet-id", "Values": [subnet]}])["RouteTables"]
    if not tables:
        main = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
        tables = ec2.describe_route_tables(Filters=main)["RouteTables"]
    routes = [route for table in tables for route in table["Routes"]]
    return any(
        route.get("DestinationCidrBlock") == "0.0.0.0/0" and not str(route.get("GatewayId", "")).startswith("igw-")
        for route in routes
    )


def _concurrency(values: Mapping[str, str], client: Client, functions: int) -> Iterator[Finding]:
    limit = int(client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"])
    reserved = int(float(values["ReservedConcurrency"]))
    if reserved < 0:
        yield Finding(f"ReservedConcurrency=-1 of {limit}", "one busy function may take all of it", warning=True)
        return
    way_out = "set -1, and " if "OpenSearchEndpoint" in values else ""  # the small mode cannot do without
    most = max(0, (limit - UNRESERVED) // functions)
    remedy = (
        f"{functions} functions may reserve {most} each of this account's {limit}: set that"
        if most
        else f"this account has {limit} and keeps {UNRESERVED}: {way_out}ask for more (Service Quotas, Lambda)"
    )
    yield Finding(f"ReservedConcurrency={reserved} of {limit}", "" if reserved <= most else remedy)


def _key(values: Mapping[str, str], clients: Callable[[str], Client]) -> Iterator[Finding]:
    if values["KmsKeyArn"]:
        key = clients("kms").describe_key(KeyId=values["KmsKeyArn"])["KeyMetadata"]
        yield Finding("KmsKeyArn", "" if key["KeyState"] == "Enabled" else f"the key is {key['KeyState']}")
    if values.get("VoyageApiKeySecretArn"):
        clients("secretsmanager").describe_secret(SecretId=values["VoyageApiKeySecretArn"])
        yield Finding("VoyageApiKeySecretArn")


def _issuer(values: Mapping[str, str], fetch: Callable[[str], str]) -> Iterator[Finding]:
    """Check that the issuer publishes what API Gateway reads when the authorizer is made."""
    if values.get("Authorization", "jwt") != "jwt":
        return
    issuer = values["JwtIssuer"]
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        said = json.loads(fetch(address))
    except (OSError, ValueError) as error:
        yield Finding(f"JwtIssuer={issuer}", f"{address} cannot be read ({error}); API Gateway refuses such an issuer")
        return
    same = said.get("issuer") == issuer and "jwks_uri" in said
    yield Finding(
        f"JwtIssuer={issuer}", "" if same else f"it calls itself {said.get('issuer')!r}: tokens name that one"
    )


def _fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=WAIT_S) as answer:  # noqa: S310 - the template takes https:// only
        text: bytes = answer.read(1_000_000)
    return text.decode()
