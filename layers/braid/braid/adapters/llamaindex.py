"""LlamaIndex retriever over a store, in process or deployed.

>>> from braid import Braid
>>> from braid.adapters.llamaindex import BraidRetriever
>>> retriever = BraidRetriever(Braid("./store"), top_k=4)  # doctest: +SKIP
>>> retriever.retrieve("Who keeps the ledger?")  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from braid.adapters.shared_search import ABOUT, metadata_of, search
from braid.errors import needs_extra
from braid.models import Filters

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(needs_extra("llamaindex", __name__), name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.schema import QueryBundle

    from braid.client.braid import Braid


class BraidRetriever(BaseRetriever):
    """Retrieves the nodes that answer a question, best first, with their scores, and citations in their metadata.

    Metadata about the search itself is excluded from the text that models and encoders see.

    Parameters
    ----------
    top_k
        Maximum of nodes, 1 to 50.
    filters
        Filters of the search. Untrusted records are left out unless ``trusted_only`` is set to false.
    question
        Further fields of a question: ``as_of``, ``hints``, ``fusion`` …
    """

    def __init__(
        self,
        braid: Braid,
        *,
        top_k: int = 10,
        filters: Filters | Mapping[str, Any] | None = None,
        callback_manager: CallbackManager | None = None,
        **question: Any,  # noqa: ANN401
    ) -> None:
        self._braid = braid
        self._asked = {"top_k": top_k, "filters": filters or Filters(), **question}
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        results = search(self._braid, query_bundle.query_str, **self._asked)
        return [
            NodeWithScore(
                node=TextNode(
                    id_=result.id,
                    text=result.content,
                    metadata=metadata_of(result, results),
                    excluded_llm_metadata_keys=[*ABOUT],
                    excluded_embed_metadata_keys=[*ABOUT],
                ),
                score=result.final,
            )
            for result in results
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
