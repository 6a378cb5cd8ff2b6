"""The retriever for LlamaIndex."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from braid import InvalidRequest
from braid.adapters.llamaindex import BraidRetriever
from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import Document, MetadataMode, TextNode

if TYPE_CHECKING:
    from braid import Braid

QUESTION = "Who keeps the ledger?"


def test_a_node_has_its_score_its_own_metadata_and_its_citation(braid: Braid) -> None:
    found = BraidRetriever(braid).retrieve(QUESTION)
    assert {one.node_id for one in found} == {"a", "b", "c"}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    by_id = {one.node_id: one for one in found}
    assert by_id["a"].get_content() == "The ledger is kept by the Harbour team."
    assert (by_id["a"].metadata["floor"], by_id["a"].metadata["source"]) == (2, "Keepers")
    assert by_id["b"].metadata["citation"]["page"] == 3
    assert by_id["a"].metadata["paths"] == ["Ledger → Keepers"]
    shown = by_id["a"].get_content(MetadataMode.LLM)
    assert "floor: 2" in shown
    assert "score" not in shown


def test_filters_and_other_fields_of_a_question_are_kept(braid: Braid) -> None:
    assert [one.node_id for one in BraidRetriever(braid, filters={"kinds": ["decision"]}).retrieve(QUESTION)] == ["b"]
    assert len(BraidRetriever(braid, top_k=1, as_of="2001-01-01T00:00:00Z").retrieve(QUESTION)) == 1
    wary = {one.node_id for one in BraidRetriever(braid, filters={"trusted_only": False}).retrieve(QUESTION)}
    assert "d" in wary
    with pytest.raises(InvalidRequest, match=r"^top_k: "):
        BraidRetriever(braid, top_k=51).retrieve(QUESTION)


def test_it_can_be_awaited_and_a_query_engine_answers_from_it(braid: Braid) -> None:
    retriever = BraidRetriever(braid, top_k=1)
    assert [one.node_id for one in asyncio.run(retriever.aretrieve(QUESTION))] == ["a"]
    answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUESTION)
    assert "kept by the Harbour team" in str(answer)
    assert [one.node_id for one in answer.source_nodes] == ["a"]


@pytest.mark.parametrize("kind", [Document, TextNode])
def test_documents_and_nodes_of_the_framework_are_added_and_come_back_as_they_were(
    braid: Braid, kind: type[Document | TextNode]
) -> None:
    given = kind(id_="li", text="Pilots board at buoy nine.", metadata={"file_name": "pilots.pdf", "floor": 4})
    try:
        assert braid.add([given]).written == 1
        (back,) = BraidRetriever(braid, top_k=1).retrieve("Where do pilots board?")
        assert (back.node_id, back.text) == (given.node_id, given.text)
        assert given.metadata.items() <= back.metadata.items()
        assert back.metadata["citation"]["title"] == "pilots.pdf"
    finally:
        braid.delete("li")
