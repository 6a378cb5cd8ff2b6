"""What every pair of engines makes of vectors that come with records, whichever way they come.

An engine's own test file gives the fixture ``store``, as for :mod:`tests.contract.writes`.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest
from braid.ingestion.inline_writes import write_message
from braid.ingestion.writing import WriteReport, WriteRequest, write
from braid.models import Embedding, Query, Record
from braid.reembedding.embed_and_write_back import refresh
from braid.retrieval import pipeline
from braid.retrieval.stages.candidates import SUPPLIED_FACTOR
from braid.settings import EngineKind

from tests.contract.shapes import ACME, GLOBEX
from tests.file_steps import all_phases, begun, put_lines
from tests.front_door import FrontDoor, claims
from tests.stages import WordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models import Answer, Result

    from tests.stages import DemoStages

MODEL = "all-minilm-l6-v2"
SPACE = "all_minilm_l6_v2"
UNUSED_MODEL, UNUSED_SPACE = "codebert-code", "codebert_code"
"""Configured, and of no profile that is served."""
QUESTION = "turbine bearing inspection"


def packed(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def axis(dimension: int = 384, length: float = 1.0) -> bytes:
    return packed(length, *[0.0] * (dimension - 1))


def shown(vector: bytes, space: str = SPACE, model_id: str = MODEL) -> dict[str, str]:
    """Return a vector as JSON has it."""
    return {"space": space, "model_id": model_id, "vector": base64.b64encode(vector).decode()}


HOSTILE: dict[str, tuple[dict[str, str], str]] = {
    "4 bytes in a space that nobody used": (shown(packed(1.0), UNUSED_SPACE, UNUSED_MODEL), "768 values, this has 1"),
    "4 bytes in the space of the model": (shown(packed(1.0)), "384 values, this has 1"),
    "a space that no model has": (shown(axis(), "made-up", MODEL), "there is no embedding space 'made-up'"),
    "a model that is not the space's": (shown(axis(), SPACE, UNUSED_MODEL), f"is that of the model {MODEL}"),
    "zeros": (shown(axis(length=0.0)), "has the length 0"),
    "a long vector": (shown(axis(length=1e19)), "has the length 1e+19"),
    "a short vector": (shown(axis(length=0.9)), "has the length 0.9"),
    "NaN": (shown(axis(length=float("nan"))), "not finite"),
    "infinity": (shown(axis(length=float("inf"))), "not finite"),
}


def record(identity: str = "r", vector: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": identity, "content": "A heron on the pond.", "embeddings": [vector or shown(axis())]} | fields


def posted(store: DemoStages, *records: dict[str, Any]) -> str:
    return FrontDoor(store).ask("POST", "/records", {"records": records}, authorizer=claims(ACME)).text


def queued(store: DemoStages, *records: dict[str, Any]) -> str:
    with pytest.raises(InvalidRequest) as caught:
        write_message(json.dumps({"tenant_id": ACME, "records": records}), store)
    return str(caught.value)


def imported(store: DemoStages, *records: dict[str, Any]) -> str:
    put_lines(store, ({"record": each} for each in records))
    report = all_phases(store, begun(store))
    assert report.written == 0
    assert report.report_key is not None
    return b"".join(store.objects.open(ACME, report.report_key)).decode()


def called(store: DemoStages, *records: dict[str, Any]) -> str:
    report = given(store, *records)
    return "\n".join(map(str, report.errors))


WAYS: dict[str, Callable[..., str]] = {
    "a request": posted,
    "a message": queued,
    "an import": imported,
    "the library": called,
}


def given(store: DemoStages, *records: dict[str, Any], tenant: str = ACME) -> WriteReport:
    return write(
        WriteRequest(tenant_id=tenant, records=tuple(Record(tenant_id=tenant, **each) for each in records)), store
    )


def asked(store: DemoStages, tenant: str = ACME, text: str = QUESTION) -> Answer:
    return pipeline.answer(Query(text=text, tenant_id=tenant), store)


def results(answer: Answer) -> dict[str, Result]:
    return {result.id: result for result in answer.results}


class SuppliedVectorsContract:
    """Vectors that nobody made here."""

    @pytest.fixture
    def allowed(self, store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let records bring vectors."""
        monkeypatch.setattr(type(store), "allow_supplied_vectors", True)

    @pytest.mark.parametrize("way", WAYS)
    def test_no_vector_is_taken_unless_a_setting_says_so(self, store: DemoStages, way: str) -> None:
        said = WAYS[way](store, record())
        assert "embeddings" in said
        assert "BRAID_ALLOW_SUPPLIED_VECTORS" in said
        assert store.index.get_many(ACME, ["r"]) == []

    def test_a_request_is_told_which_field_is_wrong(self, store: DemoStages) -> None:
        body = {"records": [{"id": "good", "content": "A pond."}, record()]}
        refused = FrontDoor(store).ask("POST", "/records", body, authorizer=claims(ACME))
        assert (refused.status, refused.fields) == (422, ["records.1.embeddings"])
        assert store.index.get_many(ACME, ["good"]) == []

    @pytest.mark.usefixtures("allowed")
    @pytest.mark.parametrize("way", WAYS)
    def test_where_they_are_allowed_each_is_checked_on_every_way_in(self, store: DemoStages, way: str) -> None:
        names = list(HOSTILE)
        said = WAYS[way](store, *(record(f"r{place}", HOSTILE[name][0]) for place, name in enumerate(names)))
        for name in names:
            # A report quotes what it says as JSON.
            assert HOSTILE[name][1] in said.replace("\\", ""), name
        assert "embeddings" in said
        assert store.index.get_many(ACME, [f"r{place}" for place in range(len(names))]) == []

    @pytest.mark.usefixtures("allowed")
    @pytest.mark.parametrize("hostile", HOSTILE)
    def test_a_hostile_vector_changes_nothing_for_another_tenant(self, store: DemoStages, hostile: str) -> None:
        given(store, record("bad", HOSTILE[hostile][0]))
        encoder = WordEncoder(store.profiles.model(UNUSED_MODEL))
        unused = Embedding(space=UNUSED_SPACE, model_id=UNUSED_MODEL, vector=encoder.encode([QUESTION])[0])
        neighbour = Record(id="r", tenant_id=GLOBEX, content=QUESTION, embeddings=(unused,))
        assert not write(WriteRequest(tenant_id=GLOBEX, records=(neighbour,)), store).errors
        (kept,) = store.index.get_many(GLOBEX, ["r"], with_vectors=True)
        assert {each.space: each.dimension for each in kept.embeddings} == {SPACE: 384, UNUSED_SPACE: 768}
        answer = asked(store, GLOBEX)
        assert list(results(answer)) == ["r"]
        assert answer.degraded == ()

    @pytest.mark.usefixtures("allowed")
    def test_one_that_is_taken_is_found_and_marked_and_ranks_behind_the_models_own(self, store: DemoStages) -> None:
        vector = WordEncoder(store.profiles.model(MODEL)).encode([QUESTION])[0]
        own = {"id": "own", "content": QUESTION}
        assert not given(store, own, record("a-supplied", shown(vector), content="")).errors
        (kept,) = store.index.get_many(ACME, ["a-supplied"])
        assert kept.supplied_spaces == (SPACE,)
        answer = asked(store)
        made, supplied = results(answer)["own"], results(answer)["a-supplied"]
        assert (made.rank, made.vector_supplied) == (1, False)
        assert (supplied.rank, supplied.vector_supplied) == (2, True)
        assert supplied.vector_score == pytest.approx(1.0, abs=1e-3)
        assert supplied.relevance == pytest.approx(supplied.combined_score * SUPPLIED_FACTOR, abs=1e-6)

    @pytest.mark.usefixtures("allowed")
    def test_one_that_is_taken_is_not_a_sure_sign_that_the_question_is_about_what_is_stored(
        self, store: DemoStages
    ) -> None:
        vector = WordEncoder(store.profiles.model(MODEL)).encode([QUESTION])[0]
        given(store, record("r", shown(vector), content="A heron."))
        assert asked(store).confidence < 0.5

    @pytest.mark.usefixtures("allowed")
    def test_a_page_of_records_and_a_trace_say_which_vector_was_supplied(self, store: DemoStages) -> None:
        door = FrontDoor(store)
        vector = WordEncoder(store.profiles.model(MODEL)).encode([QUESTION])[0]
        body = {"records": [record("r", shown(vector)), {"id": "s", "content": QUESTION}]}
        assert door.ask("POST", "/records", body, authorizer=claims(ACME)).status == 200
        page = door.ask("GET", "/records", authorizer=claims(ACME)).json()
        assert {each["id"]: each["supplied_spaces"] for each in page["records"]} == {"r": [SPACE], "s": []}
        if store.settings.engine is EngineKind.EMBEDDED:  # where traces are kept is not what is deployed here
            answer = door.ask("POST", "/search", {"text": QUESTION}, authorizer=claims(ACME)).json()
            trace = door.ask("GET", f"/traces/{answer['trace_id']}", authorizer=claims(ACME)).json()
            assert {each["id"]: each["vector_supplied"] for each in trace["results"]} == {"r": True, "s": False}

    @pytest.mark.usefixtures("allowed")
    def test_the_model_makes_its_own_when_the_record_is_written_without_one(self, store: DemoStages) -> None:
        given(store, record("r"))
        assert not given(store, {"id": "r", "content": "A heron on the pond."}).errors
        (kept,) = store.index.get_many(ACME, ["r"], with_vectors=True)
        assert kept.supplied_spaces == ()
        assert kept.embeddings[0].vector != axis()

    @pytest.mark.usefixtures("allowed")
    def test_embedding_again_replaces_one_that_was_supplied(self, store: DemoStages) -> None:
        given(store, record("r"))
        read = store.index.get_many(ACME, ["r"])
        assert refresh(store.reembedding, ACME, read).written == 1
        (kept,) = store.index.get_many(ACME, ["r"], with_vectors=True)
        assert kept.supplied_spaces == ()
        assert kept.embeddings[0].vector != axis()

    def test_nobody_says_of_a_record_which_of_its_vectors_were_supplied(self, store: DemoStages) -> None:
        marked = {"id": "r", "content": "x", "supplied_spaces": [SPACE]}
        for way in (posted, queued, imported):
            assert "supplied_spaces" in way(store, marked)
        assert store.index.get_many(ACME, ["r"]) == []
