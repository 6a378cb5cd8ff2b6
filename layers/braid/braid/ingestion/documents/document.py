"""A document as a reader returns it: title, sections and metadata; and the limits of reading one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pydantic import TypeAdapter, ValidationError

from braid.errors import BraidError
from braid.models import Timestamp
from braid.models.enums_and_scalars import PlainValue, dates_as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

Plain = PlainValue | list[PlainValue] | None
"""Value of a document's metadata."""
VALIDITY: Final = ("valid_at", "invalid_at")
_TIMESTAMP: Final = TypeAdapter(Timestamp)


class Unreadable(BraidError):
    """A file cannot be read as a document; the message has the reason in one line, and a remedy."""


class UnreadableNow(Unreadable):
    """The same content may be readable at another time: it took too long here, or a package is missing."""


class Empty(Unreadable):
    """A file has no content, so that chunks of an earlier version are outdated."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document under one heading: a page, a slide, a row of a mapped table, a function."""

    text: str
    """Paragraphs with blank lines between them; of a table, one row a line."""
    heading: tuple[str, ...] = ()
    """Headings above the text, outermost first, without the document's title."""
    page: int | None = None
    """Page or slide, counted from 1."""
    line: int | None = None
    """Line or row of the file where the text begins, counted from 1, where the text is the file's own."""
    whole: bool = False
    """Whether it is a chunk of its own, never joined with its neighbours."""
    rows: bool = False
    """Whether each line is a unit of its own, as a row of a table."""
    timestamp: str | None = None
    """Moment that the text is about, in ISO 8601; of a mapped row."""
    valid_at: str | None = None
    """Beginning of the text's validity, as the file states it; of a mapped row."""
    invalid_at: str | None = None
    """End of the validity."""
    metadata: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """The content of one file."""

    title: str
    format: str
    """Name of the reader, such as ``markdown`` or ``pdf``."""
    sections: tuple[Section, ...]
    metadata: Mapping[str, Plain] = field(default_factory=dict)
    """Metadata that the file states, or its metadata file: front matter, author, sender, language."""
    timestamp: str | None = None
    """Date that the file states, in ISO 8601."""
    valid_at: str | None = None
    """Beginning of the document's validity, as the file states it."""
    invalid_at: str | None = None
    """End of the validity."""
    guessed_encoding: str = ""
    """Encoding in which the file was read although others are nearly as likely; empty if there is no such doubt."""
    beside: str = ""
    """Name of its metadata file; empty if there is none."""

    def stating(self, fields: Mapping[str, Plain], beside: str = "") -> Self:
        """Return the document with fields of front matter, or of a metadata file, which take precedence."""
        metadata = dict(fields)
        title = as_text(metadata.pop("title", None) or self.title)
        times = take_times(metadata)
        own = {name: value for name, value in self.metadata.items() if name not in metadata}
        stated = {name: date for name, date in times._asdict().items() if date}
        return replace(self, title=title, metadata=metadata | own, beside=beside, **stated)

    def as_json(self) -> dict[str, Any]:
        """Return the document as an object of JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the document of a value of :meth:`as_json`."""
        sections = tuple(Section(**{**one, "heading": tuple(one["heading"])}) for one in value["sections"])
        return cls(**{**value, "sections": sections})


class StatedTimes(NamedTuple):
    """Dates that a file states, as text."""

    timestamp: str | None = None
    valid_at: str | None = None
    invalid_at: str | None = None


def as_text(value: Plain) -> str:
    """Return a value as text; of a list, its values with commas between."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def plain_fields(fields: Mapping[Any, Any]) -> dict[str, Plain]:
    """Return the fields whose values are plain or lists of plain ones.

    What is nested deeper is left out; as a validity it becomes text that is no date, so that it is not overlooked.
    """
    plain = {str(name): _plain(value) for name, value in fields.items()}
    nested = [name for name in VALIDITY if plain.get(name) is None and fields.get(name) is not None]
    plain |= dict.fromkeys(nested, "a nested value")
    return {name: value for name, value in plain.items() if value is not None}


def _plain(value: Any) -> Plain:  # noqa: ANN401 - whatever YAML or JSON holds
    if isinstance(value, list):
        values: list[Any] = [dates_as_text(one) for one in value]
        return values if all(isinstance(one, str | int | float) for one in values) else None
    value = dates_as_text(value)
    return value if isinstance(value, str | int | float) else None


def take_times(metadata: dict[str, Plain]) -> StatedTimes:
    """Remove the dates from a file's metadata, and return them: ``timestamp`` (else ``date``), and the validity."""
    date = metadata.pop("timestamp", None) or metadata.pop("date", None)
    found = (date, metadata.pop("valid_at", None), metadata.pop("invalid_at", None))
    return StatedTimes(*(None if value is None or value == "" else as_text(value) for value in found))


def moment_of(text: str | None) -> datetime | None:
    """Parse a date or time; None if the text is none."""
    if not text:
        return None
    try:
        return _TIMESTAMP.validate_python(text.strip())
    except ValidationError:
        return None


def stated_date(name: str, stated: Plain, place: str = "") -> datetime | None:
    """Parse a file's validity or a row's mapped date; None if it does not state it.

    Raises Unreadable if it is not a date: a text that has expired must not be stored as valid.
    """
    text = "" if stated is None else as_text(stated).strip()
    if text and moment_of(text) is None:
        raise Unreadable(f"{place}{name}: {text[:80]!r} is no date or time such as 2024-05-01")
    return moment_of(text)


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """Limits of reading one file."""

    file_bytes: int = 64 * 1024 * 1024
    unpacked_bytes: int = 256 * 1024 * 1024
    """Of all files in a ZIP archive, such as a DOCX, together, unpacked."""
    unpacked_ratio: int = 200
    """Largest ratio of such a file's unpacked size to its packed size."""
    pages: int = 5_000
    characters: int = 10_000_000
    """Of the extracted text, with headings and metadata."""
    sections: int = 100_000
    seconds: float = 60.0
    """Of a file of 3 MB or more; a smaller one has 15, and 15 for each MB, so that few bytes do not take a minute."""
    memory_bytes: int = 2 * 1024 * 1024 * 1024
    """Of the reader process, where the system can limit it."""

    def seconds_for(self, file_bytes: int) -> float:
        """Return the seconds that a file of this size may take."""
        return min(self.seconds, 15.0 + 15.0 * file_bytes / 1_000_000)


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read: its name, its content, and how tables are to be read."""

    name: str
    content: bytes
    limits: ReadingLimits = field(default_factory=ReadingLimits)
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Columns of tables by their role: ``title``, ``text``, ``timestamp``, ``valid_at``, ``invalid_at``, or a key of
    metadata."""
    beside: Mapping[str, Any] | None = None
    """Object of its metadata file; None if there is none."""

    @property
    def stem(self) -> str:
        """The name without folders and suffix, the title of a document that states none."""
        base = self.name.replace("\\", "/").rsplit("/", 1)[-1]
        return base.rsplit(".", 1)[0] or base

    @property
    def suffix(self) -> str:
        """The suffix in lower case, with its dot; empty of a name without one."""
        base = self.name.replace("\\", "/").rsplit("/", 1)[-1]
        return "." + base.rsplit(".", 1)[1].lower() if "." in base[1:] else ""


def too_long(size: int, limits: ReadingLimits) -> str:
    """Return the reason why a file of so many bytes is not read."""
    return f"is {size:,} bytes long, of at most {limits.file_bytes:,}; split it"


def bounded(sections: Iterable[Section], limits: ReadingLimits) -> tuple[Section, ...]:
    """Return the sections that have text.

    Raises Unreadable if there are none, or more of them or of their text, headings and metadata than the limits allow.
    """
    kept: list[Section] = []
    characters = 0
    for section in sections:
        # Headings and metadata are stored with each section, so that they count each time.
        characters += len(section.text) + sum(map(len, section.heading))
        characters += sum(len(name) + len(str(value)) for name, value in section.metadata.items())
        if characters > limits.characters:
            raise Unreadable(f"holds more than {limits.characters:,} characters of text; split it")
        if len(kept) == limits.sections:
            raise Unreadable(f"has more than {limits.sections:,} sections; split it")
        if section.text.strip():
            kept.append(section)
    if not kept:
        raise Unreadable("holds no text")
    return tuple(kept)
