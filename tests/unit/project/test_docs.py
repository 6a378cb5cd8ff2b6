"""The documentation keeps to what there is: commands, options, make targets, settings, links."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer.main
from botocore import xform_name
from braid.models import Filters, Question
from braid.settings import Settings
from braid.version import __version__
from pydantic import AliasChoices

from braid_cli.commands.mcp import TOKEN
from braid_cli.main import command_line
from tests.documented import DOCUMENTS as WITH_BLOCKS
from tests.documented import blocks

ROOT = Path(__file__).resolve().parents[3]
PATTERNS = ("README.md", "SECURITY.md", "docs/**/*.md", "braid_cli/demo/*.md", "bench/*.md")
DOCUMENTS = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
COMMAND = re.compile(r"(?m)^(?:\S+=\S+ +)*(?P<command>braid .+?)\s*(?:#.*)?$")
INLINE = re.compile(r"`(?P<command>braid [^`…]+)`")
BLOCK = re.compile(r"(?ms)^```[^\n]*\n(.*?)^```")
LINK = re.compile(r"\]\((?P<target>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
LINKED = re.compile(r"\[([^\]]*)\]\([^)]*\)")
HEADING = re.compile(r"(?m)^#+ (.*)$")
NOT_OPTIONS = {"--help"}
LANGUAGES = {"sh", "python", "json", "text", "http", "mermaid"}
NESTED = re.compile(r"\$\(([^()]*)\)")
AWS = re.compile(r"(?:^|[\s(])aws (?P<service>[a-z0-9]+) (?P<operation>[a-z-]+)(?P<rest>[^\n|]*)")
OF_THE_COMMAND_LINE = {"region", "query", "output", "profile", "max-items", "cli-binary-format"}
NO_OPERATIONS = {"configure", "cloudformation deploy", "s3 cp", "s3 ls", "s3 rb"}
OVERRIDE = re.compile(r"--parameter-overrides ((?:\w+=\S+ *)+)")


def commands(text: str) -> list[str]:
    """Return every braid command of a document's code blocks and inline code."""
    blocks = "\n".join(BLOCK.findall(text))
    found = [match["command"] for match in COMMAND.finditer(blocks)]
    return found + [match["command"] for match in INLINE.finditer(BLOCK.sub("", text))]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", LINKED.sub(r"\1", each).strip().lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_the_documentation_exists_with_its_options(document: Path) -> None:
    root = typer.main.get_command(command_line())
    for line in commands(document.read_text(encoding="utf-8")):
        words = shlex.split(line)[1:]
        command: Any = root
        while (known := getattr(command, "commands", None)) and words and not words[0].startswith("-"):
            assert words[0] in known, f"{line}: no command {words[0]}"
            command = known[words.pop(0)]
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        for word in words:
            if word.startswith("--"):
                assert word.split("=")[0] in options | NOT_OPTIONS, f"{line}: no option {word}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_the_documentation_leads_somewhere(document: Path) -> None:
    for match in LINK.finditer(document.read_text(encoding="utf-8")):
        target, anchor = match["target"], match["anchor"]
        if not target.startswith(("http://", "https://")):
            page = document.parent / target if target else document
            assert page.exists(), target
            if anchor and page.suffix == ".md":
                assert anchor in anchors(page), f"{target}#{anchor}"


def test_every_make_target_of_the_documentation_exists() -> None:
    makefiles = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "Makefile", *ROOT.glob("make/*.mk")))
    targets = set(re.findall(r"(?m)^([a-z0-9-]+)(?: [a-z0-9-]+)*:", makefiles))
    for document in DOCUMENTS:
        for name in re.findall(r"(?m)(?:^|`)make ([a-z0-9-]+)", document.read_text(encoding="utf-8")):
            assert name in targets, f"{document.name}: make {name}"


def test_every_setting_of_the_documentation_exists() -> None:
    aliases = (field.validation_alias for field in Settings.model_fields.values())
    known = {f"BRAID_{name.upper()}" for name in Settings.model_fields}
    known |= {TOKEN}  # of a client of the deployed interface
    known |= {str(name) for alias in aliases if isinstance(alias, AliasChoices) for name in alias.choices}
    for document in DOCUMENTS:
        for name in re.findall(r"BRAID_[A-Z][A-Z0-9_]*[A-Z0-9]", document.read_text(encoding="utf-8")):
            assert name in known, f"{document.name}: {name}"


def test_every_fence_says_a_language_that_is_known() -> None:
    for document in (path for path in WITH_BLOCKS if path.suffix == ".md"):
        found = blocks(document)
        assert {block.language for block in found} <= LANGUAGES, document
        assert 2 * len(found) == len(re.findall(r"(?m)^ *```", document.read_text(encoding="utf-8"))), document


def test_every_json_of_the_documentation_is_json() -> None:
    for block in (block for document in WITH_BLOCKS for block in blocks(document) if block.language == "json"):
        try:
            json.loads(block.text)
        except ValueError:  # lines of it, then
            assert [json.loads(line) for line in block.text.splitlines()], block.place


def test_every_call_of_aws_is_an_operation_with_such_parameters() -> None:
    session = boto3.Session(region_name="eu-west-1")
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8").replace("\\\n", " ")
        code = "\n".join([*BLOCK.findall(text), *re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))])
        commands = [*NESTED.findall(code), NESTED.sub("", code)]  # what stands in $( ) has options of its own
        for call in (call for command in commands for call in AWS.finditer(command)):
            service, operation = call["service"], call["operation"]
            given = set(re.findall(r"(?<=\s--)(?:no-)?([a-z-]+)", call["rest"])) - OF_THE_COMMAND_LINE
            if {service, f"{service} {operation}"} & NO_OPERATIONS:
                continue
            model = session.client(service).meta.service_model
            names = {xform_name(name, "-"): name for name in model.operation_names}
            assert operation in names, f"{document.name}: {call[0]}"
            known = {xform_name(name, "-") for name in model.operation_model(names[operation]).input_shape.members}
            assert given <= known, f"{document.name}: {call[0]}: {given - known}"


def test_every_parameter_that_is_overridden_is_one_of_the_template() -> None:
    template = (ROOT / "template.yaml").read_text(encoding="utf-8").partition("\nResources:")[0]
    known = set(re.findall(r"(?m)^  (\w+):$", template))
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8").replace("\\\n", " ")
        for given in OVERRIDE.findall(text):
            names = {pair.partition("=")[0] for pair in given.split()}
            assert names <= known, f"{document.name}: {names - known}"


def test_what_is_installed_has_the_version_and_the_extras_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert set(re.findall(r"braid_retrieval-(\d+\.\d+\.\d+)-py3", text)) <= {__version__}, document
        assert set(re.findall(r"\.whl\[(\w+)\]", text)) <= set(extras), document


def test_every_field_of_a_question_and_of_its_filters_is_described() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    _, _, section = page.partition("### Fields of a question\n")
    tables = section.partition("\n`filters.metadata`")[0]
    of_question, of_filters = (
        {name for row in re.findall(r"(?m)^\| (`[^|]*`) \|", table) for name in re.findall(r"`(\w+)`", row)}
        for table in tables.split("| field of `filters` |")
    )
    assert of_question == set(Question.model_fields)
    assert of_filters == set(Filters.model_fields)
