"""An answer that can be handed on: where it is too long its texts are shortened, the longest first."""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Answer, Result

MAX_ANSWER_BYTES: Final = 240 * 1024
"""Of an answer as JSON. A task of a workflow may return 256 KiB, with what Lambda says beside it; more fails the whole
execution, which nothing in it can catch."""
METADATA_BYTES: Final = 2 * 1024
"""Of one result's metadata, where something has to be shortened."""
_LAST_WORD = 100
"""Characters that are given up so that no word is cut."""


def fitting(answer: Answer, most_bytes: int = MAX_ANSWER_BYTES) -> Answer:
    """Return the answer, its longest texts shortened to one length where it is too long as a whole.

    Parameters
    ----------
    most_bytes
        Of the answer as JSON, with every character beyond ASCII escaped: as long as Lambda may write it.
    """
    if (
        sum(len(result.content) for result in answer.results) <= most_bytes  # a character has a byte at least
        and _size(answer.model_dump(mode="json")) <= most_bytes
    ):
        return answer
    results = [_with_short_metadata(result) for result in answer.results]

    def room(count: int) -> int:
        bare = [result.model_copy(update={"content": ""}) for result in results[:count]]
        return most_bytes - _size(_with_results(answer, bare).model_dump(mode="json"))

    if room(len(results)) < 0:
        results = results[: bisect_right(range(1, len(results)), 0, key=lambda count: -room(count))]
    sizes = [_size(result.content[:most_bytes]) for result in results]
    longest = _level(sizes, room(len(results)))
    shown = [_with_short_text(*each, longest) for each in zip(results, sizes, strict=True)]
    return _with_results(answer, shown)


def _with_results(answer: Answer, results: Sequence[Result]) -> Answer:
    sources = tuple(dict.fromkeys(result.citation for result in results))
    return answer.model_copy(update={"results": tuple(results), "sources": sources})


def _with_short_metadata(result: Result) -> Result:
    if _size(result.metadata) <= METADATA_BYTES:
        return result
    return result.model_copy(update={"metadata": {}, "shortened": True})


def _with_short_text(result: Result, size: int, longest: int) -> Result:
    if size <= longest:
        return result
    return result.model_copy(update={"content": beginning(result.content, longest), "shortened": True})


def beginning(text: str, most_bytes: int) -> str:
    """Return as much of a text as fits, to the end of a word, and an ellipsis."""
    room = most_bytes - len(json.dumps("…"))
    end, unsure = 0, min(len(text), most_bytes)
    while unsure:  # half of what may still fit, and then half of the rest: all of them together are one text
        half = (unsure + 1) // 2
        size = _size(text[end : end + half]) - len('""')
        if size <= room:
            end, room, unsure = end + half, room - size, unsure - half
        else:
            unsure = half - 1
    text = text[:end]
    space = text.rfind(" ", -_LAST_WORD)
    return f"{text[:space] if space > 0 else text}…"


def _level(sizes: Sequence[int], room: int) -> int:
    """Return the greatest size to which all may be cut so that they fit together."""
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _size(value: object) -> int:
    return len(json.dumps(value))
