"""graph-rag of DataStax: LangChain's in-memory vector store, and a traversal over names that passages share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asked import TOP, Given, measure
from graph_retriever.strategies import Eager, Mmr
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_graph_retriever import GraphRetriever

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Prepared(Embeddings):
    """Looks vectors up."""

    def __init__(self, given: Given) -> None:
        self.given = given

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of passages."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return a question's vector."""
        return list(map(float, self.given.vector(text)))


def build(given: Given) -> Mapping[str, Callable[[int], Sequence[str]]]:
    """Index the passages with the names that the dataset says they mention."""
    store = InMemoryVectorStore(Prepared(given))
    metadata = [{"names": given.mentions.get(identity, [])} for identity in given.ids]
    store.add_texts(given.texts, metadata, ids=given.ids)

    def way(strategy: Any) -> Callable[[int], Sequence[str]]:  # noqa: ANN401 - of several classes
        walk = GraphRetriever(store=store, edges=[("names", "names")], strategy=strategy)
        return lambda number: [str(found.id) for found in walk.invoke(given.questions[number])]

    def nearest(number: int) -> list[str]:
        return [str(found.id) for found in store.similarity_search(given.questions[number], TOP)]

    ways: dict[str, Callable[[int], Sequence[str]]] = {"vectors": nearest}
    if any(given.mentions.values()):
        ways["walk, eager"] = way(Eager(select_k=TOP, start_k=4, max_depth=1))
        ways["walk, MMR"] = way(Mmr(select_k=TOP, start_k=4, max_depth=2))
    return ways


if __name__ == "__main__":
    measure("langchain-graph-retriever", build)
