"""The search behind the retrievers of all frameworks, and the metadata of its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from braid.errors import InvalidRequest
from braid.models import Filters

if TYPE_CHECKING:
    from braid.client.braid import Braid
    from braid.client.results import Results
    from braid.models import Result

ABOUT: Final = ("score", "confidence", "citation", "paths", "found_by", "degraded")
"""Metadata keys that describe the search, not the document."""


def search(braid: Braid, question: str, *, top_k: int, filters: Filters | Mapping[str, Any], **fields: Any) -> Results:  # noqa: ANN401 - a question's
    """Answer a question, by default without untrusted records, because the results are input of a model.

    Parameters
    ----------
    filters
        Filters of the search; set ``trusted_only`` to false to include untrusted records.

    Raises InvalidRequest if a field is wrong.
    """
    given = filters.model_dump(exclude_unset=True) if isinstance(filters, Filters) else filters
    if not isinstance(given, Mapping):
        raise InvalidRequest.of("filters", "are neither Filters nor a mapping of their fields")
    return braid.search(question, top_k=top_k, filters={"trusted_only": True, **given}, **fields)


def metadata_of(result: Result, results: Results) -> dict[str, Any]:
    """Return a record's own metadata, its title as ``source``, and the keys of :data:`ABOUT`.

    A ``source`` of the record's own, which the frameworks' loaders write, takes precedence over its title.
    All values are JSON values, which the frameworks can serialise.
    """
    return {
        "source": result.citation.title,
        **result.metadata,
        "score": result.final,
        "confidence": results.confidence,
        "citation": {"id": result.id, **result.citation.model_dump(mode="json", exclude_none=True)},
        # Two paths may have the same names: one by a given relationship, one by an extracted mention.
        "paths": list(dict.fromkeys(" → ".join(path.names or path.ids) for path in result.paths if path.types)),
        "found_by": [source.value for source in result.sources],
        "degraded": list(results.degraded),
    }
