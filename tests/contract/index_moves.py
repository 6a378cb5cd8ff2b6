"""What every store must do when records are embedded again, and while an index moves to other models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.errors import DimensionMismatch, InvalidRequest
from braid.ports.reembedding import IndexMigration, MigrationState, ReembeddedRecord
from braid.ports.search_index import SearchIndex, SearchRequest

from tests.contract.shapes import (
    ACME,
    AS_OF,
    AXIS,
    GLOBEX,
    SPACE,
    WIDE_SPACE,
    at_cosine,
    embedding,
    in_parts,
    packed,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from braid.models import Embedding, Record

SPACES = {SPACE: 8, WIDE_SPACE: 16}
WIDE = (WIDE_SPACE,)


def wide(cosine: float) -> Embedding:
    return embedding(at_cosine(cosine, 16), WIDE_SPACE)


def with_wide(read: Record, cosine: float = 0.5, **fields: object) -> ReembeddedRecord:
    return ReembeddedRecord(read=read, write=read.model_copy(update={"embeddings": (wide(cosine),), **fields}))


def stored(index: SearchIndex, tenant: str = ACME) -> dict[str, Record]:
    """Return a tenant's records with their vectors."""
    return {each.id: each for each in index.scan(tenant, with_vectors=True).records}


def found(index: SearchIndex | IndexMigration, asked: Embedding) -> list[str]:
    request = SearchRequest(tenant_id=ACME, embedding=asked, k=20, as_of=AS_OF)
    hits = index.search_next(request) if isinstance(index, IndexMigration) else index.search(request)
    return [hit.id for hit in hits.vector]


def pending(index: SearchIndex, moves: IndexMigration, limit: int = 100) -> list[Record]:
    """Return what is pending of a tenant's records, whose ids are listed so many at a time."""
    found: list[Record] = []
    after: str | None = None
    while ids := moves.ids(ACME, after=after, limit=limit):
        found += index.get_many(ACME, moves.pending(ACME, ids, WIDE))
        after = ids[-1]
    return found


def reconcile(moves: IndexMigration) -> int:
    return sum(moves.reconcile(ACME, moves.ids(ACME, following=following)) for following in (False, True))


def fill(index: SearchIndex, moves: IndexMigration, records: Iterable[Record] | None = None) -> None:
    """Give all that is pending, or these records, a vector of the new space."""
    moves.fill(ACME, [with_wide(each) for each in (pending(index, moves) if records is None else records)])


def names(records: Iterable[Record]) -> list[str]:
    return sorted(each.id for each in records)


class IndexMovesContract:
    """Subclass this and provide the fixtures ``index`` and ``moves``: over one store that is empty for every test."""

    def test_the_port_is_implemented(self, moves: IndexMigration) -> None:
        assert isinstance(moves, IndexMigration)

    def test_an_empty_store_has_nothing_to_embed(self, moves: IndexMigration) -> None:
        assert moves.serving() == MigrationState()
        assert moves.tenants() == []
        assert moves.count(ACME) == 0
        assert moves.write_back(ACME, []).written == 0

    def test_tenants_are_gone_through_in_order(self, index: SearchIndex, moves: IndexMigration) -> None:
        index.upsert([record("r", tenant_id=name) for name in ("d", "a", "c", "b")])
        assert moves.tenants() == ["a", "b", "c", "d"]
        assert moves.tenants(limit=2) == ["a", "b"]
        assert moves.tenants(after="b") == ["c", "d"]
        assert moves.tenants(after="d") == []

    def test_what_is_outdated_is_counted_as_it_is_scanned(self, index: SearchIndex, moves: IndexMigration) -> None:
        index.upsert(
            [
                record("old", cosine=0.1),
                record("new", cosine=0.2, schema_version=4),
                record("none", schema_version=3),
                record("foreign", tenant_id=GLOBEX),
            ]
        )
        assert moves.count(ACME) == 3
        assert moves.count(ACME, schema_below=4) == 2
        assert moves.count(ACME, space_missing=SPACE) == 1
        assert moves.count(ACME, model_missing=f"model-of-{SPACE}") == 1
        assert moves.count(ACME, schema_below=3, space_missing=WIDE_SPACE) == 1

    def test_ids_are_listed_in_order_by_the_same_conditions(self, index: SearchIndex, moves: IndexMigration) -> None:
        index.upsert([record(name, schema_version=version) for name, version in (("c", 1), ("a", 1), ("b", 4))])
        index.upsert([record("z", tenant_id=GLOBEX)])
        assert moves.ids(ACME) == ["a", "b", "c"]
        assert moves.ids(ACME, limit=2) == ["a", "b"]
        assert moves.ids(ACME, after="a") == ["b", "c"]
        assert moves.ids(ACME, schema_below=4) == ["a", "c"]
        assert moves.ids(ACME, following=True) == moves.ids("nobody") == []

    # --- writing back -----------------------------------------------------------------------------------------------

    def test_new_vectors_are_written_and_those_of_other_spaces_stay(
        self, index: SearchIndex, moves: IndexMigration
    ) -> None:
        index.upsert([record("a", "turbine", cosine=0.9, schema_version=1), record("b", "pump", cosine=0.8)])
        read = {each.id: each for each in index.scan(ACME).records}
        settled = moves.write_back(ACME, [with_wide(read["a"], 0.3, schema_version=5)])
        assert (settled.written, settled.lost) == (1, ())
        after = stored(index)
        assert after["a"].schema_version == 5
        assert {each.space for each in after["a"].embeddings} == {SPACE, WIDE_SPACE}
        assert {each.space for each in after["b"].embeddings} == {SPACE}
        assert found(index, embedding(AXIS)) == ["a", "b"]
        assert found(index, wide(1.0)) == ["a"]

    def test_a_vector_replaces_that_of_its_space(self, index: SearchIndex, moves: IndexMigration) -> None:
        index.upsert([record("a", cosine=0.1), record("b", cosine=0.5)])
        (read, *_) = index.scan(ACME).records
        new = read.model_copy(update={"embeddings": (embedding(at_cosine(0.9)),)})
        moves.write_back(ACME, [ReembeddedRecord(read=read, write=new)])
        assert found(index, embedding(AXIS)) == ["a", "b"]

    def test_the_parts_of_a_long_text_move_with_it_and_come_back(
        self, index: SearchIndex, moves: IndexMigration
    ) -> None:
        index.upsert([record("short", cosine=0.5), record("long", embeddings=(in_parts(0.1, 0.9),))])
        moves.begin("old", "new", SPACES)
        parts = in_parts(0.2, 0.1, 0.8, space=WIDE_SPACE)
        fill(index, moves, [each for each in pending(index, moves) if each.id == "short"])
        long = [each for each in pending(index, moves) if each.id == "long"]
        changes = [ReembeddedRecord(read=each, write=each.model_copy(update={"embeddings": (parts,)})) for each in long]
        moves.fill(ACME, changes)
        assert reconcile(moves) == 0
        assert found(moves, wide(1.0)) == ["long", "short"]
        moves.switch()
        assert found(index, wide(1.0)) == ["long", "short"]
        assert found(index, embedding(AXIS)) == ["long", "short"]
        assert set(stored(index)["long"].embeddings) == {in_parts(0.1, 0.9), parts}

    def test_parts_that_are_written_back_replace_those_of_their_space(
        self, index: SearchIndex, moves: IndexMigration
    ) -> None:
        index.upsert([record("a", embeddings=(in_parts(0.1, 0.9, 0.2), in_parts(0.1, 0.3, space=WIDE_SPACE)))])
        (read,) = index.get_many(ACME, ["a"])
        write = read.model_copy(update={"embeddings": (in_parts(0.4, 0.5),)})
        assert moves.write_back(ACME, [ReembeddedRecord(read=read, write=write)]).written == 1
        assert set(stored(index)["a"].embeddings) == {in_parts(0.4, 0.5), in_parts(0.1, 0.3, space=WIDE_SPACE)}

    def test_a_record_that_changed_since_it_was_read_is_left(self, index: SearchIndex, moves: IndexMigration) -> None:
        index.upsert([record(name, "old", cosine=0.5) for name in ("changed", "gone", "same")])
        read = list(index.scan(ACME).records)
        index.upsert([record("changed", "new", cosine=0.6)])
        index.delete(ACME, ["gone"])
        settled = moves.write_back(ACME, [with_wide(each) for each in read])
        assert settled.written == 1
        assert sorted(settled.lost) == ["changed", "gone"]
        after = stored(index)
        assert set(after) == {"changed", "same"}
        assert after["changed"].content == "new"
        assert [each.space for each in after["changed"].embeddings] == [SPACE]

    def test_another_tenants_record_of_the_same_name_is_not_touched(
        self, index: SearchIndex, moves: IndexMigration
    ) -> None:
        index.upsert([record("r", "ours", cosine=0.5), record("r", "theirs", tenant_id=GLOBEX, cosine=0.5)])
        (theirs,) = index.scan(GLOBEX).records
        assert moves.write_back(ACME, [with_wide(theirs)]).written == 0
        assert all(len(stored(index, tenant)["r"].embeddings) == 1 for tenant in (ACME, GLOBEX))

    def test_a_vector_of_another_length_is_refused(self, index: SearchIndex, moves: IndexMigration) -> None:
        index.upsert([record("a", cosine=0.5)])
        (read,) = index.scan(ACME).records
        short = read.model_copy(update={"embeddings": (embedding(packed([1.0, 0.0, 0.0])),)})
        with pytest.raises(DimensionMismatch):
            moves.write_back(ACME, [ReembeddedRecord(read=read, write=short)])
        assert stored(index)["a"].embeddings == record("a", cosine=0.5).embeddings

    # --- a move -----------------------------------------------------------------------------------------------------

    @pytest.fixture
    def moving(self, index: SearchIndex, moves: IndexMigration) -> IndexMigration:
        """Return an open move from profile old to profile new, of five records."""
        index.upsert([record(f"r{number}", f"turbine {number}", cosine=number / 10) for number in range(1, 6)])
        assert moves.begin("old", "new", SPACES) == MigrationState(active="old", next="new")
        return moves

    def test_everything_is_pending_when_a_move_begins(self, index: SearchIndex, moving: IndexMigration) -> None:
        assert moving.serving() == MigrationState(active="old", next="new")
        assert names(pending(index, moving, limit=2)) == ["r1", "r2", "r3", "r4", "r5"]
        assert moving.count_pending([ACME], WIDE) >= 5

    def test_a_filled_index_is_whole_and_the_active_one_answers_as_before(
        self, index: SearchIndex, moving: IndexMigration
    ) -> None:
        before = found(index, embedding(AXIS))
        fill(index, moving)
        assert pending(index, moving) == []
        assert reconcile(moving) == 0
        assert moving.count_pending([ACME], WIDE) == 0
        assert found(index, embedding(AXIS)) == before
        assert sorted(found(moving, wide(1.0))) == ["r1", "r2", "r3", "r4", "r5"]
        assert found(moving, embedding(AXIS)) == before

    def test_what_is_pending_of_many_tenants_is_counted_together(
        self, index: SearchIndex, moving: IndexMigration
    ) -> None:
        fill(index, moving)
        whole = moving.count_pending([ACME], WIDE)
        index.upsert([record("r", "theirs", tenant_id=GLOBEX, cosine=0.5)])
        of_theirs = moving.count_pending([GLOBEX], WIDE)
        assert (whole, moving.count_pending([ACME, "nobody"], WIDE), moving.count_pending([], WIDE)) == (0, 0, 0)
        assert moving.count_pending([ACME, GLOBEX], WIDE) == of_theirs >= 1

    def test_what_is_filled_already_is_not_pending_again(self, index: SearchIndex, moving: IndexMigration) -> None:
        first, second, *_ = pending(index, moving)
        fill(index, moving, [first, second])
        assert names(pending(index, moving)) == ["r3", "r4", "r5"]

    def test_filling_twice_changes_nothing(self, index: SearchIndex, moving: IndexMigration) -> None:
        read = pending(index, moving)
        fill(index, moving, read)
        fill(index, moving, read)
        assert moving.count_pending([ACME], WIDE) == 0

    def test_writes_during_a_move_land_in_both(self, index: SearchIndex, moving: IndexMigration) -> None:
        fill(index, moving)
        index.upsert([record("r6", "pump", cosine=0.95).model_copy(update={"embeddings": (*both(0.95),)})])
        index.upsert([record("r1", "valve").model_copy(update={"embeddings": (*both(0.05),)})])
        index.delete(ACME, ["r2"])
        assert moving.count_pending([ACME], WIDE) == 0
        for asked in (embedding(AXIS), wide(1.0)):
            assert sorted(found(moving, asked)) == ["r1", "r3", "r4", "r5", "r6"]
        moving.switch()
        assert index.get_many(ACME, ["r1"])[0].content == "valve"

    def test_a_write_without_the_new_vector_is_pending(self, index: SearchIndex, moving: IndexMigration) -> None:
        fill(index, moving)
        index.upsert([record("r3", "changed", cosine=0.3), record("r7", "late", cosine=0.7)])
        assert names(pending(index, moving)) == ["r3", "r7"]
        assert moving.count_pending([ACME], WIDE) >= 2
        fill(index, moving)
        reconcile(moving)
        assert pending(index, moving) == []
        assert moving.count_pending([ACME], WIDE) == 0

    def test_what_differs_is_named(self, index: SearchIndex, moving: IndexMigration) -> None:
        fill(index, moving, pending(index, moving)[:3])
        assert moving.differing(ACME, WIDE) == ["r4", "r5"]
        fill(index, moving)
        assert moving.differing(ACME, WIDE) == moving.differing(GLOBEX, WIDE) == []
        index.upsert([record("r3", "changed", cosine=0.3), record("r7", "late", cosine=0.7)])
        assert moving.differing(ACME, WIDE) == ["r3", "r7"]
        assert moving.differing(ACME, WIDE, ["r1", "r3", "nobody", "r7"]) == ["r3", "r7"]
        index.delete(ACME, ["r7"])
        assert moving.differing(ACME, WIDE, ["r3", "r7"]) == ["r3"]
        fill(index, moving)
        assert moving.differing(ACME, WIDE, ["r3", "r7"]) == moving.differing(ACME, WIDE) == []

    def test_a_record_that_changes_while_it_is_embedded_keeps_its_change(
        self, index: SearchIndex, moving: IndexMigration
    ) -> None:
        read = pending(index, moving)
        index.upsert([record("r1", "newer", cosine=0.1)])
        index.delete(ACME, ["r2"])
        fill(index, moving, read)
        fill(index, moving)
        assert moving.count_pending([ACME], WIDE) == 0
        moving.switch()
        after = stored(index)
        assert set(after) == {"r1", "r3", "r4", "r5"}
        assert after["r1"].content == "newer"

    def test_the_switch_changes_index_and_profile_in_one_act(self, index: SearchIndex, moving: IndexMigration) -> None:
        fill(index, moving)
        assert moving.switch() == MigrationState(active="new", previous="old") == moving.serving()
        assert sorted(found(index, wide(1.0))) == ["r1", "r2", "r3", "r4", "r5"]
        # A question that was embedded before the switch is still answered in full.
        assert found(index, embedding(AXIS)) == ["r5", "r4", "r3", "r2", "r1"]

    def test_a_roll_back_restores_the_index_and_what_was_written_since(
        self, index: SearchIndex, moving: IndexMigration
    ) -> None:
        fill(index, moving)
        moving.switch()
        index.upsert([record("r6", "since").model_copy(update={"embeddings": (*both(0.9),)})])
        index.delete(ACME, ["r1"])
        assert moving.rollback() == MigrationState(active="old", next="new") == moving.serving()
        assert sorted(found(index, embedding(AXIS))) == ["r2", "r3", "r4", "r5", "r6"]
        assert pending(index, moving) == []
        assert moving.switch() == MigrationState(active="new", previous="old")

    def test_an_unfinished_move_can_be_given_up(self, index: SearchIndex, moving: IndexMigration) -> None:
        fill(index, moving, pending(index, moving)[:2])
        assert moving.drop(WIDE) == MigrationState(active="old") == moving.serving()
        assert found(index, embedding(AXIS)) == ["r5", "r4", "r3", "r2", "r1"]
        assert moving.begin("old", "newer", SPACES) == MigrationState(active="old", next="newer")
        assert len(pending(index, moving)) == 5

    def test_dropping_the_previous_index_leaves_the_active_one(
        self, index: SearchIndex, moving: IndexMigration
    ) -> None:
        fill(index, moving)
        moving.switch()
        assert moving.drop([SPACE]) == MigrationState(active="new") == moving.serving()
        assert len(found(index, wide(1.0))) == 5
        assert moving.drop([]) == MigrationState(active="new")
        with pytest.raises(InvalidRequest, match="no previous"):
            moving.rollback()

    def test_beginning_a_move_again_goes_on_with_it_and_another_one_is_refused(self, moving: IndexMigration) -> None:
        assert moving.begin("old", "new", SPACES) == MigrationState(active="old", next="new")
        with pytest.raises(InvalidRequest, match="a move to profile new is open"):
            moving.begin("old", "third", SPACES)
        moving.switch()
        with pytest.raises(InvalidRequest, match="profile old is still kept"):
            moving.begin("new", "third", SPACES)

    def test_nothing_is_switched_or_rolled_back_without_a_move(self, index: SearchIndex, moves: IndexMigration) -> None:
        index.upsert([record("a", cosine=0.5)])
        with pytest.raises(InvalidRequest, match="no move is open"):
            moves.switch()
        with pytest.raises(InvalidRequest, match="no previous index"):
            moves.rollback()
        assert moves.serving() == MigrationState()

    def test_vectors_written_back_during_a_move_land_in_both(self, index: SearchIndex, moving: IndexMigration) -> None:
        fill(index, moving)
        read = {each.id: each for each in index.scan(ACME).records}
        better = read["r1"].model_copy(update={"embeddings": (*both(0.99),), "schema_version": 3})
        assert moving.write_back(ACME, [ReembeddedRecord(read=read["r1"], write=better)]).written == 1
        for asked in (embedding(AXIS), wide(1.0)):
            assert found(moving, asked)[0] == "r1"
        assert found(index, embedding(AXIS))[0] == "r1"
        assert moving.count_pending([ACME], WIDE) == 0
        assert reconcile(moving) == 0


def both(cosine: float) -> tuple[Embedding, Embedding]:
    return (embedding(at_cosine(cosine)), wide(cosine))
