"""Braid: one question in, one ranked and cited list out, from vectors, words and a knowledge graph.

>>> from braid import Braid
>>> with Braid("./store") as b:  # doctest: +SKIP
...     b.add("The ledger is owned by the Harbour team.")
...     print(b.search("Who owns the ledger?"))

The public names are imported on first use, so that a function's cold start does not pay for them.

Importing this package disables the usage telemetry of ONNX Runtime and of the Hugging Face Hub's client, for the whole
process. ONNX Runtime reads its variable when it is imported, so this must come first.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from braid.version import __version__

if TYPE_CHECKING:
    from braid.client.api_errors import ApiError
    from braid.client.asynchronous import AsyncBraid
    from braid.client.braid import Braid
    from braid.client.results import Fact, Results
    from braid.errors import BraidError, InvalidRequest
    from braid.models import Answer, Filters, Query, Question, Record, Relationship, Result, Vertex
    from braid.settings import Settings

__all__ = [
    "NO_TELEMETRY",
    "Answer",
    "ApiError",
    "AsyncBraid",
    "Braid",
    "BraidError",
    "Fact",
    "Filters",
    "InvalidRequest",
    "Query",
    "Question",
    "Record",
    "Relationship",
    "Result",
    "Results",
    "Settings",
    "Vertex",
    "__version__",
]

NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1"}
"""Environment variables that disable the usage telemetry of ONNX Runtime and of the Hugging Face Hub's client."""

os.environ.update(NO_TELEMETRY)

_MODULES = {
    "braid.client.asynchronous": ("AsyncBraid",),
    "braid.client.braid": ("Braid",),
    "braid.client.api_errors": ("ApiError",),
    "braid.client.results": ("Fact", "Results"),
    "braid.errors": ("BraidError", "InvalidRequest"),
    "braid.models": ("Answer", "Filters", "Query", "Question", "Record", "Relationship", "Result", "Vertex"),
    "braid.settings": ("Settings",),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    """Import a public name from the module that defines it."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    message = f"module 'braid' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted(__all__)
