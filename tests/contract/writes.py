"""What every pair of a search index and a knowledge graph keeps when it is written to: all of a write, once.

An engine's own test file gives the fixture ``store``: empty stores of its own, with
:class:`tests.stages.WordEncoder` as the model.
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest, StoreError, StoreTooSlow
from braid.ingestion import item_refusals, writing
from braid.ingestion.deleting import delete_records
from braid.ingestion.supersession import superseded_records
from braid.ingestion.writing import MissingEnds, WriteReport, WriteRequest, require_written, write
from braid.models import Kind, Record, Relationship, RelationshipKey, Vertex
from braid.ports.schema_registry import SchemaVersion
from braid.ports.search_index import SearchRequest

from tests.contract.shapes import ACME, AS_OF, GLOBEX, day, edge, record, vertex
from tests.stages import WordEncoder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.ingestion.writing import WriteStore

LATER = AS_OF + timedelta(days=365)
DAY = timedelta(days=1)


def written(store: WriteStore, *items: Record | Vertex | Relationship, **fields: Any) -> WriteReport:
    """Write items of tenant acme."""
    kinds: dict[str, list[Any]] = {"records": [], "vertices": [], "relationships": []}
    for item in items:
        kind = "records" if isinstance(item, Record) else "vertices" if isinstance(item, Vertex) else "relationships"
        kinds[kind].append(item)
    return write(WriteRequest(tenant_id=ACME, **kinds, **fields), store)


def found(store: WriteStore, text: str, *, tenant: str = ACME, as_of: Any = LATER) -> list[str]:
    hits = store.index.search(SearchRequest(tenant_id=tenant, text=text, k=20, as_of=as_of))
    return sorted(hit.id for hit in hits.lexical)


def stored(store: WriteStore, identity: str) -> Record:
    (one,) = store.index.get_many(ACME, [identity])
    return one


def messages(report: WriteReport) -> list[str]:
    return [str(error) for error in report.errors]


class WritesContract:
    """Writing through :func:`braid.ingestion.writing.write`."""

    @pytest.fixture
    def encoded(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return the texts that are embedded, as they are."""
        texts: list[str] = []
        encode = WordEncoder.encode

        def counted(encoder: WordEncoder, asked: Any, *, instruction: str = "") -> list[bytes]:
            texts.extend(asked)
            return encode(encoder, asked, instruction=instruction)

        monkeypatch.setattr(WordEncoder, "encode", counted)
        return texts

    def test_records_vertices_and_edges_are_found_when_it_returns(self, store: WriteStore) -> None:
        report = written(store, record("r", "a turbine hums"), vertex("v", name="Turbine"), edge("v", "r", "MENTIONS"))
        assert (report.written, report.vertices, report.relationships, report.errors) == (1, 2, 1, ())
        assert found(store, "turbine") == ["r"]
        assert [one.has_record for one in store.graph.get_many(ACME, ["v", "r"])] == [False, True]
        assert [one.type for one in store.graph.relationships(ACME, ids=["v"])] == ["MENTIONS"]

    def test_a_record_has_a_vector_in_the_space_of_every_model(self, store: WriteStore) -> None:
        written(store, record("r", "a turbine hums"))
        (kept,) = store.index.get_many(ACME, ["r"], with_vectors=True)
        assert {one.model_id for one in kept.embeddings} == {model.id for model in store.models()}

    def test_the_same_write_again_embeds_nothing_writes_nothing_and_says_so(
        self, store: WriteStore, encoded: list[str]
    ) -> None:
        first = written(store, record("r", "a turbine hums"), record("s", "a pump drips"), edge("r", "s"))
        before = store.index.scan(ACME, with_vectors=True).records
        encoded.clear()
        again = written(store, record("r", "a turbine hums"), record("s", "a pump drips"), edge("r", "s"))
        assert (first.written, first.embedded, again.written, again.unchanged, again.embedded) == (2, 2, 0, 2, 0)
        assert again.vertices == 0
        assert encoded == []
        assert store.index.scan(ACME, with_vectors=True).records == before

    def test_only_what_changed_is_embedded_and_only_if_its_text_did(
        self, store: WriteStore, encoded: list[str]
    ) -> None:
        written(store, record("r", "a turbine hums"), record("s", "a pump drips"))
        encoded.clear()
        report = written(store, record("r", "a turbine hums", importance=0.9), record("s", "a pump leaks"))
        assert (report.written, report.embedded) == (2, 1)
        assert encoded == ["a pump leaks"]
        (kept,) = store.index.get_many(ACME, ["r"], with_vectors=True)
        assert (kept.importance, len(kept.embeddings)) == (0.9, len(store.models()))

    def test_a_write_begins_a_new_generation_even_when_it_changes_nothing(self, store: WriteStore) -> None:
        before = store.cache.generation(ACME)
        written(store, record("r", "a turbine hums"))
        between = store.cache.generation(ACME)
        written(store, record("r", "a turbine hums"))
        after = store.cache.generation(ACME)
        assert None not in {before, between, after}
        assert before < between < after

    def test_an_entity_is_a_vertex_without_being_asked_and_is_linked_by_its_names(self, store: WriteStore) -> None:
        written(store, record("e", "Ada runs it", kind=Kind.ENTITY, entity_type="Person", name="Ada", aliases=("AL",)))
        assert {link.entity_id for link in store.graph.link(ACME, ["ada", "al"], as_of=LATER)} == {"e"}

    def test_a_vertex_that_gets_a_record_later_says_so_and_keeps_its_names(self, store: WriteStore) -> None:
        written(store, vertex("v", name="Valve", aliases=("tap",), has_record=False))
        written(store, record("v", "closed by hand"))
        (kept,) = store.graph.get_many(ACME, ["v"])
        assert (kept.has_record, kept.name, kept.aliases) == (True, "Valve", ("tap",))

    def test_a_name_or_alias_that_a_record_no_longer_states_is_forgotten(self, store: WriteStore) -> None:
        person: dict[str, Any] = {"kind": Kind.ENTITY, "entity_type": "Person"}
        written(store, record("e", "Ada runs it", name="Ada", aliases=("AL",), **person), record("r", "AL was there"))
        written(store, record("e", "Ada runs it", name="Ada", **person))
        assert [store.graph.link(ACME, [name], as_of=LATER) == [] for name in ("ada", "al")] == [False, True]
        written(store, record("e", "someone runs it", aliases=("AL",), **person), vertex("f", name="Fern"))
        assert store.graph.link(ACME, ["ada"], as_of=LATER) == []
        written(store, record("f", "a plant", aliases=("green",), **person))
        written(store, record("f", "a green plant", **person))
        names = {one.id: (one.name, one.aliases) for one in store.graph.get_many(ACME, ["e", "f"])}
        assert names == {"e": (None, ("AL",)), "f": ("Fern", ())}

    def test_a_name_that_a_record_no_longer_states_is_forgotten_also_by_a_write_that_is_repeated(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(records: Sequence[Record]) -> None:
            upsert(records)
            message = "stopped"
            raise StoreError(message)

        before = record("e", "Ada runs it", kind=Kind.ENTITY, name="Ada", aliases=("AL",))
        after = record("e", "Ada runs it", kind=Kind.ENTITY, name="Ada")
        written(store, before)
        upsert = store.index.upsert
        monkeypatch.setattr(store, "transaction", lambda _: nullcontext())
        monkeypatch.setattr(store, "write_generation", lambda _: None)
        with monkeypatch.context() as patch:
            patch.setattr(store.index, "upsert", stop)
            with pytest.raises(StoreError, match="stopped"):
                written(store, after)
        written(store, after)
        assert [one.aliases for one in store.graph.get_many(ACME, ["e"])] == [()]
        assert store.graph.link(ACME, ["al"], as_of=LATER) == []

    def test_a_trusted_record_keeps_no_name_that_one_which_is_not_trusted_gave(self, store: WriteStore) -> None:
        of_mail: dict[str, Any] = {"kind": Kind.ENTITY, "entity_type": "Pump"}
        of_mail |= {"name": "Wrecker", "aliases": ("payroll",)}
        written(store, record("e", "spam", trusted=False, **of_mail), record("f", "spam", trusted=False, **of_mail))
        written(store, record("e", "a pump", kind=Kind.ENTITY, entity_type="Pump", name="Bilge pump"))
        written(store, record("f", "a pump", kind=Kind.ENTITY, entity_type="Pump"))
        kept = {one.id: (one.name, one.aliases) for one in store.graph.get_many(ACME, ["e", "f"])}
        assert kept == {"e": ("Bilge pump", ()), "f": (None, ())}
        asked = ["wrecker", "payroll", "bilge pump"]
        assert [link.entity_id for link in store.graph.link(ACME, asked, as_of=LATER)] == ["e"]

    def test_a_vertex_follows_its_record_in_what_is_trusted(self, store: WriteStore) -> None:
        def trusted() -> list[bool]:
            return [one.trusted for one in store.graph.get_many(ACME, ["r"])]

        written(store, record("r", "a turbine hums", trusted=False))
        written(store, vertex("v"), edge("v", "r", "MENTIONS"))
        assert trusted() == [False]
        written(store, vertex("r", name="Rotor"))
        assert trusted() == [False]
        written(store, record("r", "a turbine hums"))
        assert trusted() == [True]
        written(store, record("r", "a turbine hums", trusted=False), vertex("r"))
        assert trusted() == [False]

    def test_an_edge_is_no_more_trusted_than_its_evidence_whichever_is_written_first(self, store: WriteStore) -> None:
        def trusted() -> dict[str, bool]:
            return {one.target: one.trusted for one in store.graph.relationships(ACME, ids=["a"])}

        mail = record("mail", "a leads to b", trusted=False)
        ends = [vertex(name) for name in ("a", "b", "c", "d", "e")]
        edges = (edge("a", "d", evidence="own"), edge("a", "e", trusted=False))
        written(store, *ends, record("own", "a leads to d"), *edges)
        written(store, mail, edge("a", "b", evidence="mail"))
        written(store, edge("a", "c", evidence="mail"))
        assert trusted() == {"b": False, "c": False, "d": True, "e": False}
        report = written(store, record("own", "a leads to d", trusted=False))
        assert (report.relationships, report.unchanged_relationships) == (0, 0)
        assert trusted() == {"b": False, "c": False, "d": False, "e": False}
        written(store, record("own", "a leads to d"), edge("a", "d", evidence="own"))
        assert trusted() == {"b": False, "c": False, "d": True, "e": False}

    def test_what_is_not_trusted_replaces_no_edge_that_is(self, store: WriteStore) -> None:
        own = edge("a", "b", evidence="own", confidence=0.9)
        strange = edge("a", "b", evidence="mail", confidence=0.1)
        mail, ends = record("mail", "a leads to b", trusted=False), (vertex("a"), vertex("b"))
        written(store, *ends, record("own", "a leads to b"), own)
        report = written(store, mail, strange)
        assert (report.relationships, report.unchanged_relationships) == (1, 1)
        assert store.graph.relationships(ACME, ids=["a"]) == [own]
        written(store, own, strange)
        assert store.graph.relationships(ACME, ids=["a"]) == [own]
        store.graph.delete_relationships(ACME, [own])
        written(store, strange)
        assert [one.evidence for one in store.graph.relationships(ACME, ids=["a"])] == ["mail"]
        written(store, own)
        assert store.graph.relationships(ACME, ids=["a"]) == [own]

    def test_an_edge_replaces_none_that_is_trusted_before_its_evidence_is_written(self, store: WriteStore) -> None:
        own, later = edge("a", "b", evidence="own"), edge("a", "b", evidence="mail", confidence=0.1)
        written(store, vertex("a"), vertex("b"), record("own", "a leads to b"), own)
        (error,) = written(store, later).errors
        assert (error.id, error.field) == ("a", "evidence")
        assert error.message == (
            "'a' CAUSES 'b' is stored as trusted and 'mail', the evidence of the edge that would replace it, is not"
            " written; write 'mail' before the edge"
        )
        written(store, record("mail", "a leads to b", trusted=False))
        assert store.graph.relationships(ACME, ids=["a"]) == [own]
        assert written(store, record("mail", "a leads to b"), later).errors == ()
        assert store.graph.relationships(ACME, ids=["a"]) == [later]

    def test_what_is_not_trusted_replaces_no_trusted_edge_when_that_has_ended_either(self, store: WriteStore) -> None:
        now = store.now()
        leased = edge("a", "b", evidence="own", invalid_at=now + DAY)
        over = edge("a", "c", evidence="own", invalid_at=now - DAY)
        written(store, vertex("a"), vertex("b"), vertex("c"), record("own", "leased until then"), leased, over)
        strange = [edge("a", end, evidence="mail") for end in ("b", "c")]
        written(store, record("mail", "leased", trusted=False), *strange)
        assert {one.target: one for one in store.graph.relationships(ACME, ids=["a"])} == {"b": leased, "c": over}

    def test_a_write_that_ceases_to_trust_an_edges_evidence_may_give_it_other_evidence(self, store: WriteStore) -> None:
        own, strange = edge("a", "b", evidence="own"), edge("a", "b", evidence="mail", trusted=False)
        written(store, vertex("a"), vertex("b"), record("own", "a leads to b"), own)
        items = (record("own", "a leads to b", trusted=False), record("mail", "a leads to b", trusted=False), strange)
        for unchanged in (0, 1):
            report = written(store, *items)
            assert (report.relationships, report.unchanged_relationships) == (1, unchanged)
            assert store.graph.relationships(ACME, ids=["a"]) == [strange]

    def test_an_edge_that_is_not_trusted_supersedes_nothing_that_is(self, store: WriteStore) -> None:
        mail, own = record("mail", "not b but c", trusted=False), edge("a", "b")
        written(store, vertex("a"), vertex("b"), vertex("c"), own, mail, record("old", "x"), record("new", "y"))
        ending = edge("a", "c", evidence="mail", supersedes=(RelationshipKey(source="a", type="CAUSES", target="b"),))
        (error,) = written(store, ending).errors
        assert (error.id, error.field) == ("a", "supersedes")
        assert error.message == (
            "'a' CAUSES 'b' is trusted and 'a' CAUSES 'c', which supersedes it, is not; only what is trusted ends it"
        )
        (error,) = written(store, edge("new", "old", "SUPERSEDES", evidence="mail")).errors
        assert error.message == (
            "'old', which 'new' supersedes, is trusted and the edge that says so is not; only what is trusted ends it"
        )
        assert store.graph.relationships(ACME, ids=["a"]) == [own]
        assert stored(store, "old").invalid_at is None

    def test_an_edge_supersedes_nothing_that_is_trusted_before_its_evidence_is_written(self, store: WriteStore) -> None:
        own, doubted = edge("a", "b"), edge("a", "d", trusted=False)
        written(store, *map(vertex, "abcd"), own, doubted, record("old", "x"), record("new", "y"))
        ending = edge("a", "c", evidence="mail", supersedes=(RelationshipKey(source="a", type="CAUSES", target="b"),))
        (error,) = written(store, ending).errors
        assert (error.id, error.field) == ("a", "supersedes")
        assert error.message == (
            "'a' CAUSES 'b' is trusted and 'mail', the evidence of the edge that supersedes it, is not written;"
            " write 'mail' before the edge"
        )
        (error,) = written(store, edge("new", "old", "SUPERSEDES", evidence="mail")).errors
        assert "'mail', the evidence of the edge that supersedes it, is not written" in error.message
        of_doubted = (RelationshipKey(source="a", type="CAUSES", target="d"),)
        assert written(store, ending.model_copy(update={"supersedes": of_doubted})).errors == ()
        assert written(store, record("mail", "not b but c"), ending).errors == ()
        assert written(store, edge("new", "old", "SUPERSEDES", evidence="mail")).errors == ()

    def test_an_edge_that_is_not_trusted_supersedes_nothing_that_is_repeated_beside_it(self, store: WriteStore) -> None:
        own = edge("a", "b", evidence="own")
        written(store, vertex("a"), vertex("b"), vertex("c"), own, record("own", "a leads to b"))
        ending = edge("a", "c", evidence="mail", supersedes=(RelationshipKey(source="a", type="CAUSES", target="b"),))
        mail, repeated = record("mail", "not b but c", trusted=False), edge("a", "b", evidence="mail")
        for items in ((mail, repeated, ending), (mail,), (repeated, ending)):
            errors = written(store, *items).errors
            assert [error.field for error in errors] == (["supersedes"] if ending in items else [])
            assert store.graph.relationships(ACME, ids=["a"]) == [own]
        doubted = record("own", "a leads to b", trusted=False)  # with which the stored edge ceases to be trusted
        assert written(store, doubted, mail, repeated, ending).errors == ()

    def test_a_trusted_edge_ends_when_it_is_superseded_whenever_a_stranger_said(self, store: WriteStore) -> None:
        strange = edge("a", "b", evidence="mail", invalid_at=AS_OF - DAY)
        written(store, vertex("a"), vertex("b"), vertex("c"), record("mail", "a led to b", trusted=False), strange)
        ending = (RelationshipKey(source="a", type="CAUSES", target="b"),)
        for _ in range(2):
            written(store, edge("a", "b"), edge("a", "c", valid_at=AS_OF, supersedes=ending))
            kept = {one.target: (one.trusted, one.invalid_at) for one in store.graph.relationships(ACME, ids=["a"])}
            assert kept == {"b": (True, AS_OF), "c": (True, None)}

    def test_what_is_not_trusted_supersedes_nothing_that_is(self, store: WriteStore) -> None:
        written(store, record("own", "open at 8"), record("mail", "open at 9", trusted=False))
        report = written(store, record("new", "closed", trusted=False, supersedes=("mail", "own")))
        (error,) = report.errors
        assert (error.id, error.field) == ("new", "supersedes")
        assert (
            error.message == "'own', which 'new' supersedes, is trusted and 'new' is not; only what is trusted ends it"
        )
        assert written(store, edge("mail", "own", "SUPERSEDES")).errors != ()
        assert [one.invalid_at for one in store.index.get_many(ACME, ["own", "mail"])] == [None, None]
        assert written(store, record("new", "closed", trusted=False, supersedes=("mail",))).errors == ()

    @pytest.mark.parametrize("trusted", [True, False])
    def test_what_is_not_trusted_supersedes_nothing_that_becomes_so_later(
        self, store: WriteStore, trusted: bool
    ) -> None:
        mail, ends = record("mail", "closed", trusted=False, valid_at=AS_OF), (vertex("later"), vertex("a"))
        before = record("before", "open at 8", trusted=False)
        early = edge("mail", "later", "SUPERSEDES", trusted=trusted)
        assert written(store, before, *ends, mail, early).errors == ()
        assert written(store, record("mail", "closed", trusted=False, valid_at=AS_OF, supersedes=("before",))).written
        assert stored(store, "before").invalid_at == AS_OF
        written(store, record("later", "open at 9"), record("before", "open at 8"))
        written(store, edge("a", "later", evidence="later"), edge("a", "mail", evidence="before"))
        assert [one.invalid_at for one in store.index.get_many(ACME, ["later", "before"])] == [None, None]
        assert found(store, "open") == ["before", "later"]
        assert [one.invalid_at for one in store.graph.relationships(ACME, ids=["a"])] == [None, None]
        written(store, record("mail", "closed", valid_at=AS_OF, supersedes=("before",)))
        assert stored(store, "before").invalid_at == AS_OF

    @pytest.mark.parametrize("trusted", [True, False])
    def test_what_is_not_trusted_keeps_nothing_that_is_from_superseding(
        self, store: WriteStore, trusted: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(superseded_records, "MAX_SUPERSESSIONS", 1)
        mail, ends = record("mail", "open at 7", trusted=False), (vertex("old"), vertex("new"))
        links = (edge("old", "new", "SUPERSEDES", trusted=False), edge("mail", "old", "SUPERSEDES", trusted=trusted))
        assert written(store, *ends, mail, *links).errors == ()
        assert written(store, record("old", "open at 8")).errors == ()
        assert written(store, record("new", "open at 9", supersedes=("old",))).errors == ()
        assert stored(store, "old").invalid_at is not None
        assert stored(store, "new").invalid_at is None
        links_now = store.graph.relationships(ACME, ids=["old"], types=("SUPERSEDES",))
        assert [(link.source, link.target) for link in links_now] == [("new", "old")]
        report = written(store, record("old", "open at 8", supersedes=("new",)))
        assert [error.message for error in report.errors] == ["'old' would be superseded by itself: old → new → old"]

    def test_links_that_are_not_trusted_take_no_room_of_those_that_are(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(superseded_records, "MAX_SUPERSESSIONS", 1)
        mails = [record(name, "open at 7", trusted=False) for name in ("mail", "spam")]
        written(store, record("old", "open at 8"), record("new", "open at 9"), *mails)
        assert written(store, edge("new", "mail", "SUPERSEDES", trusted=False)).errors == ()
        assert written(store, edge("new", "spam", "SUPERSEDES", trusted=False)).errors
        assert written(store, record("new", "open at 9", supersedes=("old",))).errors == ()
        assert stored(store, "old").invalid_at is not None
        assert written(store, record("new", "open at 9", supersedes=("old", "spam"))).errors

    def test_an_edge_of_before_that_is_not_trusted_ends_no_trusted_record_that_another_write_names(
        self, store: WriteStore
    ) -> None:
        written(store, record("old", "open at 8"), record("new", "open at 9"), vertex("mail"), vertex("new"))
        store.graph.upsert([], [edge("mail", "new", "SUPERSEDES", trusted=False, valid_at=AS_OF)])
        assert written(store, edge("new", "old", "SUPERSEDES")).errors == ()
        assert stored(store, "old").invalid_at is not None
        assert stored(store, "new").invalid_at is None

    def test_an_edge_leads_to_a_record_that_was_written_before_without_a_vertex(self, store: WriteStore) -> None:
        written(store, record("r", "a turbine hums"))
        assert store.graph.get_many(ACME, ["r"]) == []
        assert written(store, vertex("v", has_record=True), edge("v", "r", "MENTIONS")).errors == ()
        assert [one.has_record for one in store.graph.get_many(ACME, ["v", "r"])] == [False, True]

    def test_a_tenants_items_are_not_written_by_another(self, store: WriteStore) -> None:
        with pytest.raises(InvalidRequest, match="tenant_id") as caught:
            written(store, record("r", "theirs", tenant_id=GLOBEX))
        assert caught.value.field == "tenant_id"
        assert found(store, "theirs", tenant=GLOBEX) == []

    # --- what is wrong ---

    def test_an_id_twice_in_one_request_is_refused_at_its_second_place_and_nothing_is_written(
        self, store: WriteStore
    ) -> None:
        report = written(store, record("r", "one turbine"), record("r", "another turbine"), record("s", "turbine"))
        assert messages(report) == ["records[1]: id: 'r' stands already at records[0]"]
        assert report.written == 0
        assert store.index.stats(ACME).records == 0

    def test_of_a_partial_request_what_is_right_is_written(self, store: WriteStore) -> None:
        report = written(store, record("r", "one turbine"), record("r", "again"), record("s", "turbine"), partial=True)
        assert (report.written, len(report.errors)) == (2, 1)
        assert found(store, "turbine") == ["r", "s"]

    def test_a_record_newer_than_the_schema_is_refused_until_that_is_registered(self, store: WriteStore) -> None:
        report = written(store, record("r", "from tomorrow", schema_version=2))
        assert messages(report) == [
            "records[0]: schema_version: 2 is newer than the current version 1 of tenant 'acme'"
        ]
        for version in (1, 2):
            store.schemas.register(SchemaVersion(tenant_id=ACME, version=version, created_at=AS_OF))
        assert written(store, record("r", "from tomorrow", schema_version=2)).written == 1

    @pytest.mark.parametrize("side", ["source", "target"])
    def test_an_edge_to_nothing_is_refused_with_both_ids(self, store: WriteStore, side: str) -> None:
        ends = ("v", "nobody") if side == "target" else ("nobody", "v")
        report = written(store, vertex("v"), edge(*ends))
        assert len(report.errors) == 1
        assert f"relationships[0]: {side}: 'nobody' is neither" in messages(report)[0]
        assert all(repr(name) in messages(report)[0] for name in ends)
        assert store.graph.stats(ACME).vertices == 0

    def test_a_type_that_the_graph_has_no_room_for_is_refused_by_its_field_and_nothing_is_written(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(item_refusals, "MAX_TENANT_TYPES", 7)  # of entities five are the library's own
        written(store, vertex("a", entity_type="Pump"), vertex("b", entity_type="Valve"))
        written(store, *(edge("a", "b", f"FEEDS_{number}") for number in range(4)))
        of_new_types = (
            vertex("c", entity_type="Dam"),
            edge("b", "a", "FEEDS_4"),
            record("d", kind=Kind.ENTITY, entity_type="Weir"),
        )
        report = written(store, vertex("e", entity_type="Pump"), edge("b", "a", "FEEDS_1"), *of_new_types)
        assert [(error.place, error.field) for error in report.errors] == [
            ("vertices[1]", "type"),
            ("records[0]", "entity_type"),
        ]
        assert "has 7 entity types already" in messages(report)[0]
        assert store.graph.get_many(ACME, ["c", "e"]) == []
        report = written(store, edge("b", "a", "FEEDS_1"), *(edge("b", "a", f"DRAINS_{at}") for at in range(3)))
        assert [(error.place, error.field) for error in report.errors] == [
            ("relationships[2]", "type"),
            ("relationships[3]", "type"),
        ]
        assert "`predicate`" in messages(report)[0]
        assert store.graph.relationships(ACME, types=("DRAINS_0",), ids=("a",)) == []

    def test_of_a_partial_write_the_types_are_accepted_that_there_is_room_for(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(item_refusals, "MAX_TENANT_TYPES", 4)
        edges = [edge("a", "b", f"FEEDS_{number}") for number in range(9)]
        report = written(store, vertex("a"), vertex("b"), *edges, partial=True)
        assert [error.place for error in report.errors] == [f"relationships[{at}]" for at in range(2, 9)]
        written(store, vertex("a"), edge("a", "b", "FEEDS_9"), partial=True)
        assert store.graph.stats(ACME).by_relationship_type == {"FEEDS_0": 1, "FEEDS_1": 1}

    def test_a_type_that_nothing_has_any_more_makes_room_for_another(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(item_refusals, "MAX_TENANT_TYPES", 3)
        old = edge("a", "b", "FEEDS")
        assert not written(store, vertex("a"), vertex("b"), old).errors
        assert written(store, edge("a", "b", "DRAINS")).errors
        store.graph.delete_relationships(ACME, [old])
        assert not written(store, edge("a", "b", "DRAINS")).errors
        assert written(store, old).errors

    def test_a_record_whose_type_there_is_no_room_for_is_joined_without_it(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(item_refusals, "MAX_TENANT_TYPES", 6)
        for name in ("a", "b"):
            written(store, record(name, "a text", entity_type=f"Kind_{name}"))
        assert not written(store, edge("a", "b")).errors
        assert [each.entity_type for each in store.graph.get_many(ACME, ["a", "b"])] == ["Kind_a", "Document"]

    def test_a_stub_is_trusted_once_any_edge_to_it_is(self, store: WriteStore) -> None:
        def trusted() -> list[bool]:
            return [one.trusted for one in store.graph.get_many(ACME, ["x", "y"])]

        written(store, vertex("v"), record("mail", "m", trusted=False))
        by_mail = (edge("v", "x", evidence="mail"), edge("v", "y", trusted=False))
        written(store, *by_mail, missing=MissingEnds.STUB)
        assert trusted() == [False, False]
        assert store.graph.stats(ACME).trusted_part().vertices == 1
        written(store, edge("y", "v", "KNOWS"))
        assert trusted() == [False, True]
        written(store, edge("x", "z"), edge("x", "z", "KNOWS", trusted=False), *by_mail, missing=MissingEnds.STUB)
        assert trusted() == [True, True]
        assert [one.trusted for one in store.graph.get_many(ACME, ["z"])] == [True]

    def test_an_entity_that_is_not_trusted_becomes_so_by_no_edge(self, store: WriteStore) -> None:
        def ship() -> tuple[str | None, bool]:
            (one,) = store.graph.get_many(ACME, ["x"])
            return one.name, one.trusted

        strange = vertex("x", name="A stranger's name", aliases=("Keelson",), trusted=False)
        own = edge("v", "x")
        written(store, vertex("v"), strange, own)
        assert ship() == ("A stranger's name", False)
        written(store, own)
        assert ship() == ("A stranger's name", False)
        written(store, vertex("x", name="Keelson"), own)
        assert ship() == ("Keelson", True)

    @pytest.mark.parametrize("kind", [Kind.ENTITY, Kind.CHUNK])
    def test_an_entity_that_is_not_trusted_names_no_record_that_is(self, store: WriteStore, kind: Kind) -> None:
        def named() -> list[tuple[str | None, tuple[str, ...], bool]]:
            return [(one.name, one.aliases, one.trusted) for one in store.graph.get_many(ACME, ["x"])]

        own = record("x", "a ship", kind=kind, entity_type="Ship", name="Keelson", aliases=("Keel",))
        strange = vertex("x", name="A stranger's name", aliases=("Mallory",), trusted=False)
        report = written(store, own, strange, vertex("v"))
        assert (report.errors, report.vertices) == ((), 1 + (kind is Kind.ENTITY))
        written(store, edge("v", "x"))
        assert named() == [("Keelson", ("Keel",), True)]
        written(store, strange)
        assert named() == [("Keelson", ("Keel",), True)]
        refused = record("x", "a stranger's", kind=kind, trusted=False, supersedes=("nobody",))
        assert len(written(store, refused, strange, partial=True).errors) == 1
        assert named() == [("Keelson", ("Keel",), True)]
        # Of a text that no edge names there is no vertex yet.
        written(store, record("y", "a text"), vertex("y", name="A stranger's name", trusted=False))
        assert store.graph.get_many(ACME, ["y"]) == []
        written(store, record("x", "a ship", kind=kind, trusted=False), strange)
        assert named() == [("A stranger's name", ("Mallory",), False)]

    def test_a_stub_is_not_trusted_once_no_edge_to_it_is(self, store: WriteStore) -> None:
        def trusted() -> dict[str, bool]:
            return {one.id: one.trusted for one in store.graph.get_many(ACME, ["v", "x", "y", "z"])}

        ends = (vertex("v", name="V"), vertex("z", name="Z"))
        by_mail = [edge("v", end, evidence="mail") for end in ("x", "y", "z")]
        written(store, *ends, *by_mail, edge("y", "z"), missing=MissingEnds.STUB)
        assert trusted() == dict.fromkeys("vxyz", True)
        written(store, record("mail", "m", trusted=False))
        assert trusted() == {"v": True, "x": False, "y": True, "z": True}
        written(store, edge("y", "z", trusted=False))
        assert trusted() == {"v": True, "x": False, "y": False, "z": True}
        written(store, record("own", "v leads to x"), edge("v", "x", evidence="own"), edge("y", "z"))
        assert trusted() == {"v": True, "x": True, "y": True, "z": True}
        delete_records(ACME, ["own", "z"], store)
        assert trusted() == {"v": True, "x": False, "y": False}

    def test_an_edge_to_nothing_makes_a_stub_when_asked_which_a_later_write_completes(self, store: WriteStore) -> None:
        report = written(store, vertex("v"), edge("v", "x"), edge("x", "y"), missing=MissingEnds.STUB)
        assert (report.stubs, report.relationships, report.errors) == (2, 2, ())
        written(store, record("x", "known now", kind=Kind.ENTITY, entity_type="Person", name="X"))
        (completed,) = store.graph.get_many(ACME, ["x"])
        assert (completed.name, completed.entity_type, completed.has_record) == ("X", "Person", True)
        assert len(store.graph.relationships(ACME, ids=["x"])) == 2

    def test_errors_are_raised_for_whoever_wants_them_raised(self, store: WriteStore) -> None:
        with pytest.raises(InvalidRequest, match="'r' stands already") as caught:
            require_written(written(store, record("r", "a"), record("r", "b")))
        assert caught.value.field == "id"
        assert require_written(written(store, record("r", "a"))).written == 1

    def test_a_text_of_a_megabyte_is_written_and_found_beside_the_others(self, store: WriteStore) -> None:
        report = written(store, record("long", "turbine " + "word " * 200_000), record("short", "turbine"))
        assert report.errors == ()
        assert found(store, "turbine") == ["long", "short"]

    # --- stopped on the way ---

    @pytest.mark.parametrize("step", ["index.upsert", "graph.upsert", "cache.advance"])
    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_a_write_that_was_stopped_is_completed_by_repeating_it(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
    ) -> None:
        items = (
            record("old", "the fee is two", kind=Kind.FACT, valid_at=day(1)),
            record("new", "the fee is three", kind=Kind.FACT, valid_at=day(9), supersedes=("old",)),
            vertex("v", name="Fee"),
            edge("v", "new", "MENTIONS"),
        )
        part, name = step.split(".")
        target: Any = getattr(store, part)
        work = getattr(target, name)

        def stopped(*arguments: Any) -> None:
            if moment == "after":
                work(*arguments)
            message = "stopped"
            raise StoreError(message)

        with monkeypatch.context() as patch:
            patch.setattr(target, name, stopped)
            with pytest.raises(StoreError, match="stopped"):
                written(store, *items)
        before = store.cache.generation(ACME) or 0
        assert written(store, *items).errors == ()
        assert (store.cache.generation(ACME) or 0) > before
        assert found(store, "fee") == ["new"]
        assert found(store, "fee", as_of=day(5)) == ["old"]
        assert [one.id for one in store.graph.get_many(ACME, ["v", "new", "old"])] == ["v", "new", "old"]
        assert store.graph.stats(ACME).edges == 2

    # --- supersession ---

    def test_a_write_that_the_stores_take_too_long_for_ends_and_is_completed_by_repeating_it(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        items = (record("a", "a turbine hums"), record("b", "a pump drips"), edge("a", "b"))
        with monkeypatch.context() as patch:
            patch.setattr(writing, "STORES_S", 0.0)
            with pytest.raises(StoreTooSlow):
                written(store, *items)
        assert store.graph.get_many(ACME, ["a", "b"]) == []
        assert written(store, *items).written == 2
        assert len(store.graph.relationships(ACME, ids=["a"])) == 1

    def test_what_is_superseded_ends_in_index_and_graph_when_the_new_begins(self, store: WriteStore) -> None:
        written(
            store,
            record("old", "the fee is two", kind=Kind.FACT, valid_at=day(1)),
            vertex("fee", name="Fee"),
            vertex("two", name="Two"),
            edge("fee", "two", "COSTS", evidence="old"),
            edge("fee", "old", "MENTIONS"),
        )
        report = written(store, record("new", "the fee is three", kind=Kind.FACT, valid_at=day(9), supersedes=("old",)))
        assert (report.written, report.superseded) == (1, 2)
        assert stored(store, "old").invalid_at == day(9)
        assert store.graph.get_many(ACME, ["old"])[0].invalid_at == day(9)
        ends = {one.type: one.invalid_at for one in store.graph.relationships(ACME, ids=["fee"])}
        assert ends == {"COSTS": day(9), "MENTIONS": None}
        assert found(store, "fee") == ["new"]
        assert found(store, "fee", as_of=day(5)) == ["old"]

    def test_an_entity_given_for_a_stored_record_is_valid_as_long_as_the_record(self, store: WriteStore) -> None:
        old = record("old", "the turbine is red", kind=Kind.FACT)
        written(store, old, vertex("old", name="Paint"))
        written(store, record("new", "the turbine is blue", kind=Kind.FACT, valid_at=day(9), supersedes=("old",)))
        written(store, vertex("old", name="Colour"))
        written(store, record("stated", "the pump is red", valid_at=day(2), invalid_at=day(4)), vertex("stated"))
        written(store, vertex("stated", name="Pump", invalid_at=day(8)))
        colour, pump = store.graph.get_many(ACME, ["old", "stated"])
        assert (colour.name, colour.invalid_at) == ("Colour", day(9))
        assert (pump.name, pump.valid_at, pump.invalid_at) == ("Pump", day(2), day(4))

    def test_what_is_superseded_keeps_its_vectors(self, store: WriteStore) -> None:
        written(store, record("old", "the fee is two"))
        written(store, record("new", "the fee is three", supersedes=("old",)))
        (old,) = store.index.get_many(ACME, ["old"], with_vectors=True)
        assert len(old.embeddings) == len(store.models())

    def test_an_edge_that_the_new_record_says_again_is_still_true(self, store: WriteStore) -> None:
        facts = {"kind": Kind.FACT, "name": "Fee"}
        written(
            store,
            record("old", "ada owns the fee of two", **facts),
            vertex("ada", name="Ada"),
            vertex("fee", name="Fee"),
            edge("ada", "fee", "OWNS", evidence="old"),
        )
        written(
            store,
            record("new", "ada owns the fee of three", valid_at=day(9), supersedes=("old",), **facts),
            edge("ada", "fee", "OWNS", evidence="new"),
        )
        (owns,) = store.graph.relationships(ACME, ids=["ada"])
        assert (owns.evidence, owns.invalid_at) == ("new", None)

    def test_an_edge_ends_with_its_evidence_whether_it_is_written_before_or_after_that_ended(
        self, store: WriteStore
    ) -> None:
        said = [edge("fee", name, "COSTS", evidence="old") for name in ("two", "zwei")]
        vertices = [vertex(name) for name in ("fee", "two", "zwei")]
        written(store, record("old", "the fee is two", kind=Kind.FACT, valid_at=day(1)), *vertices, said[0])
        written(store, record("new", "the fee is three", kind=Kind.FACT, valid_at=day(9), supersedes=("old",)))
        written(store, *said)
        ends = {one.target: one.invalid_at for one in store.graph.relationships(ACME, ids=["fee"])}
        assert ends == {"two": day(9), "zwei": day(9)}

    def test_an_edge_goes_on_when_its_evidence_is_an_entity_that_another_follows(self, store: WriteStore) -> None:
        entities = [record(name, f"{name} works", kind=Kind.ENTITY, name=name) for name in ("a", "b")]
        written(store, *entities, edge("b", "a", "SUPERSEDES", valid_at=day(9)))
        written(store, edge("a", "b", "KNOWS", evidence="a"))
        assert [one.invalid_at for one in store.graph.relationships(ACME, ids=["a"], types=["KNOWS"])] == [None]

    def test_a_superseded_record_that_is_written_again_stays_superseded(self, store: WriteStore) -> None:
        old = record("old", "the fee is two", valid_at=day(1))
        written(store, old)
        written(store, record("new", "the fee is three", valid_at=day(9), supersedes=("old",)))
        for again in (old, old.model_copy(update={"content": "the fee was two"})):
            written(store, again)
            assert stored(store, "old").invalid_at == day(9)
            assert store.graph.get_many(ACME, ["old"])[0].invalid_at == day(9)

    def test_an_end_that_came_earlier_stands(self, store: WriteStore) -> None:
        written(store, record("old", "the fee is two", invalid_at=day(3)))
        written(store, record("new", "the fee is three", valid_at=day(9), supersedes=("old",)))
        assert stored(store, "old").invalid_at == day(3)

    def test_an_edge_that_supersedes_says_the_same_as_a_record(self, store: WriteStore) -> None:
        written(store, record("old", "the fee is two"), record("new", "the fee is three"))
        report = written(store, edge("new", "old", "SUPERSEDES", timestamp=day(9)))
        assert report.superseded == 1
        assert stored(store, "old").invalid_at == day(9)

    def test_an_entity_that_another_follows_is_not_ended(self, store: WriteStore) -> None:
        entities = [record(name, f"{name} works", kind=Kind.ENTITY, name=name) for name in ("a", "b")]
        written(store, *entities, edge("b", "a", "SUPERSEDES", valid_at=day(9)))
        assert stored(store, "a").invalid_at is None
        report = written(store, entities[1].model_copy(update={"supersedes": ("a",)}))
        assert "'a', which 'b' supersedes, is an entity" in messages(report)[0]

    def test_an_edge_ends_another(self, store: WriteStore) -> None:
        written(store, *(vertex(name) for name in "abc"), edge("a", "b", "WORKS_AT", valid_at=day(1)))
        key = RelationshipKey(source="a", type="WORKS_AT", target="b")
        written(store, edge("a", "c", "WORKS_AT", valid_at=day(9), supersedes=(key,)))
        ends = {one.target: one.invalid_at for one in store.graph.relationships(ACME, ids=["a"])}
        assert ends == {"b": day(9), "c": None}

    @pytest.mark.parametrize(
        ("said", "since"), [({"valid_at": day(9)}, day(9)), ({"timestamp": day(8)}, day(8)), ({}, day(7))]
    )
    def test_what_supersedes_does_not_hold_before_what_it_supersedes_has_ended(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], since: datetime
    ) -> None:
        items = (record("old", "the fee is two"), record("new", "the fee is three", supersedes=("old",), **said))
        for moment in (day(7), day(20)):
            monkeypatch.setattr(store, "now", lambda moment=moment: moment)
            written(store, *items)
            assert stored(store, "old").invalid_at == stored(store, "new").valid_at == since
            (vertex,) = store.graph.get_many(ACME, ["new"])
            assert vertex.valid_at == since

    def test_a_stored_record_begins_when_an_edge_says_that_it_supersedes_another(self, store: WriteStore) -> None:
        written(
            store, record("old", "the fee is two"), record("new", "the fee is three"), record("newest", "it is four")
        )
        assert stored(store, "new").valid_at is None
        for new, old, since in (("new", "old", 3), ("newest", "new", 9)):
            written(store, edge(new, old, "SUPERSEDES", timestamp=day(since)))
        written(store, record("new", "the fee is three!"))
        old, new, newest = (stored(store, name) for name in ("old", "new", "newest"))
        assert (old.valid_at, old.invalid_at) == (None, day(3))
        assert (new.valid_at, new.invalid_at, new.content) == (day(3), day(9), "the fee is three!")
        assert (newest.valid_at, newest.invalid_at) == (day(9), None)

    def test_a_record_begins_earlier_when_the_edge_that_ends_another_is_corrected(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "now", lambda: day(20))
        written(store, record("old", "the fee is two"), record("new", "the fee is three"), record("newest", "four"))
        written(store, edge("newest", "new", "SUPERSEDES", timestamp=day(25)))
        for said, since in (({}, 20), ({"timestamp": day(4)}, 4), ({"timestamp": day(8)}, 4)):
            written(store, edge("new", "old", "SUPERSEDES", **said))
            assert stored(store, "old").invalid_at == stored(store, "new").valid_at == day(since)
            (vertex,) = store.graph.get_many(ACME, ["new"])
            assert vertex.valid_at == day(since)
        assert stored(store, "new").invalid_at == day(25)

    def test_a_beginning_that_the_record_states_stays_when_the_edge_is_corrected(self, store: WriteStore) -> None:
        written(store, record("old", "the fee is two"), record("new", "the fee is three", valid_at=day(9)))
        for said in ({}, {"timestamp": day(4)}):
            written(store, edge("new", "old", "SUPERSEDES", **said))
            (vertex,) = store.graph.get_many(ACME, ["new"])
            assert stored(store, "new").valid_at == vertex.valid_at == day(9)

    def test_what_ended_before_it_would_supersede_keeps_its_validity(self, store: WriteStore) -> None:
        past = record("past", "it was three in May", invalid_at=day(3), timestamp=day(9), supersedes=("old",))
        written(store, record("old", "the fee is two"), past)
        assert (stored(store, "past").valid_at, stored(store, "past").invalid_at) == (None, day(3))

    def test_an_edge_that_is_not_trusted_does_not_say_when_a_trusted_record_begins(self, store: WriteStore) -> None:
        written(store, record("old", "the fee is two", trusted=False), record("new", "the fee is three"))
        written(store, edge("new", "old", "SUPERSEDES", timestamp=day(3), trusted=False))
        assert (stored(store, "old").invalid_at, stored(store, "new").valid_at) == (day(3), None)

    def test_an_edge_says_when_a_trusted_record_begins_only_after_its_evidence_is_written(
        self, store: WriteStore
    ) -> None:
        written(store, record("old", "the fee is two", trusted=False), record("new", "the fee is three"), vertex("a"))
        for old in ("old", "a"):
            written(store, edge("new", old, "SUPERSEDES", timestamp=day(3), evidence="mail"))
        assert stored(store, "new").valid_at is None
        written(store, record("new", "the fee is three!"))
        assert stored(store, "new").valid_at is None
        written(
            store, record("mail", "it is four"), edge("new", "old", "SUPERSEDES", timestamp=day(3), evidence="mail")
        )
        assert stored(store, "new").valid_at == day(3)

    def test_what_a_record_said_while_it_was_not_trusted_ends_and_begins_nothing_that_is(
        self, store: WriteStore
    ) -> None:
        written(store, record("old", "the fee is two", trusted=False))
        written(store, record("new", "the fee is three", trusted=False, timestamp=day(9), supersedes=("old",)))
        assert stored(store, "old").invalid_at == stored(store, "new").valid_at == day(9)
        written(store, record("new", "the fee is three"))
        written(store, record("old", "the fee is two"))
        assert (stored(store, "old").invalid_at, stored(store, "new").valid_at) == (None, None)
        written(store, record("new", "the fee is three", timestamp=day(9), supersedes=("old",)))
        assert stored(store, "old").invalid_at == stored(store, "new").valid_at == day(9)

    def test_an_edge_that_supersedes_another_begins_by_its_timestamp(self, store: WriteStore) -> None:
        key = RelationshipKey(source="a", type="WORKS_AT", target="b")
        written(store, *(vertex(name) for name in "abc"), edge("a", "b", "WORKS_AT"))
        written(store, edge("a", "c", "WORKS_AT", timestamp=day(9), supersedes=(key,)))
        held = {one.target: (one.valid_at, one.invalid_at) for one in store.graph.relationships(ACME, ids=["a"])}
        assert held == {"b": (None, day(9)), "c": (day(9), None)}

    @pytest.mark.parametrize("missing", MissingEnds)
    def test_what_is_refused_because_it_leads_nowhere_ends_nothing(
        self, store: WriteStore, missing: MissingEnds
    ) -> None:
        written(store, record("old", "the fee is two"), vertex("a"), edge("a", "a", "WORKS_AT", valid_at=day(1)))
        key = RelationshipKey(source="a", type="WORKS_AT", target="a")
        astray = edge("a", "nobody", "WORKS_AT", valid_at=day(9), supersedes=(key,))
        link = edge("nobody", "old", "SUPERSEDES", valid_at=day(9))
        report = written(store, astray, link, partial=True, missing=missing)
        ends = [stored(store, "old").invalid_at]
        ends += [one.invalid_at for one in store.graph.relationships(ACME, ids=["a"]) if one.target == "a"]
        refused = missing is MissingEnds.REFUSE
        assert len(report.errors) == (2 if refused else 0)
        assert ends == [None if refused else day(9)] * 2

    def test_an_edge_that_an_undated_one_ended_ends_when_it_first_did_however_often_that_is_written(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = RelationshipKey(source="a", type="WORKS_AT", target="b")
        items = (*(vertex(name) for name in "abc"), edge("a", "b", "WORKS_AT"))
        moves = edge("a", "c", "WORKS_AT", supersedes=(key,))
        for moment in (day(9), day(20)):
            monkeypatch.setattr(store, "now", lambda moment=moment: moment)
            written(store, *items, moves)
        ends = {one.target: one.invalid_at for one in store.graph.relationships(ACME, ids=["a"])}
        assert ends == {"b": day(9), "c": None}

    def test_what_is_superseded_stays_ended_in_index_and_graph_when_all_is_written_again(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        items = (
            record("old", "the fee is two", kind=Kind.FACT),
            record("new", "the fee is three", kind=Kind.FACT, supersedes=("old",)),
            vertex("fee", name="Fee"),
            vertex("two", name="Two"),
            edge("fee", "two", "COSTS", evidence="old"),
        )
        states = []
        for moment in (day(9), day(20), day(21)):
            monkeypatch.setattr(store, "now", lambda moment=moment: moment)
            written(store, *items)
            states.append((store.index.scan(ACME, with_vectors=True), store.graph.scan(ACME)))
        assert states[0] == states[1] == states[2]
        assert stored(store, "old").invalid_at == day(9)
        assert store.graph.get_many(ACME, ["old"])[0].invalid_at == day(9)
        (costs,) = store.graph.relationships(ACME, ids=["two"])
        assert costs.invalid_at == day(9)

    def test_edges_that_are_stored_just_so_are_not_written_again_and_one_that_changed_is(
        self, store: WriteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        edges = [
            edge("a", "b", confidence=0.1 + 0.2, timestamp=day(3), valid_at=day(1), invalid_at=day(20), evidence="r"),
            edge("a", "b", predicate="said to"),
            edge("b", "a", "ENABLES"),
        ]
        items = (vertex("a"), vertex("b"), record("r", "a causes b"))
        assert written(store, *items, *edges).unchanged_relationships == 0
        upsert, sent = store.graph.upsert, list[Relationship]()

        def watched(vertices: Any, relationships: Any, *keys: Any) -> None:
            sent.extend(relationships)
            upsert(vertices, relationships, *keys)

        monkeypatch.setattr(store.graph, "upsert", watched)
        report = written(store, *items, *edges)
        assert (report.relationships, report.unchanged_relationships, sent) == (3, 3, [])
        edges[1] = edges[1].model_copy(update={"confidence": 0.5})
        assert written(store, *edges).unchanged_relationships == 2
        assert sent == [edges[1]]
        written(store, *edges, rewrite=True)
        assert len(sent) == 4

    def test_what_is_superseded_has_to_be_there(self, store: WriteStore) -> None:
        report = written(store, record("new", "the fee is three", supersedes=("old",)))
        assert messages(report) == ["records[0]: supersedes: there is no record 'old', which 'new' supersedes"]
        key = RelationshipKey(source="a", type="WORKS_AT", target="b")
        report = written(store, vertex("a"), vertex("c"), edge("a", "c", supersedes=(key,)))
        assert messages(report) == ["relationships[0]: supersedes: there is no edge 'a' WORKS_AT 'b'"]
        assert store.index.stats(ACME).records == 0

    @pytest.mark.parametrize("text", ["the fee is three", "the fee is four"])
    def test_what_supersedes_may_be_written_again_when_what_it_superseded_was_deleted(
        self, store: WriteStore, text: str
    ) -> None:
        written(store, record("old", "the fee is two"), record("new", "the fee is three", supersedes=("old",)))
        delete_records(ACME, ["old"], store)
        again = record("new", text, supersedes=("old",))
        assert written(store, again).errors == ()
        assert (stored(store, "new").content, stored(store, "new").valid_at) == (text, None)
        assert [one.valid_at for one in store.graph.get_many(ACME, ["new"])] == [None]
        report = written(store, again.altered(supersedes=("old", "older")))
        assert messages(report) == ["records[0]: supersedes: there is no record 'older', which 'new' supersedes"]

    @pytest.mark.parametrize("others", [(), ("newer",)])
    def test_what_is_written_again_when_what_superseded_it_was_deleted_is_valid_again(
        self, store: WriteStore, encoded: list[str], others: tuple[str, ...]
    ) -> None:
        items = (
            record("old", "the fee is two", kind=Kind.FACT),
            vertex("fee", name="Fee"),
            vertex("two", name="Two"),
            edge("fee", "two", "COSTS", evidence="old"),
        )
        written(store, *items)
        for name, since in (("new", 9), *((other, 20) for other in others)):
            written(store, record(name, "the fee is three", valid_at=day(since), supersedes=("old",)))
        delete_records(ACME, ["new"], store)
        assert stored(store, "old").invalid_at == day(9), "it stays ended until it is written again"
        encoded.clear()
        report = written(store, *items)
        (old,) = store.graph.get_many(ACME, ["old"])
        (costs,) = store.graph.relationships(ACME, ids=["two"])
        ends = {stored(store, "old").invalid_at, old.invalid_at, costs.invalid_at}
        assert ends == {day(20) if others else None}
        assert (report.written, report.unchanged, report.embedded, encoded) == (1, 0, 0, [])
        assert written(store, *items).written == 0

    def test_a_circle_of_supersession_in_one_request_is_refused_and_shown(self, store: WriteStore) -> None:
        report = written(
            store,
            record("a", "one", supersedes=("b",)),
            record("b", "two", supersedes=("c",)),
            record("c", "three", supersedes=("a",)),
        )
        assert "would be superseded by itself: " in messages(report)[0]
        assert " → " in messages(report)[0]
        assert all(message.endswith("supersedes, is refused itself") for message in messages(report)[1:])
        assert store.index.stats(ACME).records == 0

    def test_a_circle_that_closes_over_what_is_stored_is_refused(self, store: WriteStore) -> None:
        written(store, record("a", "one"))
        written(store, record("b", "two", supersedes=("a",)))
        written(store, record("c", "three", supersedes=("b",)))
        report = written(store, record("a", "one", supersedes=("c",)))
        assert messages(report) == ["records[0]: supersedes: 'a' would be superseded by itself: a → c → b → a"]
        assert stored(store, "c").invalid_at is None
        report = written(store, edge("a", "c", "SUPERSEDES"))
        assert messages(report)[0].startswith("relationships[0]: supersedes: 'a' would be superseded by itself")

    def test_a_record_does_not_supersede_itself(self, store: WriteStore) -> None:
        report = written(store, record("a", "one", supersedes=("a",)))
        assert messages(report) == ["records[0]: supersedes: 'a' would be superseded by itself: a → a"]
