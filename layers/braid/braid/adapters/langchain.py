"""LangChain retriever over a store, in process or deployed.

>>> from braid import Braid
>>> from braid.adapters.langchain import BraidRetriever
>>> retriever = BraidRetriever(braid=Braid("./store"), top_k=4)  # doctest: +SKIP
>>> retriever.invoke("Who keeps the ledger?")  # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import Field

from braid.adapters.shared_search import metadata_of, search
from braid.client.braid import Braid  # noqa: TC001 - pydantic reads annotations
from braid.errors import needs_extra
from braid.models import Filters

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(needs_extra("langchain", __name__), name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun


class BraidRetriever(BaseRetriever):
    """Retrieves the documents that answer a question, best first, with score and citation in their metadata.

    ``invoke`` and ``ainvoke`` take the same fields, for one call.
    """

    braid: Braid
    """The store to search."""
    top_k: int = Field(default=10, ge=1, le=50)
    """Maximum of documents."""
    filters: Filters = Filters()
    """Filters of the search. Untrusted records are left out unless ``trusted_only`` is set to false."""
    question: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a question: ``as_of``, ``hints``, ``fusion`` …"""

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the framework's
        top_k: int | None = None,
        filters: Filters | Mapping[str, Any] | None = None,
        **question: Any,  # noqa: ANN401
    ) -> list[Document]:
        results = search(
            self.braid,
            query,
            top_k=self.top_k if top_k is None else top_k,
            filters=self.filters if filters is None else filters,
            **{**self.question, **question},
        )
        return [
            Document(id=result.id, page_content=result.content, metadata=metadata_of(result, results))
            for result in results
        ]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        **how: Any,  # noqa: ANN401 - as of the method above
    ) -> list[Document]:
        return await asyncio.to_thread(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), **how)
