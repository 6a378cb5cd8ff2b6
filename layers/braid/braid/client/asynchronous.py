"""The face of the library for ``await``: each call runs on a thread, as engines and models block."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from braid.client.braid import Braid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from braid.api.schemas import RecordSummary, ReembedJob, Related, Stats, WriteSummary
    from braid.client.documents import Added
    from braid.client.results import Fact, Results
    from braid.models import Question
    from braid.ports.graph_query import GraphResult
    from braid.retrieval.context.selection import Context
    from braid.settings import Settings


class AsyncBraid:
    """:class:`braid.client.Braid`, its calls to be awaited; what they take, return and raise is the same."""

    def __init__(
        self, path: str | Path | None = None, *, tenant: str | None = None, settings: Settings | None = None
    ) -> None:
        self._braid = Braid(path, tenant=tenant, settings=settings)

    @classmethod
    def deployed(cls, url: str, token: str, *, tenant: str | None = None, **options: Any) -> Self:  # noqa: ANN401
        """Return a deployed Braid."""
        return cls._of(Braid.deployed(url, token, tenant=tenant, **options))

    @classmethod
    def aws(cls, settings: Settings | None = None, *, tenant: str | None = None) -> Self:
        """Return deployed stores."""
        return cls._of(Braid.aws(settings, tenant=tenant))

    @classmethod
    def _of(cls, braid: Braid) -> Self:
        made = cls.__new__(cls)
        made._braid = braid  # noqa: SLF001 - of this class
        return made

    def tenant(self, name: str) -> Self:
        """Return the same store for another tenant."""
        return self._of(self._braid.tenant(name))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close stores and connections."""
        await asyncio.to_thread(self._braid.close)

    def __repr__(self) -> str:
        return f"Async{self._braid!r}"

    async def add(self, content: object, **how: Any) -> Added:  # noqa: ANN401 - as of Braid.add, here and below
        """Write something."""
        return await asyncio.to_thread(self._braid.add, content, **how)

    async def update(self, id: str, **fields: Any) -> WriteSummary:  # noqa: A002, ANN401
        """Change fields of a stored record."""
        return await asyncio.to_thread(self._braid.update, id, **fields)

    async def delete(self, ids: str | Iterable[str]) -> int:
        """Remove records for good."""
        return await asyncio.to_thread(self._braid.delete, ids)

    async def get(self, id: str) -> RecordSummary | None:  # noqa: A002
        """Return a record as it is stored."""
        return await asyncio.to_thread(self._braid.get, id)

    async def search(self, question: str | Question, **fields: Any) -> Results:  # noqa: ANN401
        """Answer a question."""
        return await asyncio.to_thread(self._braid.search, question, **fields)

    async def context(self, question: str, messages: Iterable[Mapping[str, Any]] = (), **fields: Any) -> Context:  # noqa: ANN401
        """Choose what to show a model next."""
        return await asyncio.to_thread(self._braid.context, question, messages, **fields)

    async def related(self, entity: str, **how: Any) -> Related:  # noqa: ANN401
        """Return the entities related to one."""
        return await asyncio.to_thread(self._braid.related, entity, **how)

    async def facts(self, entity: str, **how: Any) -> list[Fact]:  # noqa: ANN401
        """Return the relationships about an entity as sentences."""
        return await asyncio.to_thread(self._braid.facts, entity, **how)

    async def graph_query(self, question: Mapping[str, Any]) -> GraphResult:
        """Walk the graph step by step."""
        return await asyncio.to_thread(self._braid.graph_query, question)

    async def stats(self) -> Stats:
        """Count what is stored."""
        return await asyncio.to_thread(self._braid.stats)

    async def reembed(self) -> ReembedJob:
        """Embed outdated records again."""
        return await asyncio.to_thread(self._braid.reembed)
