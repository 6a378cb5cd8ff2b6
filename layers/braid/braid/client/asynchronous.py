"""Asynchronous client: each call runs on a thread, because engines and models block."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from braid.client.braid import Braid

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from types import TracebackType

    from braid.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(call: Callable[Concatenate[Braid, P], R]) -> Callable[Concatenate[AsyncBraid, P], Coroutine[Any, Any, R]]:
    """Return a coroutine function that runs a method of the client on a thread."""

    @wraps(call)
    async def awaited(self: AsyncBraid, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(call, self._braid, *args, **kwargs)

    return awaited


class AsyncBraid:
    """Asynchronous :class:`braid.client.Braid`: the same methods and arguments, as coroutines.

    ``records``, an iterator that reads pages as it goes, has no asynchronous form.
    """

    def __init__(
        self, path: str | Path | None = None, *, tenant: str | None = None, settings: Settings | None = None
    ) -> None:
        self._braid = Braid(path, tenant=tenant, settings=settings)

    @classmethod
    def deployed(cls, url: str, token: str, *, tenant: str | None = None, **options: Any) -> Self:  # noqa: ANN401
        """Connect to a deployed Braid; see :meth:`braid.client.Braid.deployed`."""
        return cls._of(Braid.deployed(url, token, tenant=tenant, **options))

    @classmethod
    def aws(cls, settings: Settings | None = None, *, tenant: str | None = None) -> Self:
        """Open deployed stores; see :meth:`braid.client.Braid.aws`."""
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

    def __repr__(self) -> str:
        return f"Async{self._braid!r}"

    close = _awaited(Braid.close)
    add = _awaited(Braid.add)
    update = _awaited(Braid.update)
    delete = _awaited(Braid.delete)
    delete_document = _awaited(Braid.delete_document)
    get = _awaited(Braid.get)
    search = _awaited(Braid.search)
    context = _awaited(Braid.context)
    related = _awaited(Braid.related)
    facts = _awaited(Braid.facts)
    graph_query = _awaited(Braid.graph_query)
    stats = _awaited(Braid.stats)
    reembed = _awaited(Braid.reembed)
