"""Validates vectors that are supplied with a record instead of being computed by the model of their space."""

from __future__ import annotations

import sys
from array import array
from math import hypot, isfinite
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.models import Embedding
    from braid.models.model_profiles import ModelConfig

NOT_ALLOWED: Final = (
    "vectors are made here from the text; leave them out, or set BRAID_ALLOW_SUPPLIED_VECTORS where records are written"
)
NORM_TOLERANCE: Final = 0.01
"""Allowed deviation of a vector's norm from 1: ten times that of rounding to 16 bits."""


def supplied_vector_problem(embedding: Embedding, spaces: Mapping[str, ModelConfig]) -> str | None:
    """Return why a supplied vector is refused; None if it is valid.

    Parameters
    ----------
    spaces
        Every configured embedding space, with its model.
    """
    space, model = embedding.space, spaces.get(embedding.space)
    if model is None:
        return f"there is no embedding space {space!r}; the configured models have {', '.join(sorted(spaces))}"
    if embedding.model_id != model.id:
        return f"space {space} is that of the model {model.id}, not of {embedding.model_id!r}"
    if embedding.dimension != model.dimension:
        return f"space {space} holds vectors of {model.dimension} values, this has {embedding.dimension}"
    values = array("f", embedding.vector)
    if sys.byteorder == "big":  # pragma: no cover - vectors are little-endian everywhere
        values.byteswap()
    length = hypot(*values)
    if not isfinite(length):
        return f"the vector of space {space} has a value that is not finite"
    if abs(length - 1.0) > NORM_TOLERANCE:
        return f"the vector of space {space} has the length {length:.4g}; divide it by that, so that it has length 1"
    return None
