"""Detects tensors of an ONNX file that are stored outside it, without the ``onnx`` package or loading weights.

ONNX is protocol buffers. The parser descends only into the messages that can hold a tensor, by their field numbers in
``onnx.proto3``, and skips everything else, so that 90 MB of weights cost a few reads.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_TENSOR_NAME, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 8, 13, 14
_MAX_DEPTH = 64
_MAX_KEY = 2**32 - 1
"""Of a field's number and wire type. ONNX Runtime's parser drops higher bits, and so reads another field."""


def external_tensor(path: Path) -> str | None:
    """Return the name of the first tensor whose data is outside the file, or None.

    Raises ValueError if the file is not well-formed protocol buffers.
    """
    with path.open("rb") as stream:
        if path.stat().st_size == 0:
            raise ValueError("the file is empty")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _search(data, 0, len(data), "model", 0)


def _search(data: mmap.mmap, start: int, end: int, kind: str, depth: int) -> str | None:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if kind == "tensor":
        return _external_name(data, start, end)
    children = _CHILDREN[kind]
    for field, wire, begin, stop in _fields(data, start, end):
        if wire == _BYTES and field in children:
            found = _search(data, begin, stop, children[field], depth + 1)
            if found is not None:
                return found
    return None


def _external_name(data: mmap.mmap, start: int, end: int) -> str | None:
    name, external = "", False
    for field, wire, begin, stop in _fields(data, start, end):
        if field == _TENSOR_NAME and wire == _BYTES:
            name = data[begin:stop].decode("utf-8", "replace")
        elif field == _TENSOR_EXTERNAL or (field == _TENSOR_LOCATION and _varint(data, begin, end)[0] != 0):
            external = True
    return name if external else None


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield field number, wire type, and the value's start and end offset."""
    position = start
    while position < end:
        key, position = _varint(data, position, end)
        if key > _MAX_KEY:
            raise ValueError("a field's number is too large")
        field, wire = key >> 3, key & 7
        begin = position
        if wire == _VARINT:
            _, position = _varint(data, position, end)
        elif wire == _FIXED64:
            position += 8
        elif wire == _FIXED32:
            position += 4
        elif wire == _BYTES:
            size, begin = _varint(data, position, end)
            position = begin + size
        else:
            raise ValueError(f"unknown wire type {wire}")
        if position > end:
            raise ValueError("cut short")
        yield field, wire, begin, position


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """Return a base-128 integer and the offset after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise ValueError("cut short")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
    raise ValueError("integer too long")
