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
    if _size(answer.model_dump(mode="json")) <= most_bytes:
        return answer
    results = [_with_short_metadata(result) for result in answer.results]
    while True:
        bare = [result.model_copy(update={"content": ""}) for result in results]
        room = most_bytes - _size(_with_results(answer, bare).model_dump(mode="json"))
        if room >= 0 or not results:
            break
        results.pop()
    longest = _level([_size(result.content) for result in results], room)
    return _with_results(answer, [_with_short_text(result, longest) for result in results])


def _with_results(answer: Answer, results: Sequence[Result]) -> Answer:
    sources = tuple(dict.fromkeys(result.citation for result in results))
    return answer.model_copy(update={"results": tuple(results), "sources": sources})


def _with_short_metadata(result: Result) -> Result:
    if _size(result.metadata) <= METADATA_BYTES:
        return result
    return result.model_copy(update={"metadata": {}, "shortened": True})


def _with_short_text(result: Result, longest: int) -> Result:
    if _size(result.content) <= longest:
        return result
    return result.model_copy(update={"content": beginning(result.content, longest), "shortened": True})


def beginning(text: str, most_bytes: int) -> str:
    """Return as much of a text as fits, to the end of a word, and an ellipsis."""
    room = most_bytes - len(json.dumps("…")) + len('""')
    fitting_lengths = range(min(len(text), most_bytes) + 1)
    text = text[: max(0, bisect_right(fitting_lengths, room, key=lambda length: _size(text[:length])) - 1)]
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
