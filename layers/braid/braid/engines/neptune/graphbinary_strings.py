"""Strings in GraphBinary, the format of requests and replies: faster than the client library's, to the same bytes.

A walk sends the ids of hundreds of vertices, and its reply are the rows of thousands of vertices and edges, as *bulk
sets*: each string with the number of its occurrences. The library makes several calls for each.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from gremlin_python.driver.serializer import GraphBinarySerializersV1
from gremlin_python.structure.io.graphbinaryV1 import (
    BulkSetDeserializer,
    DataType,
    GraphBinaryReader,
    GraphBinaryWriter,
    StringIO,
)

if TYPE_CHECKING:
    from io import BytesIO

_SIZE: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">BBi")
"""Before the bytes of a string: its type, whether it is null, their number."""
_STRING: Final[int] = DataType.string.value
_COUNT: Final = struct.Struct(">q")


def graphbinary_serializer() -> GraphBinarySerializersV1:
    """Return what writes requests and reads replies."""
    return GraphBinarySerializersV1(
        reader=GraphBinaryReader({DataType.bulkset: _BulkSet}), writer=GraphBinaryWriter({str: _String})
    )


class _String:
    """Writes a string."""

    @staticmethod
    def dictify(
        text: str, writer: GraphBinaryWriter, to_extend: bytearray, as_value: bool = False, nullable: bool = True
    ) -> bytearray:
        """Append a string to a request, by the library's writer where a part of what is before it is left out."""
        if as_value or not nullable:
            written: bytearray = StringIO.dictify(text, writer, to_extend, as_value, nullable)
            return written
        content = text.encode()
        to_extend += _HEAD.pack(_STRING, 0, len(content))
        to_extend += content
        return to_extend


class _BulkSet:
    """Reads a bulk set as a list in which each item is repeated as often as it occurs."""

    @staticmethod
    def objectify(buffer: BytesIO, reader: GraphBinaryReader, nullable: bool = True) -> list[Any] | None:
        """Read what follows the type, by the library's reader if not all items are strings."""
        begin = buffer.tell()
        if nullable and buffer.read(1) != b"\0":
            return None
        (size,) = _SIZE.unpack(buffer.read(_SIZE.size))
        strings: list[Any] = []
        at = buffer.tell()
        with buffer.getbuffer() as data:
            for _ in range(size):
                kind, is_null, length = _HEAD.unpack_from(data, at)
                if kind != _STRING or is_null or length < 0:
                    break
                end = at + _HEAD.size + length
                text = str(data[at + _HEAD.size : end], "utf-8")
                (count,) = _COUNT.unpack_from(data, end)
                strings += [text] if count == 1 else [text] * count
                at = end + _COUNT.size
            else:
                buffer.seek(at)
                return strings
        buffer.seek(begin)
        items: list[Any] = BulkSetDeserializer.objectify(buffer, reader, nullable)
        return items
