"""``python -m tests.behaviour_map``: write docs/behaviour.md from tests/behaviour.toml.

The source lists what Braid does, a sentence at a time, and the tests that hold it to that. Nothing is run here: that a
test exists, and on which engines a contract runs, is read from the tests' syntax trees.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated

from braid.models import Frozen
from pydantic import Field

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests" / "behaviour.toml"
PAGE = ROOT / "docs" / "behaviour.md"
SUITES = ("tests/contract/test_*.py", "tests/engines/test_*.py")
"""Where classes run contracts on engines."""
EMBEDDED = "embedded"
DEPLOYED = "deployed"
ENGINES = {
    "embedded": EMBEDDED,
    "opensearch": "OpenSearch",
    "gremlin": "Gremlin",
    "dynamo": "AWS",
    "sqs": "AWS",
    "s3": "AWS",
}
"""Engines by what the name of such a class or of its file says, the class first; any other is deployed."""


class Sentence(Frozen):
    """One thing that Braid does."""

    id: Annotated[str, Field(pattern=r"^[1-9][0-9]*\.[1-9][0-9]*$")]
    says: Annotated[str, Field(min_length=1)]
    tests: tuple[str, ...] = ()
    """Node ids: file and function, with the class between them where there is one."""
    store: bool = False
    """Whether a store takes part, so that one of the tests has to run on the embedded and on a deployed engine."""
    pending: str | None = None
    """Who will prove it, where no test does yet."""


class Section(Frozen):
    """Sentences about one subject."""

    title: str
    sentence: tuple[Sentence, ...]


class Source(Frozen):
    """The whole list."""

    section: tuple[Section, ...]


def read(path: Path = SOURCE) -> Source:
    """Read the list."""
    return Source.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


def problems(source: Source, root: Path = ROOT) -> list[str]:
    """Return what is wrong with the list: numbers out of order, sentences without a test, tests that do not exist."""
    found = []
    for number, section in enumerate(source.section, start=1):
        for place, sentence in enumerate(section.sentence, start=1):
            if sentence.id != f"{number}.{place}":
                found.append(f"{sentence.id}: should be {number}.{place}")
            if not sentence.tests and not sentence.pending:
                found.append(f"{sentence.id}: no test, and nobody that will write one")
            found += [f"{sentence.id}: no test {node}" for node in sentence.tests if not _exists(node, root)]
            if sentence.store and not any(_on_both(engines(node, root)) for node in sentence.tests):
                found.append(f"{sentence.id}: no test of it runs on the embedded and on a deployed engine")
    return found


def engines(node: str, root: Path = ROOT) -> list[str]:
    """Return the engines that a test runs on when it is part of a contract, the embedded one first."""
    return sorted(_suites(root).get(_class_of(node), ()), key=lambda name: (name != EMBEDDED, name))


def page(source: Source, root: Path = ROOT) -> str:
    """Return the page, as Markdown."""
    sentences = [sentence for section in source.section for sentence in section.sentence]
    waiting = sum(sentence.pending is not None for sentence in sentences)
    lines = [
        "# What Braid does",
        "",
        f"{len(sentences)} sentences, and the tests that hold Braid to each"
        + (f"; {waiting} are not held by a test yet." if waiting else ".")
        + " Numbers are defaults; `layers/braid/braid/settings/__init__.py` lists them.",
        "Where a store takes part, the tests run on every engine that is named.",
        "",
        (
            "`make behaviour` writes this page from `tests/behaviour.toml`; a test fails when it is out of date, when a"
            " sentence has no test, or when a test that it names does not exist."
        ),
    ]
    for number, section in enumerate(source.section, start=1):
        lines += ["", f"## {number}. {section.title}", ""]
        for sentence in section.sentence:
            lines += [f"**{sentence.id}** {sentence.says}", *_proof(sentence, root), ""]
        lines.pop()
    return "\n".join(lines) + "\n"


def _proof(sentence: Sentence, root: Path) -> list[str]:
    lines = ["", "- *not yet*"] if sentence.pending else [""]
    for node in sentence.tests:
        path, _, name = node.partition("::")
        words = name.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        where = f" ({', '.join(names)})" if (names := engines(node, root)) else ""
        lines.append(f"- [{words}](../{path}){where}")
    return lines


def _class_of(node: str) -> str:
    """Return the class of a node id, empty for a function of a module."""
    return node.split("::")[1] if node.count("::") == 2 else ""


def _on_both(names: list[str]) -> bool:
    return EMBEDDED in names and len(names) > 1


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _exists(node: str, root: Path) -> bool:
    file, *names = node.split("::")
    path = root / file
    if not path.is_file():
        return False
    scope: list[ast.stmt] = _tree(path).body
    for name in names:
        inside = [each for each in scope if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == name]
        if not inside:
            return False
        scope = inside[0].body
    return len(names) > 0 and names[-1].startswith("test_")


@cache
def _suites(root: Path) -> dict[str, frozenset[str]]:
    """Return the engines that each contract class runs on."""
    suites: dict[str, set[str]] = {}
    for path in sorted(path for pattern in SUITES for path in root.glob(pattern)):
        for each in _tree(path).body:
            if isinstance(each, ast.ClassDef):
                for base in each.bases:
                    if isinstance(base, ast.Name):
                        suites.setdefault(base.id, set()).add(_engine(each.name, path.stem))
    return {name: frozenset(names) for name, names in suites.items()}


def _engine(class_name: str, file: str) -> str:
    for where in (class_name.lower(), file):
        for word, engine in ENGINES.items():
            if word in where:
                return engine
    return DEPLOYED


def main() -> int:
    """Write the page, unless the list is wrong."""
    source = read()
    wrong = problems(source)
    if wrong:
        sys.stderr.write("\n".join(wrong) + "\n")
        return 1
    PAGE.write_text(page(source), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
