"""Reader of DOCX: its headings, paragraphs and tables, also where python-docx does not look."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Document, bounded
from braid.ingestion.documents.readers.docx_numbering import Numbering, related_parts
from braid.ingestion.documents.readers.office import core_properties, keep_one_alternative
from braid.ingestion.documents.readers.text import Block, one_line, sections_of_blocks, tidied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from braid.ingestion.documents.document import Source

_HEADING = re.compile("Heading [1-9]")
_OFF = {"0", "false", "off"}
"""Values of a property of a DOCX that is switched off."""
_WRAPPERS = (
    *("w:sdt", "w:sdtContent", "w:fldSimple", "w:ins", "w:moveTo", "w:smartTag", "w:customXml", "w:bdo", "w:dir"),
    "m:oMathPara",
)
"""Elements of a DOCX that stand around runs, equations, paragraphs, cells or rows."""
_NO_TEXT_OF_ITS_OWN = "w:sdtPr[w:showingPlcHdr or w:docPartObj/w:docPartGallery/@w:val = 'Table of Contents']"
"""What marks a content control that shows a prompt to fill it in, or the headings."""


def read_docx(source: Source) -> Document:
    """Read a DOCX: paragraphs and tables under its headings."""
    import docx

    title, metadata, date = core_properties(source)
    file = docx.Document(io.BytesIO(source.content))
    _bring_text_to_paragraphs(file)
    sections = list(sections_of_blocks(_blocks(file)))
    heading = next(
        (one_line(part.text) for part in file.paragraphs[:50] if part.style and part.style.name == "Title"), ""
    )
    title = title or heading or source.stem
    return Document(title, "docx", bounded(sections, source.limits), metadata, date)


def _bring_text_to_paragraphs(file: Any) -> None:  # noqa: ANN401 - a document of python-docx
    """Move what python-docx passes over to where it reads: into runs, paragraphs and tables of the body.

    It passes over footnotes, content controls, fields, tracked insertions, equations, text boxes, and tables in cells.
    """
    from docx.oxml.ns import qn

    body = file.element.body
    notes = _docx_notes(file)
    _remove_not_shown(body)  # with the notes and text boxes in it
    # By `iter`, as XPath takes quadratic time to order what several expressions find.
    for reference in reversed(list(body.iter(qn("w:footnoteReference"), qn("w:endnoteReference")))):
        _move_below_paragraph(reference, notes.pop((reference.tag, reference.get(qn("w:id"))), ()))
    keep_one_alternative(body)
    for control in body.xpath(f".//w:sdt[{_NO_TEXT_OF_ITS_OWN}]"):
        control.getparent().remove(control)
    for wrapper in list(body.iter(*map(qn, _WRAPPERS))):
        for child in list(wrapper):
            wrapper.addprevious(child)
        wrapper.getparent().remove(wrapper)
    _make_runs_of_what_runs_hold(body)
    for box in reversed(body.xpath(".//w:txbxContent")):
        _move_below_paragraph(box, list(box))
    for table in body.xpath(".//w:tbl[ancestor::w:tc]"):
        for paragraph in table.xpath(".//w:p"):
            table.addprevious(paragraph)
        table.getparent().remove(table)


def _make_runs_of_what_runs_hold(body: Any) -> None:  # noqa: ANN401 - an element of lxml
    """Make runs of characters with their sound above them (ruby), without the sound, and of equations."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    for ruby in list(body.iter(qn("w:ruby"))):
        for run in [run for base in ruby.iterchildren(qn("w:rubyBase")) for run in base]:
            ruby.getparent().addprevious(run)
        ruby.getparent().remove(ruby)
    for equation in body.xpath(".//m:oMath"):
        run = OxmlElement("w:r")
        run.text = "".join(text.text or "" for text in equation.iter(qn("m:t")))
        equation.getparent().replace(equation, run)


def _docx_notes(file: Any) -> dict[tuple[str, str], list[Any]]:  # noqa: ANN401 - a document of python-docx
    """Return the paragraphs of each footnote and endnote by the tag and id of the reference to it."""
    from docx.oxml.ns import qn

    parts = list(related_parts(file, "/footnotes", "/endnotes"))
    for part in parts:
        _remove_not_shown(part)
    return {(f"{note.tag}Reference", note.get(qn("w:id"))): list(note) for part in parts for note in part}


def _remove_not_shown(part: Any) -> None:  # noqa: ANN401 - an element of lxml
    """Remove what is formatted as hidden, and what was deleted or moved elsewhere while changes were tracked."""
    from docx.oxml.ns import qn

    gone = list(part.iter(qn("w:del"), qn("w:moveFrom")))
    hidden = [element for element in part.iter(qn("w:vanish")) if element.get(qn("w:val")) not in _OFF]
    ends = [mark.getparent().getparent() for mark in (*gone, *hidden) if mark.getparent().tag == qn("w:rPr")]
    runs = (element.getparent().getparent() for element in hidden)  # around their properties
    gone += [run for run in runs if run is not None and run.tag in {qn("w:r"), qn("m:r")}]
    for element in gone:
        if (around := element.getparent()) is not None:
            around.remove(element)
    for properties in dict.fromkeys(ends):  # of runs too
        is_of_paragraph = properties is not None and properties.tag == qn("w:pPr")
        if is_of_paragraph and next(properties.getparent().iter(qn("w:t"), qn("m:t")), None) is None:
            for number in list(properties.iterchildren(qn("w:numPr"), qn("w:pStyle"))):
                properties.remove(number)  # it is not counted


def _move_below_paragraph(inside: Any, moved: Sequence[Any]) -> None:  # noqa: ANN401 - elements of lxml
    """Move elements below the paragraph that another element is inside of."""
    from docx.oxml.ns import qn

    paragraph = next(inside.iterancestors(qn("w:p")), None)
    if paragraph is not None:
        for element in reversed(moved):
            paragraph.addnext(element)


def _blocks(file: Any) -> Iterator[Block]:  # noqa: ANN401 - a document of python-docx
    from docx.oxml.ns import qn
    from docx.table import Table
    from docx.text.paragraph import Paragraph

    numbering = Numbering(file)
    styles: dict[str | None, str] = {}
    # Not by `iter_inner_content`, which takes quadratic time to order paragraphs and tables.
    for element in file.element.body.iterchildren(qn("w:p"), qn("w:tbl")):
        if element.tag == qn("w:tbl"):
            for inside in element.iter(qn("w:p")):
                numbering.of(inside)  # is counted, not shown
            yield Block(tidied("\n".join(_docx_rows(Table(element, file._body)))), in_list=None)  # noqa: SLF001 - as there
            continue
        block = Paragraph(element, file._body)  # noqa: SLF001 - as there
        named = block._p.style  # noqa: SLF001 - its style is looked for among all styles, each time
        if named not in styles:
            styles[named] = (block.style.name or "") if block.style else ""
        number, text, style = numbering.of(element), tidied(block.text).strip(), styles[named]
        if text and style != "Title":
            level = int(style[8:]) if _HEADING.fullmatch(style) else 0
            yield Block(f"{number} {text}" if number else text, level, style.startswith("List"))


def _docx_rows(table: Any) -> Iterator[str]:  # noqa: ANN401 - a table of python-docx
    """Yield the rows; a vertically merged cell has its text in every row that it spans, a horizontal one has it once.

    Not by ``row.cells``, which makes a cell for each column of a spanning one, and follows merged cells to their begin.
    """
    from docx.table import _Cell

    above: dict[int, str] = {}
    for row in table.rows:
        column, texts = row.grid_cols_before, dict[int, str]()
        for cell in row._tr.tc_lst:  # noqa: SLF001 - as they are written
            goes_on = cell.vMerge == "continue" and column in above
            texts[column] = above[column] if goes_on else one_line(_Cell(cell, table).text)
            column += cell.grid_span
        above = texts
        if any(texts.values()):
            yield " | ".join(texts.values())
