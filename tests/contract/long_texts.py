"""What every pair of engines makes of texts that an encoder does not read whole, whichever way they come.

An engine's own test file gives the fixture ``store``, as for :mod:`tests.contract.writes`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.inline_writes import write_message
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import Query, Record
from braid.ports.search_index import SearchHits, SearchRequest
from braid.reembedding.embed_and_write_back import refresh
from braid.retrieval import pipeline

from tests.contract.shapes import ACME, AS_OF, GLOBEX
from tests.file_steps import all_phases, begun, put_lines
from tests.front_door import FrontDoor, claims
from tests.stages import WordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models import Embedding

    from tests.stages import DemoStages

FILLER = " ".join(f"Pallet {number} was moved to bay {number % 7} before noon." for number in range(700))
LAST = "Marmalade keeps the lighthouse keeper cheerful."
LONG = f"{FILLER} {LAST}"
QUESTION = "marmalade lighthouse keeper cheerful"
SUPPLIED_SPACE, SUPPLIED_MODEL = "all_minilm_l6_v2", "all-minilm-l6-v2"


def rows(content: str = LONG) -> list[dict[str, Any]]:
    """Return a long record among short ones that share words with the question."""
    short = [{"id": f"s{number}", "content": f"The keeper of bay {number} was cheerful."} for number in range(5)]
    return [{"id": "long", "name": "Warehouse diary", "content": content}, *short]


def posted(store: DemoStages, *records: dict[str, Any]) -> None:
    assert FrontDoor(store).ask("POST", "/records", {"records": records}, authorizer=claims(ACME)).status == 200


def queued(store: DemoStages, *records: dict[str, Any]) -> None:
    write_message(json.dumps({"tenant_id": ACME, "records": records}), store)


def imported(store: DemoStages, *records: dict[str, Any]) -> None:
    put_lines(store, ({"record": each} for each in records))
    assert all_phases(store, begun(store)).written == len(records)


def called(store: DemoStages, *records: dict[str, Any], tenant: str = ACME) -> None:
    given = tuple(Record(tenant_id=tenant, **each) for each in records)
    require_written(write(WriteRequest(tenant_id=tenant, records=given), store))


WAYS: dict[str, Callable[..., None]] = {
    "a request": posted,
    "a message": queued,
    "an import": imported,
    "the library": called,
}


def hits(store: DemoStages, text: str = QUESTION) -> SearchHits:
    """Search by words and by the vector of the same words."""
    encoder = store.encoder_for(store.models()[0])
    (vector,) = encoder.encode([text])
    asked = {"space": encoder.space, "model_id": encoder.model_id, "vector": vector}
    return store.index.search(SearchRequest(tenant_id=ACME, text=text, embedding=asked, k=10, as_of=AS_OF))


def embeddings(store: DemoStages, identity: str = "long") -> dict[str, Embedding]:
    (kept,) = store.index.get_many(ACME, [identity], with_vectors=True)
    return {each.model_id: each for each in kept.embeddings}


class LongTextsContract:
    """A record of more words than an encoder reads."""

    @pytest.mark.parametrize("way", WAYS)
    def test_the_last_sentence_of_thirty_kilobytes_is_found_by_words_and_by_meaning(
        self, store: DemoStages, way: str
    ) -> None:
        assert len(LONG) > 30_000
        WAYS[way](store, *rows())
        found = hits(store)
        assert (found.vector[0].id, found.lexical[0].id) == ("long", "long")
        part = f"Warehouse diary\n{LONG}"[found.vector[0].part_start :]
        assert part.endswith(LAST)
        assert len(part.split()) <= store.models()[0].max_tokens
        assert set(embeddings(store)) == {model.id for model in store.models()}
        assert embeddings(store, "s0").popitem()[1].further == ()

    def test_the_answer_shows_the_part_that_was_found(self, store: DemoStages) -> None:
        called(store, *rows())
        best = pipeline.answer(Query(text=QUESTION, tenant_id=ACME), store).results[0]
        assert best.id == "long"
        assert best.content == LONG
        assert best.matched_from > 25_000
        assert best.marked is not None
        assert LONG[slice(*best.marked)] in LAST
        assert best.marked[0] >= best.matched_from
        assert best.citation.excerpt.startswith("…")
        assert LONG[slice(*best.marked)] in best.citation.excerpt

    def test_a_text_too_long_for_an_answer_is_shortened_to_the_part_that_was_found(self, store: DemoStages) -> None:
        before = " ".join([FILLER] * 9)
        called(store, *rows(f"{before} {LAST} {before}"))
        answer = pipeline.answer(Query(text=QUESTION, tenant_id=ACME), store)
        (shown,) = (result for result in answer.results if result.id == "long")
        assert shown.shortened
        assert LAST in shown.content
        assert (shown.content[0], shown.matched_from) == ("…", 1)
        assert f"{before} {LAST} {before}".find(shown.content[1:500]) > len(before) - 5_000

    def test_a_text_that_shrinks_loses_its_parts_and_one_that_grows_gets_them(self, store: DemoStages) -> None:
        called(store, *rows())
        called(store, *rows("Pallets were moved."))
        assert all(each.further == () for each in embeddings(store).values())
        assert hits(store).vector[0].id != "long"
        called(store, *rows())
        assert hits(store).vector[0].id == "long"

    def test_the_same_long_text_again_embeds_nothing(self, store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
        called(store, *rows())
        monkeypatch.setattr(WordEncoder, "encode", None)
        called(store, *rows())
        called(store, {**rows()[0], "importance": 0.9})
        assert all(each.further for each in embeddings(store).values())

    def test_embedding_again_embeds_all_parts(self, store: DemoStages) -> None:
        called(store, *rows())
        before = embeddings(store)
        (read,) = store.index.get_many(ACME, ["long"])
        (first, *_) = before.values()
        first_alone = read.model_copy(update={"embeddings": (first.model_copy(update={"further": ()}),)})
        store.index.upsert([first_alone])
        assert hits(store).vector[0].id != "long"
        assert refresh(store.reembedding, ACME, store.index.get_many(ACME, ["long"])).written == 1
        assert embeddings(store) == before

    def test_a_long_record_of_before_there_were_parts_gets_them_when_it_is_written_again(
        self, store: DemoStages
    ) -> None:
        called(store, *rows())
        before = embeddings(store)
        (read,) = store.index.get_many(ACME, ["long"])
        whole = tuple(each.model_copy(update={"further": ()}) for each in before.values())
        store.index.upsert([read.model_copy(update={"embeddings": whole, "content_hash": "0" * 64})])
        called(store, *rows())
        assert embeddings(store) == before

    def test_another_tenants_long_text_is_not_found(self, store: DemoStages) -> None:
        called(store, *rows(), tenant=GLOBEX)
        called(store, *rows("Pallets were moved."))
        assert hits(store).vector[0].id != "long"

    def test_a_supplied_vector_is_that_of_the_whole_text(
        self, store: DemoStages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(type(store), "allow_supplied_vectors", True)
        (vector,) = WordEncoder(store.profiles.model(SUPPLIED_MODEL)).encode([QUESTION])
        supplied = {"space": SUPPLIED_SPACE, "model_id": SUPPLIED_MODEL, "vector": vector}
        called(store, {**rows()[0], "embeddings": [supplied]}, *rows()[1:])
        assert embeddings(store)[SUPPLIED_MODEL].further == ()
        best = hits(store).vector[0]
        assert (best.id, best.part_start) == ("long", 0)

    def test_nobody_supplies_vectors_of_parts(self, store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(store), "allow_supplied_vectors", True)
        (vector,) = WordEncoder(store.profiles.model(SUPPLIED_MODEL)).encode([QUESTION])
        part = {"start": 5, "vector": vector}
        supplied = {"space": SUPPLIED_SPACE, "model_id": SUPPLIED_MODEL, "vector": vector, "further": [part]}
        given = Record.model_validate({"tenant_id": ACME, "id": "r", "content": "x", "embeddings": [supplied]})
        (error,) = write(WriteRequest(tenant_id=ACME, records=(given,)), store).errors
        assert error.field == "embeddings"
        assert "supply one vector" in error.message
