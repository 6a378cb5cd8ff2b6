"""Enumerations and constrained scalars that models share.

The types of ids, names and texts refuse NUL, lone surrogates and, except in texts, control characters.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, Self, TypeAlias, TypeVar
from unicodedata import normalize

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Mode(StrEnum):
    """Kind of answer that a question asks for."""

    DOCUMENT = "document"
    ENTITY = "entity"
    HYBRID = "hybrid"


class Intent(StrEnum):
    """Intent of a question; it decides how the graph is walked."""

    LOOKUP = "lookup"
    EXPLORATORY = "exploratory"
    TEMPORAL = "temporal"
    CAUSAL = "causal"


class EmbeddingType(StrEnum):
    """Type of a question, by which a model profile selects the model that embeds it."""

    GENERAL = "general"
    TEMPORAL = "temporal"
    CAUSAL = "causal"
    CODE = "code"
    DOCUMENT = "document"


class Strategy(StrEnum):
    """Order in which the search index and the graph are queried."""

    SEMANTIC = "semantic"
    GRAPH_ONLY = "graph_only"
    GRAPH_FIRST = "graph_first"
    VECTOR_FIRST = "vector_first"
    HYBRID = "hybrid"
    MULTI_HOP = "multi_hop"


class Ranking(StrEnum):
    """Ranking profile: how relevance, recency and use are combined into the final score."""

    RELEVANCE = "relevance"
    MEMORY = "memory"
    RECENCY = "recency"


class ContextRole(StrEnum):
    """Role of a chat message that holds retrieved text."""

    ASSISTANT = "assistant"
    USER = "user"
    TOOL = "tool"


class GraphSource(StrEnum):
    """Source of the graph: given vertices and relationships, names found in the texts, or both."""

    GIVEN = "given"
    FOUND = "found"
    """Vertices and relationships that are given are left out."""
    BOTH = "both"


class Fusion(StrEnum):
    """Method of fusion: weighted sum, reciprocal rank fusion, or propagation over the graph (PageRank)."""

    WEIGHTED = "weighted"
    RRF = "rrf"
    PROPAGATE = "propagate"


class Source(StrEnum):
    """Which strand found a candidate."""

    VECTOR = "vector"
    LEXICAL = "lexical"
    KNOWLEDGE = "knowledge"
    GRAPH = "graph"


class Kind(StrEnum):
    """Kind of a record."""

    CHUNK = "chunk"
    ENTITY = "entity"
    FACT = "fact"
    DECISION = "decision"
    TOOL_CALL = "tool_call"
    MESSAGE = "message"


class Direction(StrEnum):
    """Direction in which an edge is walked."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class SchemaWindow(StrEnum):
    """How far back questions find records of older schema versions."""

    THRESHOLD = "threshold"
    """As far as the drift threshold: moderate drift is found, at a discount."""
    STRICT = "strict"
    """To the version before the current one."""


class Asked(StrEnum):
    """How many answers a question asks for."""

    ONE = "one"
    ALL = "all"
    COUNT = "count"
    NOT = "not"
    """All entities of a kind that do not have the relationship."""


class RerankerKind(StrEnum):
    """Which kind of reranker rescores the first candidates."""

    NONE = "none"
    ONNX = "onnx"
    BEDROCK = "bedrock"
    VOYAGE = "voyage"

    @property
    def is_hosted(self) -> bool:
        """Whether a service runs it and bills each call."""
        return self in HOSTED_RERANKERS


HOSTED_RERANKERS: Final = (RerankerKind.BEDROCK, RerankerKind.VOYAGE)
"""The rerankers whose calls are billed."""


class Frozen(BaseModel):
    """Base of every model: immutable, unknown fields refused, no NaN or infinity.

    Its validator is built when the model is first used: a process needs few of the models, and building all takes .1 s.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants", defer_build=True
    )

    @classmethod
    def unchecked(cls, **values: Any) -> Self:  # noqa: ANN401 - of any field
        """Return an instance without validation, of values that are known to be valid: from a store, or computed here.

        A question makes hundreds, and validating one takes ten times as long as making it.
        """
        defaults, fields = _defaults(cls)
        return _construct(cls, fields, defaults, values)

    @classmethod
    def taken_from(cls, source: object, **others: Any) -> Self:  # noqa: ANN401 - of any field
        """Return an instance with the fields that ``source`` has under the same names, and with others."""
        shared = {name: getattr(source, name) for name in cls.model_fields if hasattr(source, name)}
        return cls(**(shared | others))

    def altered(self, **changes: Any) -> Self:  # noqa: ANN401 - of any field
        """Return a copy with some fields changed, without validation, to values that are known to be valid."""
        fields = self.__pydantic_fields_set__
        given = fields if fields.issuperset(changes) else fields | changes.keys()
        return _construct(type(self), given, self.__dict__, changes)


def _construct(model: type[_Model], fields: set[str], values: dict[str, Any], others: dict[str, Any]) -> _Model:
    """Return an instance of a model, without validation; ``others`` take precedence over ``values``."""
    made = object.__new__(model)
    # Straight into the slots: a frozen model refuses assignments.
    _set_values(made, {**values, **others})
    _set_fields(made, fields)
    _set_extra(made, None)
    _set_private(made, None)
    return made


_Model = TypeVar("_Model", bound=Frozen)
_set_values = BaseModel.__dict__["__dict__"].__set__
_set_fields, _set_extra, _set_private = (
    getattr(BaseModel, f"__pydantic_{slot}__").__set__ for slot in ("fields_set", "extra", "private")
)


@cache
def _defaults(model: type[Frozen]) -> tuple[dict[str, Any], set[str]]:
    """Return the defaults of a model's fields in their order, None for required ones, and the names of all fields."""
    defaults = {name: field.get_default() for name, field in model.model_fields.items()}
    return defaults, set(defaults)


def _assume_utc(value: object) -> object:
    """Parse ISO 8601; a time without a zone is UTC, so that all stored times compare.

    A date means its midnight. Numbers are refused: pydantic reads them as seconds since 1970, so that 2024 would not be
    the year.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        message = "not a date or time such as 2024-05-01 or 2024-05-01T09:30:00Z"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports a ValueError as the field's, and raises a TypeError
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is before the year 1 or after the year 9999 in UTC") from error


def _from_base64(value: object) -> object:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError("vector is not base64") from error
    return value


def _whole_floats(value: bytes) -> bytes:
    if not value or len(value) % 4:
        raise ValueError(f"vector is {len(value)} bytes long, not a whole number of float32")
    return value


_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""The whole of Unicode's category Cc; a pattern, as the ids of all hits are searched."""


def no_controls(value: str) -> str:
    """Return the text. Raises ValueError if it holds a control character or a lone surrogate."""
    if _CONTROLS.search(value):
        raise ValueError("holds a control character")
    return _encodable(value)


def _encodable(value: str) -> str:
    if "\x00" in value:
        raise ValueError("holds a NUL character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("holds a lone surrogate, which is not a character") from error
    return value


TenantId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Isolation boundary, from the verified token. ASCII only, so that no two spellings look alike."""


def can_be_id(value: str) -> bool:
    """Return whether a name is short enough to be an id as well."""
    return len(value.encode()) <= MAX_ID_BYTES


def _id(value: str) -> str:
    if len(value) <= MAX_ID_BYTES and value.isascii() and value.isprintable():
        return value  # nearly every id, of which a question has hundreds
    if not can_be_id(no_controls(value)):
        raise ValueError(f"id is longer than {MAX_ID_BYTES} bytes")
    return value


MAX_ID_BYTES = 256
"""Keeps the workflow's state, which carries ids and paths, well under its 256 KiB limit."""

RecordId = Annotated[str, StringConstraints(min_length=1), AfterValidator(_id)]

Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
"""An entity type or relationship type: an identifier, never code."""

UNSEEN = re.compile("[\u200b\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")
"""Invisible characters that reverse or hide adjacent text. Joiners and direction marks, which words of some
languages have, are not among them."""


def visible(value: str) -> str:
    """Return a text without the characters of :data:`UNSEEN`; U+FFFD if none is left."""
    return UNSEEN.sub("", value) or "\N{REPLACEMENT CHARACTER}" if UNSEEN.search(value) else value


_SPACES = {0x09, 0x0A, 0x0D, 0x2028, 0x2029}
_ON_A_LINE = {
    code: " " if code in _SPACES else "\N{REPLACEMENT CHARACTER}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *_SPACES)
}


def on_one_line(text: str) -> str:
    """Return stored text as a terminal may show it: on one line, without control and invisible characters.

    It must not send control sequences, nor reverse the direction of text beside it.
    """
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text.translate(_ON_A_LINE))


def printable(text: str) -> str:
    """Return a message with unprintable characters replaced, as it may quote any input."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


Name = Annotated[
    str, StringConstraints(min_length=1, max_length=512), AfterValidator(no_controls), AfterValidator(visible)
]
"""A name, as it is shown: without the characters of :data:`UNSEEN`."""
NameOrId = Annotated[str, StringConstraints(min_length=1, max_length=512), AfterValidator(no_controls)]
"""What a question calls an entity: one of its names, or its id, which may have characters that names have not."""
Text = Annotated[str, AfterValidator(_encodable)]
MAX_WALK_SEEDS = 50
"""Most hits of a search from which the graph is walked."""
MAX_QUESTION = 10_000
"""Most characters of a question."""


def _short_normalised(value: str) -> str:
    """Return a question that NFKC normalisation leaves short enough: it may make eighteen characters of one."""
    # Each character by itself, as normalising a run of combining marks takes time quadratic in its length.
    lengths = () if value.isascii() else (len(normalize("NFKC", one)) * times for one, times in Counter(value).items())
    if sum(lengths) > MAX_QUESTION:
        raise ValueError(f"must not be longer than {MAX_QUESTION:,} characters when its ligatures are written out")
    return value


QueryText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_QUESTION, strip_whitespace=True),
    AfterValidator(_encodable),
    AfterValidator(_short_normalised),
]


def dates_as_text(value: object) -> object:
    """Return a date or time as ISO 8601 text, as metadata has it; other values unchanged."""
    return value.isoformat() if isinstance(value, date) else value


MAX_METADATA_LIST: Final = 100
"""Most values in a list of a record's metadata."""


def _plain_value(value: object) -> object:
    value = dates_as_text(value)
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError("is not text, a number, true, false, null or a list of such values")
    return _encodable(value) if isinstance(value, str) else value


def _metadata_value(value: object) -> object:
    if not isinstance(value, list | tuple):
        return _plain_value(value)
    if len(value) > MAX_METADATA_LIST:
        raise ValueError(f"must not hold more than {MAX_METADATA_LIST} values")
    if None in value:
        raise ValueError("must not have null in a list")
    return [_plain_value(one) for one in value]


PlainValue: TypeAlias = str | int | float | bool
"""Single value in a record's metadata: text (also a date), a number, true or false."""
MetadataValue = Annotated[PlainValue | list[PlainValue] | None, BeforeValidator(_metadata_value)]
"""Value of a field of a record's metadata; of a list, each value is filtered by and counted as a value of the field."""


def values_in(value: object) -> list[object]:
    """Return the values of a metadata field: a list's items, else the value itself; none for null."""
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value is None else [value]


Timestamp = Annotated[AwareDatetime, BeforeValidator(_assume_utc), AfterValidator(_to_utc)]
"""A moment in UTC. Input without a zone is read as UTC."""
AskedTime = Annotated[
    AwareDatetime, BeforeValidator(_assume_utc, json_schema_input_type=datetime | date), AfterValidator(_to_utc)
]
"""A :data:`Timestamp` of a question, which may be a date too, as the OpenAPI document states."""

Score = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
"""Every score: in [0, 1], higher is better; NaN, infinity and what is not a number are refused."""

Weight = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]

VectorBytes = Annotated[
    bytes,
    BeforeValidator(_from_base64),
    AfterValidator(_whole_floats),
    PlainSerializer(lambda value: base64.b64encode(value).decode("ascii"), return_type=str, when_used="json"),
]
"""Little-endian float32 values, L2-normalised; base64 in JSON."""


def microseconds(moment: datetime) -> int:
    """Return a moment as whole microseconds since 1970, exactly, as stores keep it."""
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(stored: int) -> datetime:
    """Return the moment of a :func:`microseconds` value."""
    return _EPOCH + stored * _MICROSECOND
