"""Strings in requests and replies: the same bytes and values as of the client library."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from braid.engines.neptune.graphbinary_strings import graphbinary_serializer
from gremlin_python.driver.request import RequestMessage
from gremlin_python.driver.serializer import GraphBinarySerializersV1
from gremlin_python.process.graph_traversal import GraphTraversalSource, __
from gremlin_python.process.traversal import Cardinality, P, TraversalStrategies
from gremlin_python.structure.graph import Graph
from gremlin_python.structure.io.graphbinaryV1 import GraphBinaryReader, GraphBinaryWriter

OURS = graphbinary_serializer()
TEXTS = ["", "a", "Zürich", "日本", "🧵 \x01 \0 end", "x" * 70_000]
REQUEST = "0a3c5e61-9e4b-4d61-8f3b-3f1c9f0a7d11"


def bulk_set(items: list[tuple[Any, int]]) -> bytes:
    """Return a bulk set without its type, as it stands in a reply."""
    written = bytearray(b"\0" + struct.pack(">i", len(items)))
    for item, count in items:
        GraphBinaryWriter().to_dict(item, written)
        written += struct.pack(">q", count)
    return bytes(written)


def read(data: bytes, reader: GraphBinaryReader) -> tuple[Any, bytes]:
    """Return the bulk set, and what is left of the reply after it."""
    buffer = io.BytesIO(b"\x2a" + data + b"rest")
    return reader.to_object(buffer), buffer.read()


@pytest.mark.parametrize(
    "items",
    [
        [],
        [(text, 1) for text in TEXTS],
        [("a", 3), ("b", 1), ("a", 2)],
        [("a", 2), (7, 2), ("b", 1)],
        [(1, 1), (2.5, 1)],
        [("a", 1), (["b", "c"], 2)],
        [("a", 1), (None, 1), ("b", 1)],
    ],
)
def test_a_bulk_set_is_read_as_by_the_library(items: list[tuple[Any, int]]) -> None:
    data = bulk_set(items)
    expected = read(data, GraphBinaryReader())
    assert read(data, OURS._graphbinary_reader) == expected
    assert expected[1] == b"rest"


def test_a_set_that_is_null_is_none() -> None:
    assert read(b"\1", OURS._graphbinary_reader) == (None, b"rest")


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_bulk_set_that_is_cut_off_is_an_error(cut: int) -> None:
    data = bulk_set([("first", 1), ("second", 2)])
    with pytest.raises((struct.error, UnicodeDecodeError, IndexError, AttributeError, TypeError, ValueError)):
        OURS._graphbinary_reader.to_object(io.BytesIO((b"\x2a" + data)[:-cut]))


@pytest.mark.parametrize("length", [-1, -14, -(2**31), 2**31 - 1])
def test_a_damaged_length_is_an_error_at_once(length: int) -> None:
    data = b"\x2a\0" + struct.pack(">i", 2**31 - 1) + struct.pack(">BBi", 3, 0, length) + bytes(30)
    with pytest.raises((struct.error, ValueError, IndexError, TypeError, AttributeError)):
        OURS._graphbinary_reader.to_object(io.BytesIO(data))


def test_a_request_is_written_as_by_the_library() -> None:
    source = GraphTraversalSource(Graph(), TraversalStrategies())
    steps = (
        source.V(*TEXTS).has("tenant_id", "a").has("name", P.within(TEXTS)).property(Cardinality.set_, "k", TEXTS[2])
    )
    steps = steps.merge_e({"id": "ü", "n": 3}).local(__.both_e(*TEXTS[1:3]).limit(5)).cap("x")
    arguments = {"gremlin": steps.bytecode, "aliases": {"g": "g"}, "evaluationTimeout": 1_000}
    message = RequestMessage("traversal", "bytecode", arguments)
    assert OURS.serialize_message(REQUEST, message) == GraphBinarySerializersV1().serialize_message(REQUEST, message)
