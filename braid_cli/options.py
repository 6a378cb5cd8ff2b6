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
"""Metavar of an option without a value: its type would look as if a value were to follow."""


def any_of(choices: type[StrEnum]) -> str:
    """Return the values that an option takes, for its help."""
    return ", ".join(choice.value for choice in choices)


def tenant_option(help_text: str = "Whose data.") -> Any:  # noqa: ANN401 - as typer types its options
    """Return the option ``--tenant``, where its help or type is not that of :data:`Tenant`."""
    return typer.Option("--tenant", "-t", help=help_text, show_default=True, metavar="NAME")


Tenant = Annotated[str, tenant_option()]
Engine = Annotated[
    settings.EngineKind | None,
    typer.Option(
        help=f"Whose stores: {any_of(settings.EngineKind)}. When left out, BRAID_ENGINE tells.", metavar="ENGINE"
    ),
]
Graph = Annotated[
    GraphSource | None,
    typer.Option(
        help=f"Which graph: {any_of(GraphSource)}. Of found alone, what the folder says of entities and relationships "
        "is left out; of given alone, no names are found, and those found before are removed. Without it BRAID_GRAPH "
        "tells, else both.",
        metavar="WHICH",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", metavar=FLAG)]
Where = Annotated[
    list[str] | None,
    typer.Option(
        help="Only where the metadata is so: team=payments, floor>=2, day<2024-05-01, team!=gates, owner (there is "
        "one), !owner; may be repeated: all have to hold, and any of several values of one field.",
        metavar="CONDITION",
    ),
]
