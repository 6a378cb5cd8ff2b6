"""The retriever for LangChain, by LangChain's own tests and by ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from braid import InvalidRequest
from braid.adapters.langchain import BraidRetriever
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests

if TYPE_CHECKING:
    from braid import Braid

QUESTION = "Who keeps the ledger?"


@pytest.mark.anyio
class TestStandard(RetrieversIntegrationTests):
    """What LangChain asks of every retriever."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture(autouse=True)
    def given(self, braid: Braid) -> None:
        self.braid = braid

    @property
    def retriever_constructor(self) -> type[BraidRetriever]:
        return BraidRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"braid": self.braid}

    @property
    def num_results_arg_name(self) -> str:
        return "top_k"

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


def test_a_document_has_its_own_metadata_its_score_and_its_citation(braid: Braid) -> None:
    found = BraidRetriever(braid=braid).invoke(QUESTION)
    assert {document.id for document in found} == {"a", "b", "c"}
    scores = [document.metadata["score"] for document in found]
    assert scores == sorted(scores, reverse=True)
    by_id = {document.id: document for document in found}
    assert by_id["a"].page_content == "The ledger is kept by the Harbour team."
    assert (by_id["a"].metadata["floor"], by_id["a"].metadata["source"]) == (2, "Keepers")
    assert by_id["b"].metadata["citation"]["page"] == 3
    assert by_id["c"].metadata["source"] == "pages.pdf"
    assert by_id["a"].metadata["paths"] == ["Ledger → Keepers"]
    assert by_id["a"].metadata["degraded"] == []
    assert "Harbour" in dumps(found)


def test_filters_and_other_fields_of_a_question_count_for_the_retriever_or_for_one_call(braid: Braid) -> None:
    decisions = {"kinds": ["decision"]}
    assert [one.id for one in BraidRetriever(braid=braid, filters=decisions).invoke(QUESTION)] == ["b"]
    retriever = BraidRetriever(braid=braid, top_k=2, question={"as_of": "2001-01-01T00:00:00Z"})
    assert [one.id for one in retriever.invoke(QUESTION, filters=decisions)] == ["b"]
    assert len(retriever.invoke(QUESTION)) == 2
    assert len(retriever.invoke(QUESTION, top_k=1)) == 1
    assert "d" in {one.id for one in BraidRetriever(braid=braid, filters={"trusted_only": False}).invoke(QUESTION)}


def test_a_wrong_field_is_named(braid: Braid) -> None:
    with pytest.raises(InvalidRequest, match=r"^colour: "):
        BraidRetriever(braid=braid).invoke(QUESTION, colour="red")
    with pytest.raises(InvalidRequest, match=r"^top_k: "):
        BraidRetriever(braid=braid).invoke(QUESTION, top_k=51)
    with pytest.raises(ValueError, match="top_k"):
        BraidRetriever(braid=braid, top_k=51)


def test_it_is_a_link_of_a_chain_and_can_be_awaited(braid: Braid) -> None:
    chain = BraidRetriever(braid=braid, top_k=1) | RunnableLambda(lambda documents: documents[0].id)
    assert chain.invoke(QUESTION) == asyncio.run(chain.ainvoke(QUESTION)) == "a"
    awaited = BraidRetriever(braid=braid).ainvoke(QUESTION, top_k=2, filters={"kinds": ["decision"]})
    assert [one.id for one in asyncio.run(awaited)] == ["b"]


def test_documents_of_the_framework_are_added_and_come_back_as_they_were(braid: Braid) -> None:
    given = Document(id="lc", page_content="Pilots board at buoy nine.", metadata={"source": "pilots.pdf", "page": 4})
    try:
        assert braid.add([given]).written == 1
        (back,) = BraidRetriever(braid=braid, top_k=1).invoke("Where do pilots board?")
        assert (back.id, back.page_content) == (given.id, given.page_content)
        assert given.metadata.items() <= back.metadata.items()
        assert back.metadata["citation"]["page"] == 4
    finally:
        braid.delete("lc")
