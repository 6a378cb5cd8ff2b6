"""Reader of plain text, the decoding of text in any encoding, and sections below headings for other readers."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, NamedTuple

from braid.ingestion.documents.document import Document, Section, Unreadable, bounded
from braid.ingestion.documents.readers.encodings import detect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from braid.ingestion.documents.document import Source

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")
# An English flag is a black flag and tags; a character has one variation selector.
_UNSEEN = re.compile(
    "(\U0001f3f4[\U000e0030-\U000e007a]{1,6}+\U000e007f)"
    "|[\U000e0000-\U000e007f]|(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Characters that are invisible to people but read by models: tags, and variation selectors after others."""
_RULES = '=*~#^+"-'
"""Characters with which headings are underlined."""
_UNDERLINE = re.compile(rf"^([{_RULES}])\1{{2,}}\s*$")
_ROLE = re.compile(r":[a-z][\w+:.-]{0,40}:`[~!]?([^`<\n]{1,400}?)(?:\s*<[^`<\n]{1,400}>)?`")
"""A role of reStructuredText, such as :func:`open`."""
_HEADING_CHARACTERS = 120


def decode(content: bytes) -> str:
    """Decode text: UTF-8, UTF-16 or UTF-32 with a byte order mark, or else the most likely encoding.

    Raises Unreadable if it is text in none of them.
    """
    if encoding := _marked_encoding(content):
        try:
            return tidied(content.decode(encoding))
        except UnicodeDecodeError:
            raise Unreadable(f"begins like {encoding.upper()} and is not") from None
    if b"\x00" in content:
        raise Unreadable("is a binary file, not text")
    try:
        return tidied(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        detected = detect(content, error.start)
    if detected is None:
        raise Unreadable("is text in an unknown encoding; save it as UTF-8")
    return tidied(content.decode(detected.encoding, "replace"))


def _marked_encoding(content: bytes) -> str:
    """Return the encoding that a byte order mark states; empty if there is none."""
    return next((encoding for mark, encoding in _MARKS if content.startswith(mark)), "")


def guessed_encoding(content: bytes) -> str:
    """Return the encoding in which text is decoded although others are nearly as likely; empty if there is none."""
    if _marked_encoding(content):
        return ""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        detected = detect(content, error.start)
        return "" if detected is None or detected.certain else detected.encoding
    return ""


def tidied(text: str) -> str:
    """Return text with plain line ends, without control characters, unseen ones and halves of surrogate pairs."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n\n")
    if not text.isascii():
        text = _UNSEEN.sub(r"\1", text)
    return _CONTROLS.sub("", text).encode("utf-8", "ignore").decode()


def one_line(text: str) -> str:
    """Return text with every run of white space as one space."""
    return " ".join(text.split())


class HeadingPath:
    """The headings above the current position of a document, outermost first."""

    def __init__(self) -> None:
        self._levels: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> None:
        """Enter a heading, which closes headings of its level and below; an empty one only closes them."""
        self._levels = [above for above in self._levels if above[0] < level]
        if heading:
            self._levels.append((level, heading))

    def headings(self) -> tuple[str, ...]:
        """Return the headings."""
        return tuple(heading for _, heading in self._levels)


class Block(NamedTuple):
    """A heading, paragraph or table of a format that has styles."""

    text: str
    level: int = 0
    """Of a heading, from 1."""
    in_list: bool | None = False
    """Whether it is an item of a list; None for a table, between whose neighbours a list goes on."""
    style: str = ""


def sections_of_blocks(blocks: Iterable[Block]) -> Iterator[Section]:
    """Yield the text under each heading: paragraphs with a blank line between them, items of a list without."""
    path, held, listed = HeadingPath(), list[str](), False
    for block in blocks:
        if block.level:
            yield Section("".join(held).strip(), path.headings())
            held = []
            path.enter(block.level, one_line(block.text))
        else:
            held.append(("\n" if block.in_list and listed else "\n\n") + block.text)
            listed = listed if block.in_list is None else block.in_list
    yield Section("".join(held).strip(), path.headings())


def read_text(source: Source) -> Document:
    """Read plain text; underlined lines, as of reStructuredText, are headings, the only outermost one is the title."""
    sections = list(_sections(_ROLE.sub(r"\1", decode(source.content))))
    return Document(only_title(sections) or source.stem, "text", bounded(sections, source.limits))


def only_title(sections: list[Section]) -> str | None:
    """Return the only outermost heading; None if there are several, or none."""
    outermost = {section.heading[0] for section in sections if section.heading}
    return outermost.pop() if len(outermost) == 1 else None


def _sections(text: str) -> Iterator[Section]:
    lines = text.split("\n")
    styles: list[str] = []
    path = HeadingPath()
    begin = number = 0
    while number < len(lines):
        style = _heading_style(lines, number)
        if style is None:
            number += 1
            continue
        overlined = number > begin and lines[number - 1][:1] == style and _UNDERLINE.match(lines[number - 1])
        yield Section("\n".join(lines[begin : number - bool(overlined)]), path.headings(), line=begin + 1)
        style += "above" if overlined else ""
        if style not in styles:
            styles.append(style)
        path.enter(styles.index(style), lines[number].strip())
        number += 2
        begin = number
    yield Section("\n".join(lines[begin:]), path.headings(), line=begin + 1)


def _heading_style(lines: list[str], number: int) -> str | None:
    """Return the character that a heading's line is underlined with; None of a line that is no heading."""
    if number + 1 >= len(lines) or not lines[number + 1].startswith(tuple(_RULES)):
        return None
    line, below = lines[number].rstrip(), lines[number + 1]
    # A heading follows a blank line: a line after other text is the last one of a paragraph or table above a rule.
    apart = number == 0 or not lines[number - 1].strip(" =-*~#")
    if not (apart and line and len(line) <= _HEADING_CHARACTERS and _UNDERLINE.match(below)):
        return None
    return None if _UNDERLINE.match(line) or abs(len(below.rstrip()) - len(line)) > len(line) // 2 + 2 else below[0]
