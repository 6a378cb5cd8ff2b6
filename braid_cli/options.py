"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from braid import settings
from braid.models import GraphSource

if TYPE_CHECKING:
    from enum import StrEnum

DEFAULT_TENANT = settings.DEFAULT_TENANT
FLAG = ""
"""Metavar of an option without a value, which hides typer's own."""


def any_of(choices: type[StrEnum]) -> str:
    """Return the values of an enumeration, separated by commas, for an option's help."""
    return ", ".join(choice.value for choice in choices)


def tenant_option(help_text: str = "Name of the tenant.") -> Any:  # noqa: ANN401 - as typer types its options
    """Return the option ``--tenant``, for commands whose help text or type differs from :data:`Tenant`."""
    return typer.Option("--tenant", "-t", help=help_text, show_default=True, metavar="NAME")


Tenant = Annotated[str, tenant_option()]
Engine = Annotated[
    settings.EngineKind | None,
    typer.Option(
        help=f"Engines of the stores: {any_of(settings.EngineKind)}. Default: BRAID_ENGINE.", metavar="ENGINE"
    ),
]
Graph = Annotated[
    GraphSource | None,
    typer.Option(
        help=f"Source of the graph: {any_of(GraphSource)}. found: names in the texts only, without the folder's own "
        "entities and relationships. given: only the latter; names found by earlier runs are removed. Default: "
        "BRAID_GRAPH, else both.",
        metavar="WHICH",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", metavar=FLAG)]
AsOf = Annotated[str | None, typer.Option(help="Use what was valid at this time, such as 2024-05-01.", metavar="TIME")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        help="Condition on metadata: team=payments, floor>=2, day<2024-05-01, team!=gates, owner (has the field), "
        "!owner (has not). May be repeated: all must hold; of several = conditions on one field, any.",
        metavar="CONDITION",
    ),
]
