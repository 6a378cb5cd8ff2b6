"""Read CloudFormation templates with their short forms written out and their loops unrolled.

Loops are ``Fn::ForEach`` of the transform ``AWS::LanguageExtensions``. CloudFormation, the SAM CLI and cfn-lint unroll
them by themselves; checkov, LocalStack and our tests do not, and read what this module makes of them.

Usage: ``python -m make.templates FOLDER FILE…`` writes each file to the folder, unrolled, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

LOOP = "Fn::ForEach::"


class _Loader(yaml.SafeLoader):
    """Reads ``!Ref`` and its like as the mappings that they are short for."""


def _intrinsic(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, object]:
    value: object
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    else:
        raise TypeError(node)
    if name == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {name if name in ("Ref", "Condition") else f"Fn::{name}": value}


_Loader.add_multi_constructor("!", _intrinsic)


def read_template(path: Path) -> dict[str, Any]:
    """Return a template with its short forms written out and its loops unrolled."""
    template: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    mappings = template.get("Mappings", {})
    return {section: _unrolled(value, mappings) for section, value in template.items()}


def _unrolled(part: object, mappings: dict[str, Any]) -> object:
    if isinstance(part, list):
        return [_unrolled(each, mappings) for each in part]
    if not isinstance(part, dict):
        return part
    found: dict[str, object] = {}
    for key, value in part.items():
        if key.startswith(LOOP):
            variable, items, body = value
            for item in items:
                for name, made in body.items():
                    made_now = _filled(made, variable, item, mappings)
                    found[name.replace(f"${{{variable}}}", item)] = _unrolled(made_now, mappings)
        else:
            found[key] = _unrolled(value, mappings)
    return found


def _filled(part: object, variable: str, item: str, mappings: dict[str, Any]) -> object:
    """Return a part of a loop's body for one item: with the loop's variable and what is looked up by it as values."""
    if isinstance(part, str):
        return part.replace(f"${{{variable}}}", item)
    if isinstance(part, list):
        return [_filled(each, variable, item, mappings) for each in part]
    if not isinstance(part, dict):
        return part
    if part == {"Ref": variable}:
        return item
    filled = {key: _filled(value, variable, item, mappings) for key, value in part.items()}
    match filled:
        case {"Fn::FindInMap": [str(mapping), str(first), str(second)]}:
            return mappings[mapping][first][second]
        case {"Fn::Sub": [str(text), dict(given)]}:
            for name in [name for name, value in given.items() if isinstance(value, str)]:
                text = text.replace(f"${{{name}}}", given.pop(name))
            return {"Fn::Sub": [text, given] if given else text}
        case {"Fn::Sub": str(text)} if "${" not in text:
            return text
    return filled


def main(folder: Path, files: list[Path]) -> None:
    """Write the templates; say their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        path = folder / f"{file.stem}.json"
        path.write_text(json.dumps(read_template(file), indent=1), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
