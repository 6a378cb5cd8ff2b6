"""``braid export`` and ``braid import``: write a tenant to an archive, and an archive to a tenant of any engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from braid_cli.options import DEFAULT_TENANT, FLAG, AsJson, Engine, Tenant
from braid_cli.question_validation import check_known, check_tenant
from braid_cli.terminal import complain, counted, examples, open_application, out, print_json, progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.ingestion.archive_export import PartKind

app = typer.Typer()
Folder = Annotated[Path, typer.Argument(help="Folder of the archive.", metavar="DIR")]


@app.command(name="export", epilog=examples("braid export acme-archive --tenant acme"))
def export(
    folder: Folder,
    *,
    tenant: Tenant = DEFAULT_TENANT,
    vectors: Annotated[
        bool, typer.Option(help="Export vectors; without them, the import embeds all texts again.", metavar=FLAG)
    ] = True,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Export a tenant's records, graph and schema versions to a folder; repeat to resume."""
    from braid.ingestion.archive_export import export_tenant

    check_tenant(tenant)
    application = open_application(engine)
    check_known(tenant, application)
    with progress("exporting", quiet=as_json) as tell:
        manifest = export_tenant(tenant, application, folder, vectors=vectors, on_progress=tell)
    if as_json:
        print_json({"tenant_id": tenant, "changed": manifest.changed, "counts": manifest.counts()})
    else:
        out.print(f"{tenant}: exported {_said(manifest.counts())}")
    if manifest.changed:
        complain("the tenant was written to meanwhile: this is not the copy of one moment", style="yellow")


@app.command(name="import", epilog=examples("braid import acme-archive", "braid import acme-archive --engine aws"))
def import_(
    folder: Folder,
    *,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", "-t", help="Tenant to import into. Default: the tenant of the archive.", metavar="NAME"
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of the encoder.", metavar="N")] = None,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Import an archive into a tenant, and verify that the stored data equals it; repeat to resume."""
    from braid.ingestion.archive_import import import_tenant

    if tenant is not None:
        check_tenant(tenant)
    with progress("importing", quiet=as_json) as tell:
        done = import_tenant(folder, open_application(engine), tenant_id=tenant, threads=threads, on_progress=tell)
    if done.records_before > done.unchanged:
        had = counted(done.records_before, "record")
        told = f"{done.tenant_id} had {had} before; they stay, but those whose ids the archive has too are replaced"
        complain(told, style="yellow")
    if as_json:
        print_json(done.model_dump(mode="json"))
        return
    more = {"embedded here": done.embedded, "stored already": done.unchanged, "without an end left out": done.left_out}
    notes = "".join(f", {number} {what}" for what, number in more.items() if number)
    out.print(f"{done.tenant_id}: imported and compared {_said(done.counts)}{notes}")
    for kind, value in done.hashes.items():
        out.print(f"  {kind.value} {value}")


def _said(counts: Mapping[PartKind, int]) -> str:
    ones = {"records": ("record",), "vertices": ("vertex", "vertices"), "relationships": ("relationship",)}
    return ", ".join(counted(number, *ones[kind.value]) for kind, number in counts.items())
