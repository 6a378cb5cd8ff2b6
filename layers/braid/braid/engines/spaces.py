"""Validation of vectors against the configured embedding spaces and their lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import DimensionMismatch, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from braid.models import Record

_FLOAT_BYTES: Final = 4


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
            for vector in (embedding.vector, *(part.vector for part in embedding.further)):
                if len(vector) != _FLOAT_BYTES * dimension:
                    message = (
                        f"embeddings: space {embedding.space} holds vectors of {dimension} values, record {record.id}"
                        f" has one of {len(vector) // _FLOAT_BYTES}; embed with the model of that space"
                    )
                    raise DimensionMismatch(message, field="embeddings")
