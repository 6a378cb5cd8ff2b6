"""Every error that Braid raises on purpose.

The state machines' ``Retry`` and ``Catch`` match on the class names, so renaming one is a breaking change. An error
whose name begins with ``Transient`` is worth trying again; no other is.

::

    BraidError
    ├── InvalidRequest              the caller's input is wrong; names the field            422
    │   ├── DimensionMismatch       a vector's length is not its embedding space's
    │   └── NewerSchema             a record was written with a schema newer than the current one
    ├── UnknownTenant               nothing is stored for this tenant                       404
    ├── TenantBeingDeleted          a tenant takes no writes while it is deleted            409
    ├── ConfigurationError          a setting is missing or contradicts another
    ├── DatasetError                a dataset folder is malformed; names file and line
    ├── ModelError                  a model cannot be used
    │   ├── ModelMissing            no such model folder, file or id
    │   └── ModelTampered           a file's SHA-256 is not the manifest's
    ├── StoreError                  a store refused the call; trying again will not help
    │   ├── StoreReadOnly           the store's file or folder cannot be written
    │   ├── StoreFull               no space left on the store's device
    │   ├── StoreCorrupt            the store's file is damaged
    │   ├── ObjectMissing           there is no such object
    │   ├── ObjectChanged           an object was replaced or removed while it was read
    │   ├── StoreTooSlow            a store took all the time that a question has for it
    │   └── TransientStoreError     a store did not answer in time, was throttled or unreachable
    ├── TakenOver                   another worker has taken over a re-embedding job
    ├── RerankFailed                a reranker failed or exceeded its time budget
    ├── QuotaExceeded               a tenant asked for more than its share                  429
    ├── QueueFull                   too many tasks wait already, of all tenants together    503
    └── StoresUnavailable           neither the search index nor the knowledge graph answered  503
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, get_args

from braid.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pydantic import ValidationError

_PLAINER = {
    "extra_forbidden": "unknown field",
    "missing": "missing",
    "tuple_type": "must be a list",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""Messages to the caller, instead of pydantic's own, by pydantic's type of error."""
_LONGEST_NAME = 64
"""Characters of an unknown field's name that are compared with the known names."""
_LETTERS = "of the letters A to Z and a to z, digits"
_FORMS = {
    "^[A-Za-z][A-Za-z0-9_]{0,63}$": f"must be 1 to 64 {_LETTERS} and _, beginning with a letter",
    "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$": f"must be 1 to 64 {_LETTERS}, - and _, beginning with a letter or digit",
}
"""Messages to the caller by the pattern that did not match: of labels, and of tenants and profiles."""


def plainly(detail: Mapping[str, Any]) -> str:
    """Return the message to the caller for one of pydantic's errors; it never quotes the input."""
    context, message = detail.get("ctx", {}), str(detail["msg"])
    match detail["type"]:
        case "string_pattern_mismatch":
            return _FORMS.get(context.get("pattern", ""), message)
        case "string_too_short" | "too_short" if context.get("min_length") == 1:
            return "must not be empty"
        case "string_too_long" | "too_long" if most := context.get("max_length"):
            if context.get("field_type", "Value") == "Value":  # the pattern of a string after a function validator
                return f"must not be longer than {most:,} characters"
            return f"must not hold more than {most:,} items"
        case kind:
            return _PLAINER.get(kind, message.removeprefix("Value error, ")).replace("Input should be", "must be", 1)


_OF_RECORDS = frozenset({"importance", "metadata"})
"""Fields that a record has and a question has not: a question has no metadata."""

_OF_FILTERS = frozenset({"metadata", "time_range"})
_OTHER_NAMES = {"entities": "vertices", "type": "entity_type", "text": "content", "_id": "id"}
"""Fields of HTTP and of stored items, by the names that data sets, files and the library have for them."""
_LIKENESS = 0.75
"""Least likeness, by difflib, of a suggested field: "team" is .62 like "timestamp"."""


def near_field(location: Sequence[str | int], known: Collection[str]) -> str:
    """Return a hint for an unknown field: the similar known field, or where a record's additional fields belong.

    Parameters
    ----------
    location
        Path of the unknown field, as pydantic gives it.
    known
        Names of the outermost model's fields. Where they are a mapping to pydantic's own description of each,
        suggestions are also made for unknown fields inside of them.
    """
    from difflib import get_close_matches

    *outer, name = location
    for part in outer:
        if isinstance(part, str):
            known = _fields_in(getattr(known.get(part), "annotation", None)) if isinstance(known, Mapping) else ()
    near = [other for other in [_OTHER_NAMES.get(str(name), "")] if other in known]
    near = near or get_close_matches(str(name)[:_LONGEST_NAME], known, 1, _LIKENESS)
    if not near and _OF_RECORDS.issubset(known):
        return "; fields of your own belong in metadata"
    if not near and _OF_FILTERS.issubset(known):
        return "; conditions on fields of your own belong in metadata"
    return "".join(f"; did you mean {one}?" for one in near)


def _fields_in(annotation: object) -> Mapping[str, Any]:
    """Return the fields of the first model in a type, such as of ``Filters | None``; empty if there is none."""
    fields: Mapping[str, Any] = getattr(annotation, "model_fields", {})
    return fields or next(filter(None, map(_fields_in, get_args(annotation))), {})


def needs_extra(extra: str, what: str = "this") -> str:
    """Return the error message for a missing extra."""
    return f"{what} needs the extra {extra}: {how_to_install(extra)}"


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra to the installed package.

    It names the wheel's file: pip would look up a bare name in its index, where it belongs to another project.
    """
    wheel = f"braid_retrieval-{__version__}-py3-none-any.whl[{extra}]"
    return f"install Braid's wheel as '{wheel}' (docs/library.md#installing)"


class BraidError(Exception):
    """Base of every error that Braid raises on purpose."""


class InvalidRequest(BraidError):
    """The caller's input is wrong; the message names the field."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field

    @classmethod
    def of(cls, field: str, problem: str) -> Self:
        """Return the error of one field, whose message is the field's name and the problem."""
        return cls(f"{field}: {problem}", field=field)

    @classmethod
    def from_validation(
        cls, error: ValidationError, names: Mapping[str, str] | None = None, known: Collection[str] = ()
    ) -> Self:
        """Return the error for pydantic's: one clause per field, without the input or pydantic's links.

        Parameters
        ----------
        names
            The caller's names of fields, by the model's names, where the two differ.
        known
            Names of the model's fields, of which :func:`near_field` suggests one if the first wrong field is unknown.
        """
        clauses: list[str] = []
        first: str | None = None
        for detail in error.errors(include_url=False, include_input=False):
            field = ".".join(str(part) for part in detail["loc"]) or "request"
            field = (names or {}).get(field, field)
            first = first or field
            clauses.append(f"{field}: {plainly(detail)}")
            if known and first == field and detail["type"] == "extra_forbidden":
                clauses[-1] += near_field(detail["loc"], known)
        return cls("; ".join(clauses), field=first)


@contextmanager
def as_invalid_request(names: Mapping[str, str] | None = None, known: Collection[str] = ()) -> Iterator[None]:
    """Raise pydantic's error in the block as :meth:`InvalidRequest.from_validation` has it.

    The traceback does not show pydantic's, whose text repeats the input.
    """
    from pydantic import ValidationError

    try:
        yield
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, names, known) from None


class DimensionMismatch(InvalidRequest):
    """A vector's length is not its embedding space's."""


class NewerSchema(InvalidRequest):
    """A record was written with a schema newer than the tenant's current one."""


class UnknownTenant(BraidError):
    """Nothing is stored for this tenant."""


class TenantBeingDeleted(BraidError):
    """A tenant's writes are refused while it is being deleted; nothing is kept of a write that was in progress."""


class ConfigurationError(BraidError):
    """A setting is missing or contradicts another."""


class DatasetError(BraidError):
    """A dataset folder is malformed; the message names the file and the line."""


class ModelError(BraidError):
    """A model cannot be used."""


class ModelMissing(ModelError):
    """There is no such model folder, file or id."""


class ModelTampered(ModelError):
    """A file's SHA-256 is not the one in the model's manifest."""


class StoreError(BraidError):
    """A store refused the call; trying again will not help."""


class StoreReadOnly(StoreError):
    """The store's file or folder cannot be written."""


class StoreFull(StoreError):
    """There is no space left on the store's device."""


class StoreCorrupt(StoreError):
    """The store's file is damaged."""


class ObjectMissing(StoreError):
    """There is no such object."""


class ObjectChanged(StoreError):
    """An object was replaced or removed while it was read."""


class StoreTooSlow(StoreError):
    """A store used up the time that a question has for it; not tried again."""


class TransientStoreError(StoreError):
    """A store did not answer in time, was throttled or unreachable; worth trying again."""

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done
        """Whether the store may have done what it was asked, so that only its answer was lost."""


class TakenOver(BraidError):
    """Another worker has taken over a re-embedding job; this one stops."""


class RerankFailed(BraidError):
    """A reranker failed or exceeded its time budget; the fused order is kept."""

    def __init__(self, message: str, *, cost_usd: float = 0.0) -> None:
        """Create the error with the estimated price in US dollars that the service may bill nevertheless."""
        super().__init__(message)
        self.cost_usd = cost_usd


class StoresUnavailable(BraidError):
    """Neither the search index nor the knowledge graph answered."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        """Create the error; ``permanent`` where trying again will not help, as with a damaged store."""
        super().__init__(message)
        self.permanent = permanent


class QuotaExceeded(BraidError):
    """A tenant asked for more than its share."""

    def __init__(self, message: str, *, retry_after_s: int | None) -> None:
        """Create the error with the seconds until there is quota again; None if the request exceeds all of it."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QueueFull(BraidError):
    """Too many tasks wait already, of all tenants together."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        """Create the error with the seconds after which to try again."""
        super().__init__(message)
        self.retry_after_s = retry_after_s
