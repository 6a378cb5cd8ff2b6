"""``braid related``, ``braid facts`` and ``braid graph-query``: queries of the knowledge graph."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated

import typer
from braid.errors import InvalidRequest
from braid.models import Direction
from braid.models.enums_and_scalars import on_one_line
from braid.ports.graph_query import GraphQuestion
from braid.retrieval.tenant_search import TenantQuestions
from braid.strict_json import NotJson, read_json
from rich.table import Table
from rich.text import Text

from braid_cli.answer_rendering import path_text
from braid_cli.options import DEFAULT_TENANT, AsJson, Engine, Tenant, any_of
from braid_cli.question_validation import check_known, check_tenant, of_option, warn_of_unknown_types
from braid_cli.terminal import examples, open_application, out, print_json, read_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import GraphHit
    from braid.ports.knowledge_graph import GraphStats, KnowledgeGraph

app = typer.Typer()
_MAX_BYTES = 1_000_000
_OPTIONS = {"entity": "ENTITY", "types": "--type", "depth": "--depth", "limit": "--limit", "direction": "--direction"}
_OF_RELATIONSHIPS = "relationship"
_EXAMPLE = '{"start": {"names": ["Keelson"]}, "steps": [{"types": ["OWNS"]}]}'
_CUT = "a hub was cut at its fan-out budget: more may be reachable"
Types = Annotated[
    list[str] | None, typer.Option("--type", help="Only this relationship type; may be repeated.", metavar="TYPE")
]
Depth = Annotated[int, typer.Option(help="Maximum of hops, 1 to 3.", metavar="N")]
Limit = Annotated[int, typer.Option(help="Maximum of entities, 1 to 200.", metavar="N")]
TrustedOnly = Annotated[
    bool, typer.Option("--trusted-only", help="Leave out untrusted entities and edges.", metavar="")
]


@app.command(
    epilog=examples(
        "braid related Keelson --tenant saltmarrow",
        "braid related Keelson -t saltmarrow --type DEPENDS_ON --direction in --depth 2",
    )
)
def related(
    entity: Annotated[str, typer.Argument(help="Name, alias or id.", metavar="ENTITY")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    types: Types = None,
    direction: Annotated[
        Direction, typer.Option(help=f"Direction of the edges: {any_of(Direction)}.", metavar="WAY")
    ] = Direction.BOTH,
    depth: Depth = 1,
    limit: Limit = 50,
    trusted_only: TrustedOnly = False,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """List the entities related to one, fewest hops first."""
    interface, graph = _questions(tenant, engine)
    try:
        found = interface.related(entity, tuple(types or ()), direction, depth, limit=limit, trusted_only=trusted_only)
    except InvalidRequest as error:
        raise of_option(error, _OPTIONS) from None
    if types and not found.hits:
        warn_of_unknown_types(types, graph.stats(tenant).by_relationship_type, _OF_RELATIONSHIPS)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    show_hits(found.hits, truncated=found.truncated)


@app.command(
    epilog=examples("braid facts Keelson --tenant saltmarrow", "braid facts Keelson -t saltmarrow --type OWNS")
)
def facts(
    entity: Annotated[str, typer.Argument(help="Name, alias or id.", metavar="ENTITY")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    types: Types = None,
    depth: Depth = 1,
    limit: Limit = 50,
    trusted_only: TrustedOnly = False,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """List an entity's relationships as sentences, each with the id of its evidence."""
    from braid.client.results import facts_of

    interface, graph = _questions(tenant, engine)
    try:
        found = interface.related(entity, tuple(types or ()), depth=depth, limit=limit, trusted_only=trusted_only)
    except InvalidRequest as error:
        raise of_option(error, _OPTIONS) from None
    if types and not found.hits:
        warn_of_unknown_types(types, graph.stats(tenant).by_relationship_type, _OF_RELATIONSHIPS)
    known = facts_of(found.hits)
    if as_json:
        print_json({"facts": [fact.model_dump(mode="json") for fact in known], "truncated": found.truncated})
        return
    for fact in known:
        source = f"  [{fact.evidence}]" if fact.evidence else ""
        out.print(Text(on_one_line(fact.text)).append(on_one_line(source), style="dim"), soft_wrap=True)
    if not known:
        out.print(Text("Nothing is known about it.", style="yellow"))
    if found.truncated:
        out.print(Text(_CUT, style="dim"))


@app.command(
    name="graph-query",
    epilog=examples(
        "braid graph-query owners.json --tenant saltmarrow",
        """echo '{"start": {"names": ["Keelson"]}, "steps": [{"direction": "in", "types": ["OWNS"]}]}' | """
        "braid graph-query - -t saltmarrow",
    ),
)
def graph_query(
    file: Annotated[
        Path,
        typer.Argument(
            help="The query as one JSON object: start, steps, returns, order_by, limit, trusted_only;"
            " - reads standard input.",
            metavar="FILE",
            allow_dash=True,
        ),
    ],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Run a read-only graph query, given as JSON, which walks the graph step by step."""
    place, asked = _read(file)
    interface, graph = _questions(tenant, engine)
    try:
        found = interface.graph_query(asked)
    except InvalidRequest as error:
        raise InvalidRequest(f"{place}: {error}", field=error.field) from None
    if not found.hits:
        _warn_of_types(GraphQuestion.model_validate(asked), graph.stats(tenant))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    show_hits(found.hits, truncated=found.truncated)


def _warn_of_types(question: GraphQuestion, stored: GraphStats) -> None:
    """Print a warning for each type of a query that no relationship, or no vertex, of the tenant has."""
    followed = [kind for step in question.steps for kind in step.types]
    met = [*question.start.entity_types, *(kind for step in question.steps for kind in step.entity_types)]
    warn_of_unknown_types(followed, stored.by_relationship_type, _OF_RELATIONSHIPS)
    warn_of_unknown_types(met, stored.by_entity_type, "entity of the graph")


def show_hits(hits: Sequence[GraphHit], *, truncated: bool) -> None:
    """Print two lines for each vertex: the path to it, and its type and id."""
    if not hits:
        out.print(Text("Nothing found.", style="yellow"))
    for hit in hits:
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(
            Text(f"{hit.score:.2f}", style="bold"),
            path_text(hit.path) if hit.path.types else Text(on_one_line(hit.name or hit.id)),
        )
        out.print(line)
        about = Text(on_one_line(f"      {hit.entity_type} · {hit.id}"), style="dim")
        if not hit.trusted:
            about.append(" · not trusted", style="yellow")
        out.print(about, soft_wrap=True)  # not wrapped, so that ids can be copied
    if truncated:
        out.print(Text(_CUT, style="dim"))


def _questions(tenant: str, engine: Engine) -> tuple[TenantQuestions, KnowledgeGraph]:
    check_tenant(tenant)
    application = open_application(engine)
    check_known(tenant, application)
    return TenantQuestions(application, tenant), application.graph


def _read(file: Path) -> tuple[str, dict[str, object]]:
    place, raw = read_input(file, _MAX_BYTES)
    if len(raw) > _MAX_BYTES:
        raise InvalidRequest(f"{place}: longer than {_MAX_BYTES:,} bytes")
    try:
        asked = read_json(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidRequest(f"{place}: not UTF-8") from None
    except json.JSONDecodeError as error:
        at = f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}"
        raise InvalidRequest(f"{place}: not JSON: {at}; such as {_EXAMPLE}") from None
    except NotJson as error:
        raise InvalidRequest(f"{place}: {error}") from None
    if not isinstance(asked, dict):
        raise InvalidRequest(f"{place}: expected one JSON object, found {type(asked).__name__}")
    return place, asked
