"""Reader of HTML: its text by headings and blocks, without scripts, styles, forms and hidden elements."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from typing import TYPE_CHECKING

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded, take_times
from braid.ingestion.documents.readers.hidden_html_in_markdown import INVISIBLE, without_hidden
from braid.ingestion.documents.readers.text import HeadingPath, decode, one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selectolax.lexbor import LexborHTMLParser, LexborNode

    from braid.ingestion.documents.document import Plain, Source

_LEFT_OUT = (
    "script, style, noscript, template, svg, math, iframe, object, select, button, nav, head, rt, rp, [hidden],"
    ' [aria-hidden="true"]:not(html, body, main)'
)
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "li", "main", "ol", "p", "pre"),
    *("section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
}
_CELLS = {"td", "th"}
# A tag in a comment or in an attribute's value opens and closes nothing.
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)|<(/?)([a-zA-Z][\w-]*+)(?:(?:[^\"'<>/]++|/(?!>)|\"[^\"]{0,10000}+\"|'[^']{0,10000}+'){0,200}+(/)?>)?",
    re.DOTALL,
)
_EMPTY_TAG = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-zA-Z][\w:.-]*+)"
    r"((?:[^\"'<>/]++|/(?!>)|\"[^\"]{0,10000}+\"|'[^']{0,10000}+'){0,200}+)/>",
    re.IGNORECASE,
)
"""Tag of XML that is its own end tag, where HTML has one: ``<title/>`` would begin a title that never ends."""
# An unclosed comment or script reaches to the end, so that the time is linear.
_MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_UNCLOSED = {
    *("area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img", "input", "li"),
    *("link", "meta", "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "wbr"),
}
"""Elements that need no end tag."""
_DEPTH = 2_000
_FORMATTING = {"b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"}
"""Elements that a parser reopens in every block until their end tag; without attributes, at most three of a name."""
_REOPENED = 1_000_000
"""Most elements that it opens again: some 400 MB."""


def read_html(source: Source) -> Document:
    """Read HTML: its title, and its text under its headings."""
    html = decode(source.content)
    return html_document(_html_of_xhtml(html) if source.suffix == ".xhtml" else html, source)


def html_document(html: str, source: Source) -> Document:
    """Return the document of decoded HTML."""
    tree = _tree(html)
    named = tree.css_first("title")
    title = one_line(named.text()) if named else ""
    metadata: dict[str, Plain] = {
        name: content
        for name in ("author", "description", "keywords", "timestamp", "date", "valid_at", "invalid_at")
        if (node := tree.css_first(f'meta[name="{name}"]')) and (content := node.attributes.get("content"))
    }
    sections = list(_sections(_blocks(tree)))
    first = next((section.heading[0] for section in sections if section.heading), None)
    times = take_times(metadata)
    return Document(tidied(title) or first or source.stem, "html", bounded(sections, source.limits), metadata, *times)


def xhtml_sections(xhtml: str) -> list[Section]:
    """Return the text of decoded XHTML under its headings; sections may be empty."""
    return list(_sections(_blocks(_tree(_html_of_xhtml(xhtml)))))


def _html_of_xhtml(xhtml: str) -> str:
    """Return XHTML with end tags of empty elements, as HTML needs them."""
    return _EMPTY_TAG.sub(r"<\1\2></\1>", xhtml)


def _tree(html: str) -> LexborHTMLParser:
    from selectolax.lexbor import LexborHTMLParser

    _check_depth(html)
    _check_reopened(html)
    return LexborHTMLParser(html)


def _check_depth(html: str) -> None:
    """Raise Unreadable if elements are nested too deeply: parsing them takes time quadratic in their number."""
    depth, opened = 0, Counter[str]()
    for found in _TAG.finditer(html):
        if not found[2]:
            continue
        closes, name, empty = found[1], found[2].lower(), found[3]
        # A block is opened by its tag even where the tag ends as an empty one of XML does.
        if name in _UNCLOSED or (empty and name not in _BLOCKS):
            continue
        if not closes:
            depth, opened[name] = depth + 1, opened[name] + 1
            if depth > _DEPTH:
                raise Unreadable(f"nests its elements more than {_DEPTH:,} deep")
        elif opened[name]:
            depth, opened[name] = depth - 1, opened[name] - 1


def _check_reopened(html: str) -> None:
    """Raise Unreadable if too many formatting elements stay open over too many blocks: each is made again in each."""
    plain, attributed, reopened = Counter[str](), Counter[str](), 0
    for found in _TAG.finditer(html):
        closes, name = found[1], (found[2] or "").lower()
        if name not in _FORMATTING:
            if plain or attributed:
                reopened += sum(min(3, count) for count in plain.values()) + attributed.total()
                if reopened > _REOPENED:
                    raise Unreadable("leaves formatting elements, such as <b>, open over too many blocks")
            continue
        has_attributes = not closes and len(found[0]) > len(f"<{name}>")
        kept = attributed if attributed[name] or has_attributes else plain
        kept[name] += -1 if closes else 1
        if kept[name] <= 0:
            del kept[name]


def text_of(html: str) -> str:
    """Return the text of a piece of HTML, one block per line; one line if the extra ``documents`` is missing."""
    try:
        tree = _tree(html)
    except ModuleNotFoundError:  # Markdown needs no extra, and often has a piece of HTML
        return unescape(_MARKUP.sub(" ", without_hidden(html)))
    return "\n".join(text for _, text in _blocks(tree))


def _blocks(tree: LexborHTMLParser) -> Iterator[tuple[str, str]]:
    """Yield the tag and the text of every block that has text of its own, in the order of the page."""
    # The inner ones first: an element is not looked at when the one around it has been freed.
    for node in reversed(tree.css(_LEFT_OUT)):
        node.decompose()
    for node in reversed(tree.css("[style]")):
        if INVISIBLE.search(node.attributes.get("style") or "") and node.tag not in {"html", "body"}:
            node.decompose()
    root = tree.body
    if root is None:
        return
    tag, place, parts = "p", (0, 0), list[str]()
    around: dict[int, tuple[LexborNode, int]] = {}
    for node in root.traverse(include_text=True):
        if node.tag == "br":
            parts.append("\n")
        if node.tag != "-text":
            continue
        block, cell = _block_of(node, around)
        if block.mem_id != place[0]:
            yield from _block(tag, parts)
            tag, parts = block.tag or "p", []
        elif cell != place[1]:
            parts.append(" | ")
        place = (block.mem_id, cell)
        parts.append(node.text_content or "")
    yield from _block(tag, parts)


def _block(tag: str, parts: list[str]) -> Iterator[tuple[str, str]]:
    whole = tidied("".join(parts))
    text = whole.strip("\n") if tag == "pre" else one_line(whole)
    if text.strip():
        yield tag, text


def _block_of(node: LexborNode, known: dict[int, tuple[LexborNode, int]]) -> tuple[LexborNode, int]:
    """Return the nearest block around a node, and the id of the table cell between the two; 0 if there is none.

    ``known`` caches the results of enclosing nodes, so that many deeply nested texts take linear time.
    """
    inner, cell, passed = node, 0, list[tuple[int, int]]()
    while (parent := inner.parent) is not None:
        inner = parent
        if inner.mem_id in known:
            inner, cell = known[inner.mem_id]
            break
        if inner.tag in _BLOCKS:
            break
        passed.append((inner.mem_id, inner.mem_id if inner.tag in _CELLS else 0))
    for mem_id, own in reversed(passed):
        cell = own or cell
        known[mem_id] = inner, cell
    return inner, cell


def _sections(blocks: Iterator[tuple[str, str]]) -> Iterator[Section]:
    path = HeadingPath()
    held: list[str] = []
    before = ""
    for tag, text in blocks:
        if tag not in _HEADINGS:
            # Items of one list and rows of one table stand together.
            glue = "\n" if tag == before and tag in {"li", "tr", "dd", "dt"} else "\n\n"
            held.append((glue if held else "") + text)
            before = tag
            continue
        yield Section("".join(held), path.headings())
        held, before = [], ""
        path.enter(int(tag[1]), text)
    yield Section("".join(held), path.headings())
