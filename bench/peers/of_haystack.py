"""Haystack: its in-memory store, by vectors, and by vectors and BM25 with reciprocal rank fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asked import TOP, Given, measure
from haystack import Document
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def build(given: Given) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """Index the passages."""
    store = InMemoryDocumentStore(embedding_similarity_function="dot_product")
    store.write_documents(
        [
            Document(id=identity, content=text, embedding=vector.tolist())
            for identity, text, vector in zip(given.ids, given.texts, given.vectors, strict=True)
        ]
    )
    by_vectors = InMemoryEmbeddingRetriever(store, top_k=TOP)
    by_words = InMemoryBM25Retriever(store, top_k=TOP)
    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=TOP)
    asked = [vector.tolist() for vector in given.question_vectors]

    def vectors(number: int) -> list[str]:
        return [found.id for found in by_vectors.run(query_embedding=asked[number])["documents"]]

    def both(number: int) -> list[str]:
        dense = by_vectors.run(query_embedding=asked[number])["documents"]
        words = by_words.run(query=given.questions[number])["documents"]
        return [found.id for found in joiner.run(documents=[dense, words])["documents"]]

    return {"vectors": vectors, "vectors and words": both}


if __name__ == "__main__":
    measure("haystack-ai", build)
