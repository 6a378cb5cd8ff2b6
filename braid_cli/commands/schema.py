"""``braid schema``: lists, checks and registers a tenant's schema versions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from braid.errors import InvalidRequest
from braid.models.enums_and_scalars import on_one_line
from braid.ports.schema_registry import SchemaVersion, report
from pydantic import ValidationError
from rich.table import Table
from rich.text import Text

from braid_cli.options import DEFAULT_TENANT, FLAG, AsJson, Engine, Tenant
from braid_cli.question_validation import check_tenant
from braid_cli.terminal import EXIT_FAILED, examples, open_application, out, print_json, read_input

if TYPE_CHECKING:
    from braid.app import Application
    from braid.ports.schema_registry import SchemaReport

app = typer.Typer(
    name="schema",
    no_args_is_help=True,
    help="A tenant's schema versions: list them, check the next one, register it.",
    epilog=examples("braid schema list -t saltmarrow", "braid schema check schema-3.json -t saltmarrow"),
)
_MAX_BYTES = 2_000_000
"""All versions together may have as many."""
File = Annotated[
    Path,
    typer.Argument(
        help="A version as JSON: version, entity_types, relationship_types, changes, created_at (default: now).",
        metavar="FILE",
        exists=True,
        dir_okay=False,
    ),
]


@app.command(name="list", epilog=examples("braid schema list -t saltmarrow"))
def list_versions(*, tenant: Tenant = DEFAULT_TENANT, engine: Engine = None, as_json: AsJson = False) -> None:
    """List all versions, oldest first."""
    check_tenant(tenant)
    versions = open_application(engine).schemas.versions(tenant)
    if as_json:
        print_json({"tenant": tenant, "versions": [version.model_dump(mode="json") for version in versions]})
        return
    if not versions:
        out.print(f"{tenant} has no registered version: its records count as of version 1")
        return
    table = Table("version", "since", "entity types", "relationship types", "changes", box=None, pad_edge=False)
    for each in versions:
        table.add_row(
            str(each.version),
            f"{each.created_at:%Y-%m-%d}",
            str(len(each.entity_types)),
            str(len(each.relationship_types)),
            Text(on_one_line(each.changes)),
        )
    out.print(table)


@app.command(epilog=examples("braid schema current -t saltmarrow"))
def current(*, tenant: Tenant = DEFAULT_TENANT, engine: Engine = None) -> None:
    """Print the number of the current version."""
    check_tenant(tenant)
    out.print(str(open_application(engine).schemas.current(tenant)))


@app.command(epilog=examples("braid schema check schema-3.json -t saltmarrow"))
def check(file: File, *, tenant: Tenant = DEFAULT_TENANT, engine: Engine = None, as_json: AsJson = False) -> None:
    """Show what a version would change; the exit code is 1 if it removes a type of stored data."""
    application = open_application(engine)
    found = _report(_read(file, tenant), application)
    if as_json:
        print_json({"compatible": found.compatible, **found.model_dump(mode="json")})
    else:
        _show(found)
    if not found.compatible:
        raise typer.Exit(EXIT_FAILED)


@app.command(epilog=examples("braid schema register schema-3.json -t saltmarrow"))
def register(
    file: File,
    *,
    tenant: Tenant = DEFAULT_TENANT,
    force: Annotated[
        bool, typer.Option("--force", help="Register it even if it removes a type of stored data.", metavar=FLAG)
    ] = False,
    engine: Engine = None,
) -> None:
    """Register the next version. Registering one again does nothing."""
    application = open_application(engine)
    schema = _read(file, tenant)
    found = _report(schema, application)
    if found.problems or not (found.compatible or force or schema.version <= application.schemas.current(tenant)):
        _show(found)
        if found.problems:
            raise InvalidRequest(found.problems[0], field="version")
        raise InvalidRequest("version: it removes types that stored data has; --force registers it anyway")
    application.schemas.register(schema)
    out.print(f"version {schema.version} of {tenant}'s schema is registered")
    if found.since != schema.version:
        _show(found)


def _read(file: Path, tenant: str) -> SchemaVersion:
    check_tenant(tenant)
    try:
        _, raw = read_input(file, _MAX_BYTES)
        if len(raw) > _MAX_BYTES:
            raise InvalidRequest(f"{file}: longer than {_MAX_BYTES:,} bytes")
        row: Any = json.loads(raw.decode("utf-8"))
        if not isinstance(row, dict):
            raise InvalidRequest(f"{file}: is not a JSON object")
        return SchemaVersion.model_validate({"created_at": datetime.now(UTC).isoformat(), **row, "tenant_id": tenant})
    except ValidationError as error:
        raise InvalidRequest(f"{file}: {InvalidRequest.from_validation(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{file}: is not JSON: {error}") from None


def _report(schema: SchemaVersion, application: Application) -> SchemaReport:
    records, graph = application.index.stats(schema.tenant_id), application.graph.stats(schema.tenant_id)
    # An entity may be in both stores or in one: the larger count of a type is the number of its entities.
    names = set(records.by_entity_type) | set(graph.by_entity_type)
    return report(
        schema,
        application.schemas.versions(schema.tenant_id),
        records=records.records,
        entity_types={
            name: max(records.by_entity_type.get(name, 0), graph.by_entity_type.get(name, 0)) for name in names
        },
        relationship_types=graph.by_relationship_type,
    )


def _show(found: SchemaReport) -> None:
    verdict = "[green]compatible[/]" if found.compatible else "[red]not compatible[/]"
    since = f"version {found.since}" if found.since else "nothing registered"
    out.print(f"version {found.version} is {verdict} with {since}")
    for line in found.lines():
        out.print(f"  {on_one_line(line)}", markup=False)
