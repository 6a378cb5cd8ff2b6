"""The index beside the active one: which there is, and how a write lands in both, whatever happens meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.engines.opensearch.client import IndexMissing, R, call

if TYPE_CHECKING:
    from collections.abc import Callable

    from opensearchpy import OpenSearch

_MOVED: Final = 5
"""How often one write may find that the aliases changed under it."""


def next_alias(alias: str) -> str:
    """Return the alias of the next index. No alias of a deployment holds an underscore."""
    return f"{alias}_next"


def previous_alias(alias: str) -> str:
    """Return the alias of the index from before the last switch."""
    return f"{alias}_previous"


def placed(client: OpenSearch, alias: str, *, attempts: int) -> dict[str, str]:
    """Return the index behind the alias and behind those of the next and the previous index, as there are any."""
    answer = call(attempts, client.indices.get_alias, name=f"{alias}*")
    wanted = {alias, next_alias(alias), previous_alias(alias)}
    return {name: index for index, found in answer.items() for name in found["aliases"] if name in wanted}


def everywhere(alias: str, look: Callable[[], dict[str, str]], write: Callable[[str], R]) -> list[R]:
    """Write through the alias first and then through that of the index beside it; return what was said.

    A move may begin, switch or end meanwhile. Then all is written again, into what the aliases lead to by now: a write
    that went only to the index that is left behind would be lost.

    Parameters
    ----------
    look
        Returns which index each alias leads to.
    write
        Writes through one alias; again is harmless.

    Raises
    ------
    IndexMissing
        If an index was gone each time.
    """
    said: list[R] = []
    for attempt in range(_MOVED):
        before = look()
        said.append(write(alias))
        try:
            said += [write(other) for other in before if other != alias]
        except IndexMissing:
            if attempt == _MOVED - 1:
                raise
            continue
        if look() == before:
            break
    return said
