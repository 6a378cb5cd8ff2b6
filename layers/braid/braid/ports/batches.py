"""Splits items into batches: stores and services limit the number and the total size of items in one request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")


def _no_size(_: object) -> int:
    return 0


def batches(
    items: Iterable[_T], most: int, *, size: float = math.inf, size_of: Callable[[_T], int] = _no_size
) -> Iterator[list[_T]]:
    """Yield items in their order, in batches of at most ``most`` items and of at most ``size`` in total.

    An item that is larger than ``size`` is a batch of its own.
    """
    batch: list[_T] = []
    total = 0
    for item in items:
        own = size_of(item)
        if batch and (len(batch) >= most or total + own > size):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += own
    if batch:
        yield batch
