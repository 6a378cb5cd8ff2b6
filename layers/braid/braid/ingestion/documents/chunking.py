"""Cuts documents into chunks that follow their structure and fit the encoder's window.

Each document is cut here, for a window that ``chunker_for`` of ``ingesting`` chooses. A record that was not made from
one is never cut: a long text has a vector for each of its parts (:mod:`braid.understanding.encoder_windows`).

A chunk is the section under one heading, or several short neighbours under the same parent heading. A section that does
not fit is cut between paragraphs; a paragraph between lines or sentences; a sentence between words. Chunks overlap only
where they are cut between sentences or words, as the text has no boundary there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from braid.ingestion.documents.document import Document, Plain, Section

SEPARATOR = " › "
"""Separator of the headings of a path."""
_SPARE_TOKENS = 4
"""Tokens left free, as a tokenizer may count more for joined texts than for each of them."""
_HEADER_SHARE = 0.25
"""Largest share of the window for the title, and for the heading path."""
_OVERLAP_SHARE = 0.15
"""Largest share of a chunk that the next one repeats, where a paragraph is cut."""
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)\]]?\s+|(?<=[。！？])")
_LEAST_CHARACTERS = 8
"""Least characters of a part of a sentence."""
_COUNTED_AT_ONCE = 32_768
"""Characters that are tokenised at once to count their tokens: it takes some 500 bytes of memory for each."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document that is embedded and cited."""

    text: str
    index: int
    position: int
    """Character offset in the document's text."""
    heading: tuple[str, ...] = ()
    page: int | None = None
    line: int | None = None
    timestamp: str | None = None
    valid_at: str | None = None
    invalid_at: str | None = None
    metadata: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """The heading path, if there is one, above the text."""
        path = SEPARATOR.join(self.heading)
        return f"{path}\n\n{self.text}" if path else self.text


class _Piece(NamedTuple):
    """A paragraph, or a part of one."""

    text: str
    tokens: int
    offset: int
    """Character offset in the section."""
    glue: str
    """Separator between it and the piece before."""
    inside: bool = False
    """Whether it begins at a cut between sentences or words of a paragraph, where chunks overlap."""


class _Part(NamedTuple):
    """Pieces of one section that become one chunk, or a part of it."""

    section: Section
    begin: int
    """Character offset of the section in the document's text."""
    pieces: tuple[_Piece, ...]
    tokens: int


def belong_together(before: Section, section: Section) -> bool:
    """Return whether two neighbouring sections may share a chunk: they have one page and one parent heading."""
    if before.whole or section.whole or before.rows or section.rows or before.page != section.page:
        return False
    above, heading = before.heading, section.heading
    return (
        above == heading or heading[:-1] == above or (bool(heading[:-1]) and heading[:-1] == above[: len(heading) - 1])
    )


class Chunker:
    """Cuts documents for one encoder.

    Parameters
    ----------
    count
        Returns the number of a text's tokens.
    window
        Most tokens that the encoder reads of a text.
    """

    def __init__(self, count: Callable[[str], int], window: int) -> None:
        self._count_some, self._window = count, window - _SPARE_TOKENS

    def _count(self, text: str) -> int:
        starts = range(0, len(text), _COUNTED_AT_ONCE)
        return sum(self._count_some(text[start : start + _COUNTED_AT_ONCE]) for start in starts)

    def chunks(self, document: Document) -> list[Chunk]:
        """Return a document's chunks, in its order; each fits the window with the title and its heading path."""
        title = self._cut(document.title, int(self._window * _HEADER_SHARE))
        room = self._window - self._count(title)
        parts = list(self._parts(_below(document.title, document.sections), room))
        made: list[Chunk] = []
        for group in self._groups(parts, room):
            made.append(self._chunk(group, len(made)))
        return made

    def _parts(self, sections: Iterable[Section], room: int) -> Iterator[_Part]:
        begin = 0
        for section in sections:
            for pieces in self._packed(section, room - self._path_tokens(section.heading)):
                yield _Part(section, begin, pieces, sum(piece.tokens for piece in pieces))
            begin += len(section.text) + 2

    def _groups(self, parts: Sequence[_Part], room: int) -> Iterator[list[_Part]]:
        """Yield groups of neighbouring parts that fit one chunk, their headings included."""
        held: list[_Part] = []
        tokens = 0
        for part in parts:
            own = part.tokens + self._path_tokens(part.section.heading)
            if held and (tokens + own > room or not belong_together(held[-1].section, part.section)):
                yield held
                held, tokens = [], 0
            held.append(part)
            tokens += own
        if held:
            yield held

    def _chunk(self, parts: Sequence[_Part], index: int) -> Chunk:
        """Return the chunk of a group: the heading path that its parts share, and their texts with further headings."""
        first = parts[0]
        shared = _shared([part.section.heading for part in parts])
        texts: list[str] = []
        before: tuple[str, ...] = shared
        for part in parts:
            heading = part.section.heading
            if heading != before and (own := SEPARATOR.join(heading[len(shared) :])):
                texts.append(own)
            before = heading
            texts.append(_joined(part.pieces))
        offset = first.pieces[0].offset
        section = first.section
        return Chunk(
            text="\n\n".join(texts),
            index=index,
            position=first.begin + offset,
            heading=tuple(self._fitting(shared)),
            page=section.page,
            line=None if section.line is None else section.line + section.text.count("\n", 0, offset),
            timestamp=section.timestamp,
            valid_at=section.valid_at,
            invalid_at=section.invalid_at,
            metadata=section.metadata,
        )

    def _packed(self, section: Section, room: int) -> Iterator[tuple[_Piece, ...]]:
        """Yield the pieces of each chunk of a section, of about equal length."""
        room = max(room, self._window // 4)
        pieces = self._pieces(section, room)
        total = sum(piece.tokens for piece in pieces)
        even = total / max(1, -(-total // room))
        held: list[_Piece] = []
        tokens = 0
        for piece in pieces:
            # Closed when full, or when the next piece would bring it further from the even length than it is.
            full = tokens + piece.tokens > room
            if held and (full or tokens + piece.tokens / 2 > even):
                yield tuple(held)
                held = _overlap(held, piece, room)
                tokens = sum(one.tokens for one in held)
            held.append(piece)
            tokens += piece.tokens
        if held:
            yield tuple(held)

    def _pieces(self, section: Section, room: int) -> list[_Piece]:
        """Return a section's paragraphs or rows; those that do not fit are cut further."""
        glue = "\n" if section.rows else "\n\n"
        spans = list(_spans(section.text, re.compile(r"\n+") if section.rows else _PARAGRAPH))
        pieces: list[_Piece] = []
        for text, offset in spans:
            tokens = self._count(text)
            if tokens <= room:
                pieces.append(_Piece(text, tokens, offset, glue))
            else:
                pieces += self._cut_paragraph(text, tokens, offset, room, glue)
        return pieces

    def _cut_paragraph(self, text: str, count: int, offset: int, room: int, glue: str) -> list[_Piece]:
        """Return a paragraph's lines, its sentences if it has one line, or its words if it has one sentence."""
        for separator, between in ((re.compile(r"\n+"), "\n"), (_SENTENCE, " ")):
            spans = list(_spans(text, separator))
            if len(spans) == 1:
                continue
            pieces: list[_Piece] = []
            for part, at in spans:
                tokens, first = self._count(part), glue if not pieces else between
                if tokens <= room:
                    pieces.append(_Piece(part, tokens, offset + at, first, inside=bool(pieces) and between == " "))
                else:
                    pieces += self._cut_paragraph(part, tokens, offset + at, room, first)
            return pieces
        return self._cut_words(text, count, offset, room, glue)

    def _cut_words(self, text: str, count: int, offset: int, room: int, glue: str) -> list[_Piece]:
        """Return parts of a sentence, each a fraction of a chunk so that chunks may overlap by one."""
        waiting, done = [(text, offset, count)], list[tuple[str, int, int]]()
        target = max(1, room // 6)
        while waiting:
            following: list[tuple[str, int, int]] = []
            for part, at, tokens in waiting:
                if tokens <= target or len(part) <= _LEAST_CHARACTERS:
                    done.append((part, at, tokens))
                else:
                    # Split directly into as many pieces as needed: halving repeatedly would count a megabyte's tokens
                    # twenty times.
                    cut = _cut_evenly(part, at, -(-tokens // target))
                    following += [(shorter, begin, self._count(shorter)) for shorter, begin in cut]
            waiting = following
        done.sort(key=lambda one: one[1])
        return [
            _Piece(part, tokens, at, glue if number == 0 else _between(text, at - offset), inside=number > 0)
            for number, (part, at, tokens) in enumerate(done)
            if part.strip()
        ]

    def _path_tokens(self, heading: tuple[str, ...]) -> int:
        return self._count(SEPARATOR.join(self._fitting(heading))) if heading else 0

    def _fitting(self, heading: Sequence[str]) -> list[str]:
        """Return a heading path that takes no more than its share of the window: outer headings are left out first."""
        most = int(self._window * _HEADER_SHARE)
        kept = list(heading[-1:])
        # From the innermost heading outwards, so that left-out headings of very many sections need not be measured.
        for outer in reversed(heading[:-1]):
            if self._count(SEPARATOR.join([outer, *kept])) > most:
                break
            kept.insert(0, outer)
        return [self._cut(kept[0], most)] if len(kept) == 1 else kept

    def _cut(self, text: str, most: int) -> str:
        """Return the beginning of a text that has no more tokens than ``most``."""
        text = text[: most * 16]
        while (tokens := self._count(text)) > most:
            text = text[: max(1, int(len(text) * most / tokens * 0.9))].rstrip() + "…"
        return text


def _below(title: str, sections: Iterable[Section]) -> Iterator[Section]:
    """Yield the sections with heading paths without the document's title, which every chunk has already."""
    for section in sections:
        yield replace(section, heading=section.heading[1:]) if section.heading[:1] == (title,) else section


def _shared(headings: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the common prefix of heading paths."""
    first = headings[0]
    for heading in headings[1:]:
        same = 0
        while same < min(len(first), len(heading)) and first[same] == heading[same]:
            same += 1
        first = first[:same]
    return first


def _spans(text: str, separator: re.Pattern[str]) -> Iterator[tuple[str, int]]:
    """Yield the texts between separators, with their offsets."""
    begin = len(text) - len(text.lstrip("\n"))
    for found in separator.finditer(text, begin):
        if text[begin : found.start()].strip():
            yield text[begin : found.start()].rstrip(), begin
        begin = found.end()
    if text[begin:].strip():
        yield text[begin:].rstrip(), begin


def _overlap(held: Sequence[_Piece], following: _Piece, room: int) -> list[_Piece]:
    """Return the last pieces of a chunk, which the next one repeats if it continues the same paragraph."""
    if not following.inside:
        return []
    kept: list[_Piece] = []
    left = min(int(room * _OVERLAP_SHARE) + 1, room - following.tokens)
    for piece in reversed(held):
        left -= piece.tokens
        if left < 0:
            break
        kept.insert(0, piece)
        if not piece.inside:
            break
    return kept if len(kept) < len(held) else []


def _joined(pieces: Sequence[_Piece]) -> str:
    return "".join((piece.glue if number else "") + piece.text for number, piece in enumerate(pieces))


def _between(text: str, at: int) -> str:
    return " " if at and text[at - 1].isspace() else ""


def _cut_evenly(text: str, offset: int, parts: int) -> Iterator[tuple[str, int]]:
    """Yield about ``parts`` parts of a text, cut at white space where there is some nearby, with their offsets."""
    size = max(_LEAST_CHARACTERS, -(-len(text) // parts))
    begin = 0
    while begin < len(text):
        end = min(begin + size, len(text))
        if end < len(text) and (space := text.rfind(" ", begin + size // 2, end + 1)) > begin:
            end = space + 1
        yield text[begin:end].rstrip(), offset + begin
        begin = end
