"""Reader of OpenDocument files: texts, presentations and sheets as LibreOffice writes them (ODT, ODP, ODS)."""

from __future__ import annotations

import io
import zipfile
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.archives import dublin_core, parsed_xml
from braid.ingestion.documents.readers.tables import MOST_ROWS, sections_of_lines
from braid.ingestion.documents.readers.text import Block, one_line, sections_of_blocks, tidied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ingestion.documents.document import Source

_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_SPACES = {
    **{name: f"{_OASIS}:{name}:1.0" for name in ("office", "text", "table", "style", "presentation", "meta")},
    "draw": f"{_OASIS}:drawing:1.0",
}
_MOST_COLUMNS = 16_384
"""Of a sheet of LibreOffice. A cell or row states how often it is repeated."""
_MOST_BLANKS = 1_000


def _name(prefixed: str) -> str:
    prefix, name = prefixed.split(":")
    return f"{{{_SPACES[prefix]}}}{name}"


_HEADING, _PARAGRAPH, _LIST = _name("text:h"), _name("text:p"), _name("text:list")
_TABLE, _ROW = _name("table:table"), _name("table:table-row")
_CELLS = (_name("table:table-cell"), _name("table:covered-table-cell"))
_NOTE, _DRAWN = _name("text:note-body"), _name("draw:")
_LEFT_OUT = {
    *map(_name, ("office:annotation", "text:tracked-changes", "text:table-of-content", "text:note-citation")),
    *map(_name, ("text:alphabetical-index", "office:forms", "table:shapes", "text:sequence-decls", "text:ruby-text")),
}
"""Comments, deleted text, indexes, numbers of notes, forms, the sound of characters."""


class _Styles(NamedTuple):
    hidden: frozenset[str]
    """Names of styles by which text, sheets and slides are hidden."""
    titles: frozenset[str]
    """Names of styles of a document's title."""


def read_opendocument(source: Source) -> Document:
    """Read a text by headings, paragraphs and tables, a presentation by slides, a spreadsheet by rows."""
    with zipfile.ZipFile(io.BytesIO(source.content)) as archive:
        names = set(archive.namelist())
        if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
            raise Unreadable("is encrypted; save it without a password")
        content = parsed_xml(archive.read("content.xml"))
        stated = parsed_xml(archive.read("meta.xml")) if "meta.xml" in names else content
    title, metadata, date = dublin_core(stated)
    styles = _styles(content)
    for kind, found in (("text", "odt"), ("presentation", "odp"), ("spreadsheet", "ods")):
        for body in content.iterfind(f"{_name('office:body')}/{_name('office:' + kind)}"):
            if kind == "text":
                blocks = list(_blocks(body, styles))
                title = title or next((block.text for block in blocks if block.style in styles.titles), "")
                shown = (block for block in blocks if block.text and block.style not in styles.titles)
                sections = sections_of_blocks(shown)
            else:
                sections = _slides(body, styles) if kind == "presentation" else _sheets(body, styles, source)
            read = bounded(sections, source.limits)
            return Document(title or source.stem, found, read, metadata, date)
    is_drawing = content.find(_name("office:body")) is not None
    raise Unreadable("is a drawing or formula; export it as PDF" if is_drawing else "is an archive; unpack it")


def _styles(content: Any) -> _Styles:  # noqa: ANN401 - an element of lxml
    hides = {_name("text:display"): "none", _name("table:display"): "false", _name("presentation:visibility"): "hidden"}
    hidden, titles = set[str](), {"Title"}
    for style in content.iter(_name("style:style")):
        name = style.get(_name("style:name"), "")
        if any(properties.get(key) == value for properties in style for key, value in hides.items()):
            hidden.add(name)
        if style.get(_name("style:parent-style-name")) == "Title":
            titles.add(name)
    return _Styles(frozenset(hidden), frozenset(titles))


def _is_hidden(element: Any, styles: _Styles) -> bool:  # noqa: ANN401 - an element of lxml
    if element.get(_name("text:display")) == "none" or element.get(_name("text:is-hidden")) == "true":
        return True  # a section, or a field
    named = (element.get(_name(f"{prefix}:style-name")) for prefix in ("text", "table", "draw"))
    return any(name in styles.hidden for name in named if name)


def _blocks(inside: Any, styles: _Styles) -> Iterator[Block]:  # noqa: ANN401 - an element of lxml
    """Yield the headings, paragraphs and tables inside an element; a paragraph's drawings and notes after it."""
    from lxml import etree

    lists = 0
    walk = etree.iterwalk(inside, events=("start", "end"))
    for event, element in walk:
        if element.tag == _LIST:
            lists += 1 if event == "start" else -1
        if event == "end" or element is inside:
            continue
        if element.tag in _LEFT_OUT or _is_hidden(element, styles):
            walk.skip_subtree()
        elif element.tag == _TABLE:
            walk.skip_subtree()
            yield Block("\n".join(_rows(element, styles)))
        elif element.tag in {_HEADING, _PARAGRAPH}:
            walk.skip_subtree()
            text, boxes = _text_of(element, styles)
            level = int(element.get(_name("text:outline-level")) or 1) if element.tag == _HEADING else 0
            yield Block(text, level, lists > 0, element.get(_name("text:style-name"), ""))
            for box in boxes:
                yield from _blocks(box, styles)


def _text_of(paragraph: Any, styles: _Styles) -> tuple[str, list[Any]]:  # noqa: ANN401 - an element of lxml
    """Return the text of a paragraph, and the drawings, such as boxes and shapes with text, and notes in it."""
    from lxml import etree

    parts, boxes = list[str](), list[Any]()
    blanks = {_name("text:tab"): "\t", _name("text:line-break"): "\n"}
    walk = etree.iterwalk(paragraph, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            parts.append((element is not paragraph and element.tail) or "")
        elif element.tag in _LEFT_OUT or _is_hidden(element, styles):
            walk.skip_subtree()
        elif element.tag == _NOTE or element.tag.startswith(_DRAWN):
            walk.skip_subtree()
            boxes.append(element)
        elif element.tag == _name("text:s"):
            parts.append(" " * min(int(element.get(_name("text:c")) or 1), _MOST_BLANKS))
        else:
            parts.append(blanks.get(element.tag) or element.text or "")
    return tidied("".join(parts)).strip(), boxes


def _rows(table: Any, styles: _Styles) -> Iterator[str]:  # noqa: ANN401 - an element of lxml
    for row in table.iter(_ROW):
        if next(row.iterancestors(_TABLE)) is table:
            cells = [one_line(" ".join(_texts(cell, styles))) for cell in row.iterchildren(*_CELLS)]
            if any(cells):
                yield " | ".join(cells)


def _texts(inside: Any, styles: _Styles) -> list[str]:  # noqa: ANN401 - an element of lxml
    return [block.text for block in _blocks(inside, styles) if block.text]


def _slides(body: Any, styles: _Styles) -> Iterator[Section]:  # noqa: ANN401 - an element of lxml
    for number, page in enumerate(body.iterchildren(_name("draw:page")), start=1):
        if _is_hidden(page, styles):
            continue
        frames = list(page)
        titled = [frame for frame in frames if frame.get(_name("presentation:class")) == "title"][:1]
        heading = one_line(" ".join(text for frame in titled for text in _texts(frame, styles)))
        text = "\n\n".join(text for frame in frames if frame not in titled for text in _texts(frame, styles))
        # The text of a slide with only a title is the title.
        yield Section(text or heading, (heading,) if heading else (), page=number)


def _sheets(body: Any, styles: _Styles, source: Source) -> Iterator[Section]:  # noqa: ANN401 - an element of lxml
    for table in body.iterchildren(_TABLE):
        if not _is_hidden(table, styles):
            named = one_line(table.get(_name("table:name"), ""))
            yield from sections_of_lines(_sheet_rows(table, styles), source, (named,))


def _sheet_rows(table: Any, styles: _Styles) -> Iterator[list[str]]:  # noqa: ANN401 - an element of lxml
    left, empty = MOST_ROWS, 0
    for row in table.iter(_ROW):
        cells, gap = list[str](), 0
        for cell in row.iterchildren(*_CELLS):
            value, times = _value(cell, styles), _times(cell, "columns", _MOST_COLUMNS)
            if value:
                cells += [""] * gap + [value] * times
                gap = 0
            else:
                gap += times
            if len(cells) + gap > _MOST_COLUMNS:
                break
        times = min(_times(row, "rows", MOST_ROWS), left)
        left -= times
        empty += 0 if cells else times
        if cells:  # the last row of most sheets is an empty one that fills it
            yield from repeat([], empty)
            yield from repeat(cells, times)
            empty = 0


def _times(element: Any, what: str, at_most: int) -> int:  # noqa: ANN401 - an element of lxml
    return min(int(element.get(_name(f"table:number-{what}-repeated")) or 1), at_most)


def _value(cell: Any, styles: _Styles) -> str:  # noqa: ANN401 - an element of lxml
    """Return a number or date as it is stored, anything else as it is shown."""
    for stored in ("value", "date-value"):
        if value := cell.get(_name(f"office:{stored}")):
            return str(value)
    return "\n".join(_texts(cell, styles))
