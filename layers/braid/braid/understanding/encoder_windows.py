"""Splits a long text into parts that fit an encoder's window, and embeds them, so that all of it has a vector.

The record stays whole. Documents are cut into records by :mod:`braid.ingestion.documents.chunking`.

The first part fills the window, and ends at a token. Each further part begins with the sentence that the part before
it cut off, or at a word if no sentence begins in the second half of that part, and has the heading before it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Embedding, FurtherPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from braid.models import NewRecord
    from braid.ports.encoder import Encoder

MAX_PARTS: Final = 2_048
"""Most parts of one text: more than the longest record of prose has; only text without words reaches it."""
_SENTENCE: Final = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。\uff01\uff1f]+|\n\s*")
_WORD: Final = re.compile(r"\s+")
_SPACE: Final = re.compile(r"\s*")
_SPARE_TOKENS: Final = 2
"""Tokens of the window left free: a part may have one token more alone than within the text."""


class Part(NamedTuple):
    """A part of a text."""

    start: int
    """Character of the whole text at which it begins."""
    text: str
    """The embedded text: the part, after the heading unless it is the first part."""


def parts(text: str, heading: str, token_ends: Sequence[int], max_tokens: int) -> Iterator[Part]:
    """Yield the parts of a text, of at most ``max_tokens`` tokens each, :data:`MAX_PARTS` at most.

    Parameters
    ----------
    heading
        Line that the text begins with and that is put before each further part; "" for none. One that takes more than
        half of the window is left out.
    token_ends
        Character at which each token of the text ends.
    max_tokens
        Tokens that the encoder reads.
    """
    if len(token_ends) <= max_tokens:
        yield Part(0, text)
        return
    headed = bisect_right(token_ends, len(heading))
    if headed > max_tokens // 2:
        heading, headed = "", 0
    start = first = 0
    room = max_tokens
    for _ in range(MAX_PARTS):
        last = min(first + room, len(token_ends)) - 1
        stop = token_ends[last]
        yield Part(start, f"{heading}\n{text[start:stop]}" if start and heading else text[start:stop])
        if last == len(token_ends) - 1:
            return
        start = _next_start(text, token_ends[(first + last) // 2], stop)
        first = bisect_right(token_ends, start)
        room = max(1, max_tokens - headed - _SPARE_TOKENS)


def _next_start(text: str, middle: int, stop: int) -> int:
    """Return where the sentence begins that a part ending at ``stop`` cuts, at ``middle`` or later."""
    following = _SPACE.match(text, stop)
    end = following.end() if following else stop
    for boundary in (_SENTENCE, _WORD):
        starts = [found.end() for found in boundary.finditer(text, middle, end)]
        if starts:
            return starts[-1]
    return end


def embed(records: Sequence[NewRecord], encoder: Encoder) -> list[Embedding]:
    """Return the embedding of each record's text, with one vector for each of its parts.

    Raises ModelError if the encoder does.
    """
    cut = [list(_parts_of(record, encoder)) for record in records]
    vectors = iter(encoder.encode([part.text for of_one in cut for part in of_one]))
    embeddings: list[Embedding] = []
    for first, *others in cut:
        del first
        embeddings.append(
            Embedding(
                space=encoder.space,
                model_id=encoder.model_id,
                vector=next(vectors),
                further=tuple(FurtherPart(start=part.start, vector=next(vectors)) for part in others),
            )
        )
    return embeddings


def has_all_parts(record: NewRecord, embedding: Embedding, encoder: Encoder) -> bool:
    """Return whether a stored embedding has a vector for each part of the record's text."""
    starts = [part.start for part in _parts_of(record, encoder)]
    return starts == [0, *(part.start for part in embedding.further)]


def _parts_of(record: NewRecord, encoder: Encoder) -> Iterator[Part]:
    text = record.text()
    # A token has at least one byte, so a short text fits without being tokenized here too.
    if len(text) <= encoder.max_tokens and len(text.encode()) <= encoder.max_tokens:
        return iter([Part(0, text)])
    return parts(text, record.heading(), encoder.token_ends(text), encoder.max_tokens)
