"""A package's docstring is its map: it names every module and package in it, and none that is not there.

So is docs/architecture.md the map of the whole, and what it names is there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "layers" / "braid" / "braid"
COMMAND_LINE = ROOT / "braid_cli"

IN_AN_ENTRY = re.compile(r"``(\w+)``")
IN_ONE = re.compile(r"`(\w+)`")
IN_A_TREE = re.compile(r"(?<!\S)(\w+)(?:\.py|/)(?!\S)")

NAMED_ELSEWHERE = {
    LIBRARY: "docs/architecture.md is the map of the whole",
    COMMAND_LINE / "commands": "a module is named as its command is",
    LIBRARY / "ingestion" / "documents" / "readers": "a module is named as its format is",
}


def _packages() -> list[Path]:
    found = (path.parent for root in (LIBRARY, COMMAND_LINE) for path in sorted(root.rglob("__init__.py")))
    return [package for package in found if package not in NAMED_ELSEWHERE]


def _inside(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def _docstring(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize("package", _packages(), ids=lambda package: str(package.relative_to(ROOT)))
def test_a_package_names_each_of_its_modules(package: Path) -> None:
    docstring = _docstring(package)
    named = set(IN_AN_ENTRY.findall(docstring)) | set(IN_A_TREE.findall(docstring))
    assert _inside(package) - named == set()


@pytest.mark.parametrize("package", _packages(), ids=lambda package: str(package.relative_to(ROOT)))
def test_a_package_names_no_module_that_it_lacks(package: Path) -> None:
    first_words = re.findall(r"^- ((?:``\w+``(?:, | and )?)+)", _docstring(package), re.MULTILINE)
    entries = {name for words in first_words for name in IN_AN_ENTRY.findall(words)}
    entries |= set(IN_A_TREE.findall(_docstring(package)))
    inside = _inside(package) | {path.name for path in package.iterdir() if path.is_dir()}
    assert entries - inside == set()


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## Stages")[0]
SOURCES = ("layers", "braid_cli", "functions", "shared")
OF_THE_PROJECT = {
    path.relative_to(ROOT).as_posix()
    for top in SOURCES
    for path in (ROOT / top).rglob("*")
    if path.suffix in {".py", ".yaml", ".json"}
} | {path.name for path in ROOT.glob("*.yaml")}


def _files_called(name: str) -> list[str]:
    return [path for path in OF_THE_PROJECT if path == name or path.endswith(f"/{name}")]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([\w/.]+\.(?:py|yaml))`", ARCHITECTURE))))
def test_a_file_that_the_architecture_names_is_there(name: str) -> None:
    assert _files_called(name)


@pytest.mark.parametrize(
    ("names", "file"), re.findall(r"((?:`\w+`(?:, | and )?)+) in `([\w/.]+\.py)`", ARCHITECTURE), ids=str
)
def test_what_the_architecture_places_in_a_file_is_defined_there(names: str, file: str) -> None:
    texts = [(ROOT / path).read_text(encoding="utf-8") for path in _files_called(file)]
    for name in IN_ONE.findall(names):
        assert any(re.search(rf"^\s*(?:async def |def |class )?{name}\b", text, re.MULTILINE) for text in texts), name
