"""Readers of PPTX and XLSX, and what they share with that of DOCX."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.archives import dublin_core, parsed_xml
from braid.ingestion.documents.readers.tables import MOST_ROWS, sections_of_lines
from braid.ingestion.documents.readers.text import one_line, tidied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ingestion.documents.document import Plain, Source

_RELATIONS, _STRICT = "_rels/.rels", "http://purl.oclc.org/ooxml/officeDocument/relationships/officeDocument"
_PROPERTIES = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
_TERMS = "{http://purl.org/dc/terms/}"
_LIBRARIES, _TITLES_OF_LIBRARIES = {"python-docx", "openpyxl"}, {"Word Document", "PowerPoint Presentation"}
"""What libraries write as author and title if none is given."""
_TEMPLATE_DATES = {"2013-12-23", "2013-01-27"}
"""Modification dates of the templates of python-docx and python-pptx, which are not dates of a document."""
_ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_EQUATION = "{http://schemas.microsoft.com/office/drawing/2010/main}"


def core_properties(source: Source) -> tuple[str, dict[str, Plain], str | None]:
    """Return title, metadata and date that an Office file states.

    Not by the libraries: of a file that states no date, theirs is the present.

    Raises Unreadable if it has the namespaces of Strict Open XML, of which no library here reads any.
    """
    with zipfile.ZipFile(io.BytesIO(source.content)) as archive:
        names = set(archive.namelist())
        relations = parsed_xml(archive.read(_RELATIONS)) if _RELATIONS in names else ()
        targets = {one.get("Type"): one.get("Target", "").lstrip("/") for one in relations}
        if _STRICT in targets:
            raise Unreadable("is Strict Open XML; save it as DOCX, PPTX or XLSX that is not strict")
        part = targets.get(_PROPERTIES)
        if part not in names:
            return "", {}, None
        stated = parsed_xml(archive.read(part))
    title, metadata, _ = dublin_core(stated)
    date = (stated.findtext(f"{_TERMS}modified") or "").strip()
    return (
        "" if title in _TITLES_OF_LIBRARIES else title,
        {} if metadata.get("author") in _LIBRARIES else metadata,
        None if date[:10] in {"", *_TEMPLATE_DATES} else date,
    )


def keep_one_alternative(part: Any) -> None:  # noqa: ANN401 - an element of lxml
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


def read_pptx(source: Source) -> Document:
    """Read a PPTX: the text, tables and notes of each slide that is not hidden."""
    import pptx

    title, metadata, date = core_properties(source)
    file = pptx.Presentation(io.BytesIO(source.content))
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

    keep_one_alternative(slide)
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

    title, metadata, date = core_properties(source)
    book = openpyxl.load_workbook(io.BytesIO(source.content), read_only=True, data_only=True, keep_links=False)
    try:
        sections = bounded(_sheets(book, source), source.limits)
    finally:
        book.close()
    return Document(title or source.stem, "xlsx", sections, metadata, date)


def _sheets(book: Any, source: Source) -> Iterator[Section]:  # noqa: ANN401 - a workbook of openpyxl
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            continue
        sheet.reset_dimensions()  # the file states them, and each row would be filled up to that width
        lines = sheet.iter_rows(max_row=MOST_ROWS, values_only=True)
        yield from sections_of_lines(lines, source, (one_line(sheet.title),))
