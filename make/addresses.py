"""Print where the stores of a deployed stack are, as variables of the command line on a machine that reaches them.

They are those of its functions, so that what is written from there is written as a function writes it.

Usage: ``python -m make.addresses CONFIG``
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from make.deploy_stores import run_aws, stack_name

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
FUNCTIONS = ("IngestFunction", "ReembedFunction", "SearchApiFunction", "FuseRerankFunction")
"""They know all stores, tables and queues between them."""
ADDRESSES = re.compile(
    r"BRAID_(ENGINE|GRAPH|MODEL_PROFILE|EMBEDDING_MODEL|ALLOW_SUPPLIED_VECTORS"
    r"|(OPENSEARCH|NEPTUNE)_(?!\w*TIMEOUT)\w+|\w+_(TABLE|BUCKET|QUEUE_URL))"
)


def addresses(stack: str, aws: Callable[[list[str]], str]) -> dict[str, str]:
    """Return the variables by name.

    Parameters
    ----------
    stack
        Name of the deployed stack.
    aws
        Runs the AWS CLI, and returns what it says.

    Raises
    ------
    subprocess.CalledProcessError
        If the AWS CLI failed; it has said why.
    """
    found: dict[str, str] = {}
    for function in FUNCTIONS:
        asked = ["--stack-name", stack, "--logical-resource-id", function]
        resource = ["cloudformation", "describe-stack-resource", *asked]
        name = aws([*resource, "--query", "StackResourceDetail.PhysicalResourceId", "--output", "text"]).strip()
        configuration = ["lambda", "get-function-configuration", "--function-name", name]
        variables = json.loads(aws([*configuration, "--query", "Environment.Variables", "--output", "json"]))
        found |= {name: value for name, value in variables.items() if value and ADDRESSES.fullmatch(name)}
    return dict(sorted(found.items()))


def main(
    arguments: list[str], aws: Callable[[list[str]], str] = run_aws, samconfig: Path = ROOT / "samconfig.toml"
) -> int:
    """Print the variables of one section's stack; return 1 if the section is not there or the AWS CLI failed."""
    parser = argparse.ArgumentParser(prog="make addresses")
    parser.add_argument("config")
    config = parser.parse_args(arguments).config
    try:
        found = addresses(stack_name(samconfig, config), aws)
    except (LookupError, subprocess.CalledProcessError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in found.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
