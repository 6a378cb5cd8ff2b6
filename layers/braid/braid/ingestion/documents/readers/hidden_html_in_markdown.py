"""Removes hidden HTML from Markdown: comments, and hidden elements with their content.

In whole pages of HTML, :mod:`braid.ingestion.documents.readers.html` removes them with a parser.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INVISIBLE = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:opacity|font-size)\s*:\s*0*\.?0+(?![.\d]))",
    re.IGNORECASE,
)
"""A ``style`` of an element that is not shown."""
# Possessive and bounded, so that time is linear.
_ATTRIBUTES = r"(?:[^\"'<>]++|\"[^\"]{0,2000}+\"|'[^']{0,2000}+'){0,60}+"
_MARK = re.compile(rf"(?P<blank>\n[ \t]*+\n)|<(?P<ends>/?)(?P<name>[a-zA-Z][\w-]*+)(?P<attributes>{_ATTRIBUTES})>")
_COMMENT = re.compile(r"^[ \t]{0,3}<!--|<!--", re.MULTILINE)
_ATTRIBUTE = re.compile(r"([^\s\"'<>/=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'<>]++)))?+")
_EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
"""Elements that hold nothing."""
_ACROSS_BLOCKS = {
    *("address", "article", "aside", "blockquote", "center", "details", "dialog", "div", "dl", "fieldset", "figure"),
    *("footer", "form", "header", "main", "nav", "ol", "section", "table", "ul"),
}
"""Elements that a blank line of Markdown does not end."""
_CODE = re.compile(r"(?<!`)(`++)[^`\n]++\1(?!`)")


def without_hidden(text: str, scanned: str | None = None) -> str:
    """Return Markdown without its hidden HTML; line breaks are kept.

    ``scanned`` is the text with its code blocks blanked, in which tags are no HTML.
    """
    scanned = _CODE.sub(lambda code: " " * len(code[0]), text if scanned is None else scanned)
    comments = list(_comments(scanned))
    text, scanned = _without(text, comments), _without(scanned, comments)
    return _without(text, _hidden_elements(scanned))


def _without(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    kept, end = list[str](), 0
    for begin, after in ranges:
        kept += [text[end:begin], "\n" * text.count("\n", begin, after)]
        end = after
    return "".join(kept) + text[end:]


def _comments(text: str) -> Iterator[tuple[int, int]]:
    place, closing, blank = 0, -1, -1
    for found in _COMMENT.finditer(text):
        at = found.start()
        if at < place:
            continue
        closing, blank = _next(text, "-->", at, closing), _next(text, "\n\n", at, blank)
        own_block = at == 0 or text[at - 1] == "\n"
        if closing < blank or own_block:  # a comment in a paragraph ends in it
            place = min(closing + 3, len(text))
            yield at, place


def _hidden_elements(text: str) -> Iterator[tuple[int, int]]:
    hidden, depth, begin = "", 0, 0
    for found in _MARK.finditer(text):
        at, name = found.start(), (found["name"] or "").lower()
        if not hidden:
            if name and not found["ends"] and name not in _EMPTY and _is_hidden(found["attributes"]):
                hidden, depth, begin = name, 1, at
        elif found["blank"] and hidden not in _ACROSS_BLOCKS:
            yield begin, at
            hidden = ""
        elif name == hidden:
            depth += -1 if found["ends"] else 1
            if not depth:
                yield begin, found.end()
                hidden = ""
    if hidden:
        yield begin, len(text)


def _next(text: str, part: str, at: int, known: int) -> int:
    """Return where a part is next; the length of the text if it is not, and ``known`` while that is ahead."""
    if known >= at:
        return known
    found = text.find(part, at)
    return len(text) if found < 0 else found


def _is_hidden(attributes: str) -> bool:
    for name, *values in _ATTRIBUTE.findall(attributes):
        value = unescape("".join(values))
        match name.lower():
            case "hidden":
                return True
            case "aria-hidden" if value.lower() == "true":
                return True
            case "style" if INVISIBLE.search(value):
                return True
    return False
