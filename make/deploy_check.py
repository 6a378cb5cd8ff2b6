"""Say what a deployment still lacks, before anything is created: ``make deploy-check CONFIG=dev``.

Reads ``samconfig.toml`` and the template's parameters and rules as SAM and CloudFormation will, looks for the tools of
the build, and, where there are credentials, asks the account for what the parameters name. Nothing is changed.

Usage: ``python -m make.deploy_check CONFIG [--offline]``; the exit status is 1 if anything is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from braid.errors import ConfigurationError
from braid.models.embedding_models import AUTO, models_of
from braid.settings import read_settings
from braid.settings.configuration_files import load_profiles

from make.deploy_account import Finding, account
from make.templates import read_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = "SET-ME"
SMALL = "small.yaml"
"""The template of the small mode, one of whose functions reserves one execution."""
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1).)*)\1""")
LONGEST_STACK_NAME = 70
"""The names of log groups, policies and state machines begin with it."""
PYTHON = "3.13"
MEMORY_A_WEIGHT, MEMORY_BESIDE_MB = 1.6, 350
"""Memory that loading a model takes, as a multiple of its weights, and what a function has besides; see 0191."""


def configuration(samconfig: Mapping[str, Any], name: str) -> tuple[dict[str, str], list[Finding]]:
    """Return the parameters that one section of ``samconfig.toml`` gives, and what is wrong with the section."""
    if name not in samconfig:
        known = ", ".join(key for key in samconfig if key != "version")
        return {}, [Finding(f"samconfig.toml [{name}]", f"there is no such section; there are {known}")]
    found: list[Finding] = []
    section = {command: given.get("parameters", {}) for command, given in samconfig[name].items()}
    unread = "is read by this command alone, so that images and deployment differ (sam deploy --guided saves it here)"
    found += [
        Finding(
            f"[{name}.{command}.parameters] parameter_overrides", f"{unread}; move it to [{name}.global.parameters]"
        )
        for command in sorted(section.keys() - {"global"})
        if "parameter_overrides" in section[command]
    ]
    general = section.get("global", {})
    if general.get("language_extensions") is not True:
        found.append(
            Finding("language_extensions", f"set it to true in [{name}.global.parameters]: the template has loops")
        )
    stack = str(general.get("stack_name", ""))
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9-]{{0,{LONGEST_STACK_NAME - 1}}}", stack):
        wanted = f"letters, digits and hyphens, {LONGEST_STACK_NAME} at most"
        found.append(Finding(f"stack_name {stack!r}", f"set it in [{name}.global.parameters]: {wanted}"))
    given = general.get("parameter_overrides", [])
    pairs = given.split() if isinstance(given, str) else given
    values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    for key, value in values.items():
        if quoted := _QUOTED.fullmatch(value):
            values[key] = re.sub(r"\\(.)", r"\1", quoted[2])
        elif re.search(r"[\s\"']", value):
            remedy = (
                f"""write {key}='{value}': SAM reads a value to the first space or quote, unless all of it is quoted"""
            )
            found.append(Finding(f"{key}={value}", remedy))
    return values, found


def values_of(template: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Return every parameter's value: that given, else the default, else nothing."""
    return {name: str(given.get(name, item.get("Default", ""))) for name, item in template["Parameters"].items()}


def parameters(template: Mapping[str, Any], given: Mapping[str, str]) -> Iterator[Finding]:
    """Check each parameter as CloudFormation does, one by one."""
    known = template["Parameters"]
    for name in sorted(given.keys() - known.keys()):
        yield Finding(name, "the template has no such parameter")
    for name, item in known.items():
        if name not in given and "Default" not in item:
            yield Finding(name, f"needs a value: {item['Description']}")
        elif given.get(name) == PLACEHOLDER:
            yield Finding(name, f"is still {PLACEHOLDER}: {item['Description']}")
        elif name in given and (why := _refused(item, given[name])):
            yield Finding(f"{name}={given[name]}", why)


def _refused(item: Mapping[str, Any], value: str) -> str:
    """Return why CloudFormation would refuse a value; nothing if it would not."""
    if "AllowedValues" in item and value not in {str(each) for each in item["AllowedValues"]}:
        return "is none of " + ", ".join(str(each) or '""' for each in item["AllowedValues"])
    members = value.split(",") if item["Type"] == "CommaDelimitedList" else [value]
    if "AllowedPattern" in item and not all(re.fullmatch(item["AllowedPattern"], each.strip()) for each in members):
        return str(item.get("ConstraintDescription", f"has to match {item['AllowedPattern']}"))
    if item["Type"] == "Number":
        try:
            number = float(value)
        except ValueError:
            return "is no number"
        if not float(item.get("MinValue", number)) <= number <= float(item.get("MaxValue", number)):
            return f"has to be {item.get('MinValue', 'anything')} to {item.get('MaxValue', 'anything')}"
    return "is empty" if item.get("MinLength") and not value else ""


def rules(template: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[Finding]:
    """Check what the template's rules say of parameters together."""
    lists = {name for name, item in template["Parameters"].items() if item["Type"] == "CommaDelimitedList"}
    given: dict[str, object] = {name: value.split(",") if name in lists else value for name, value in values.items()}
    for rule in template["Rules"].values():
        if _evaluated(rule.get("RuleCondition", True), given):
            for each in rule["Assertions"]:
                if not _evaluated(each["Assert"], given):
                    yield Finding("rule", each["AssertDescription"])


RULE_FUNCTIONS: dict[str, Callable[..., object]] = {
    "Fn::Not": lambda part: not part,
    "Fn::Equals": lambda one, other: str(one) == str(other),
    "Fn::And": lambda *parts: all(parts),
    "Fn::Or": lambda *parts: any(parts),
    "Fn::Contains": lambda within, part: part in within,
}


def _evaluated(part: object, values: Mapping[str, object]) -> object:
    """Return what an expression of a rule comes to."""
    if not isinstance(part, dict):
        return part
    ((name, argument),) = part.items()
    if name == "Ref":
        return values[argument]
    return RULE_FUNCTIONS[name](*(_evaluated(each, values) for each in argument))


def settings(template: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[Finding]:
    """Check the settings that all functions get as they do themselves: one that they refuse stops each at its start.

    What names a resource of the template is not known yet, and taken to be right.
    """
    variables = template.get("Globals", {}).get("Function", {}).get("Environment", {}).get("Variables", {})
    named = {name: each["Ref"] for name, each in variables.items() if isinstance(each, dict) and "Ref" in each}
    given = {name: values.get(parameter, "made-later") for name, parameter in named.items()}
    given |= {name: each for name, each in variables.items() if isinstance(each, str)}
    others = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    with patch.dict(os.environ, others | {n: v for n, v in given.items() if n.startswith("BRAID_")}, clear=True):
        try:
            read_settings()
        except ConfigurationError as error:
            yield Finding("settings of the functions", f"{error}: each of them would fail at its start")


def memory_mb(values: Mapping[str, str], shared: Path = ROOT / "shared") -> int:
    """Return the memory in MB that the models of the profiles need when all are loaded; 0 where it is not known."""
    profiles = load_profiles(shared)
    names = [name for name in (values["ModelProfile"], values.get("NextModelProfile")) if name]
    models = {model.id: model for name in names for model in models_of(profiles, name)}
    forced = values.get("EmbeddingModel", AUTO)
    if forced in {model.id for model in profiles.models}:
        models = {forced: profiles.model(forced)}
    weights = [model.weights_mb for model in models.values()]
    return 0 if None in weights else round(MEMORY_BESIDE_MB + MEMORY_A_WEIGHT * sum(filter(None, weights)))


def together(values: Mapping[str, str]) -> Iterator[Finding]:
    """Check what no rule of a template can: sizes, and that the parameters speak of the same place."""
    needed, memory = memory_mb(values), "EncoderMemory" if "EncoderMemory" in values else "Memory"
    if float(values[memory]) < needed:
        yield Finding(
            f"{memory}={values[memory]}",
            f"the models of {values['ModelProfile']} take about {needed} MB when all are loaded; set that or more",
        )
    if "SubnetIds" not in values:  # small.yaml makes its own, and has no stores
        return
    models = {AUTO, *(model.id for model in load_profiles(ROOT / "shared").models)}
    if (model := values["EmbeddingModel"]) not in models:
        yield Finding(f"EmbeddingModel={model}", f"nothing would be embedded; known are {', '.join(sorted(models))}")
    reserved, ready = float(values["ReservedConcurrency"]), float(values["ProvisionedConcurrency"])
    if reserved == 0:
        yield Finding("ReservedConcurrency=0", "no function would ever run")
    elif 0 < reserved < ready:
        yield Finding(f"ReservedConcurrency={reserved:g}", f"Lambda keeps no {ready:g} containers ready of these")
    subnets = [each for each in values["SubnetIds"].split(",") if each and each != PLACEHOLDER]
    if not values["SubnetIds"]:
        yield Finding(
            "SubnetIds is empty",
            "functions then reach public endpoints only, and Neptune has none unless it was made with one",
            warning=not re.search(
                r"//(vpc-|[^/]*[.]cluster-)", values["OpenSearchEndpoint"] + values["NeptuneEndpoint"]
            ),
        )
    elif len(subnets) == 1:
        yield Finding("SubnetIds", "name two, in two zones: with one the functions stop where its zone does")
    arns = [(name, values[name].split(":")) for name in values if values[name].startswith("arn:")]
    regions = {name: arn[3] for name, arn in arns if arn[2] in ("es", "aoss", "kms", "secretsmanager")}
    if len(set(regions.values())) > 1:
        yield Finding("regions", ", ".join(f"{name} is in {region}" for name, region in regions.items()))
    service = values["OpenSearchResourceArn"].split(":")[2:3]
    if service and service != [values["OpenSearchService"]]:
        yield Finding(
            f"OpenSearchService={values['OpenSearchService']}", f"OpenSearchResourceArn is one of {service[0]}"
        )


def tools(values: Mapping[str, str], output: Callable[[tuple[str, ...]], str | None]) -> Iterator[Finding]:
    """Check what `sam build` and `sam deploy` run.

    Parameters
    ----------
    values
        The parameters.
    output
        Runs a command, and returns what it says, or None if it fails or there is none.
    """
    said = output((f"python{PYTHON}", "-c", "import sys; print(sys.version.split()[0])"))
    where = f"Python {PYTHON} as python{PYTHON} on the PATH"
    right = (said or "").startswith(PYTHON)
    why = "sam build makes the layer with it; install it, or have your version manager select it (pyenv shell 3.13)"
    yield Finding(where, "" if right else why)
    sam = output(("sam", "--version")) or ""
    new = [int(each) for each in re.findall(r"\d+", sam)[:2]] >= [1, 170]
    yield Finding("AWS SAM CLI", "" if new else "install 1.170 or newer, as sam on the PATH: older ones know no loops")
    machine = output(("docker", "info", "--format", "{{.Architecture}}"))
    yield Finding(
        "Docker", "" if machine else "functions are container images; start an engine that `docker info` finds"
    )
    if machine:
        own = "arm64" if machine.strip() in ("aarch64", "arm64") else "x86_64"
        if own != values["Architecture"]:
            other = "arm64" if values["Architecture"] == "arm64" else "amd64"
            emulate = f"docker run --privileged --rm tonistiigi/binfmt --install {other}"
            remedy = f"set Architecture={own}, or have Docker emulate: {emulate}"
            yield Finding(f"images for {values['Architecture']} on {own}", remedy, warning=True)
    is_second = (output(("aws", "--version")) or "").startswith("aws-cli/2")
    yield Finding("AWS CLI 2", "" if is_second else "install it, as aws on the PATH: the first has no `configure sso`")


def _output(command: tuple[str, ...]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - named above
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout.strip()


def check(name: str, *, offline: bool, output: Callable[[tuple[str, ...]], str | None] = _output) -> list[Finding]:
    """Return everything that was found of one section of ``samconfig.toml``."""
    samconfig = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    given, found = configuration(samconfig, name)
    if not given and found:
        return found
    file = samconfig[name].get("build", {}).get("parameters", {}).get("template_file", "template.yaml")
    template = read_template(ROOT / file)
    wrong = [*found, *parameters(template, given)]
    values = values_of(template, given)
    wrong += [*rules(template, values), *((*together(values), *settings(template, values)) if not wrong else ())]
    found = wrong or [Finding(f"{len(given)} parameters of [{name}], and the template's rules")]
    found += tools(values, output)
    if offline or wrong:
        return [
            *found,
            Finding("account", "not asked" if offline else "asked once the parameters are right", warning=True),
        ]
    general = samconfig[name]["global"]["parameters"]
    region = general.get("region") or os.environ.get("AWS_REGION")
    functions = _functions(template, values)
    if file == SMALL:
        values, functions = values | {"ReservedConcurrency": "1"}, 1
    return [*found, *account(values, region=region, functions=functions, stack=general["stack_name"])]


def _functions(template: Mapping[str, Any], values: Mapping[str, str]) -> int:
    """Return how many functions are deployed; a conditional one only where answers are a function's."""
    found = [item for item in template["Resources"].values() if item["Type"] == "AWS::Serverless::Function"]
    return sum("Condition" not in item or values.get("AnswerMode") == "function" for item in found)


def main(arguments: list[str]) -> int:
    """Show what was found; return 1 if anything is missing."""
    parser = argparse.ArgumentParser(prog="make deploy-check")
    parser.add_argument("config")
    parser.add_argument("--offline", action="store_true")
    asked = parser.parse_args(arguments)
    found = check(asked.config, offline=asked.offline)
    for each in found:
        print(each.line())
    missing = sum(bool(each.remedy) and not each.warning for each in found)
    print(
        f"\n{missing} missing: nothing was created" if missing else "\nnothing is missing: sam build, then sam deploy"
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
