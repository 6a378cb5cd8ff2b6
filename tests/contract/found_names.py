"""What every pair of stores keeps of the names that are found in texts while these are written."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import StoreError
from braid.ingestion import writing
from braid.ingestion.archive_export import export_tenant
from braid.ingestion.archive_import import import_tenant
from braid.ingestion.deleting import delete_records
from braid.ingestion.entities_found_in_texts import found_id
from braid.ingestion.repair import Fault, repair
from braid.ingestion.tenant_deletion import delete_tenant
from braid.models import MENTIONS, GraphSource, Kind, Relationship

from tests.contract.deletes import without_transactions
from tests.contract.shapes import ACME, AS_OF, edge, record, vertex
from tests.contract.writes import stored, written

if TYPE_CHECKING:
    from pathlib import Path

    from braid.app import Application
    from braid.models import Record, Vertex

BERG, KEELSON = found_id("anna berg"), found_id("keelson project")


def mentions(store: Application, *texts: str) -> list[Relationship]:
    return store.graph.relationships(ACME, ids=texts, types=(MENTIONS,))


def names(store: Application, text: str) -> set[str]:
    """Return the ids of the entities that a text mentions."""
    return {one.source for one in mentions(store, text)}


def break_off(store: Application, monkeypatch: pytest.MonkeyPatch, *changed: Record | Vertex) -> None:
    """Break a write off after its texts are in the index, between two stores that cannot commit together."""

    def stop(*_: object) -> None:
        message = "stopped"
        raise StoreError(message)

    without_transactions(store, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(store.graph, "upsert", stop)
        patch.setattr(store.graph, "delete_relationships", stop)
        patch.setattr(store.graph, "delete_only_mentioned", stop)
        with pytest.raises(StoreError, match="stopped"):
            written(store, *changed)


class FoundNamesContract:
    """Writing through :func:`braid.ingestion.writing.write` with the graph from both sources."""

    def test_a_name_leads_to_every_text_that_has_it_with_evidence_and_position(self, store: Application) -> None:
        report = written(store, record("a", "It was Anna Berg."), record("b", "We asked Anna Berg about it."))
        assert (report.names, report.mentions, report.vertices, report.relationships) == (1, 2, 0, 0)
        (berg,) = store.graph.get_many(ACME, [BERG])
        assert (berg.name, berg.found, berg.has_record) == ("Anna Berg", True, False)
        assert [(one.source, one.target, one.evidence, one.position) for one in mentions(store, "a", "b")] == [
            (BERG, "a", "a", 7),
            (BERG, "b", "b", 9),
        ]
        (link,) = store.graph.link(ACME, ["anna berg"], as_of=AS_OF)
        assert link.entity_id == BERG

    def test_no_name_stays_that_was_found_in_a_text_that_an_archive_replaces(
        self, store: Application, tmp_path: Path
    ) -> None:
        written(store, record("a", "It was Anna Berg."))
        export_tenant(ACME, store, tmp_path / "archive")
        written(store, record("a", "It was Olaf Brandt."), record("b", "We asked Ivy Tarrant about it."))
        import_tenant(tmp_path / "archive", store)
        assert names(store, "a") == {BERG}
        assert names(store, "b") == {found_id("ivy tarrant")}
        assert not store.graph.get_many(ACME, [found_id("olaf brandt")])

    def test_the_same_texts_again_change_nothing(self, store: Application) -> None:
        texts = (record("a", "It was Anna Berg."), record("b", "The Keelson project of Anna Berg"))
        written(store, *texts)
        before = (store.graph.get_many(ACME, [BERG]), mentions(store, "a", "b"))
        again = written(store, *texts)
        assert (again.written, again.names, again.vertices) == (0, 0, 0)
        assert (store.graph.get_many(ACME, [BERG]), mentions(store, "a", "b")) == before

    def test_a_changed_text_no_longer_mentions_what_it_no_longer_names(self, store: Application) -> None:
        written(store, record("a", "It was Anna Berg."), record("b", "The Keelson Project by Anna Berg"))
        written(store, record("b", "The Keelson Project alone"))
        assert names(store, "b") == {KEELSON}
        written(store, record("a", "It was nobody."))
        assert names(store, "a") == set()
        assert store.graph.get_many(ACME, [BERG]) == []

    def test_a_text_that_is_written_again_as_a_kind_that_is_not_read_for_names_mentions_none(
        self, store: Application
    ) -> None:
        written(store, record("a", "It was Anna Berg."))
        report = written(store, record("a", "We asked Anna Berg.", kind=Kind.MESSAGE, trusted=False))
        assert (report.mentions, report.unmentioned) == (0, 1)
        assert mentions(store, "a") == []
        assert store.graph.get_many(ACME, [BERG]) == []

    def test_a_mention_that_a_broken_off_write_took_from_a_text_is_removed_by_a_repair(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        changed = (record("a", "It was nobody."), record("b", "The Keelson Project alone"))
        written(store, record("a", "It was Anna Berg."), record("b", "The Keelson Project by Anna Berg"))
        break_off(store, monkeypatch, *changed)
        assert names(store, "a") == {BERG}
        found = repair(ACME, store, dry_run=True).counts
        assert found == {Fault.OLD_MENTION: 2}
        assert repair(ACME, store).counts == found
        assert (names(store, "a"), names(store, "b")) == (set(), {KEELSON})
        assert store.graph.get_many(ACME, [BERG]) == []
        assert repair(ACME, store).counts == {}
        assert list(store.objects.list(ACME)) == []

    @pytest.mark.parametrize("entity_in_index", [True, False])
    def test_a_mention_that_holds_again_since_a_write_broke_off_is_left_by_a_repair(
        self, store: Application, monkeypatch: pytest.MonkeyPatch, entity_in_index: bool
    ) -> None:
        written(store, record("a", "It was Anna Berg."))
        text = record("a", "It was Anna Berg, they say.")
        given = record("berg", "Who is it?", kind=Kind.ENTITY, name="Anna Berg")
        # The given entity gets the mention, and the found name loses it.
        break_off(store, monkeypatch, text, given if entity_in_index else vertex("berg", name="Anna Berg"))
        delete_records(ACME, ["berg"], store)
        assert written(store, text).written == 0
        assert names(store, "a") == {BERG}
        assert repair(ACME, store, dry_run=True).counts == {}
        assert repair(ACME, store).counts == {}
        assert names(store, "a") == {BERG}

    def test_a_mention_that_an_entity_gets_whose_write_broke_off_is_that_entitys_alone_after_a_repair(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(store, record("a", "It was Anna Berg."))
        break_off(store, monkeypatch, record("a", "It was Anna Berg, they say."), vertex("berg", name="Anna Berg"))
        found = repair(ACME, store, dry_run=True).counts
        assert found[Fault.OLD_MENTION] == 1
        assert repair(ACME, store).counts == found
        assert names(store, "a") == {"berg"}
        assert repair(ACME, store).counts == {}

    def test_what_a_killed_write_left_beside_a_deletion_is_reported_and_goes_when_that_is_repeated(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(store, record("a", "It was Anna Berg."))
        forget = store.schemas.forget

        def killed_meanwhile(tenant_id: str) -> int:
            # It had begun before the deletion: nothing refuses it.
            monkeypatch.setattr(writing, "refuse_while_deleted", lambda *_: None)
            monkeypatch.setattr(writing, "refuse_if_deleted_since", lambda *_: None)
            monkeypatch.setattr(writing, "was_deleted_since", lambda *_: False)
            break_off(store, monkeypatch, record("b", "It was Anna Berg again."))
            return forget(tenant_id)

        without_transactions(store, monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(store.schemas, "forget", killed_meanwhile)
            report = delete_tenant(ACME, store)
        assert [one for one in report.left if "writes that had not ended, 1" in one]
        assert [one.id for one in store.index.scan(ACME).records] == ["b"]
        again = delete_tenant(ACME, store)
        assert (again.records, again.left) == (1, ())
        assert not store.index.scan(ACME).records
        assert list(store.objects.list(ACME)) == []
        assert repair(ACME, store).counts == {}

    def test_of_two_writes_of_one_id_beside_each_other_each_store_keeps_what_reached_it_last(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        without_transactions(store, monkeypatch)
        upsert, other = store.graph.upsert, [record("a", "The Keelson Project alone", name="Second")]

        def overtaken(*items: Any) -> None:
            if other:
                with monkeypatch.context() as patch:  # of another process, which this one's turns do not bind
                    patch.setattr(writing, "writing_turn", lambda *_: nullcontext())
                    written(store, other.pop())
            upsert(*items)

        monkeypatch.setattr(store.graph, "upsert", overtaken)
        first = record("a", "It was Anna Berg.", name="First")
        written(store, first)
        assert stored(store, "a").content == "The Keelson Project alone", "it reached the index last"
        assert [one.name for one in store.graph.get_many(ACME, ["a"])] == ["First"], "it reached the graph last"
        assert names(store, "a") >= {BERG, KEELSON}, "edges are added up"
        written(store, first)
        assert stored(store, "a").content == "It was Anna Berg."
        assert names(store, "a") & {BERG, KEELSON} == {BERG}

    def test_a_mention_that_a_text_has_again_is_no_longer_removed(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(store, record("a", "It was Anna Berg."))
        break_off(store, monkeypatch, record("a", "It was nobody."))
        written(store, record("a", "It was Anna Berg again."))
        assert repair(ACME, store).counts == {}
        assert names(store, "a") == {BERG}

    def test_with_a_text_goes_what_only_it_said(self, store: Application) -> None:
        written(store, record("a", "It was Anna Berg."), record("b", "The Keelson Project by Anna Berg"))
        delete_records(ACME, ["b"], store)
        assert [one.id for one in store.graph.get_many(ACME, [BERG, KEELSON])] == [BERG]
        delete_records(ACME, ["a"], store)
        assert store.graph.stats(ACME).vertices == 0

    def test_a_given_entity_has_the_mentions_of_its_names_and_aliases(self, store: Application) -> None:
        written(store, vertex("berg", name="Anna Berg", aliases=("boss",)), record("a", "We asked the boss."))
        written(store, record("b", "It was Anna Berg."))
        assert (names(store, "a"), names(store, "b")) == ({"berg"}, {"berg"})
        assert store.graph.get_many(ACME, [BERG]) == []

    @pytest.mark.parametrize("given", ["with", "before"])
    def test_a_given_name_is_found_however_it_is_written_and_in_any_script(
        self, store: Application, given: str
    ) -> None:
        entities = [vertex("shift", name="Night Shift", aliases=("night crew",)), vertex("university", name="北京大学")]
        texts = [record("a", "He left the night crew."), record("b", "他在北京大学工作。")]
        for items in [[*entities, *texts]] if given == "with" else [entities, texts]:
            written(store, *items)
        assert (names(store, "a"), names(store, "b")) == ({"shift"}, {"university"})

    def test_the_record_of_an_entity_that_states_no_type_gets_the_mentions_of_its_name(
        self, store: Application
    ) -> None:
        written(store, record("berg", "She.", kind=Kind.ENTITY, name="Anna Berg"))
        written(store, record("a", "It was Anna Berg."))
        assert names(store, "a") == {"berg"}
        assert [one.entity_type for one in store.graph.get_many(ACME, ["berg", "a"])] == ["Concept", "Document"]

    def test_an_entity_that_is_given_later_takes_the_place_of_the_name_that_was_found(self, store: Application) -> None:
        written(store, record("a", "It was Anna Berg."))
        written(store, vertex("berg", name="Anna Berg"))
        assert names(store, "a") == {"berg"}
        assert store.graph.get_many(ACME, [BERG]) == []
        written(store, record("a", "It was Anna Berg."))
        assert names(store, "a") == {"berg"}

    @pytest.mark.parametrize("at_once", [0, 10_000])
    def test_it_takes_no_mention_that_the_same_write_takes_from_a_text(
        self, store: Application, monkeypatch: pytest.MonkeyPatch, at_once: int
    ) -> None:
        monkeypatch.setattr(writing, "MENTIONS_AT_ONCE", at_once)
        written(store, record("a", "It was Anna Berg."), record("b", "It was Anna Berg."))
        written(store, record("b", "It was nobody."), vertex("person:1", name="Anna Berg"))
        assert (names(store, "a"), names(store, "b")) == ({"person:1"}, set())

    def test_a_mention_that_is_given_stays_as_it_is(self, store: Application) -> None:
        given = edge("berg", "a", MENTIONS, confidence=0.3)
        written(store, vertex("berg", name="Anna Berg"), record("a", "It was Anna Berg."), given)
        written(store, record("a", "It was Anna Berg again."))
        assert mentions(store, "a") == [given]

    @pytest.mark.parametrize("evidence", ["mail", None])
    @pytest.mark.parametrize("order", ["before", "with", "after"])
    def test_a_mention_that_is_not_trusted_takes_no_place_of_one_that_a_trusted_text_has(
        self, store: Application, order: str, evidence: str | None
    ) -> None:
        text, mail = record("a", "It was Anna Berg."), record("mail", "Ask me.", trusted=False)
        strange = edge("berg", "a", MENTIONS, evidence=evidence, trusted=False, confidence=0.1)
        written(store, vertex("berg", name="Anna Berg"), vertex("a"), mail)
        if order == "with":
            written(store, text, strange)
        for item in {"before": (strange, text), "after": (text, strange)}.get(order, ()):
            written(store, item)
        (kept,) = mentions(store, "a")
        assert (kept.source, kept.evidence, kept.trusted, kept.found) == ("berg", "a", True, True)
        written(store, record("a", "It was Anna Berg.", trusted=False))
        assert [one.trusted for one in mentions(store, "a")] == [False]

    def test_a_name_that_only_untrusted_texts_have_is_not_trusted(self, store: Application) -> None:
        written(store, record("a", "It was Anna Berg.", trusted=False))
        assert store.graph.link(ACME, ["anna berg"], as_of=AS_OF, trusted_only=True) == []
        written(store, record("b", "It was Anna Berg."))
        (link,) = store.graph.link(ACME, ["anna berg"], as_of=AS_OF, trusted_only=True)
        assert link.entity_id == BERG

    @pytest.mark.parametrize("ended", ["changed", "marked", "removed"])
    def test_a_name_whose_last_trusted_text_is_gone_is_no_longer_trusted(self, store: Application, ended: str) -> None:
        written(store, record("a", "It was Anna Berg."), record("b", "It was Anna Berg.", trusted=False))
        written(store, record("c", "It was Anna Berg."))
        for text in ("a", "c"):
            (berg,) = store.graph.get_many(ACME, [BERG])
            assert berg.trusted
            if ended == "removed":
                store.delete(ACME, [text])
            else:
                said = "It was nobody." if ended == "changed" else "It was Anna Berg."
                written(store, record(text, said, trusted=ended == "changed"))
        (berg,) = store.graph.get_many(ACME, [BERG])
        assert not berg.trusted
        assert store.graph.stats(ACME).trusted_part().vertices == (2 if ended == "changed" else 0)
        written(store, record("a", "It was Anna Berg. Again."))
        (link,) = store.graph.link(ACME, ["anna berg"], as_of=AS_OF, trusted_only=True)
        assert link.entity_id == BERG

    @pytest.mark.parametrize("given", ["before", "with", "after"])
    def test_an_entity_that_is_not_trusted_gets_no_text_s_mention(self, store: Application, given: str) -> None:
        text = record("a", "It was Anna Berg.")
        impostor = record("berg", "He.", kind="entity", entity_type="Person", name="Anna Berg", trusted=False)
        entity = vertex("berg", name="Anna Berg")
        for items in {"before": [[impostor, entity], [text]], "with": [[impostor, entity, text]]}.get(
            given, [[text], [impostor, entity], [entity]]
        ):
            written(store, *items)
        assert names(store, "a") == {BERG}
        assert [one.trusted for one in store.graph.get_many(ACME, [BERG, "berg"])] == [True, False]
        trusted = impostor.model_copy(update={"trusted": True})
        written(store, trusted, entity)
        assert names(store, "a") == {"berg"}

    def test_a_trusted_text_s_spelling_and_type_of_a_name_count_before_those_of_others(
        self, store: Application
    ) -> None:
        written(store, record("a", "It was ÁNNA-BERG they say.", trusted=False))
        (first,) = store.graph.get_many(ACME, [BERG])
        written(store, record("b", "It was Anna Berg."))
        written(store, record("c", "It was ÁNNA-BERG, he said.", trusted=False), record("d", "It was Anna-Berg."))
        (berg,) = store.graph.get_many(ACME, [BERG])
        assert (first.name, berg.name, berg.trusted) == ("ÁNNA-BERG", "Anna Berg", True)

    @pytest.mark.parametrize(
        "strange",
        [
            [f"LX{number:02}" for number in range(16)],
            ["So we met ANNA BERG with the KEELSON PROJECT."],
            ["The Royal Oslo Surveyors (ROS) sent Egon Berg."],
        ],
        ids=["many names", "another spelling", "in the same document"],
    )
    def test_texts_of_the_same_write_that_are_not_trusted_change_no_name_of_one_that_is(
        self, store: Application, strange: list[str]
    ) -> None:
        if len(strange) > 1:
            strange = [" ".join(f"and {one}-{number:03} came" for number in range(200)) for one in strange]
        text = record("memo#last", "It was Anna Berg, and of the ROS she asked the Keelson Project. So Berg did.")
        written(store, *(record(f"memo#{at}", one, trusted=False) for at, one in enumerate(strange)), text)
        found = {one.name for one in store.graph.get_many(ACME, sorted(names(store, "memo#last")))}
        assert found == {"Anna Berg", "ROS", "Keelson Project"}

    @pytest.mark.parametrize("order", ["entities first", "texts first", "one by one"])
    def test_what_a_name_means_does_not_depend_on_what_was_written_first(self, store: Application, order: str) -> None:
        texts = [
            record("a", "They went to the UK with Anna Berg.", source={"title": "Ferry"}),
            record("b", "She took the Ferry to Heron Gate and to Paris.", source={"title": "Berg"}),
        ]
        entities = [
            vertex("the-uk", name="the UK"),
            vertex("uk", name="UK"),
            vertex("gate", name="The North", aliases=("Heron Gate",)),
            vertex("paris:1", name="Paris"),
            vertex("paris:2", name="Paris"),
            vertex("paris:3", name="The City", aliases=("Paris",)),
        ]
        join = edge("gate", "b", "NEAR")
        writes = [[*entities], [*texts]]
        if order == "texts first":
            writes = [[*texts], [*entities]]
        elif order == "one by one":
            writes = [[entities[0]], [texts[0]], *([one] for one in entities[1:]), [texts[1]]]
        for items in (*writes, [join], [texts[0]]):
            written(store, *items)
        ferry, paris = found_id("ferry"), found_id("paris")
        assert (names(store, "a"), names(store, "b")) == ({"uk", BERG, ferry}, {"gate", ferry, found_id("berg"), paris})

    def test_a_write_that_was_stopped_is_completed_by_repeating_it(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(store, record("a", "It was Anna Berg."))

        def stop(*_: object) -> None:
            raise StoreError("stopped")

        changed = record("a", "The Keelson Project")
        with monkeypatch.context() as patch:
            patch.setattr(store.graph, "delete_relationships", stop)
            with pytest.raises(StoreError, match="stopped"):
                written(store, changed)
        written(store, changed)
        assert names(store, "a") == {KEELSON}
        assert store.graph.get_many(ACME, [BERG]) == []
        assert repair(ACME, store, dry_run=True).counts == {}

    @pytest.mark.parametrize("change", ["write", "delete"])
    def test_a_name_that_a_stopped_change_left_without_a_text_is_removed_by_a_repair(
        self, store: Application, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(store, record("a", "It was Anna Berg."), record("b", "The Keelson Project"))

        def stop(*_: object) -> None:
            raise StoreError("stopped")

        def go() -> None:
            if change == "write":
                written(store, record("a", "It was nobody."))
            else:
                delete_records(ACME, ["a"], store)

        with monkeypatch.context() as patch:
            # As those before it were, which did not remove names first.
            patch.setattr(store.graph, "delete_only_mentioned", lambda *_: (0, 0))
            patch.setattr(store.graph, "delete_unmentioned", stop)
            with pytest.raises(StoreError, match="stopped"):
                go()
        go()
        left = len(store.graph.get_many(ACME, [BERG]))
        assert repair(ACME, store, dry_run=True).counts == ({Fault.NO_MENTION: 1} if left else {})
        repair(ACME, store)
        assert [one.id for one in store.graph.get_many(ACME, [BERG, KEELSON])] == [KEELSON]
        assert repair(ACME, store, dry_run=True).counts == {}

    @pytest.mark.parametrize("source", [GraphSource.GIVEN, GraphSource.FOUND])
    def test_either_source_can_be_left_out(
        self, store: Application, source: GraphSource, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "settings", store.settings.model_copy(update={"graph": source}))
        given = edge("hall", "a", "HOUSES")
        written(store, vertex("hall", name="Hall"), record("a", "It was Anna Berg."), given)
        found = source is GraphSource.FOUND
        assert [one.found for one in store.graph.relationships(ACME, ids=["a"])] == [found]
        assert [one.id for one in store.graph.get_many(ACME, [BERG, "hall"])] == [BERG if found else "hall"]

    def test_without_found_names_a_text_that_is_written_again_loses_those_it_had(
        self, store: Application, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        written(store, record("a", "It was Anna Berg."), record("b", "The Keelson Project"))
        monkeypatch.setattr(store, "settings", store.settings.model_copy(update={"graph": GraphSource.GIVEN}))
        written(store, record("a", "It was Anna Berg."))
        assert (names(store, "a"), names(store, "b")) == (set(), {KEELSON})
        assert store.graph.get_many(ACME, [BERG]) == []
