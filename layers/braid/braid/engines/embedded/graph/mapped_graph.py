"""A tenant's graph in a file with memory-mapped arrays, of which a process reads only the parts that it walks.

The file has the graph of one write generation; later writes are overlaid, as for a graph in memory. Its content is not
trusted: a damaged file is detected, and the graph is loaded from the rows again.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import time
import zlib
from contextlib import suppress
from dataclasses import fields
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from braid.engines.embedded.graph.adjacency import Adjacency, Neighbours
from braid.engines.embedded.graph.lazy_texts import CodedTexts, MappedTexts, SortedIndices
from braid.engines.embedded.sqlite_files import PRIVATE_FILE, PRIVATE_FOLDER, FileVersion, MappedFile
from braid.models import Direction, Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_FORMAT: Final = 1
_END: Final = struct.Struct("<QI4s")
"""Trailer of a file: length of the JSON header before it, checksum of everything before it, and file type."""
_KIND: Final = b"brgr"
_MAX_HEADER_BYTES: Final = 2**24
"""Longest header: it lists the names of types, of which a tenant has a few hundred."""
_ALIGNED: Final = 8
_CHUNK: Final = 2**20
_ABANDONED_S: Final = 3_600
_TEXTS: Final = ("ids", "names", "evidence", "predicates")
_PLAIN: Final = ("entity_types", "relationship_types")
_NOT_STORED: Final = {"generation", "numbers", "mapped", "_neighbours", *_TEXTS, *_PLAIN}
_ARRAYS: Final = tuple(each.name for each in fields(Adjacency) if each.name not in _NOT_STORED)
_NARROW: Final = {"type_of", "sources", "targets", "edge_types"}
"""Arrays stored as 32-bit numbers."""


class Damaged(ValueError):
    """The file of a saved graph is damaged or another one."""


class Owner(NamedTuple):
    """The owner of a graph: the store's identity, and the tenant's number there."""

    store: str
    tenant: int


StampOf: TypeAlias = "Callable[[int], str | None]"
"""Returns the stamp of a write generation; None if it is unknown."""


class _Header(Frozen):
    format: int
    store: str
    tenant: int
    generation: int
    stamp: str
    vertices: int
    entity_types: tuple[str, ...]
    relationship_types: tuple[str, ...]
    arrays: tuple[tuple[str, str, int], ...]
    """Name, type and length of each array, in their order in the file."""


def write(path: Path, owner: Owner, stamp: str, graph: Adjacency) -> None:
    """Write a graph to a file, replacing an older one. Raises OSError if it cannot be written."""
    path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    arrays = dict(_arrays(graph))
    header = _Header(
        format=_FORMAT,
        store=owner.store,
        tenant=owner.tenant,
        generation=graph.generation,
        stamp=stamp,
        vertices=len(graph.ids),
        entity_types=tuple(graph.entity_types),
        relationship_types=tuple(graph.relationship_types),
        arrays=tuple((name, values.dtype.str, len(values)) for name, values in arrays.items()),
    )
    _remove_abandoned(path)
    unfinished = path.with_suffix(f".{secrets.token_hex(8)}.new")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:  # noqa: PTH123 - with its mode
            checksum, encoded = 0, header.model_dump_json().encode()
            for part in chain((_padded(values) for values in arrays.values()), [encoded]):
                checksum = zlib.crc32(part, checksum)
                file.write(part)
            file.write(_END.pack(len(encoded), checksum, _KIND))
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _remove_abandoned(path: Path) -> None:
    """Remove unfinished files of processes that were killed while writing."""
    long_ago = time.time() - _ABANDONED_S
    for unfinished in path.parent.glob(f"{path.stem}.*.new"):
        with suppress(OSError):
            if unfinished.stat().st_mtime < long_ago:
                unfinished.unlink(missing_ok=True)


def read(path: Path, owner: Owner, stamp_of: StampOf) -> Adjacency | None:
    """Map the graph of a file; return None if its stamp differs from its generation's in the store.

    Raises
    ------
    Damaged
        If the file is damaged, or of another store or tenant.
    OSError
        If there is no such file, or it cannot be read.
    """
    if path.exists() and not path.is_file():
        raise Damaged("it is no file")
    version = FileVersion.of(path)
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < _END.size:
            raise Damaged("it is too short")
        file.seek(size - _END.size)
        header_bytes, checksum, kind = _END.unpack(file.read(_END.size))
        if kind != _KIND or header_bytes > min(size - _END.size, _MAX_HEADER_BYTES):
            raise Damaged("it is no graph")
        file.seek(size - _END.size - header_bytes)
        header = _Header.model_validate_json(file.read(header_bytes))
        if (header.format, header.store, header.tenant) != (_FORMAT, *owner):
            raise Damaged("it is of another store, tenant or version")
        if stamp_of(header.generation) != header.stamp:
            return None
        if _checksum(file, size - _END.size) != checksum:
            raise Damaged("its checksum is another")
        mapped = MappedFile(file.fileno(), size, access=mmap.ACCESS_READ)
        mapped.path, mapped.version = path, version
    try:
        return _graph(mapped, header)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise Damaged(type(error).__name__) from error


def _checksum(file: IO[bytes], size: int) -> int:
    file.seek(0)
    found, left = 0, size
    while left and (part := file.read(min(_CHUNK, left))):
        found, left = zlib.crc32(part, found), left - len(part)
    return found


def _graph(mapped: MappedFile, header: _Header) -> Adjacency:
    arrays: dict[str, NDArray[Any]] = {}
    begin = 0
    for name, kind, count in header.arrays:
        arrays[name] = np.frombuffer(mapped, dtype=kind, count=count, offset=begin)
        begin += -(-arrays[name].nbytes // _ALIGNED) * _ALIGNED
    begins, content = arrays["begins"], arrays["content"]
    texts, ids = (MappedTexts(begins, content, count) for count in (len(begins) - 1, header.vertices))
    return Adjacency(
        generation=header.generation,
        ids=ids,
        numbers=SortedIndices(ids),
        names=CodedTexts(texts, arrays["names"]),
        evidence=CodedTexts(texts, arrays["evidence"]),
        predicates=CodedTexts(texts, arrays["predicates"]),
        entity_types=list(header.entity_types),
        relationship_types=list(header.relationship_types),
        mapped=mapped,
        _neighbours={way: Neighbours(*(arrays[f"{way}_{each}"] for each in Neighbours._fields)) for way in Direction},
        **{name: arrays[name] for name in _ARRAYS},
    )


def _arrays(graph: Adjacency) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a file, with their names."""
    for name in _ARRAYS:
        values = getattr(graph, name)
        yield name, values.astype(np.int32) if name in _NARROW else values
    for way in Direction:
        starts, edges, targets = graph.neighbours(way)
        yield f"{way}_starts", starts
        yield f"{way}_edges", edges.astype(np.int32)
        yield f"{way}_targets", targets.astype(np.int32)
    places: dict[str | None, int] = {identity: place for place, identity in enumerate(graph.ids)}
    for text in chain(graph.names, graph.evidence, graph.predicates):
        places.setdefault(text, len(places))
    lengths = [0]
    content = bytearray()
    none = places.get(None)
    for text in places:
        content += (text or "").encode()
        lengths.append(len(content))
    yield "begins", np.array(lengths, dtype=np.int64)
    yield "content", np.frombuffer(bytes(content), dtype=np.uint8)
    for name in ("names", "evidence", "predicates"):
        codes = np.fromiter(map(places.__getitem__, getattr(graph, name)), dtype=np.int32)
        yield name, np.where(codes == none, -1, codes).astype(np.int32) if none is not None else codes


def _padded(values: NDArray[Any]) -> bytes:
    return values.tobytes() + bytes(-values.nbytes % _ALIGNED)
