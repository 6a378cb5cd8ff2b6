"""Make the stores of ``stores.yaml`` and write their places into ``samconfig.toml``.

The stack is named as the section's own, with ``-stores`` behind it, domain and cluster without that. It takes a quarter
of an hour. Repeating it updates the stack, and changes nothing that is as it should be.

Usage: ``python -m make.deploy_stores CONFIG [PARAMETER=VALUE …]``
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from make.templates import read_template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).resolve().parent.parent
SEARCH_SERVICE = "opensearchservice.amazonaws.com"
SEARCH_ROLE = "AWSServiceRoleForAmazonOpenSearchService"


def deploy(stack: str, given: list[str], aws: Callable[[list[str]], str]) -> dict[str, str]:
    """Create or update the stack, and return its outputs.

    Parameters
    ----------
    stack
        Its name.
    given
        Parameters, as ``NAME=VALUE``.
    aws
        Runs the AWS CLI, and returns what it says.

    Raises
    ------
    subprocess.CalledProcessError
        If the AWS CLI failed; it has said why.
    """
    try:
        aws(["iam", "get-role", "--role-name", SEARCH_ROLE])
    except subprocess.CalledProcessError:
        # An account has it since its first domain in a VPC, and can make none without.
        aws(["iam", "create-service-linked-role", "--aws-service-name", SEARCH_SERVICE])
    template = ["--template-file", str(ROOT / "stores.yaml"), "--capabilities", "CAPABILITY_AUTO_EXPAND"]
    overrides = ["--parameter-overrides", *given] if given else []
    aws(["cloudformation", "deploy", "--stack-name", stack, *template, "--no-fail-on-empty-changeset", *overrides])
    asked = ["--stack-name", stack, "--query", "Stacks[0].Outputs", "--output", "json"]
    outputs = json.loads(aws(["cloudformation", "describe-stacks", *asked]))
    return {output["OutputKey"]: output["OutputValue"] for output in outputs}


def written(text: str, section: str, outputs: Mapping[str, str]) -> str:
    """Return ``samconfig.toml`` with the outputs as a section's parameters; comments and all else stay as they are.

    Raises
    ------
    ValueError
        If the section has no list of parameters.
    """
    heading = f"[{section}.global.parameters]"
    before, found, rest = text.partition(heading)
    opening, opened, listed = rest.partition("parameter_overrides = [\n")
    if not found or not opened or "\n[" in opening:
        message = f"samconfig.toml: {heading} has no parameter_overrides, one a line"
        raise ValueError(message)
    listed, closing, after = listed.partition("]\n")
    lines = [
        line for line in listed.splitlines(keepends=True) if line.strip().partition("=")[0].strip('"') not in outputs
    ]
    added = [f'  "{name}={value}",\n' for name, value in outputs.items()]
    listed = "".join([*lines, *added])
    return before + found + opening + opened + listed + closing + after


def stack_name(samconfig: Path, section: str) -> str:
    """Return the name of a section's stack. Raises LookupError if ``samconfig.toml`` has no such section."""
    sections = tomllib.loads(samconfig.read_text(encoding="utf-8"))
    if section not in sections:
        message = f"samconfig.toml has no section {section}"
        raise LookupError(message)
    return str(sections[section]["global"]["parameters"]["stack_name"])


def run_aws(arguments: list[str]) -> str:
    """Run the AWS CLI and return what it prints; a deployment prints its progress instead."""
    quiet = arguments[1] != "deploy"
    return subprocess.run(["aws", *arguments], stdout=subprocess.PIPE if quiet else None, text=True, check=True).stdout  # noqa: S603, S607 - the AWS CLI on the PATH


def main(
    arguments: list[str], aws: Callable[[list[str]], str] = run_aws, samconfig: Path = ROOT / "samconfig.toml"
) -> int:
    """Make the stores of one section; return 1 if the section is not there or the AWS CLI failed."""
    parser = argparse.ArgumentParser(prog="make deploy-stores")
    parser.add_argument("config")
    parser.add_argument("parameters", nargs="*", metavar="NAME=VALUE")
    asked = parser.parse_args(arguments)
    known = read_template(ROOT / "stores.yaml")["Parameters"]
    if unknown := [each for each in asked.parameters if each.partition("=")[0] not in known]:
        print(f"{unknown[0]}: stores.yaml has {', '.join(known)}", file=sys.stderr)
        return 1
    try:
        stack = stack_name(samconfig, asked.config)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    named = any(each.startswith("Name=") for each in asked.parameters)
    given = asked.parameters if named else [f"Name={stack}", *asked.parameters]
    try:
        outputs = deploy(f"{stack}-stores", given, aws)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"{error}; samconfig.toml is as it was", file=sys.stderr)
        return 1
    samconfig.write_text(written(samconfig.read_text(encoding="utf-8"), asked.config, outputs), encoding="utf-8")
    print(f"samconfig.toml [{asked.config}] has {', '.join(outputs)}; next: make deploy-check CONFIG={asked.config}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
