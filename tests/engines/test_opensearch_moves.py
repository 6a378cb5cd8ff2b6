"""Moves between model profiles on a real OpenSearch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.engines.opensearch import search_index
from braid.engines.opensearch.index_placement import indexes_by_alias, next_alias, previous_alias
from braid.engines.opensearch.one_index import SingleIndex
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import StoreError
from braid.ports.reembedding import WriteBackResult

from tests.contract.index_moves import (
    SPACES,
    IndexMovesContract,
    both,
    fill,
    found,
    names,
    pending,
    reconcile,
    wide,
    with_wide,
)
from tests.contract.shapes import ACME, DIMENSIONS, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.engines.opensearch.migration import OpenSearchMigration
    from braid.models import Record
    from braid.settings import Settings
    from opensearchpy import OpenSearch


class TestOpenSearchMigration(IndexMovesContract):
    pass


def test_a_switch_moves_the_alias_and_keeps_the_other_index(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([record("a", cosine=0.5)])
    moves.begin("old", "new", SPACES)
    fill(index, moves)
    alias = settings.opensearch_index
    first, second = f"{alias}-000001", f"{alias}-000002"
    assert indexes_by_alias(client, alias) == {alias: first, next_alias(alias): second}
    moves.switch()
    assert indexes_by_alias(client, alias) == {alias: second, previous_alias(alias): first}
    moves.drop(())
    assert not client.indices.exists(index=first)
    moves.begin("new", "third", SPACES)
    assert indexes_by_alias(client, alias)[next_alias(alias)] == f"{alias}-000003"


def test_a_write_by_somebody_who_has_not_heard_of_the_move_is_put_right(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([record(name, "old", cosine=0.5) for name in ("changed", "gone", "same")])
    moves.begin("old", "new", SPACES)
    fill(index, moves)
    alone = SingleIndex(client, settings, DIMENSIONS, settings.opensearch_index)
    alone.upsert([record("changed", "new", cosine=0.4), record("added", cosine=0.3)])
    alone.delete(ACME, ["gone"])
    assert reconcile(moves) == 3
    assert names(pending(index, moves)) == ["added", "changed"]
    fill(index, moves)
    assert reconcile(moves) == 0
    assert moves.count_pending([ACME], ("wide-space",)) == 0
    moves.switch()
    assert {each.id: each.content for each in index.scan(ACME).records} == {
        "added": "",
        "changed": "new",
        "same": "old",
    }


def test_what_is_in_one_index_alone_differs(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([record(name, cosine=0.5) for name in ("a", "b", "z")])
    moves.begin("old", "new", SPACES)
    fill(index, moves)
    alone = SingleIndex(client, settings, DIMENSIONS, settings.opensearch_index)
    alone.upsert([record("new", cosine=0.3)])
    alone.delete(ACME, ["a"])
    assert moves.differing(ACME, ("wide-space",)) == ["a", "new"]
    assert moves.differing(ACME, ("wide-space",), ["a", "b", "new"]) == ["a", "new"]


def test_a_write_that_meets_the_switch_lands_in_both(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    del client
    index.upsert([record("a", "old", cosine=0.5)])
    moves.begin("old", "new", SPACES)
    fill(index, moves)
    write, switched = SingleIndex.upsert, [False]

    def upsert(self: SingleIndex, records: list[object]) -> None:
        write(self, records)  # type: ignore[arg-type]
        if not switched[0]:
            switched[0] = True
            moves.switch()

    monkeypatch.setattr(SingleIndex, "upsert", upsert)
    index.upsert([record("a", "new").model_copy(update={"embeddings": both(0.5)})])
    assert index.get_many(ACME, ["a"])[0].content == "new"
    moves.rollback()
    assert index.get_many(ACME, ["a"])[0].content == "new"


def test_what_is_written_after_a_roll_back_has_fields_for_its_vectors_and_stays_readable(
    index: OpenSearchIndex, moves: OpenSearchMigration, client: OpenSearch, settings: Settings
) -> None:
    index.upsert([record("a", cosine=0.5)])
    moves.begin("old", "new", SPACES)
    fill(index, moves)
    moves.switch()
    assert found(index, wide(1.0)) == ["a"]  # the process knows the fields of the index that is active for now
    moves.rollback()
    index.upsert([record("b").model_copy(update={"embeddings": both(0.5)})])
    somebody = OpenSearchIndex(client, settings, DIMENSIONS)
    somebody.upsert([record("c").model_copy(update={"embeddings": both(0.4)})])
    # Of a vector that was stored without a field, OpenSearch looks for the values in a merged segment, and fails.
    client.indices.forcemerge(index=settings.opensearch_index, max_num_segments=1)
    client.indices.refresh(index=settings.opensearch_index)
    assert set(index.written(ACME, ["a", "b", "c"])) == {"a", "b", "c"}
    assert sorted(found(index, wide(1.0))) == ["b", "c"]
    assert index.delete(ACME, ["b"]) == 1


def test_a_record_that_is_removed_while_it_is_copied_does_not_come_back(
    index: OpenSearchIndex, moves: OpenSearchMigration, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.upsert([record("a", cosine=0.5), record("b", cosine=0.4)])
    moves.begin("old", "new", SPACES)
    read = pending(index, moves)
    writer = moves._writer
    write = writer._write

    def removed_first(alias: str, operations: dict[str, object], **how: object) -> object:
        if alias.endswith("_next") and "a" in operations:
            index.delete(ACME, ["a"])
        return write(alias, operations, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(writer, "_write", removed_first)
    settled = moves.fill(ACME, [with_wide(each) for each in read])
    monkeypatch.undo()
    assert (settled.written, settled.lost) == (1, ("a",))
    moves.switch()
    assert [each.id for each in index.scan(ACME).records] == ["b"]


def test_a_version_that_has_reached_the_next_index_alone_so_far_is_not_overwritten_by_a_copy(
    index: OpenSearchIndex, moves: OpenSearchMigration, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.upsert([record("a", "old", cosine=0.5)])
    moves.begin("old", "new", SPACES)
    read = pending(index, moves)
    upsert, settled = SingleIndex.upsert, list[WriteBackResult]()

    def copied_in_between(self: SingleIndex, records: list[Record]) -> None:
        if not self._alias.endswith("_next"):
            settled.append(moves.fill(ACME, [with_wide(each) for each in read]))
        upsert(self, records)

    monkeypatch.setattr(SingleIndex, "upsert", copied_in_between)
    monkeypatch.setattr(search_index, "settle", lambda *_: None)  # the writer stops before it compares both
    index.upsert([record("a", "new").model_copy(update={"embeddings": both(0.5)})])
    assert [result.lost for result in settled] == [("a",)]
    moves.switch()
    assert index.get_many(ACME, ["a"])[0].content == "new"


@pytest.mark.parametrize("removed_first", [False, True])
@pytest.mark.parametrize("is_rollback", [False, True])
def test_an_index_that_a_switch_or_a_roll_back_makes_the_active_one_is_not_removed(
    index: OpenSearchIndex,
    moves: OpenSearchMigration,
    monkeypatch: pytest.MonkeyPatch,
    removed_first: bool,
    is_rollback: bool,
) -> None:
    index.upsert([record("a", cosine=0.5)])
    moves.begin("old", "new", SPACES)
    fill(index, moves)
    activate, remove = moves.switch, lambda: moves.drop(())
    if is_rollback:
        moves.switch()
        activate = moves.rollback
    last, first = (activate, remove) if removed_first else (remove, activate)
    change = moves._change

    def overtaken(function: Callable[..., object], **how: object) -> None:
        monkeypatch.setattr(moves, "_change", change)
        first()
        change(function, **how)

    monkeypatch.setattr(moves, "_change", overtaken)  # between what the last one read and what it asks for
    with pytest.raises(StoreError):
        last()
    assert [each.id for each in index.scan(ACME).records] == ["a"]
    index.upsert([record("b", cosine=0.4)])
    assert {each.id for each in index.scan(ACME).records} == {"a", "b"}
    assert moves.serving().active == ("new" if is_rollback is removed_first else "old")
