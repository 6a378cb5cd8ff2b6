"""``braid stats``: counts documents, and prints the numbers of records, vertices and relationships of a tenant."""

from __future__ import annotations

from itertools import islice
from typing import Final

import typer
from rich.text import Text

from braid_cli.commands.listing import files, stored_documents
from braid_cli.options import DEFAULT_TENANT, AsJson, Engine, Tenant
from braid_cli.question_validation import check_known, check_tenant, foreign_to
from braid_cli.terminal import counted, examples, open_application, out, print_json

COUNTED: Final = 10_000
"""Limit of documents that are counted."""

app = typer.Typer()


@app.command(epilog=examples("braid stats --tenant acme"))
def stats(*, tenant: Tenant = DEFAULT_TENANT, engine: Engine = None, as_json: AsJson = False) -> None:
    """Count what is stored for a tenant: documents, records and the knowledge graph."""
    check_tenant(tenant)
    application = open_application(engine)
    skipped = sum(bool(file.skipped) for _, file in files(application, tenant))
    stored = sum(1 for _ in islice(stored_documents(application, tenant), COUNTED + 1))
    if not (stored or skipped):
        check_known(tenant, application)
    index, graph = application.index.stats(tenant), application.graph.stats(tenant)
    foreign = foreign_to(application, tenant)
    if as_json:
        print_json(
            {
                "tenant": tenant,
                "documents": min(stored, COUNTED),
                "more_documents": stored > COUNTED,
                "skipped": skipped,
                "records": index.model_dump(mode="json"),
                "graph": graph.model_dump(mode="json"),
                "remark": foreign,
            }
        )
        return
    kinds = ", ".join(f"{count:,} of kind {kind.value}" for kind, count in sorted(index.by_kind.items()))
    left = f", {counted(skipped, 'file')} skipped" if skipped else ""
    out.print(f"documents  {f'more than {COUNTED:,}' if stored > COUNTED else f'{stored:,}'}{left}")
    out.print(f"records    {index.records:,}{f' ({kinds})' if kinds else ''}")
    out.print(f"graph      {counted(graph.vertices, 'vertex', 'vertices')}, {counted(graph.edges, 'relationship')}")
    if foreign:
        out.print(Text(foreign, style="yellow"))
