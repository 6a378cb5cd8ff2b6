"""Parses the argument of :meth:`braid.client.Braid.add` into batches of items, and paths of documents."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from pydantic import BaseModel

from braid.errors import InvalidRequest
from braid.ingestion.documents.reader_selection import READERS
from braid.ingestion.item_parsing import Items
from braid.ingestion.regular_files import open_inside
from braid.models import NewRecord, NewRelationship, NewVertex
from braid.strict_json import NotJson, read_json

DATASET: Final = {"corpus.jsonl": None, "entities.jsonl": "entity", "relationships.jsonl": "relationship"}
"""Files of a dataset folder, in the order in which they must be written, with the kind of their items."""
_LONGEST_PATH: Final = 1_024


class Item(NamedTuple):
    """One item, with its place in the argument, such as ``content[3]``, and its kind if the row does not state it."""

    place: str
    row: dict[str, Any]
    kind: str | None = None
    renamed: bool = False
    """Whether ``_id`` was given as ``id``."""


class Documents(NamedTuple):
    """A file or folder of documents, with its place in the argument."""

    place: str
    path: Path


def batches(content: object, tenant: str, *, items: int, size: int) -> Iterator[Items | Documents]:
    """Yield batches of parsed items, and paths of documents, in the order of the content.

    Raises InvalidRequest if an item is malformed or of a type that cannot be added; the message names its place and
    field.

    Parameters
    ----------
    content
        The argument of :meth:`braid.client.Braid.add`.
    items
        Limit of items in a batch.
    size
        Approximate size limit of a batch, in bytes of JSON.
    """
    batch, count, length = Items(tenant), 0, 0
    for found in items_of(content, "content"):
        if isinstance(found, Documents):
            if count:
                yield batch
                batch, count, length = Items(tenant), 0, 0
            yield found
            continue
        place, row, kind, renamed = found
        weight = len(json.dumps(row, default=str))
        if count and (count >= items or length + weight > size):
            yield batch
            batch, count, length = Items(tenant), 0, 0
        batch.add(place, row, kind)
        if batch.errors:
            error = batch.errors[0]
            if renamed and error.field == "_id":
                error = error.altered(field="id")
            raise InvalidRequest(str(error), field=error.field or error.place)
        count, length = count + 1, length + weight
    if count:
        yield batch


def items_of(content: object, place: str) -> Iterator[Item | Documents]:
    """Yield the items of a content: itself, the items of a file, or those of an iterable, recursively."""
    match content:
        case Path():
            yield from _of_path(content, place)
        case str() if _is_path(content):
            yield from _of_path(Path(content), place)
        case str() | Mapping() | BaseModel():
            yield _item(content, place)
        case bytes() | bytearray():
            raise InvalidRequest.of(place, "bytes cannot be added; decode them, or give the path of a file")
        case Iterable() if not _text_of(content):
            for number, one in enumerate(content):
                yield from items_of(one, f"{place}[{number}]")
        case _:
            yield _item(content, place)


def _item(content: Any, place: str) -> Item:  # noqa: ANN401 - any argument
    match content:
        case str():
            return _with_id(place, {"text": content})
        case NewVertex():
            fields = content.model_dump(exclude={"tenant_id", "has_record"}, exclude_unset=True)
            return Item(place, fields | {"type": fields.pop("entity_type", "Concept")}, "entity")
        case NewRelationship():
            return Item(place, content.model_dump(exclude={"tenant_id"}, exclude_unset=True), "relationship")
        case NewRecord():
            left_out = {"tenant_id", "content_hash", "supplied_spaces", "shortened"}
            return Item(place, content.model_dump(exclude=left_out, exclude_unset=True), "record")
        case _ if text := _text_of(content):
            return _of_document(content, text, place)
        case Mapping():
            return _of_mapping(dict(content), place)
        case BaseModel():
            return _of_mapping(content.model_dump(exclude_none=True), place)
        case _ if is_dataclass(content) and not isinstance(content, type):
            return _of_mapping({name: value for name, value in asdict(content).items() if value is not None}, place)
    raise InvalidRequest.of(
        place,
        f"{type(content).__name__} cannot be added; texts, dicts, dataclasses, records, documents with a text "
        "and metadata, paths, and iterables of these can",
    )


def _text_of(content: object) -> str | None:
    """Return the text of a LangChain (``page_content``) or LlamaIndex (``text``) document; None for anything else."""
    if isinstance(content, Mapping) or not isinstance(getattr(content, "metadata", None), Mapping):
        return None
    for name in ("page_content", "text"):
        if isinstance(text := getattr(content, name, None), str):
            return text
    return None


def _of_document(content: object, text: str, place: str) -> Item:
    metadata = dict(content.metadata)  # type: ignore[attr-defined] # checked by _text_of
    row: dict[str, Any] = {"text": text, "metadata": metadata}
    title = next((metadata[name] for name in ("title", "file_name", "source") if metadata.get(name)), None)
    if title is not None:
        row["title"] = str(title)
    page = metadata.get("page")
    if isinstance(page, int) and page >= 0:
        row["source"] = {"page": page}
    identity = next((found for name in ("id", "id_") if isinstance(found := getattr(content, name, None), str)), None)
    return _with_id(place, row | ({"_id": identity} if identity else {}))


def _of_mapping(row: dict[str, Any], place: str) -> Item:
    if len(row) == 1 and next(iter(row)) in {"record", "entity", "relationship"}:
        return Item(place, row)
    if {"source", "target", "type"} <= row.keys():
        return Item(place, row, "relationship")
    if "type" in row and "text" not in row:
        return Item(place, row, "entity")
    if "text" not in row and "content" not in row and "_id" not in row:
        raise InvalidRequest(
            f"{place}: has neither text nor content, no type as entities have, and no source, type and target as "
            "relationships have",
            field="text",
        )
    renamed = "text" in row and "id" in row
    if renamed:
        row["_id"] = row.pop("id")
    return _with_id(place, row)._replace(renamed=renamed)


def _with_id(place: str, row: dict[str, Any]) -> Item:
    """Return an item with an id; by default a hash of its text, so that adding it again changes nothing."""
    if "_id" not in row and "id" not in row:
        row["_id" if "text" in row else "id"] = id_of(row)
    return Item(place, row)


def id_of(row: Mapping[str, Any]) -> str:
    """Return the id of an item that has none: a hash of its title, name and text."""
    words = "\n".join(str(row.get(name) or "") for name in ("title", "name", "text", "content"))
    return f"text-{hashlib.sha256(words.encode(errors='replace')).hexdigest()[:16]}"


def _is_path(text: str) -> bool:
    """Return whether a text is a path: of an existing file or folder, or by its form."""
    if "\n" in text or "\0" in text or "://" in text or len(text) > _LONGEST_PATH:
        return False
    written = text.endswith(("/", "\\", *READERS)) and not any(letter.isspace() for letter in text)
    return written or (" " not in text.strip() and ("/" in text or "." in text) and _exists(text))


def _exists(path: str | Path) -> bool:
    """Return whether a file or folder exists; the method of pathlib raises where a name is too long."""
    return os.path.exists(path)  # noqa: PTH110


def _of_path(path: Path, place: str) -> Iterator[Item | Documents]:
    if not _exists(path):
        raise InvalidRequest.of(place, f"{path} does not exist")
    if path.suffix == ".jsonl" and path.is_file():
        with path.open("rb") as lines:
            yield from _lines(path, lines, DATASET.get(path.name))
    elif (path / "corpus.jsonl").is_file():
        for name, kind in DATASET.items():
            if (path / name).is_file():
                yield from _of_dataset(path, name, kind)
    else:
        yield Documents(place, path)


def _of_dataset(folder: Path, name: str, kind: str | None) -> Iterator[Item]:
    try:
        lines = open_inside(folder, name)
    except OSError as error:
        raise InvalidRequest(f"{folder / name}: {error.strerror}", field=name) from error
    with lines:
        yield from _lines(folder / name, lines, kind)


def _lines(path: Path, lines: BinaryIO, kind: str | None) -> Iterator[Item]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path.name}:{number}"
        try:
            row = read_json(line.decode("utf-8-sig"))
        except (UnicodeDecodeError, ValueError, NotJson) as error:
            raise InvalidRequest.of(where, f"not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InvalidRequest.of(where, f"expected an object, found {type(row).__name__}")
        yield Item(where, row, kind)
