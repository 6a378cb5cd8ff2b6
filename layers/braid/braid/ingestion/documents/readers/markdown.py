"""Reader of Markdown with front matter; notebooks use its parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Document, Section, bounded, plain_fields
from braid.ingestion.documents.readers.hidden_html_in_markdown import without_hidden
from braid.ingestion.documents.readers.html import text_of
from braid.ingestion.documents.readers.text import HeadingPath, decode, one_line, only_title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ingestion.documents.document import Plain, Source

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_MATTER_CHARACTERS = 64 * 1024
_NAMED = re.compile(r"^([\w-][^:\n]{0,80}):(?=\s)", re.MULTILINE)
"""Name of a value in front matter; what follows, up to the next one, is the value."""
# Brackets nest one level at most, and repetitions are possessive, so that time is linear in a line of brackets.
_WORDS = r"\[((?:[^\[\]\n]|\[[^\[\]\n]*+\])*+)\]"
_ADDRESS = r"\((?:[^()\s]|\([^()\s]*+\))*+(?:\s++\"[^\"\n]*+\")?+\)"
_IMAGE = re.compile(f"!{_WORDS}{_ADDRESS}")
_LINK = re.compile(f"{_WORDS}{_ADDRESS}")


def read_markdown(source: Source) -> Document:
    """Read Markdown: front matter is metadata, the first heading of level one the title, the others the structure."""
    text, metadata = front_matter(decode(source.content))
    sections = list(markdown_sections(text))
    title = only_title(sections) or source.stem
    return Document(title, "markdown", bounded(sections, source.limits)).stating(metadata)


def front_matter(text: str) -> tuple[str, dict[str, Plain]]:
    """Return a text with its front matter blanked, line by line, and the plain values and lists in it.

    Values that are nested deeper are left out. A value that is not YAML, such as ``title: Policy: parking``, is the
    text after the first colon. Lines between two rules without any names are text, and are kept.
    """
    found = _FRONT_MATTER.match(text[:_FRONT_MATTER_CHARACTERS])
    values = _values(found[1]) if found else None
    if found is None or values is None:
        return text, {}
    rest = "\n" * found[0].count("\n") + text[found.end() :]
    return rest, plain_fields(values)


def _values(front_matter: str) -> dict[Any, Any] | None:
    """Return the values of front matter by their names; None if it is none."""
    whole = _yaml(front_matter)
    if isinstance(whole, dict):
        return whole
    if whole is not None or not front_matter.strip():
        return None if whole else {}
    values: dict[Any, Any] = {}
    entries = _NAMED.split(front_matter)
    if any(line.strip() and not line.startswith("#") for line in entries[0].splitlines()):
        return None
    for name, value in zip(entries[1::2], entries[2::2], strict=True):
        one = _yaml(f"{name}:{value}")
        values |= one if isinstance(one, dict) else {name: one_line(value)}
    return values or None


def _yaml(text: str) -> Any:  # noqa: ANN401 - whatever YAML holds
    """Return the parsed YAML; None if it is not YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def markdown_sections(text: str) -> Iterator[Section]:
    """Yield the sections of Markdown."""
    from markdown_it import MarkdownIt

    lines = text.split("\n")
    # Only the bounds of blocks are needed; parsing their inline content takes quadratic time for some texts.
    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    path = HeadingPath()
    blocks = [token.map for token in tokens if token.map and token.type in {"fence", "code_block"}]
    begin, code = 0, {at for first, after in blocks for at in range(first, after)}
    scanned = "\n".join(" " * len(line) if at in code else line for at, line in enumerate(lines))
    lines = without_hidden(text, scanned).split("\n")

    def section(begin: int, end: int) -> Section:
        text = "\n".join(lines[at] if at in code else _without_links(lines[at]) for at in range(begin, end))
        return Section(text, path.headings(), line=begin + 1)

    for place, token in enumerate(tokens):
        if token.map is None:
            continue
        first, after = token.map
        if token.type == "html_block":
            lines[first:after] = [one_line(text_of("\n".join(lines[first:after])))] + [""] * (after - first - 1)
        elif token.type == "heading_open" and token.level == 0:
            yield section(begin, first)
            shown = without_hidden(tokens[place + 1].content) if any(lines[first:after]) else ""
            path.enter(int(token.tag[1]), one_line(_without_links(shown)))
            begin = after
    yield section(begin, len(lines))


def _without_links(line: str) -> str:
    """Return a line without the addresses of links and images, and without bold marks."""
    if "](" in line:
        line = _LINK.sub(r"\1", _IMAGE.sub(r"\1", line))
    return line.replace("**", "")
