"""The search behind the retrievers of every framework, and the metadata of what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from braid.models import Filters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.client.braid import Braid
    from braid.client.results import Results
    from braid.models import Result

ABOUT: Final = ("score", "confidence", "citation", "paths", "found_by", "degraded")
"""Keys of metadata that are about the search, and none of the document's own."""


def search(braid: Braid, question: str, *, top_k: int, filters: Filters | Mapping[str, Any], **fields: Any) -> Results:  # noqa: ANN401 - a question's
    """Answer a question for a model that acts on what it reads: without records that are not trusted, unless asked for.

    Parameters
    ----------
    filters
        Conditions that every result meets; with ``trusted_only`` false, records that are not trusted come as well.
    """
    given = filters.model_dump(exclude_unset=True) if isinstance(filters, Filters) else filters
    return braid.search(question, top_k=top_k, filters={"trusted_only": True, **given}, **fields)


def metadata_of(result: Result, results: Results) -> dict[str, Any]:
    """Return the record's own metadata, where it can be read as ``source``, and :data:`ABOUT` the search.

    Values are those of JSON, so that the frameworks' serialisers take them.
    """
    return {
        "source": result.citation.title,
        **result.metadata,
        "score": result.final,
        "confidence": results.confidence,
        "citation": {"id": result.id, **result.citation.model_dump(mode="json", exclude_none=True)},
        # Two paths may pass the same names, by a given relationship and by a found mention.
        "paths": list(dict.fromkeys(" → ".join(path.names or path.ids) for path in result.paths if path.types)),
        "found_by": [source.value for source in result.sources],
        "degraded": list(results.degraded),
    }
