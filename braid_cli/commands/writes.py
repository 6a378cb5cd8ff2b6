"""``braid ingest``, ``braid delete`` and ``braid repair``: what is stored, changed from the command line."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated

import typer
from braid.errors import InvalidRequest
from braid.ingestion.writing import MissingEnds
from rich.text import Text

from braid_cli.question import check_tenant
from braid_cli.terminal import (
    FLAG,
    AsJson,
    Engine,
    any_of,
    counted,
    err,
    examples,
    open_engines,
    out,
    print_json,
    progress,
)

if TYPE_CHECKING:
    from braid.app import Wired
    from braid.ingestion.deleting import DeleteReport
    from braid.ingestion.writing import ItemError

INGEST_EPILOG = examples(
    "braid ingest my-data --tenant acme",
    "braid ingest late.jsonl --tenant acme --missing stub",
)
REPAIR_EPILOG = examples("braid repair --tenant acme --dry-run", "braid repair --tenant acme")
EXIT_BAD_INPUT = 2
DEFAULT_TENANT = "default"
Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Whose data.", show_default=True, metavar="NAME")]

delete_app = typer.Typer(
    name="delete",
    no_args_is_help=True,
    help="Remove records, documents or a whole tenant, for good, from the search index and the knowledge graph.",
    epilog=examples(
        "braid delete record note-1 note-2 --tenant acme",
        "braid delete document runbook.pdf --tenant acme",
        "braid delete tenant --tenant acme --yes",
    ),
)


def ingest(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder with corpus.jsonl and, as there are any, entities.jsonl, relationships.jsonl, graph.json and "
            "schemas.jsonl; or a file of lines.",
            metavar="DIR|FILE",
        ),
    ],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    prune: Annotated[
        bool, typer.Option(help="Remove what the folder held when it was last ingested, and no longer.")
    ] = True,
    missing: Annotated[
        MissingEnds,
        typer.Option(help=f"What becomes of a file's edges that lead nowhere: {any_of(MissingEnds)}.", metavar="WHAT"),
    ] = MissingEnds.REFUSE,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Embed a dataset folder or a file of lines, and write it to the search index and the knowledge graph.

    A folder is checked as a whole before anything of it is written. Of a file, what is right is written, and each
    line that is not is named.

    Ingesting again finishes what was interrupted, and writes only what changed.
    """
    from braid_cli.datasets.ingest import ensure_models

    check_tenant(tenant)
    wired = open_engines(engine)
    if source.is_file():
        with progress("Making the model", quiet=as_json) as on_model:
            ensure_models(wired, on_progress=on_model)
        _ingest_file(source, tenant, wired, missing, as_json=as_json)
    else:
        _ingest_folder(source, tenant, wired, prune=prune, as_json=as_json)


def _ingest_folder(folder: Path, tenant: str, wired: Wired, *, prune: bool, as_json: bool) -> None:
    from braid_cli.datasets.ingest import ensure_models
    from braid_cli.datasets.ingest import ingest as write
    from braid_cli.datasets.streaming import open_dataset

    with open_dataset(folder, tenant) as dataset:
        with progress("Making the model", quiet=as_json) as on_model:
            ensure_models(wired, on_progress=on_model)
        with progress(f"Embedding {dataset.name}", quiet=as_json) as on_progress:
            done = write(dataset, wired, threads=os.cpu_count(), prune=prune, on_progress=on_progress)
    if as_json:
        print_json({"dataset": dataset.name, "tenant": tenant, **vars(done)})
    elif done.unchanged:
        out.print(f"{dataset.name}: nothing has changed since it was ingested for {tenant}")
    else:
        seconds = done.embed_seconds + done.write_seconds
        removed = f", {done.removed:,} removed" if done.removed else ""
        kept = f" ({done.written:,} new or changed{removed})" if removed or done.written < done.records else ""
        out.print(
            f"{dataset.name}: {counted(done.records, 'record')}{kept}, "
            f"{counted(done.vertices, 'vertex', 'vertices')} and "
            f"{counted(done.relationships, 'relationship')} for {tenant} in {seconds:.1f} s "
            f"(embedding {done.embed_seconds:.1f} s)"
        )


def _ingest_file(path: Path, tenant: str, wired: Wired, missing: MissingEnds, *, as_json: bool) -> None:
    from braid_cli.datasets.ingest_file import ingest_file

    def tell(error: ItemError) -> None:
        err.print(Text(f"braid: {error}", style="red"), soft_wrap=True)

    with progress(f"Reading {path.name}", quiet=as_json) as on_progress:
        done = ingest_file(
            path, tenant, wired, missing=missing, threads=os.cpu_count(), on_progress=on_progress, on_error=tell
        )
    if as_json:
        print_json({"file": path.name, "tenant": tenant, **asdict(done)})
    else:
        seconds = done.embed_seconds + done.write_seconds
        wrong = f", {counted(done.errors, 'line')} refused" if done.errors else ""
        out.print(
            f"{path.name}: {counted(done.written, 'record')} new or changed, {done.unchanged:,} unchanged, "
            f"{counted(done.relationships, 'relationship')}{wrong} for {tenant} in {seconds:.1f} s"
        )
    if done.errors:
        raise typer.Exit(EXIT_BAD_INPUT)


@delete_app.command(name="record", epilog=examples("braid delete record note-1 note-2 --tenant acme"))
def delete_record(
    ids: Annotated[list[str], typer.Argument(help="Ids of records, or of vertices without one.", metavar="ID...")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Remove records with their vertices and edges."""
    from braid.ingestion.deleting import delete_records

    check_tenant(tenant)
    _tell(delete_records(tenant, ids, open_engines(engine)), as_json=as_json)


@delete_app.command(name="document", epilog=examples("braid delete document runbook.pdf --tenant acme"))
def delete_document(
    document: Annotated[
        str, typer.Argument(help="What stands before the # in the ids of its chunks, or its title.", metavar="NAME")
    ],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Remove a document with all its chunks."""
    from braid.ingestion.deleting import delete_document as delete

    check_tenant(tenant)
    _tell(delete(tenant, document, open_engines(engine)), as_json=as_json)


@delete_app.command(name="tenant", epilog=examples("braid delete tenant --tenant acme --yes"))
def delete_tenant(
    *,
    tenant: Annotated[str, typer.Option("--tenant", "-t", help="Whose data.", metavar="NAME")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether that is meant.", metavar=FLAG)] = False,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Remove all that is stored of a tenant: records, graph, files, schema versions, members, jobs, cached answers."""
    from braid.ingestion.tenant_deletion import delete_tenant as delete

    check_tenant(tenant)
    wired = open_engines(engine)
    if not yes:
        if as_json or not err.is_terminal:
            message = "--yes: is needed where nobody can be asked"
            raise InvalidRequest(message, field="--yes")
        typer.confirm(f"Remove all that is stored of {tenant}?", abort=True, err=True)
    report = delete(tenant, wired)
    _tell(report, as_json=as_json)
    if not as_json:
        for what in report.left:
            out.print(Text(f"left: {what}"), soft_wrap=True)


def repair(
    *,
    tenant: Tenant = DEFAULT_TENANT,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say where the stores differ; change nothing.", metavar=FLAG)
    ] = False,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Compare the knowledge graph with the search index, and bring it into line where they differ."""
    from braid.ingestion.repair import repair as compare

    check_tenant(tenant)
    report = compare(tenant, open_engines(engine), dry_run=dry_run)
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    for finding in report.findings:
        out.print(Text(f"{finding.fault.value}  {finding.id}  {finding.message}"), soft_wrap=True)
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


def _tell(report: DeleteReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    counts = {name: count for name, count in report.model_dump().items() if name not in {"tenant_id", "left"} and count}
    ones = {name: "vertex" if name == "vertices" else name.removesuffix("s") for name in counts}
    found = ", ".join(counted(count, ones[name], name) for name, count in counts.items())
    found = found or "nothing of that kind was there"
    out.print(f"{report.tenant_id}: removed {found}" if counts else f"{report.tenant_id}: {found}")
