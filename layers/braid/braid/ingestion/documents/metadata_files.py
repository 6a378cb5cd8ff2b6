"""Metadata files: ``gates.pdf.metadata.json`` states of ``gates.pdf`` what front matter would state in Markdown.

The object has either the fields of front matter, or the form of Amazon Bedrock Knowledge Bases: ``metadataAttributes``
with plain values, or with values such as ``{"value": {"type": "STRING", "stringValue": "port"}}``.
"""

from __future__ import annotations

import json
import os
from errno import ELOOP, ENAMETOOLONG, ENOENT
from typing import TYPE_CHECKING, Any, Final

from braid.ingestion.documents.document import VALIDITY, Unreadable, UnreadableNow, plain_fields, stated_date
from braid.ingestion.regular_files import open_regular
from braid.models.enums_and_scalars import printable
from braid.strict_json import NotJson, check_characters, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.ingestion.documents.document import Document, Plain, Source

SUFFIX: Final = ".metadata.json"
"""Follows the name of the document, with its own suffix."""
MAX_BYTES: Final = 64 * 1024
_ATTRIBUTES: Final = "metadataAttributes"


def document_of(path: str) -> str | None:
    """Return the path of the document to which a metadata file belongs; None for the path of another file."""
    document = path.removesuffix(SUFFIX)
    return None if document in {path, ""} or document.endswith("/") else document


def name_of(path: str) -> str:
    """Return the name, without folders, of the metadata file of a document."""
    return path.rsplit("/", 1)[-1] + SUFFIX


def read_beside(path: str | bytes, name: str) -> dict[str, Any] | None:
    """Return the object in the metadata file of a document that is opened by ``path``; None if there is none.

    Raises Unreadable if it cannot be read, with the name of that file, which is made of the document's ``name``.
    """
    file = name_of(name)
    try:
        with open_regular(os.fsencode(path) + SUFFIX.encode(), follow_links=False) as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        if error.errno in {ENOENT, ENAMETOOLONG}:
            return None
        reason = "is a link" if error.errno == ELOOP else error.strerror
        raise UnreadableNow(f"{file}: cannot be opened: {reason}") from None
    return parsed(content, file)


def parsed(content: bytes, file: str) -> dict[str, Any]:
    """Return the JSON object that a metadata file has. Raises Unreadable, with the file's name, if it has none."""
    if len(content) > MAX_BYTES:
        raise Unreadable(f"{file}: is longer than {MAX_BYTES:,} bytes")
    try:
        value = read_json(content.decode("utf-8-sig"))
        check_characters(value)
    except UnicodeDecodeError:
        raise Unreadable(f"{file}: is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"{file}: is not JSON: {error.msg} at character {error.pos}") from None
    except NotJson as error:
        raise Unreadable(f"{file}: {error}") from None
    if not isinstance(value, dict):
        raise Unreadable(f"{file}: is not a JSON object")
    return value


def stated_fields(stated: Mapping[str, Any], file: str) -> dict[str, Plain]:
    """Return the fields of a metadata file's object, in either form.

    Raises Unreadable, with the names of file and field, if a value is not of Bedrock's form.
    """
    if _ATTRIBUTES not in stated:
        return plain_fields(stated)
    attributes = stated[_ATTRIBUTES]
    if not isinstance(attributes, dict):
        raise Unreadable(f"{file}: {_ATTRIBUTES}: is not a JSON object")
    fields: dict[str, Plain] = {}
    for name, given in attributes.items():
        value = _value_of(given)
        found = plain_fields({name: value})
        if given is not None and (value is None or not found):
            form = '{"value": {"type": "STRING", "stringValue": "…"}}'
            raise Unreadable(f"{file}: {printable(name[:80])}: is neither a plain value nor of the form {form}")
        fields |= found
    return fields


def _value_of(given: object) -> object:
    """Return the value of an attribute; None if it is an object, but not of Bedrock's form."""
    match given:
        case {"value": {"type": "STRING", "stringValue": str() as value}}:
            return value
        case {"value": {"type": "NUMBER", "numberValue": int() | float() as value}} if not isinstance(value, bool):
            return value
        case {"value": {"type": "BOOLEAN", "booleanValue": bool() as value}}:
            return value
        case {"value": {"type": "STRING_LIST", "stringListValue": [*values]}} if all(
            isinstance(v, str) for v in values
        ):
            return values
        case dict():
            return None
    return given


def with_metadata(document: Document, source: Source) -> Document:
    """Return a document with the fields of its metadata file, if it has one; they take precedence over its own.

    Raises Unreadable, with the names of file and field, if a value is not of Bedrock's form, or a validity no date.
    """
    if source.beside is None:
        return document
    file = name_of(source.name)
    fields = stated_fields(source.beside, file)
    for name in VALIDITY:
        stated_date(name, fields.get(name), f"{file}: ")
    return document.stating(fields, beside=file)
