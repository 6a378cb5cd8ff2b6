"""The embedding spaces of an OpenSearch index: each has a field of its own, whose vectors have one length."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from braid.engines.opensearch import mapping
from braid.engines.opensearch.client import IndexMissing, P, Patience, R, call, change_timeout_s
from braid.engines.spaces import check_vectors
from braid.errors import DimensionMismatch, StoreError
from braid.settings import OpenSearchService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opensearchpy import OpenSearch

    from braid.models import Embedding, Record
    from braid.settings import Settings


class Spaces:
    """Which fields there are for vectors, remembered between calls until one of them fails.

    Parameters
    ----------
    client
        Made by :func:`braid.engines.opensearch.client.open_client`.
    settings
        Those that begin with ``opensearch_``.
    dimensions
        Length of the vectors of each embedding space that there may be. No other space gets a field, whatever records
        bring: fields are shared by every tenant, of which an index has a thousand, and none is ever removed.
    alias
        Through which the index is reached.
    create
        Makes the index and its alias. Called where there is none and one is needed.
    """

    def __init__(
        self,
        client: OpenSearch,
        settings: Settings,
        dimensions: Mapping[str, int],
        *,
        alias: str,
        create: Callable[[], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._expected = dimensions
        self._alias = alias
        self._create = create
        self._dimensions: dict[str, int] | None = None

    def forget(self) -> None:
        """Read the mapping anew when it is next needed."""
        self._dimensions = None

    @contextmanager
    def forgotten_on_failure(self) -> Iterator[None]:
        """Forget what is known when a call fails: the alias may lead to another index by then, with other fields."""
        try:
            yield
        except StoreError:
            self.forget()
            raise

    def has(self, embedding: Embedding, patience: Patience) -> bool:
        """Return whether the vector has a direction, and any vector of its space was ever written.

        Raises
        ------
        StoreTooSlow
            If the time that a question has is over.
        DimensionMismatch
            If the vector's length is not that of its space.
        IndexMissing
            If there is no index.
        """
        field = mapping.vector_field(embedding.space)
        known = self._read(patience.call) if self._dimensions is None else self._dimensions
        if field not in known:
            known = self._read(patience.call)
        if field not in known:
            return False
        _require(embedding, known[field])
        return mapping.has_direction(embedding.vector)

    def prepare(self, records: Sequence[Record], *, create: bool) -> None:
        """Give the spaces that records have vectors of their fields.

        Parameters
        ----------
        create
            Whether to make an index where there is none and its fields are asked for.

        Raises
        ------
        InvalidRequest
            If a vector's space is not configured.
        DimensionMismatch
            If a vector's length is not that of its space.
        StoreError
            If the index has a field for longer or shorter vectors of a space.
        """
        check_vectors(records, self._expected)
        spaces = {embedding.space for record in records for embedding in record.embeddings}
        wanted = {mapping.vector_field(space): self._expected[space] for space in spaces}
        missing = _missing(wanted, self._known(refresh=False, create=create))
        if missing:
            self._declare(missing)

    def _known(self, *, refresh: bool, create: bool) -> dict[str, int]:
        if self._dimensions is not None and not refresh:
            return self._dimensions
        try:
            return self._read(self._call)
        except IndexMissing:
            if not create:
                raise
            self._create()
            return self._read(self._call)

    def _read(self, ask: Callable[..., Any]) -> dict[str, int]:
        """Read the mapping, and remember it."""
        with self.forgotten_on_failure():
            answer = ask(self._client.indices.get_mapping, index=self._alias)
        known: dict[str, int] = {}
        for index in answer.values():
            known.update(mapping.dimensions_of(index["mappings"]))
        self._dimensions = known
        return known

    def _declare(self, wanted: Mapping[str, int]) -> None:
        """Give spaces their fields; another process may have given them some meanwhile."""
        known = self._known(refresh=True, create=True)
        missing = _missing(wanted, known)
        if not missing:
            return
        properties: dict[str, Any] = {
            field: mapping.vector_mapping(
                dimension,
                engine=self._settings.opensearch_engine,
                on_disk=self._settings.opensearch_on_disk,
                serverless=self._settings.opensearch_service is OpenSearchService.SERVERLESS,
            )
            for field, dimension in missing.items()
        }
        self._call(
            self._client.indices.put_mapping,
            index=self._alias,
            body={"properties": properties},
            request_timeout=change_timeout_s(self._settings),
        )
        self._dimensions = {**known, **missing}

    def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with self.forgotten_on_failure():
            return call(self._settings.opensearch_attempts, function, *args, **kwargs)


def _missing(wanted: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return the fields that there are not yet.

    Raises
    ------
    StoreError
        If one is there for vectors of another length, which nothing can change.
    """
    for field in sorted(wanted.keys() & known.keys()):
        if known[field] != wanted[field]:
            message = (
                f"the index's field {field} is for vectors of {known[field]} values and the configured model makes"
                f" {wanted[field]}: give the model a new id, or make the index anew (docs/runbook.md)"
            )
            raise StoreError(message)
    return {field: dimension for field, dimension in wanted.items() if field not in known}


def _require(embedding: Embedding, dimension: int) -> None:
    if embedding.dimension != dimension:
        message = (
            f"embedding: space {embedding.space} holds vectors of {dimension} values,"
            f" the question has one of {embedding.dimension}"
        )
        raise DimensionMismatch(message, field="embedding")
