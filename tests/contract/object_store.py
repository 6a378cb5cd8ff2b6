"""What every object store must do."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest
from braid.errors import InvalidRequest, ObjectChanged, ObjectMissing, StoreError
from braid.ports.keys import MAX_KEY_BYTES
from braid.ports.object_store import MAX_LINE_BYTES, ObjectStore

from tests.contract.shapes import ACME, GLOBEX

if TYPE_CHECKING:
    from collections.abc import Callable


class Pipe(io.RawIOBase):
    """A stream that gives a few bytes at a time and then perhaps fails, as a pipe or a socket does."""

    def __init__(self, content: bytes, *, error: Exception | None = None, step: int = 100_000) -> None:
        self._left = memoryview(content)
        self._error = error
        self._step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._left and self._error:
            raise self._error
        size = self._step if size < 0 else min(size, self._step)
        taken, self._left = bytes(self._left[:size]), self._left[size:]
        return taken

    def binary(self) -> BinaryIO:
        return cast("BinaryIO", self)


def keys(objects: ObjectStore, prefix: str = "", *, tenant: str = ACME) -> list[str]:
    return [found.key for found in objects.list(tenant, prefix)]


def lines(objects: ObjectStore, key: str, *, tenant: str = ACME) -> list[bytes]:
    return list(objects.open(tenant, key))


class ObjectStoreContract:
    """Subclass this and provide the fixtures below.

    ``objects``, a store that is empty for every test; ``part_bytes``, how much of an object it reads or writes at once;
    ``put_many``, which puts empty objects of tenant acme by the quickest way there is.
    """

    def test_the_port_is_implemented(self, objects: ObjectStore) -> None:
        assert isinstance(objects, ObjectStore)

    def test_lines_come_back_in_order_without_their_feeds(self, objects: ObjectStore) -> None:
        objects.put(ACME, "corpus.jsonl", b'{"_id": "1"}\n\n{"_id": "2"}\r\nlast')
        assert lines(objects, "corpus.jsonl") == [b'{"_id": "1"}', b"", b'{"_id": "2"}\r', b"last"]

    def test_a_feed_at_the_end_begins_no_line(self, objects: ObjectStore) -> None:
        objects.put(ACME, "a", b"one\ntwo\n")
        assert lines(objects, "a") == [b"one", b"two"]

    @pytest.mark.parametrize("as_stream", [False, True])
    def test_an_empty_object_has_no_line(self, objects: ObjectStore, as_stream: bool) -> None:
        objects.put(ACME, "a", io.BytesIO(b"") if as_stream else b"")
        assert lines(objects, "a") == []
        assert [found.size_bytes for found in objects.list(ACME)] == [0]

    def test_characters_that_are_no_line_feed_end_no_line(self, objects: ObjectStore) -> None:
        line = "Größe 東京 🧵 \u2028 \u0085 \x0c \x00".encode()
        objects.put(ACME, "a", line + b"\n" + line)
        assert lines(objects, "a") == [line, line]

    def test_an_object_can_be_read_again(self, objects: ObjectStore) -> None:
        objects.put(ACME, "a", b"one\ntwo")
        opened = objects.open(ACME, "a")
        assert list(opened) == list(opened) == [b"one", b"two"]

    def test_an_object_of_several_parts_comes_back_whole(self, objects: ObjectStore, part_bytes: int) -> None:
        line = b"x" * 99_991
        count = 2 * part_bytes // len(line) + 3
        content = b"\n".join(b"%d%s" % (number, line) for number in range(count))
        info = objects.put(ACME, "a", Pipe(content).binary())
        assert info.size_bytes == len(content)
        assert objects.open(ACME, "a").info == info
        assert b"\n".join(objects.open(ACME, "a")) == content

    def test_an_object_of_exactly_two_parts_comes_back_whole(self, objects: ObjectStore, part_bytes: int) -> None:
        content = (b"y" * (part_bytes // 4 - 1) + b"\n") * 8
        for source in (content, io.BytesIO(content)):
            objects.put(ACME, "a", source)
            assert b"".join(line + b"\n" for line in objects.open(ACME, "a")) == content

    def test_a_value_of_300_kb_is_one_line(self, objects: ObjectStore) -> None:
        objects.put(ACME, "a", "é".encode() * 150_000)
        assert lines(objects, "a") == ["é".encode() * 150_000]

    def test_a_line_that_would_not_fit_in_memory_is_named(self, objects: ObjectStore) -> None:
        objects.put(ACME, "a", b"first\n" + b"x" * (MAX_LINE_BYTES + 1))
        opened = iter(objects.open(ACME, "a"))
        assert next(opened) == b"first"
        with pytest.raises(StoreError, match="a: line 2 is longer"):
            next(opened)

    def test_a_missing_object_is_named(self, objects: ObjectStore) -> None:
        with pytest.raises(ObjectMissing, match="'no such'"):
            objects.open(ACME, "no such")

    def test_two_tenants_share_no_key(self, objects: ObjectStore) -> None:
        objects.put(ACME, "a", b"acme")
        with pytest.raises(ObjectMissing):
            objects.open(GLOBEX, "a")
        objects.put(GLOBEX, "a", b"globex")
        objects.put(GLOBEX, "b", b"globex")
        assert lines(objects, "a") == [b"acme"]
        assert (keys(objects), keys(objects, tenant=GLOBEX)) == (["a"], ["a", "b"])
        objects.delete(ACME, "a")
        objects.delete(ACME, "b")
        assert keys(objects, tenant=GLOBEX) == ["a", "b"]

    def test_a_tenant_whose_name_begins_anothers_sees_nothing_of_it(self, objects: ObjectStore) -> None:
        objects.put("acme-2", "a", b"1")
        assert keys(objects) == []

    def test_keys_are_listed_by_prefix_in_order(self, objects: ObjectStore) -> None:
        for key in ("b/2", "a", "b/10", "b", "ba", "B/1", "b/ü", "b%"):
            objects.put(ACME, key, b"")
        assert keys(objects) == ["B/1", "a", "b", "b%", "b/10", "b/2", "b/ü", "ba"]
        assert keys(objects, "b/") == ["b/10", "b/2", "b/ü"]
        assert keys(objects, "b%") == ["b%"]
        assert keys(objects, "\x00") == keys(objects, "z") == []

    def test_more_keys_than_one_page_are_listed_and_deleted(
        self, objects: ObjectStore, put_many: Callable[[list[str]], None]
    ) -> None:
        put_many([f"k{number:04}" for number in range(1_005)])
        assert keys(objects) == [f"k{number:04}" for number in range(1_005)]
        objects.delete_many(ACME, [f"k{number:04}" for number in range(1, 1_005)])
        assert keys(objects) == ["k0000"]

    @pytest.mark.parametrize(
        "key", ["", "/etc/passwd", "a//b", "../a", "a/..", "./a", "a/", "a\nb", "\ud800", "x" * (MAX_KEY_BYTES + 1)]
    )
    def test_a_key_that_could_be_a_path_elsewhere_is_refused(self, objects: ObjectStore, key: str) -> None:
        for call in (
            lambda: objects.put(ACME, key, b""),
            lambda: objects.open(ACME, key),
            lambda: objects.delete(ACME, key),
        ):
            with pytest.raises(InvalidRequest, match=r"^key:") as caught:
                call()
            assert caught.value.field == "key"

    @pytest.mark.parametrize("tenant", ["", "..", "acme/x", "acme|"])
    def test_a_tenant_whose_name_could_reach_another_is_refused(self, objects: ObjectStore, tenant: str) -> None:
        calls = (
            lambda: objects.put(tenant, "a", b""),
            lambda: objects.open(tenant, "a"),
            lambda: list(objects.list(tenant)),
            lambda: objects.delete(tenant, "a"),
        )
        for call in calls:
            with pytest.raises(InvalidRequest) as caught:
                call()
            assert caught.value.field == "tenant_id"

    def test_keys_may_hold_any_printable_character(self, objects: ObjectStore) -> None:
        names = ["Größe 東京 🧵.jsonl", "a'b", "a%2Fb", "a\\b", "~", "...", "a b", "x" * MAX_KEY_BYTES]
        for name in names:
            objects.put(ACME, name, name.encode())
        assert {name: lines(objects, name) for name in keys(objects)} == {name: [name.encode()] for name in names}

    def test_replacing_changes_the_version(self, objects: ObjectStore) -> None:
        first = objects.put(ACME, "a", b"one")
        second = objects.put(ACME, "a", b"two")
        assert first.version != second.version
        assert objects.open(ACME, "a").info == second
        assert lines(objects, "a") == [b"two"]

    def test_a_deleted_object_is_gone_and_deleting_again_is_no_error(self, objects: ObjectStore) -> None:
        objects.put(ACME, "a", b"one")
        objects.delete(ACME, "a")
        objects.delete(ACME, "a")
        assert keys(objects) == []
        with pytest.raises(ObjectMissing):
            objects.open(ACME, "a")

    def test_many_objects_are_deleted_and_no_others(self, objects: ObjectStore) -> None:
        for name in ("notes/1", "notes/2", "notes"):
            objects.put(ACME, name, b"ours")
        objects.put(GLOBEX, "notes/1", b"theirs")
        objects.delete_many(ACME, ["notes/1", "notes/2", "never there"])
        objects.delete_many(ACME, [])
        assert keys(objects) == ["notes"]
        assert keys(objects, tenant=GLOBEX) == ["notes/1"]
        objects.delete_many(ACME, ["../globex/notes/1", "inbox/", "a//b"])
        assert keys(objects) == ["notes"]
        assert keys(objects, tenant=GLOBEX) == ["notes/1"]

    def test_an_object_replaced_while_it_is_read_is_noticed(self, objects: ObjectStore, part_bytes: int) -> None:
        content = (b"x" * 999 + b"\n") * (3 * part_bytes // 1_000)
        objects.put(ACME, "a", content)
        reading = iter(objects.open(ACME, "a"))
        assert next(reading) == b"x" * 999
        objects.put(ACME, "a", content.replace(b"x", b"y"))
        with pytest.raises(ObjectChanged, match="'a' changed while it was read"):
            list(reading)

    def test_an_object_deleted_while_it_is_read_is_noticed(self, objects: ObjectStore, part_bytes: int) -> None:
        objects.put(ACME, "a", (b"x" * 999 + b"\n") * (3 * part_bytes // 1_000))
        reading = iter(objects.open(ACME, "a"))
        next(reading)
        objects.delete(ACME, "a")
        with pytest.raises(ObjectChanged, match="'a' changed while it was read"):
            list(reading)

    def test_an_object_replaced_before_its_first_line_is_noticed(self, objects: ObjectStore) -> None:
        objects.put(ACME, "a", b"one")
        opened = objects.open(ACME, "a")
        objects.put(ACME, "a", b"two")
        with pytest.raises(ObjectChanged):
            list(opened)

    def test_a_source_that_fails_leaves_what_was_there(self, objects: ObjectStore, part_bytes: int) -> None:
        objects.put(ACME, "a", b"before")
        broken = Pipe(b"z" * (part_bytes + 10), error=ConnectionResetError("the source is gone"))
        with pytest.raises(ConnectionResetError, match="the source is gone"):
            objects.put(ACME, "a", broken.binary())
        assert lines(objects, "a") == [b"before"]
        assert keys(objects) == ["a"]

    def test_a_stream_of_text_is_refused(self, objects: ObjectStore) -> None:
        with pytest.raises(InvalidRequest, match="binary mode"):
            objects.put(ACME, "a", cast("BinaryIO", io.StringIO("text")))
        assert keys(objects) == []

    def test_a_part_of_an_object_is_read_by_its_bytes(self, objects: ObjectStore, part_bytes: int) -> None:
        content = bytes(range(256)) * (part_bytes // 256 + 2)
        info = objects.put(ACME, "a", content)
        for start, end in ((0, 0), (0, 10), (7, 260), (part_bytes - 1, part_bytes + 1), (0, len(content))):
            assert objects.read(ACME, info, start, end) == content[start:end]

    @pytest.mark.parametrize(("start", "end"), [(-1, 2), (2, 1), (0, 4)])
    def test_a_part_that_is_none_is_refused(self, objects: ObjectStore, start: int, end: int) -> None:
        info = objects.put(ACME, "a", b"abc")
        with pytest.raises(InvalidRequest) as caught:
            objects.read(ACME, info, start, end)
        assert caught.value.field == "start"

    def test_a_part_of_a_version_that_is_no_longer_stored_is_not_read(self, objects: ObjectStore) -> None:
        info = objects.put(ACME, "a", b"one")
        objects.put(ACME, "a", b"two")
        with pytest.raises(ObjectChanged):
            objects.read(ACME, info, 0, 3)
        objects.delete(ACME, "a")
        with pytest.raises(ObjectChanged):
            objects.read(ACME, info, 0, 3)

    def test_a_part_of_another_tenants_object_is_not_read(self, objects: ObjectStore) -> None:
        info = objects.put(ACME, "a", b"one")
        with pytest.raises(ObjectChanged):
            objects.read(GLOBEX, info, 0, 3)
