"""Validation of vectors against the configured embedding spaces and their lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.errors import DimensionMismatch, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from braid.models import Record


def check_vectors(records: Iterable[Record], spaces: Mapping[str, int]) -> None:
    """Require that every vector is of a configured space and as long as that space's.

    Only the configuration counts, not what is stored, so that no tenant decides what another one can write.

    Parameters
    ----------
    spaces
        Length of the vectors of each configured embedding space.

    Raises
    ------
    InvalidRequest
        If a space is not configured.
    DimensionMismatch
        If a vector is longer or shorter.
    """
    for record in records:
        for embedding in record.embeddings:
            dimension = spaces.get(embedding.space)
            if dimension is None:
                known = ", ".join(sorted(spaces))
                message = (
                    f"embeddings: record {record.id} has a vector of the unknown space {embedding.space!r};"
                    f" the configured models have {known}"
                )
                raise InvalidRequest(message, field="embeddings")
            if embedding.dimension != dimension:
                message = (
                    f"embeddings: space {embedding.space} holds vectors of {dimension} values,"
                    f" record {record.id} has one of {embedding.dimension}; embed with the model of that space"
                )
                raise DimensionMismatch(message, field="embeddings")
