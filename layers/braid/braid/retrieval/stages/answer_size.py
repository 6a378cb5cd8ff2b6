"""Cuts an answer to the limit of a workflow's state: the longest texts to one size, else facts and its last results.

Hits of walks and of propagation are cut by ``fit_to_state`` of :mod:`braid.retrieval.stages.walk_seeds_and_scores`,
those of constraints by :mod:`braid.retrieval.stages.graph_constraint`; an HTTP
response that is too large all the same is refused by :mod:`braid.api.handler`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from braid.retrieval.stages.excerpts import EXCERPT_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Answer, Result

MAX_WORKFLOW_ANSWER_BYTES: Final = 240 * 1024
"""Largest answer as JSON. A workflow's task may return 256 KiB, Lambda's own fields included; more fails the execution
without a chance to catch it."""
METADATA_BYTES: Final = 2 * 1024
"""Largest metadata of a result, as JSON, in an answer that has to be shortened."""
FACTS_BYTES: Final = 32 * 1024
"""Largest facts of a result, as JSON, in an answer that is too large even without texts; the first always stays."""
_JSON_ESCAPE = 12
"""Most bytes of one character in JSON that is ASCII only."""
_ESCAPED_BYTES = 3
_LAST_WORD = 100
"""Most characters dropped so that no word is cut."""


def shortened(answer: Answer, most_bytes: int = MAX_WORKFLOW_ANSWER_BYTES) -> Answer:
    """Return the answer, with its longest texts cut to an equal size if it is too large as a whole.

    A text that is cut keeps its beginning or, if that does not contain it, the part that matched the question. If the
    answer is too large even without texts, it shows fewer facts; if it still is, its last results are dropped.

    Parameters
    ----------
    most_bytes
        Largest size of the answer as JSON with every character beyond ASCII escaped, as Lambda may write it.
    """
    # Escaping makes at most three bytes of each UTF-8 byte, which also covers the spaces after separators.
    if _ESCAPED_BYTES * len(answer.model_dump_json().encode()) <= most_bytes:
        return answer
    if (
        sum(len(result.content) for result in answer.results) <= most_bytes  # a character has at least one byte
        and _size(answer.model_dump(mode="json")) <= most_bytes
    ):
        return answer
    results = [_with_short_metadata(result) for result in answer.results]

    def room(count: int) -> int:
        bare = [result.altered(content="") for result in results[:count]]
        return most_bytes - _size(_with_results(answer, bare).model_dump(mode="json"))

    if room(len(results)) < 0:
        results = [_with_fewer_facts(result) for result in results]
    if room(len(results)) < 0:
        results = results[: bisect_right(range(1, len(results)), 0, key=lambda count: -room(count))]
    sizes = [_size(result.content[:most_bytes]) for result in results]
    longest = _level(sizes, room(len(results)))
    shown = [_with_short_text(*each, longest) for each in zip(results, sizes, strict=True)]
    return _with_results(answer, shown)


def _with_results(answer: Answer, results: Sequence[Result]) -> Answer:
    sources = tuple(dict.fromkeys(result.citation for result in results))
    return answer.altered(results=tuple(results), sources=sources)


def _with_short_metadata(result: Result) -> Result:
    if _size(result.metadata) <= METADATA_BYTES:
        return result
    return result.altered(metadata={}, shortened=True)


def _with_fewer_facts(result: Result) -> Result:
    if result.facts is None or not result.facts.facts:
        return result
    facts = result.facts.facts
    sizes = list(accumulate(_size(fact.model_dump(mode="json")) for fact in facts))
    if sizes[-1] <= FACTS_BYTES:
        return result
    first = facts[: max(1, bisect_right(sizes, FACTS_BYTES))]
    return result.altered(facts=result.facts.altered(facts=first), shortened=True)


def _with_short_text(result: Result, size: int, longest: int) -> Result:
    if size <= longest:
        return result
    shown, matched_from, marked = beginning(result.content, longest), result.matched_from, result.marked
    first, last = marked or (matched_from, matched_from + EXCERPT_CHARACTERS)
    if last > len(shown) and first:  # the beginning does not show the match
        # Begin with the matched part, if the sentence then fits too.
        first = matched_from if matched_from < first and last - matched_from < longest // _JSON_ESCAPE else first
        room, rest = longest - len(json.dumps("…")), result.content[first:]
        shown = "…" + (rest if _size(rest[:longest]) <= room else beginning(rest, room))
        shift = first - 1  # the ellipsis precedes the text that was at ``first``
        matched_from = max(0, matched_from - shift) if first else matched_from
        marked = marked and (marked[0] - shift, min(len(shown), marked[1] - shift))
    return result.altered(content=shown, matched_from=matched_from, marked=marked, shortened=True)


def beginning(text: str, most_bytes: int) -> str:
    """Return as much of a text's beginning as fits in ``most_bytes`` of JSON, to the end of a word, and an ellipsis."""
    room = most_bytes - len(json.dumps("…"))
    end, unsure = 0, min(len(text), most_bytes)
    while unsure:  # binary search: ``end`` fits, and at most ``unsure`` more characters may
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
    """Return the largest size to which texts of some sizes may be cut so that they fit ``room`` together."""
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _size(value: object) -> int:
    return len(json.dumps(value))
