"""What a strand had among its first and the answer has not: for whoever asks why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.models import Considered
from braid.ranking.citations import cite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.retrieval.stages.hydration import Ranked

FIRST = 5
"""Of each strand."""


@dataclass(frozen=True)
class Placed:
    """A candidate in the order of the answer, with the score that put it there."""

    item: Ranked
    final: float


def left_behind(order: Sequence[Placed], *, shown: int) -> tuple[Considered, ...]:
    """Return the candidates behind the results that some strand ranks among its :data:`FIRST`, in their order.

    Parameters
    ----------
    order
        Every candidate that was read, best first.
    shown
        How many of them are results.
    """
    return tuple(
        Considered(
            id=placed.item.record.id,
            title=placed.item.record.name or cite(placed.item.record).title,
            rank=rank,
            fused_rank=placed.item.fused_rank,
            ranks=placed.item.candidate.ranks,
            final=placed.final,
        )
        for rank, placed in enumerate(order[shown:], start=shown + 1)
        if min(placed.item.candidate.ranks.values()) <= FIRST
    )
