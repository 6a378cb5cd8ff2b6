"""Readers of source code: Python by its syntax tree, other languages by the lines that begin a definition."""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING, Final

from braid.ingestion.documents.document import Document, Section, bounded
from braid.ingestion.documents.readers.text import decode, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ingestion.documents.document import Plain, Source

LANGUAGES: Final = {
    ".c": "C",
    ".h": "C",
    ".cc": "C++",
    ".cpp": "C++",
    ".hpp": "C++",
    ".cs": "C#",
    ".go": "Go",
    ".java": "Java",
    ".js": "JavaScript",
    ".jsx": "JavaScript",
    ".mjs": "JavaScript",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".kt": "Kotlin",
    ".scala": "Scala",
    ".swift": "Swift",
    ".rb": "Ruby",
    ".php": "PHP",
    ".rs": "Rust",
    ".r": "R",
    ".lua": "Lua",
    ".pl": "Perl",
    ".sh": "Shell",
    ".bash": "Shell",
    ".ps1": "PowerShell",
    ".sql": "SQL",
    ".css": "CSS",
    ".scss": "CSS",
    ".yaml": "YAML",
    ".yml": "YAML",
    ".toml": "TOML",
    ".ini": "INI",
    ".cfg": "INI",
    ".tf": "Terraform",
    ".proto": "Protocol Buffers",
    ".graphql": "GraphQL",
    ".xml": "XML",
    ".ex": "Elixir",
    ".hs": "Haskell",
    ".clj": "Clojure",
    ".dart": "Dart",
    ".jl": "Julia",
    ".vue": "Vue",
    ".m": "Objective-C",
}
"""Languages by suffix, besides Python."""
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|pub|inline|extern)\s+)*"
)
_DEFINITION = re.compile(
    rf"^{_MODIFIERS}(?:function\*?|func|fun|fn|def|class|interface|struct|enum|trait|impl|module|namespace|type|object|"
    rf"sub|CREATE\s+(?:OR\s+REPLACE\s+)?(?:TABLE|VIEW|FUNCTION|PROCEDURE))\s+(?:\([^)\n]*\)\s*)?(?P<name>[\w$.:<>]+)",
    re.IGNORECASE,
)
_ABOVE = ("//", "#", "/*", " *", "*", "--", "@", '"""', "[")
"""Beginnings of lines that belong to the definition below them: comments, decorators, attributes."""


def read_python(source: Source) -> Document:
    """Read Python: a section for each function and method, and for the lines between them."""
    text = decode(source.content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that are wrong in the file, not here
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _document(text, source, "Python")
    sections = list(_python(text.split("\n"), tree))
    return Document(_title(source), "code", bounded(sections, source.limits), {"language": "Python"})


def _python(lines: list[str], tree: ast.Module) -> Iterator[Section]:
    """Yield each function and method, and the lines between them, under the name of their class."""
    begin = 0
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first, end = _first_line(node), node.end_lineno or node.lineno
        yield _code(lines, begin, first)
        begin = first
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield _code(lines, begin, _first_line(inner), node.name)
                    begin = inner.end_lineno or inner.lineno
                    yield _code(lines, _first_line(inner), begin, node.name, inner.name)
            yield _code(lines, begin, end, node.name)
        else:
            yield _code(lines, first, end, node.name)
        begin = end
    yield _code(lines, begin, len(lines))


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1


def _code(lines: list[str], begin: int, end: int, *heading: str) -> Section:
    return Section("\n".join(lines[begin:end]), heading, line=begin + 1)


def read_code(source: Source) -> Document:
    """Read source code of any language: a section for every definition that begins without indentation."""
    return _document(decode(source.content), source, LANGUAGES.get(source.suffix))


def _document(text: str, source: Source, language: str | None) -> Document:
    metadata: dict[str, Plain] = {"language": language} if language else {}
    return Document(_title(source), "code", bounded(_definitions(text.split("\n")), source.limits), metadata)


def _title(source: Source) -> str:
    """Return a file's name with its suffix: ``app.py`` is not ``app.js``."""
    return one_line(source.name.rsplit("/", 1)[-1])


def _definitions(lines: list[str]) -> Iterator[Section]:
    begin, heading = 0, tuple[str, ...]()
    for number, line in enumerate(lines):
        found = _DEFINITION.match(line[:500])
        if found is None:
            continue
        first = number
        while first > begin and lines[first - 1].startswith(_ABOVE):
            first -= 1
        yield _code(lines, begin, first, *heading)
        begin, heading = first, (found["name"].rstrip("<:"),)
    yield _code(lines, begin, len(lines), *heading)
