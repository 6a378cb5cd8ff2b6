"""Thread pools that are kept for as long as the process runs, as starting a thread takes longer than a short task."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

_P = ParamSpec("_P")
_T = TypeVar("_T")


class KeptThreads:
    """A thread pool that a forked process, which has none of its threads, makes anew."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._make()
        os.register_at_fork(after_in_child=self._make)

    def _make(self) -> None:
        self._pool = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)

    def submit(self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run a call on a thread."""
        return self._pool.submit(call, *args, **kwargs)
