"""Vector fields of an OpenSearch index: one per embedding space, each with a fixed dimension."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from braid.engines.opensearch import mapping
from braid.engines.opensearch.client import IndexMissing, P, R, call, call_in_time, change_timeout_s
from braid.errors import DimensionMismatch, StoreError
from braid.ports.search_index import check_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opensearchpy import OpenSearch

    from braid.models import Embedding, Record
    from braid.settings import Settings


class EmbeddingSpaces:
    """The index's vector fields, and whether it has the field of ideograph pairs, cached until a call fails.

    A vector that is written to an index without its field is in no answer, and once the field is declared OpenSearch
    can no longer read the record by its id. So nothing is cached of another index than ``index``.

    Parameters
    ----------
    index
        Name of the index that the alias leads to; any if it is empty.
    dimensions
        Vector dimension of each configured embedding space. No other space gets a field: an index has at most a
        thousand, shared by every tenant and never removed.
    create
        Creates the index and its alias, where it is missing; None for one that is not created by a write.

    Attributes
    ----------
    has_pairs
        Whether the index has the field of pairs of ideographs; indexes made by older versions lack it.
    """

    def __init__(
        self,
        client: OpenSearch,
        settings: Settings,
        dimensions: Mapping[str, int],
        *,
        alias: str,
        index: str = "",
        create: Callable[[], None] | None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._expected = dimensions
        self._alias = alias
        self._index = index
        self._create = create
        self._dimensions: dict[str, int] | None = None
        self._filters_metadata = self.has_pairs = True

    def forget(self) -> None:
        """Clear the cache."""
        self._dimensions = None

    @contextmanager
    def forgotten_on_failure(self) -> Iterator[None]:
        """Clear the cache when a call fails: the alias may lead to another index with other fields."""
        try:
            yield
        except StoreError:
            self.forget()
            raise

    def has(self, embedding: Embedding) -> bool:
        """Return whether the vector is not all zeros and the index has a field for its space.

        Raises
        ------
        StoreTooSlow
            If the deadline of the question is over.
        DimensionMismatch
            If the vector's length is not that of its space.
        IndexMissing
            If there is no index.
        """
        field = mapping.vector_field(embedding.space)
        read = partial(self._read, partial(call_in_time, self._settings))
        known = read() if self._dimensions is None else self._dimensions
        if field not in known:
            known = read()
        if field not in known:
            return False
        _require(embedding, known[field])
        return mapping.has_direction(embedding.vector)

    def prepare(self, records: Sequence[Record]) -> None:
        """Create the missing vector fields of the records' embedding spaces.

        Raises as :func:`braid.ports.search_index.check_vectors`, and StoreError if the index has a field of another
        dimension for a space.
        """
        check_vectors(records, self._expected)
        spaces = {embedding.space for record in records for embedding in record.embeddings}
        wanted = _with_parts({mapping.vector_field(space): self._expected[space] for space in spaces})
        missing = _missing(wanted, self._known(refresh=False))
        if missing or not self._filters_metadata:
            self._declare(missing)

    def _known(self, *, refresh: bool) -> dict[str, int]:
        if self._dimensions is not None and not refresh:
            return self._dimensions
        try:
            return self._read(self._call)
        except IndexMissing:
            if self._create is None:
                raise
            self._create()
            return self._read(self._call)

    def _read(self, ask: Callable[..., Any]) -> dict[str, int]:
        """Read the mapping of the index that the alias leads to, and cache it if that is this object's index."""
        with self.forgotten_on_failure():
            answer = ask(self._client.indices.get_mapping, index=self._alias)
        known: dict[str, int] = {}
        for index in answer.values():
            known.update(mapping.dimensions_of(index["mappings"]))
        self._dimensions = known if set(answer) == {self._index} or not self._index else None
        properties = [index["mappings"].get("properties", {}) for index in answer.values()]
        # An index that was made before metadata was filtered lacks the field, until something is written.
        self._filters_metadata = all(mapping.TERMS in fields for fields in properties)
        self.has_pairs = all("fields" in fields.get(mapping.WORDS, {}) for fields in properties)
        return known

    def _declare(self, wanted: Mapping[str, int]) -> None:
        """Add the missing vector fields; another process may have added some meanwhile."""
        known = self._known(refresh=True)
        # A search queries the fields of parts if the index has any: once one space has such a field, all must have it.
        missing = _missing({**_with_parts(_without_parts(known)), **wanted}, known)
        if not missing and self._filters_metadata:
            return
        self._call(
            self._client.indices.put_mapping,
            index=self._alias,
            body={"properties": {**declared_fields(missing, self._settings), **mapping.TERMS_PROPERTY}},
            request_timeout=change_timeout_s(self._settings),
        )
        if self._dimensions is not None:
            self._dimensions = {**known, **missing}
        self._filters_metadata = True

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with self.forgotten_on_failure():
            return call(self._settings.opensearch_attempts, function, *args, **kwargs)


def declared_fields(fields: Mapping[str, int], settings: Settings) -> dict[str, Any]:
    """Return the properties that declare vector fields of these dimensions."""
    declared = {field: mapping.vector_mapping(dimension, settings) for field, dimension in fields.items()}
    return mapping.vector_properties(declared)


def properties_of(spaces: Mapping[str, int], settings: Settings) -> dict[str, Any]:
    """Return the properties of a new index for embedding spaces of these dimensions."""
    fields = {mapping.vector_field(space): dimension for space, dimension in spaces.items()}
    return declared_fields(_with_parts(fields), settings)


def _with_parts(fields: Mapping[str, int]) -> dict[str, int]:
    """Return vector fields, each with the field of its further parts."""
    return {**fields, **{mapping.part_field(field): dimension for field, dimension in fields.items()}}


def _without_parts(fields: Mapping[str, int]) -> dict[str, int]:
    return {field: dimension for field, dimension in fields.items() if not field.startswith(f"{mapping.PARTS}.")}


def _missing(wanted: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return the fields that do not exist yet.

    Raises StoreError if one exists with another dimension, which cannot be changed.
    """
    for field in sorted(wanted.keys() & known.keys()):
        if known[field] != wanted[field]:
            raise StoreError(
                f"the index's field {field} is for vectors of {known[field]} values and the configured model makes"
                f" {wanted[field]}: give the model a new id, or make the index anew (docs/runbook.md)"
            )
    return {field: dimension for field, dimension in wanted.items() if field not in known}


def _require(embedding: Embedding, dimension: int) -> None:
    if embedding.dimension != dimension:
        raise DimensionMismatch.of(
            "embedding",
            f"space {embedding.space} holds vectors of {dimension} values,"
            f" the question has one of {embedding.dimension}",
        )
