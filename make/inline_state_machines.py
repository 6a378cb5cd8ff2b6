"""Write each state machine of the template where validators can read it.

SAM keeps a definition in a file of its own with ``${Name}`` in it; cfn-lint looks only into definitions that stand in
the template, and the ASL validator wants ARNs. Written to the folder given: ``<Name>.asl.json``, with sample ARNs, and
``state-machines.json``, a plain template that holds every definition inline.

Usage: ``python -m make.inline_state_machines FOLDER``
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from make.templates import read_template

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_ARN = "arn:aws:lambda:eu-west-1:123456789012:function:{name}"


def substituted(text: str, names: set[str]) -> str:
    """Return a definition's text with a sample ARN for each name.

    Raises
    ------
    ValueError
        If the text uses a name that the template does not give, or does not use one that it does.
    """
    used = set(re.findall(r"\$\{(\w+)\}", text))
    if used != names:
        message = f"definition uses {sorted(used)}, the template gives {sorted(names)}"
        raise ValueError(message)
    return re.sub(r"\$\{(\w+)\}", lambda match: SAMPLE_ARN.format(name=match[1]), text)


def main(folder: Path) -> None:
    """Write the files; say their names."""
    folder.mkdir(parents=True, exist_ok=True)
    inline: dict[str, Any] = {}
    for name, resource in read_template(ROOT / "template.yaml")["Resources"].items():
        if resource["Type"] != "AWS::Serverless::StateMachine":
            continue
        properties = resource["Properties"]
        text = (ROOT / properties["DefinitionUri"]).read_text(encoding="utf-8")
        definition = yaml.safe_load(substituted(text, set(properties["DefinitionSubstitutions"])))
        path = folder / f"{name}.asl.json"
        path.write_text(json.dumps(definition, indent=1), encoding="utf-8")
        print(path)
        inline[name] = {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {
                "StateMachineType": properties["Type"],
                "RoleArn": "arn:aws:iam::123456789012:role/sample",
                "Definition": definition,
            },
        }
    path = folder / "state-machines.json"
    path.write_text(json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": inline}), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
