"""The documentation keeps to what there is: commands, options, make targets, settings, links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from braid.settings import Settings
from pydantic import AliasChoices

from braid_cli.commands.mcp import TOKEN
from braid_cli.main import command_line

ROOT = Path(__file__).resolve().parents[3]
PATTERNS = ("README.md", "SECURITY.md", "docs/**/*.md", "braid_cli/demo/*.md", "bench/*.md")
DOCUMENTS = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
COMMAND = re.compile(r"(?m)^(?:\S+=\S+ +)*(?P<command>braid .+?)\s*(?:#.*)?$")
INLINE = re.compile(r"`(?P<command>braid [^`…]+)`")
BLOCK = re.compile(r"(?ms)^```[a-z]*\n(.*?)^```")
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#[^)]*)?\)")
NOT_OPTIONS = {"--help"}


def commands(text: str) -> list[str]:
    """Return every braid command of a document's code blocks and inline code."""
    blocks = "\n".join(BLOCK.findall(text))
    found = [match["command"] for match in COMMAND.finditer(blocks)]
    return found + [match["command"] for match in INLINE.finditer(BLOCK.sub("", text))]


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
        target = match["target"]
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), target


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
