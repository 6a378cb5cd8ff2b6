"""Readers of DOCX, PPTX and XLSX, and the check of an archive before one of them unpacks it."""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.docx_numbering import Numbering
from braid.ingestion.documents.readers.tables import captions_and_rows, table_sections
from braid.ingestion.documents.readers.text import HeadingPath, one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from braid.ingestion.documents.document import Plain, ReadingLimits, Source

_ARCHIVED_FILES = 10_000
_RELATIONS, _STRICT = "_rels/.rels", b"//purl.oclc.org/ooxml/officeDocument/relationships/officeDocument"
_TEMPLATE_DATES = {"2013-12-23", "2013-01-27"}
"""Modification dates of the templates of python-docx and python-pptx, which are not dates of a document."""
_HEADING = re.compile("Heading [1-9]")
_OFF = {"0", "false", "off"}
"""Values of a property of a DOCX that is switched off."""
_ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_EQUATION = "{http://schemas.microsoft.com/office/drawing/2010/main}"
_WRAPPERS = (
    *("w:sdt", "w:sdtContent", "w:fldSimple", "w:ins", "w:moveTo", "w:smartTag", "w:customXml", "w:bdo", "w:dir"),
    "m:oMathPara",
)
"""Elements of a DOCX that stand around runs, equations, paragraphs, cells or rows."""
_NO_TEXT_OF_ITS_OWN = "w:sdtPr[w:showingPlcHdr or w:docPartObj/w:docPartGallery/@w:val = 'Table of Contents']"
"""What marks a content control that shows a prompt to fill it in, or the headings."""
_SHEET_ROWS = 1_048_576
"""Rows of an Excel sheet."""
_RATIO_FROM_BYTES = 16 * 1024 * 1024
"""Unpacked size above which the ratio is checked: a small file of blanks shrinks more than any real document."""


def check_archive(content: bytes, limits: ReadingLimits) -> list[str]:
    """Return the names inside of a ZIP archive.

    Raises Unreadable if it is no archive, or if unpacking it would take more than the limits allow.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise Unreadable("is broken: the archive inside of it cannot be read") from None
    if len(entries) > _ARCHIVED_FILES:
        raise Unreadable(f"holds {len(entries):,} files, of at most {_ARCHIVED_FILES:,}")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Unreadable("is encrypted; save it without a password")
    unpacked = sum(entry.file_size for entry in entries)
    too_dense = unpacked > _RATIO_FROM_BYTES and unpacked > limits.unpacked_ratio * len(content)
    if unpacked > limits.unpacked_bytes or too_dense:
        raise Unreadable(f"would unpack to {unpacked:,} bytes from {len(content):,}, as a bomb does")
    return [entry.filename for entry in entries]


def _refuse_strict(source: Source) -> None:
    """Raise Unreadable if an Office file has the namespaces of Strict Open XML, of which no library here reads any."""
    with zipfile.ZipFile(io.BytesIO(source.content)) as archive:
        if _RELATIONS in archive.namelist() and _STRICT in archive.read(_RELATIONS):
            raise Unreadable("is Strict Open XML; save it as DOCX, PPTX or XLSX that is not strict")


def _core(properties: Any) -> tuple[str, dict[str, Plain], str | None]:  # noqa: ANN401 - of three libraries
    """Return title, metadata and date of an Office file's properties."""
    title = one_line(tidied(str(getattr(properties, "title", "") or "")))
    author = getattr(properties, "author", None) or getattr(properties, "creator", None)
    at = getattr(properties, "modified", None)
    # Libraries write their own name as author if none is given.
    stated = author and author not in {"python-docx", "openpyxl"}
    date = at.isoformat() if at and at.date().isoformat() not in _TEMPLATE_DATES else None
    return title, {"author": tidied(str(author))} if stated else {}, date


def _keep_one_alternative(part: Any) -> None:  # noqa: ANN401 - an element of lxml
    """Replace the ways in which the same is written for several programs by the first one that has text, or the first.

    Those are a drawing with its texts in two formats, an emoji by its number and as text, and a shape with an equation
    and as a picture.
    """
    for both in reversed(list(part.iter(f"{_ALTERNATIVES}AlternateContent"))):
        ways = list(both.iterchildren(f"{_ALTERNATIVES}Choice", f"{_ALTERNATIVES}Fallback"))
        with_text = (way for way in ways if any((text.text or "").strip() for text in way.iter("{*}t")))
        for child in list(next(with_text, ways[0])) if ways else ():
            both.addprevious(child)
        both.getparent().remove(both)


def read_docx(source: Source) -> Document:
    """Read a DOCX: paragraphs and tables under its headings."""
    import docx

    _refuse_strict(source)
    file = docx.Document(io.BytesIO(source.content))
    _bring_text_to_paragraphs(file)
    title, metadata, date = _core(file.core_properties)
    title = "" if title == "Word Document" else title  # of python-docx's template
    sections = list(_docx_sections(file))
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
    _keep_one_alternative(body)
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
    from docx.oxml import parse_xml
    from docx.oxml.ns import qn

    parts = [
        parse_xml(relation.target_part.blob)
        for relation in file.part.rels.values()
        if relation.reltype.endswith(("/footnotes", "/endnotes")) and not relation.is_external
    ]
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


def _docx_sections(file: Any) -> Iterator[Section]:  # noqa: ANN401 - a document of python-docx
    from docx.oxml.ns import qn
    from docx.table import Table
    from docx.text.paragraph import Paragraph

    path = HeadingPath()
    numbering = Numbering(file)
    held: list[str] = []
    styles: dict[str | None, str] = {}
    listed = False
    # Not by `iter_inner_content`, which takes quadratic time to order paragraphs and tables.
    for element in file.element.body.iterchildren(qn("w:p"), qn("w:tbl")):
        if element.tag == qn("w:tbl"):
            for inside in element.iter(qn("w:p")):
                numbering.of(inside)  # is counted, not shown
            held.append("\n\n" + tidied("\n".join(_docx_rows(Table(element, file._body)))))  # noqa: SLF001 - as there
            continue
        block = Paragraph(element, file._body)  # noqa: SLF001 - as there
        named = block._p.style  # noqa: SLF001 - its style is looked for among all styles, each time
        if named not in styles:
            styles[named] = (block.style.name or "") if block.style else ""
        number, text, style = numbering.of(element), tidied(block.text).strip(), styles[named]
        depth = int(style[8:]) if _HEADING.fullmatch(style) else 0
        if not text or style == "Title":
            continue
        text = f"{number} {text}" if number else text
        if not depth:
            in_list = style.startswith("List")
            held.append(("\n" if in_list and listed else "\n\n") + text)
            listed = in_list
            continue
        yield Section("".join(held).strip(), path.headings())
        held = []
        path.enter(depth, one_line(text))
    yield Section("".join(held).strip(), path.headings())


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


def read_pptx(source: Source) -> Document:
    """Read a PPTX: the text, tables and notes of each slide that is not hidden."""
    import pptx

    _refuse_strict(source)
    file = pptx.Presentation(io.BytesIO(source.content))
    title, metadata, date = _core(file.core_properties)
    title = "" if title == "PowerPoint Presentation" else title  # of python-pptx's template
    sections = list(_slides(file))
    first = next((section.heading[0] for section in sections if section.heading), None)
    return Document(title or first or source.stem, "pptx", bounded(sections, source.limits), metadata, date)


def _slides(file: Any) -> Iterator[Section]:  # noqa: ANN401 - a presentation of python-pptx
    for number, slide in enumerate(file.slides, start=1):
        if slide._element.get("show") in {"0", "false"}:  # noqa: SLF001 - python-pptx has no other way
            continue
        _bring_equations_to_shapes(slide._element)  # noqa: SLF001
        named = slide.shapes.title
        title = (
            named.element if named is not None else None
        )  # python-pptx makes another object for each look at a shape
        heading = one_line(tidied(named.text_frame.text)) if named is not None else ""
        parts = [text for shape in slide.shapes if shape.element is not title for text in _shape_texts(shape)]
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            parts.append(notes.text)
        text = tidied("\n\n".join(part.replace("\v", "\n") for part in parts if part.strip()))
        # The text of a slide with only a title is the title.
        yield Section(text or heading, (heading,) if heading else (), page=number)


def _bring_equations_to_shapes(slide: Any) -> None:  # noqa: ANN401 - an element of python-pptx
    """Move shapes with equations to where python-pptx reads, and make runs of the equations."""
    from pptx.oxml.xmlchemy import OxmlElement

    _keep_one_alternative(slide)
    for equation in list(slide.iter(f"{_EQUATION}m")):
        run, text = OxmlElement("a:r"), OxmlElement("a:t")
        text.text = "".join(part.text or "" for part in equation.iter("{*}t"))
        run.append(text)
        equation.getparent().replace(equation, run)


def _shape_texts(shape: Any) -> Iterator[str]:  # noqa: ANN401 - any shape of python-pptx
    """Yield the texts of a shape, of its table, chart or diagram, or of the shapes of its group."""
    waiting = [shape]
    while waiting:
        one = waiting.pop()
        if hasattr(one, "shapes"):  # a group
            waiting += reversed(list(one.shapes))
        elif one.has_text_frame:
            yield one.text_frame.text
        elif getattr(one, "has_table", False):
            rows = ([one_line(cell.text) for cell in row.cells] for row in one.table.rows)
            yield "\n".join(" | ".join(cells) for cells in rows if any(cells))
        elif getattr(one, "has_chart", False):
            yield from _chart_texts(one.chart._chartSpace)  # noqa: SLF001 - python-pptx counts as many points as are stated
        else:
            yield from _diagram_texts(one)


def _chart_texts(chart: Any) -> Iterator[str]:  # noqa: ANN401 - an element of python-pptx
    """Yield a chart's title, and each series as "name: label value; label value"."""
    yield "".join(chart.xpath("c:chart/c:title//a:t/text()"))
    for series in chart.xpath(".//c:ser"):
        labels = {point.get("idx"): "".join(point.itertext()) for point in series.xpath("(c:cat | c:xVal)//c:pt")}
        points = series.xpath("(c:val | c:yVal)//c:pt")
        values = (f"{labels.get(point.get('idx'), '')} {''.join(point.itertext())}" for point in points)
        yield f"{' '.join(series.xpath('c:tx//c:v/text()'))}: {'; '.join(values)}"


def _diagram_texts(shape: Any) -> Iterator[str]:  # noqa: ANN401 - any shape of python-pptx
    """Yield the texts of a diagram of SmartArt."""
    from pptx.oxml import parse_xml
    from pptx.oxml.ns import qn

    for part in shape.element.xpath(".//*[local-name() = 'relIds']/@r:dm"):
        for paragraph in parse_xml(shape.part.related_part(part).blob).iter(qn("a:p")):
            yield "".join(text.text or "" for text in paragraph.iter(qn("a:t")))


def read_xlsx(source: Source) -> Document:
    """Read an XLSX: the rows of every sheet that is not hidden, with the values that were last calculated."""
    import openpyxl

    _refuse_strict(source)
    book = openpyxl.load_workbook(io.BytesIO(source.content), read_only=True, data_only=True, keep_links=False)
    try:
        title, metadata, date = _core(book.properties)
        sections = bounded(_sheets(book, source), source.limits)
    finally:
        book.close()
    return Document(title or source.stem, "xlsx", sections, metadata, date)


def _sheets(book: Any, source: Source) -> Iterator[Section]:  # noqa: ANN401 - a workbook of openpyxl
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            continue
        sheet.reset_dimensions()  # the file states them, and each row would be filled up to that width
        lines = sheet.iter_rows(max_row=_SHEET_ROWS, values_only=True)
        captions, rows = captions_and_rows(lines, source.limits, has_names=bool(source.mapping))
        yield from table_sections(rows, source.mapping, heading=(one_line(sheet.title), *captions))
