"""What the library's face keeps to, whatever answers it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from braid import AsyncBraid, Braid, InvalidRequest, Record, Relationship, Vertex
from braid.models.query import NOTHING_PASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LEDGER = "The ledger is kept by the Harbour team."
DEPOT = "Labels for Lisbon are printed at the depot."


@dataclass
class Note:
    """A note as a user's program has it."""

    id: str
    text: str
    metadata: dict[str, Any]
    title: str | None = None


class LangChainDocument:
    """The fields of LangChain's Document."""

    def __init__(self, page_content: str, metadata: dict[str, Any], id: str | None = None) -> None:  # noqa: A002 - theirs
        self.page_content, self.metadata, self.id = page_content, metadata, id


class LlamaDocument:
    """The fields of LlamaIndex's Document."""

    def __init__(self, text: str, metadata: dict[str, Any], id_: str) -> None:
        self.text, self.metadata, self.id_ = text, metadata, id_


class Wrong(NamedTuple):
    """A call with a wrong argument, and the name that its error has to begin with."""

    call: Callable[[Braid], object]
    named: str


WRONG = {
    "a question without words": Wrong(lambda b: b.search("  "), "question"),
    "too many results": Wrong(lambda b: b.search("x", top_k=51), "top_k"),
    "an unknown field": Wrong(lambda b: b.search("x", colour="red"), "colour"),
    "a range of text": Wrong(
        lambda b: b.search("x", filters={"metadata": {"f": {"gte": "y"}}}), "filters.metadata.0.gte"
    ),
    "a thousand values": Wrong(lambda b: b.search("x", filters={"metadata": {"f": [1] * 1000}}), "filters.metadata.0"),
    "too many facets": Wrong(lambda b: b.search("x", facets=["f"] * 9), "facets"),
    "a context of no day": Wrong(lambda b: b.context("x", as_of="soon"), "as_of"),
    "a context of a score above 1": Wrong(lambda b: b.context("x", min_score=2), "min_score"),
    "a context of nothing": Wrong(lambda b: b.context(""), "question"),
    "nothing that can be added": Wrong(lambda b: b.add(7), "content"),
    "bytes": Wrong(lambda b: b.add(b"text"), "content"),
    "a text that is a number": Wrong(lambda b: b.add([{"text": "a"}, {"text": 3}]), "content[1]: text"),
    "an empty text": Wrong(lambda b: b.add(""), "content: text: must not be empty"),
    "a blank text among others": Wrong(lambda b: b.add([LEDGER, " \n"]), "content[1]: text: must not be empty"),
    "a dict of nothing known": Wrong(lambda b: b.add([{"words": "a"}]), "content[0]"),
    "a folder that is not there": Wrong(lambda b: b.add("nowhere/"), "content"),
    "an edge to nothing": Wrong(lambda b: b.add([{"source": "no", "type": "OWNS", "target": "no2"}]), "content[0]"),
    "no such policy": Wrong(lambda b: b.add("text", missing="ignore"), "missing"),
    "an update of nothing": Wrong(lambda b: b.update("nothing", text="x"), "id"),
    "a misspelt field of a question": Wrong(
        lambda b: b.search("x", tpo_k=1), "tpo_k: unknown field; did you mean top_k?"
    ),
    "a misspelt field of a text": Wrong(
        lambda b: b.add([{"text": "a", "metdata": {}}]), "content[0]: metdata: unknown field; did you mean metadata?"
    ),
    "a field of one's own": Wrong(
        lambda b: b.add([{"text": "a", "colour": "red"}]),
        "content[0]: colour: unknown field; fields of your own belong in metadata",
    ),
    "a field of one's own that is somewhat like another": Wrong(
        lambda b: b.add([{"text": "a", "team": "gates"}]),
        "content[0]: team: unknown field; fields of your own belong in metadata",
    ),
    "a field of one's own as a filter": Wrong(
        lambda b: b.search("x", filters={"team": "gates"}),
        "filters.team: unknown field; conditions on fields of your own belong in metadata",
    ),
    "a field of a filter that is nearly one": Wrong(
        lambda b: b.search("x", filters={"kind": ["chunk"]}), "filters.kind: unknown field; did you mean kinds?"
    ),
    "a field of a graph query that is nearly one": Wrong(
        lambda b: b.graph_query({"start": {"names": ["x"]}, "step": []}), "step: unknown field; did you mean steps?"
    ),
    "messages that are text": Wrong(lambda b: b.context("x", messages="hi"), "messages: must be a list of chat"),
    "messages that are texts": Wrong(lambda b: b.context("x", messages=["hi"]), "messages: must be a list of chat"),
    "a document without a name": Wrong(lambda b: b.delete_document(""), "document"),
    "an id that is a number": Wrong(lambda b: b.add([{"id": 5, "text": "a"}]), "content[0]: id: must be"),
    "an object in metadata": Wrong(
        lambda b: b.add({"text": "a", "metadata": {"by": object()}}), "content: metadata: key 'by' holds a object"
    ),
    "an object inside of metadata": Wrong(
        lambda b: b.add({"text": "a", "metadata": {"by": [object()]}}), "content: metadata: key 'by' holds a list"
    ),
    "a metadata that is no number": Wrong(
        lambda b: b.add({"text": "a", "metadata": {"fee": float("nan")}}), "content: metadata: key 'fee' is NaN; give"
    ),
    "an endless number in a list of metadata": Wrong(
        lambda b: b.add([{"text": "a", "metadata": {"fee": [1.0, float("-inf")]}}]),
        "content[0]: metadata: key 'fee' is infinite; give",
    ),
    "an empty id": Wrong(lambda b: b.delete(["a", ""]), "ids"),
    "ids that are a number": Wrong(lambda b: b.delete(7), "ids: must be"),
    "ids that are an edge": Wrong(
        lambda b: b.delete({"source": "svc", "type": "OWNS", "target": "note"}), "ids: a relationship is not deleted"
    ),
    "ids that are a record": Wrong(
        lambda b: b.delete({"id": "note"}), "ids: must be an id, or an iterable of ids, not"
    ),
    "an empty id that is read": Wrong(lambda b: b.get(""), "id: must not be empty"),
    "a long id that is read": Wrong(lambda b: b.get("x" * 257), "id: id is longer than 256 bytes"),
    "an empty id that is updated": Wrong(lambda b: b.update("", text="x"), "id: must not be empty"),
    "an entity without a name": Wrong(lambda b: b.related(""), "entity: must not be empty"),
    "an entity that is a number": Wrong(lambda b: b.related(7), "entity: must be a valid string"),
    "an entity of half a character": Wrong(lambda b: b.related("\ud800"), "entity"),
    "an entity that no name is as long as": Wrong(lambda b: b.related("x" * 20_000), "entity"),
    "types that are one text": Wrong(lambda b: b.related("Nobody", types="OWNS"), "types"),
    "types that are none": Wrong(lambda b: b.related("Nobody", types=[None]), "types.0"),
    "more types than are asked for": Wrong(lambda b: b.related("Nobody", types=["OWNS"] * 33), "types"),
    "a limit that is text": Wrong(lambda b: b.related("Nobody", limit="7"), "limit"),
    "a depth that is true": Wrong(lambda b: b.facts("Nobody", depth=True), "depth"),
    "a trust that is none": Wrong(lambda b: b.related("Nobody", trusted_only=None), "trusted_only"),
    "relations of no day": Wrong(lambda b: b.related("Nobody", as_of=[]), "as_of"),
    "an unknown entity": Wrong(lambda b: b.related("Nobody"), "entity"),
    "too many hops": Wrong(lambda b: b.related("Nobody", depth=9), "depth"),
    "no direction": Wrong(lambda b: b.facts("Nobody", direction="up"), "direction"),
    "a wrong step": Wrong(lambda b: b.graph_query({"start": {"names": ["x"]}, "limit": 0}), "limit"),
}


class BraidContract:
    """Subclasses provide ``braid``: an empty store of a tenant of its own."""

    @pytest.fixture
    def braid(self) -> Iterator[Braid]:
        raise NotImplementedError

    def test_what_was_added_is_found_and_adding_it_again_changes_nothing(self, braid: Braid) -> None:
        assert braid.add(LEDGER).written == 1
        again = braid.add(LEDGER)
        assert (again.written, again.unchanged) == (0, 1)
        braid.add(DEPOT)
        results = braid.search("Who keeps the ledger?", top_k=1)
        assert [result.content for result in results] == [LEDGER]
        assert results.citations
        assert LEDGER in str(results[0])

    def test_every_kind_of_content_is_taken_in_one_call(self, braid: Braid, tmp_path: Path) -> None:
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "quay.md").write_text("The quay is closed.\n\nIt opens in May.", encoding="utf-8")
        moment = datetime(2025, 5, 1, tzinfo=UTC)
        report = braid.add(
            [
                LEDGER,
                {"id": "d", "text": DEPOT, "title": "Depots", "metadata": {"floor": 2}},
                {"id": "r", "content": "A record by its own names.", "importance": 0.9},
                Note("n", "A dataclass.", {"by": "me"}),
                LangChainDocument("From a chain.", {"source": "chain.pdf", "page": 3}),
                LlamaDocument("From an index.", {"file_name": "index.txt", "nested": {"a": 1}}, "llama-1"),
                Record(id="m", tenant_id="whoever", content="A model.", timestamp=moment),
                {"id": "svc", "type": "Service", "name": "Ledger"},
                Vertex(id="team", tenant_id="whoever", entity_type="Team", name="Harbour team"),
                {"source": "svc", "type": "OWNED_BY", "target": "team", "evidence": "d"},
                Relationship(source="d", type="MENTIONS", target="svc", tenant_id="whoever"),
                tmp_path / "notes",
            ]
        )
        assert (report.written, report.relationships) == (8, 2)
        stored = {record.id: record for record in braid.records()}
        assert stored["d"].source.title == "Depots"
        assert stored["d"].metadata == {"floor": 2}
        assert stored["r"].importance == 0.9
        assert stored["m"].timestamp == moment
        assert stored["llama-1"].metadata["nested"] == '{"a": 1}'
        (quay,) = (record for name, record in stored.items() if name.endswith("notes/quay.md#chunk-0"))
        assert quay.content == "The quay is closed.\n\nIt opens in May."
        chain = next(record for record in stored.values() if record.content == "From a chain.")
        assert (chain.source.title, chain.source.page) == ("chain.pdf", 3)

    def test_an_iterable_of_any_length_is_written_in_batches(self, braid: Braid) -> None:
        report = braid.add({"id": f"n-{number}", "text": f"Note {number} of many."} for number in range(230))
        assert report.written == 230
        assert braid.stats().records == len(list(braid.records())) == 230

    def test_a_folder_of_documents_is_read_by_their_formats_and_what_cannot_be_is_named(
        self, braid: Braid, tmp_path: Path
    ) -> None:
        folder = tmp_path / "harbour"
        (folder / "in").mkdir(parents=True)
        (folder / "gates.md").write_text("# Gates\n\n## Opening\n\nThe gates open at six.", encoding="utf-8")
        (folder / "in" / "quay.html").write_text("<html><body><p>The quay is closed.</p></body></html>", "utf-8")
        (folder / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
        with pytest.warns(UserWarning, match=r"skipped: picture\.txt "):
            report = braid.add(folder)
        assert (report.written, report.unchanged) == (2, 0)
        assert [file.path for file in report.skipped] == ["picture.txt"]
        assert {record.content: record.source.title for record in braid.records()} == {
            "Opening\n\nThe gates open at six.": "Gates",
            "The quay is closed.": "quay",
        }
        (folder / "gates.md").write_text("# Gates\n\n## Opening\n\nThe gates open at seven.", encoding="utf-8")
        with pytest.warns(UserWarning, match=r"skipped: picture\.txt "):
            again = braid.add([str(folder)])
        assert (again.written, again.unchanged) == (1, 1)
        with pytest.raises(InvalidRequest, match=r"^content\[1\]: .*picture\.txt "):
            braid.add([LEDGER, folder / "picture.txt"])

    def test_a_file_beside_a_document_states_its_metadata(self, braid: Braid, tmp_path: Path) -> None:
        folder = tmp_path / "harbour"
        folder.mkdir()
        for name in ("gates.txt", "quay.txt", "crane.txt"):
            (folder / name).write_text(f"About {name}.", encoding="utf-8")
        stated = {"valid_at": "2024-02-01", "title": "Gates", "team": "port"}
        (folder / "gates.txt.metadata.json").write_text(json.dumps(stated), encoding="utf-8")
        (folder / "quay.txt.metadata.json").write_text('{"valid_at": "soon"}', encoding="utf-8")
        (folder / "crane.txt.metadata.json").write_text('{"team": "a", "team": "b"}', encoding="utf-8")
        (folder / "tides.pdf.metadata.json").write_text("{}", encoding="utf-8")
        with pytest.warns(UserWarning, match=r"skipped: "):
            report = braid.add(folder)
        assert sorted(map(str, report.skipped)) == [
            "skipped: crane.txt crane.txt.metadata.json: holds a key twice in one object",
            "skipped: quay.txt quay.txt.metadata.json: valid_at: 'soon' is no date or time such as 2024-05-01",
            "skipped: tides.pdf.metadata.json is the metadata of 'tides.pdf', which is not among the files",
        ]
        (record,) = braid.records()
        assert (report.written, record.source.title, record.metadata["team"]) == (1, "Gates", "port")
        assert record.valid_at == datetime(2024, 2, 1, tzinfo=UTC)
        (folder / "gates.txt.metadata.json").write_text(json.dumps(stated | {"team": "quays"}), encoding="utf-8")
        with pytest.warns(UserWarning, match=r"skipped: "):
            again = braid.add(folder)
        assert (again.written, again.embedded) == (1, 0)
        with pytest.raises(InvalidRequest, match=r"is the metadata of 'gates\.txt', and no document; ingest that$"):
            braid.add(folder / "gates.txt.metadata.json")

    def test_a_folder_without_a_file_is_refused(self, braid: Braid, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequest, match=r"^content: .* holds no files"):
            braid.add(tmp_path)

    def test_a_dataset_folder_is_added_by_its_path(self, braid: Braid, tmp_path: Path) -> None:
        lines = {
            "corpus.jsonl": '{"_id": "a", "text": "A text."}\n\n{"_id": "b", "text": "B text."}\n',
            "entities.jsonl": '{"id": "e", "type": "Event", "name": "E"}\n',
            "relationships.jsonl": '{"source": "e", "type": "MENTIONS", "target": "a"}\n',
        }
        for name, text in lines.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        report = braid.add(str(tmp_path))
        assert (report.written, report.relationships) == (2, 1)
        (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "A."}\n[]\n', encoding="utf-8")
        with pytest.raises(InvalidRequest, match=r"corpus\.jsonl:2: expected an object"):
            braid.add(tmp_path)

    def test_an_update_changes_what_it_names_and_keeps_the_rest(self, braid: Braid) -> None:
        braid.add({"id": "a", "text": LEDGER, "title": "Ledger", "importance": 0.9, "metadata": {"x": 1, "y": 2}})
        braid.update("a", text=DEPOT, metadata={"y": 3})
        record = braid.get("a")
        assert record is not None
        assert (record.content, record.importance, record.source.title) == (DEPOT, 0.9, "Ledger")
        assert record.metadata == {"x": 1, "y": 3}
        assert braid.search("Lisbon labels depot", top_k=1)[0].id == "a"

    def test_an_update_takes_a_title_and_names_what_it_does_not_know(self, braid: Braid) -> None:
        braid.add({"id": "a", "text": LEDGER, "title": "Books", "source": {"page": 3}})
        braid.update("a", title="Ledgers")
        stored = braid.get("a")
        assert stored is not None
        assert (stored.source.title, stored.source.page) == ("Ledgers", 3)
        with pytest.raises(InvalidRequest, match=r"^importence: unknown field; did you mean importance\?$"):
            braid.update("a", importence=1.0)

    def test_a_superseded_record_that_is_to_be_valid_again_says_the_way(self, braid: Braid) -> None:
        braid.add([{"id": "old", "text": "The fee is two."}, {"id": "new", "text": "Three.", "supersedes": ["old"]}])
        for until in (None, "2099-01-01"):
            with pytest.raises(InvalidRequest, match=r"^invalid_at: 'old' is superseded .* delete what supersedes it"):
                braid.update("old", invalid_at=until)
        braid.update("old", invalid_at="2020-01-01")
        assert braid.get("old").invalid_at == datetime(2020, 1, 1, tzinfo=UTC)
        braid.delete(["new", "old"])
        braid.add({"id": "old", "text": "The fee is two.", "invalid_at": "2020-01-01"})
        braid.update("old", invalid_at=None)
        assert braid.get("old").invalid_at is None

    def test_what_was_deleted_is_gone(self, braid: Braid) -> None:
        braid.add({"id": f"n-{number}", "text": f"Note {number}."} for number in range(130))
        assert braid.delete("n-0") == 1
        assert braid.delete(f"n-{number}" for number in range(129)) == 128
        assert [record.id for record in braid.records()] == ["n-129"]
        assert braid.get("n-0") is None
        assert braid.delete("n-0") == 0

    def test_entities_without_a_record_are_counted_among_what_was_deleted(self, braid: Braid) -> None:
        braid.add([{"id": "svc", "type": "Service", "name": "Ledger"}, {"id": "note", "text": LEDGER}])
        assert braid.delete(["svc", "note", "nothing"]) == 2
        assert braid.stats().vertices == 0
        assert braid.delete("svc") == 0

    def test_a_document_is_deleted_with_all_its_chunks(self, braid: Braid) -> None:
        braid.add({"id": f"gates.md#chunk-{number}", "text": f"Gate {number}."} for number in range(130))
        braid.add([{"id": "note", "text": LEDGER, "title": "Ledgers"}, {"id": "gates.md-old", "text": DEPOT}])
        assert braid.delete_document("gates.md") == 130
        assert [record.id for record in braid.records()] == ["gates.md-old", "note"]
        assert braid.delete_document("gates.md") == 0
        assert braid.delete_document("Ledgers") == 1

    def test_relations_are_said_as_sentences_with_their_evidence(self, braid: Braid) -> None:
        braid.add(
            [
                {"id": "d", "text": LEDGER},
                {"id": "svc", "type": "Service", "name": "Ledger"},
                {"id": "team", "type": "Team", "name": "Harbour team"},
                {"source": "svc", "type": "OWNED_BY", "target": "team", "evidence": "d"},
            ]
        )
        for asked in ("Ledger", "Harbour team", "team"):
            (fact,) = braid.facts(asked, types=["OWNED_BY"])
            assert (str(fact), fact.source_id, fact.target_id, fact.evidence) == (
                "Ledger is owned by Harbour team.",
                "svc",
                "team",
                "d",
            )
        assert [hit.name for hit in braid.related("Ledger", direction="out", types=["OWNED_BY"]).hits] == [
            "Harbour team"
        ]
        assert braid.facts("Ledger", direction="in", types=["OWNED_BY"]) == []
        assert [hit.id for hit in braid.graph_query({"start": {"names": ["Ledger"]}}).hits] == ["svc"]
        stats = braid.stats()
        assert (stats.records, stats.by_relationship_type["OWNED_BY"]) == (1, 1)
        assert (stats.by_vertex_type["Service"], stats.by_vertex_type["Team"]) == (1, 1)

    def test_what_is_stored_and_has_no_relations_then_is_related_to_nothing(self, braid: Braid) -> None:
        ended = {"id": "ended", "type": "Team", "name": "Gates team", "invalid_at": "2024-03-01"}
        braid.add([{"id": "note", "text": "nothing is named here"}, ended])
        braid.add({"id": "svc", "type": "Service", "name": "X"})
        braid.add({"source": "ended", "type": "OWNS", "target": "svc"})
        for entity in ("note", "ended"):
            for how in ({}, {"trusted_only": True}, {"as_of": date(2024, 3, 1)}):
                assert braid.related(entity, **how).hits == ()
            assert braid.facts(entity) == []
        assert [hit.id for hit in braid.related("ended", as_of=date(2024, 2, 1)).hits] == ["svc"]
        braid.add({"id": "mail", "text": "nothing is named here", "trusted": False})
        assert braid.related("mail").hits == ()
        with pytest.raises(InvalidRequest, match=r"^entity: nothing in the graph is called 'mail'"):
            braid.related("mail", trusted_only=True)
        with pytest.raises(InvalidRequest, match=r"^entity: nothing in the graph is called 'Gates team'"):
            braid.related("Gates team")

    def test_an_update_of_an_entity_without_a_text_says_how_it_is_changed(self, braid: Braid) -> None:
        braid.add({"id": "svc:x", "type": "Service", "name": "Ledger"})
        with pytest.raises(InvalidRequest, match=r"'svc:x'; an entity without a text is changed by adding it"):
            braid.update("svc:x", name="Ledger 2")

    def test_a_constraint_by_an_entity_that_is_not_there_is_said_where_results_are_shown(self, braid: Braid) -> None:
        braid.add({"id": "svc:x", "type": "Service", "name": "Ledger"})
        results = braid.search("Who keeps the books?", graph_constraint={"entity": "Herron"})
        assert results.answer.unknown_entity == "Herron"
        assert "nothing in the graph is called 'Herron'" in repr(results)

    def test_an_update_names_the_field_that_is_wrong(self, braid: Braid) -> None:
        braid.add({"id": "note", "text": LEDGER})
        for fields in ({"metadata": 7}, {"metadata": None}, {"importance": 2}):
            with pytest.raises(InvalidRequest, match=rf"^{next(iter(fields))}: "):
                braid.update("note", **fields)

    def test_a_context_shows_what_is_stored_beside_the_conversation(self, braid: Braid) -> None:
        braid.add(LEDGER)
        context = braid.context(LEDGER, [{"role": "user", "content": "the ledger, again"}])
        assert any(LEDGER in str(message["content"]) for message in context.messages)

    def test_a_context_shows_what_scores_at_least_as_much_as_is_asked(self, braid: Braid) -> None:
        braid.add([LEDGER, "Bread is baked at night."])
        found = braid.context(LEDGER, min_score=0)
        scores = sorted((scored.final for scored in found.scores), reverse=True)
        assert len(scores) == 2
        for least, count in ((scores[0], 1), (scores[1], 2), (1, 0)):  # from the cache
            assert len(braid.context(LEDGER, min_score=least).messages) == count

    def test_a_context_as_of_a_day_shows_what_was_valid_then_and_what_was_decided(self, braid: Braid) -> None:
        first = {"id": "first", "text": f"{LEDGER} By the Gates team.", "invalid_at": "2024-03-01"}
        second = {"id": "second", "text": f"{LEDGER} By the Harbour team.", "valid_at": "2024-03-01"}
        ended = {"id": "ended", "kind": "decision", "text": f"{LEDGER} Decided.", "invalid_at": "2024-03-01"}
        braid.add([first, second, ended])

        def shown(**fields: Any) -> set[str]:
            return {message["metadata"]["id"] for message in braid.context(LEDGER, **fields).messages}

        for _ in range(2):  # the second time from the cache
            assert shown() == {"second"}
            for day in (date(2024, 2, 1), "2024-02-01", datetime(2024, 2, 1, tzinfo=UTC)):
                assert shown(as_of=day) == {"first", "ended"}
            assert shown(as_of="2024-03-01") == {"second"}

    def test_a_fact_of_a_past_year_is_asked_as_of_a_day_of_it(self, braid: Braid) -> None:
        braid.add([{"id": "ledger", "type": "Service", "name": "Ledger"}, {"id": "a", "type": "Person", "name": "Ada"}])
        braid.add({"id": "b", "type": "Person", "name": "Bruno"})
        ended = {
            "source": "a",
            "type": "OWNS",
            "target": "ledger",
            "valid_at": "2022-01-01",
            "invalid_at": "2024-01-01",
        }
        braid.add([ended, {"source": "b", "type": "OWNS", "target": "ledger", "valid_at": "2024-01-01"}])
        then = braid.search("Who owned Ledger in 2023?", as_of="2023-06-30")
        assert [result.title for result in then if result.facts] == ["Ada owns Ledger"]
        now = braid.search("Who owned Ledger in 2023?")
        assert not [result for result in now if result.facts]
        assert any("as_of asks for what held then" in reason for reason in now.answer.plan.reasons)
        assert not any("names a date" in reason for reason in then.answer.plan.reasons)

    def test_conditions_on_metadata_hold_for_what_texts_and_hops_lead_to(self, braid: Braid) -> None:
        braid.add({"id": "ledger", "type": "Service", "name": "Ledger"})
        for number in range(4):
            braid.add({"id": f"n{number}", "text": f"Invoices of berth {number}.", "metadata": {"floor": number}})
        braid.add([{"source": "ledger", "type": "MENTIONS", "target": f"n{number}"} for number in range(4)])
        for short in ({"floor": {"gte": 2}}, ["floor>=2"], [{"field": "floor", "gte": 2}]):
            results = braid.search("What of the Ledger?", filters={"metadata": short}, facets=["floor"])
            assert {result.id for result in results} == {"n2", "n3"}
            assert [(one.value, one.count) for one in results.answer.facets["floor"]] == [(2, 1), (3, 1)]
        none = braid.search("What of the Ledger?", filters={"metadata": ["floor=9"]}).answer
        assert (none.results, none.plan.reasons[-1]) == ((), NOTHING_PASSES)
        assert NOTHING_PASSES not in results.answer.plan.reasons
        unknown = braid.search("What of the Ledger?", filters={"metadata": ["berth"]}).answer
        assert NOTHING_PASSES not in unknown.plan.reasons
        assert (unknown.results, unknown.plan.unknown_fields) == ((), ("berth",))
        braid.add({"id": "pump", "type": "Pump", "name": "Pump 4", "content": "The pump of the ledger's cellar."})
        for types, nothing in ((["Pumb"], True), (["Pump"], False)):
            plan = braid.search("What of the Ledger?", filters={"entity_types": types}).answer.plan
            assert (NOTHING_PASSES in plan.reasons) is nothing

    def test_dates_of_python_are_taken_wherever_a_date_is(self, braid: Braid) -> None:
        braid.add({"id": "old", "text": LEDGER, "invalid_at": date(2024, 3, 1), "metadata": {"day": date(2024, 1, 9)}})
        moments = {"at": datetime(2024, 3, 1, 9, tzinfo=UTC), "days": [date(2024, 5, 1)]}
        braid.add({"id": "new", "text": DEPOT, "metadata": moments})
        stored = {record.id: record for record in braid.records()}
        assert (stored["old"].metadata, stored["old"].invalid_at) == (
            {"day": "2024-01-09"},
            datetime(2024, 3, 1, tzinfo=UTC),
        )
        assert stored["new"].metadata == {"at": "2024-03-01T09:00:00+00:00", "days": ["2024-05-01"]}
        assert [one.id for one in braid.search(LEDGER, as_of=date(2024, 2, 1), top_k=1)] == ["old"]
        assert "old" not in {one.id for one in braid.search(LEDGER, as_of=date(2024, 3, 1))}
        for day in ({"lte": date(2024, 1, 9)}, date(2024, 1, 9)):
            found = braid.search(LEDGER, as_of=date(2024, 2, 1), filters={"metadata": {"day": day}})
            assert [one.id for one in found] == ["old"]

    def test_reembedding_finds_nothing_where_nothing_is_outdated(self, braid: Braid) -> None:
        braid.add(LEDGER)
        assert braid.reembed().total == 0

    @pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
    def test_a_wrong_argument_is_named(self, braid: Braid, wrong: Wrong) -> None:
        with pytest.raises(InvalidRequest) as refused:
            wrong.call(braid)
        assert str(refused.value).startswith(wrong.named)
        assert refused.value.field

    def test_a_wrong_item_of_many_is_named_by_its_place_whoever_finds_it(self, braid: Braid) -> None:
        edges = [{"id": "a", "type": "T", "name": "A"}, {"source": "a", "type": "X", "target": "nothing"}]
        with pytest.raises(InvalidRequest, match=r"^content\[1\]: target: "):
            braid.add(edges)
        assert braid.add(edges, missing="stub").stubs == 1

    def test_results_show_themselves_with_everything_from_outside_escaped(self, braid: Braid) -> None:
        braid.add({"id": "x", "text": "<script>alert(1)</script> ledger", "title": "<b>bold</b>"})
        results = braid.search("ledger <i>", top_k=1)
        html = results._repr_html_()
        assert "&lt;script&gt;" in html
        assert "<script>" not in html
        assert "<i>ledger" not in html
        assert "<b>bold" not in html
        assert "<b>bold</b>" in repr(results)
        assert results[0:1] == results.answer.results
        assert "nothing found" in repr(braid.search("zzz", filters={"entity_types": ["None"]}))

    def test_results_are_shown_without_characters_that_steer_a_terminal(self, braid: Braid) -> None:
        steering = "\x1b]0;owned\x07\x1b[2J\x9b31m\rover \u202eexe.gnp"
        braid.add({"id": "quay\u202e", "text": f"The quay opens {steering} in May.", "title": "Quays\u202e"})
        braid.add({"id": "team", "type": "Team", "name": "Harbour team"})
        braid.add({"source": "team", "type": "OWNS", "target": "quay\u202e"})
        results = braid.search("When does the quay open?")
        shown = (repr(results), str(results[0]), repr(braid.related("Harbour team")), results._repr_html_())
        assert "The quay opens" in shown[0]
        assert not any(character in text for text in shown for character in "\x1b\x07\x9b\r\u202e")

    def test_results_show_how_sure_they_are_and_the_path_that_led_to_them(self, braid: Braid) -> None:
        braid.add(
            [
                {"id": "svc", "type": "Service", "name": "Ledger"},
                {"id": "team", "type": "Team", "name": "Harbour <team>"},
                {"source": "team", "type": "OWNS", "target": "svc"},
                {"id": "quay", "text": "The quay opens in May.", "title": "Quays"},
                {"source": "quay", "type": "MENTIONS", "target": "team"},
            ]
        )
        results = braid.search("What does the owner of Ledger say of the quay?")
        walked = "Ledger ←OWNS─ Harbour <team> ←MENTIONS─ Quays"
        assert re.search(rf"(?m)^ 1\. .*quay.*\n    path {walked}$", repr(results))
        assert re.search(r"(?m)^  \(.* \(\d\.\d\d of 1\)\)$", repr(results))
        html = results._repr_html_()
        assert walked.replace("<team>", "&lt;team&gt;") in html
        assert "words" in html
        assert "lexical" not in html
        assert repr(braid.facts("Ledger")) == "[Fact('Harbour <team> owns Ledger.')]"
        assert re.fullmatch(r"\d\.\d\d · Ledger ←OWNS─ Harbour <team> · \[team\]", repr(braid.related("Ledger")))
        assert repr(braid.related("Quays", types=["OWNS"])) == "(nothing related)"

    def test_the_same_calls_can_be_awaited(self, braid: Braid) -> None:
        awaited = AsyncBraid._of(braid)

        async def ask() -> list[str]:
            await awaited.add([{"id": "a", "text": LEDGER}, {"id": "b", "text": DEPOT}])
            found = await asyncio.gather(awaited.search("ledger", top_k=1), awaited.search("depot", top_k=1))
            assert (await awaited.stats()).records == 2
            await awaited.update("a", importance=0.7)
            assert (await awaited.get("a")) == braid.get("a")
            assert await awaited.delete(["a"]) == 1
            assert await awaited.delete_document("b") == 1
            return [results[0].id for results in found]

        assert asyncio.run(ask()) == ["a", "b"]
