"""``braid repair``: finds and repairs differences between the search index and the knowledge graph."""

from __future__ import annotations

from typing import Annotated

import typer
from braid.models.enums_and_scalars import on_one_line
from rich.text import Text

from braid_cli.options import DEFAULT_TENANT, FLAG, AsJson, Engine, Tenant
from braid_cli.question_validation import check_known, check_tenant
from braid_cli.terminal import counted, examples, open_application, out, print_json

app = typer.Typer()


@app.command(epilog=examples("braid repair --tenant acme --dry-run", "braid repair --tenant acme"))
def repair(
    *,
    tenant: Tenant = DEFAULT_TENANT,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report differences; change nothing.", metavar=FLAG)
    ] = False,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Compare the knowledge graph with the search index, and repair differences."""
    from braid.ingestion.repair import repair as compare

    check_tenant(tenant)
    application = open_application(engine)
    check_known(tenant, application)
    report = compare(tenant, application, dry_run=dry_run)
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    for finding in report.findings:
        out.print(Text(on_one_line(f"{finding.fault.value}  {finding.id}  {finding.message}")), soft_wrap=True)
    total = sum(report.counts.values())
    compared = ", ".join(
        (
            counted(report.records, "record"),
            counted(report.vertices, "vertex", "vertices"),
            counted(report.relationships, "relationship"),
        )
    )
    outcome = "repaired" if report.repaired else "left"
    found = f"{counted(total, 'difference')}, {outcome}" if total else "no difference"
    out.print(f"{tenant}: {compared}: {found}")
