"""LlamaIndex: its vector index, its BM25 retriever, and both with reciprocal rank fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asked import TOP, Given, measure
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms.mock import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.retrievers.bm25 import BM25Retriever

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Prepared(BaseEmbedding):
    """Looks vectors up."""

    given: Any

    def _get_query_embedding(self, query: str) -> list[float]:
        return list(map(float, self.given.vector(query)))

    def _get_text_embedding(self, text: str) -> list[float]:
        return list(map(float, self.given.vector(text)))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def build(given: Given) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """Index the passages."""
    nodes = [
        TextNode(id_=identity, text=text, embedding=vector.tolist())
        for identity, text, vector in zip(given.ids, given.texts, given.vectors, strict=True)
    ]
    index = VectorStoreIndex(nodes, embed_model=Prepared(given=given))
    vectors = index.as_retriever(similarity_top_k=TOP)
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=TOP)
    both = QueryFusionRetriever(
        [vectors, words], similarity_top_k=TOP, num_queries=1, mode="reciprocal_rerank", use_async=False, llm=MockLLM()
    )

    def way(retriever: Any) -> Callable[[int], Sequence[str]]:  # noqa: ANN401 - of three classes
        return lambda number: [found.node.node_id for found in retriever.retrieve(given.questions[number])]

    return {"vectors": way(vectors), "vectors and words": way(both)}


if __name__ == "__main__":
    measure("llama-index-core", build)
