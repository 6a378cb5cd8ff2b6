"""Reader of EPUB: its chapters in their order, each as HTML."""

from __future__ import annotations

import io
import posixpath
import zipfile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from braid.ingestion.documents.document import Document, Unreadable, bounded
from braid.ingestion.documents.readers.archives import dublin_core, parsed_xml
from braid.ingestion.documents.readers.html import xhtml_sections
from braid.ingestion.documents.readers.text import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ingestion.documents.document import Section, Source

CONTAINER = "META-INF/container.xml"
"""The file of an EPUB that names its package, which lists the others."""
_ENCRYPTION = "META-INF/encryption.xml"
_NO_DATE = "0101-01-01"
"""What calibre writes of a book whose date it does not know."""


def read_epub(source: Source) -> Document:
    """Read an EPUB: the headings and paragraphs of its chapters, without its table of contents."""
    with zipfile.ZipFile(io.BytesIO(source.content)) as archive:
        rootfile = parsed_xml(archive.read(CONTAINER)).find(".//{*}rootfile")
        if rootfile is None:
            raise Unreadable("is broken: it names no package")
        package = rootfile.get("full-path", "")
        listed = parsed_xml(archive.read(package))
        sections = bounded(_chapters(archive, listed, posixpath.dirname(package)), source.limits)
    title, metadata, date = dublin_core(listed)
    stated = None if date and date.startswith(_NO_DATE) else date
    return Document(title or source.stem, "epub", sections, metadata, stated)


def _chapters(archive: zipfile.ZipFile, listed: Any, folder: str) -> Iterator[Section]:  # noqa: ANN401 - an element of lxml
    names, encrypted = set(archive.namelist()), set[str]()
    if _ENCRYPTION in names:
        references = parsed_xml(archive.read(_ENCRYPTION)).iterfind(".//{*}CipherReference")
        encrypted = {unquote(reference.get("URI", "")) for reference in references}
    files = {item.get("id"): item for item in listed.iterfind(".//{*}manifest/{*}item")}
    # Each once: a small file could name one chapter very often.
    for identity in dict.fromkeys(one.get("idref") for one in listed.iterfind(".//{*}spine/{*}itemref")):
        item = files.get(identity)
        if item is None or "html" not in item.get("media-type", "") or "nav" in item.get("properties", "").split():
            continue
        name = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", "").split("#")[0])))
        if name in encrypted:  # fonts often are, in books that anyone may read
            raise Unreadable("is encrypted; only the program that it was sold for can read it")
        if name in names:
            yield from xhtml_sections(decode(archive.read(name)))
