"""``braid delete``: deletes records, documents and tenants."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from braid.errors import InvalidRequest
from rich.text import Text

from braid_cli.commands.listing import stored_documents
from braid_cli.options import DEFAULT_TENANT, FLAG, AsJson, Engine, Tenant
from braid_cli.question_validation import check_tenant
from braid_cli.terminal import EXIT_FAILED, complain, counted, err, examples, open_application, out, print_json

if TYPE_CHECKING:
    from braid.ingestion.deleting import DeleteReport

app = typer.Typer(
    name="delete",
    no_args_is_help=True,
    help="Delete records, documents or a whole tenant permanently, from the search index and the knowledge graph.",
    epilog=examples(
        "braid delete record note-1 note-2 --tenant acme",
        "braid delete document runbook.pdf --tenant acme",
        "braid delete tenant --tenant acme --yes",
    ),
)


@app.command(name="record", epilog=examples("braid delete record note-1 note-2 --tenant acme"))
def delete_record(
    ids: Annotated[list[str], typer.Argument(help="Ids of records, or of entities without one.", metavar="ID...")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Delete records with their vertices and edges."""
    from braid.ingestion.deleting import delete_records

    check_tenant(tenant)
    called = ", ".join(map(repr, ids))
    if not _show(
        delete_records(tenant, ids, open_application(engine)), f"there is no record or entity {called}", as_json=as_json
    ):
        raise typer.Exit(EXIT_FAILED)


@app.command(name="document", epilog=examples("braid delete document runbook.pdf --tenant acme"))
def delete_document(
    document: Annotated[
        str, typer.Argument(help="Id of the document (its chunks' ids up to the #), or its title.", metavar="NAME")
    ],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Delete a document with all its chunks."""
    from braid.ingestion.deleting import delete_document as delete

    check_tenant(tenant)
    application = open_application(engine)
    report = delete(tenant, document, application)
    absent = f"there is no document {document!r}"
    if not report.records:
        ends = islice((one.id for one in stored_documents(application, tenant) if one.id.endswith(f"/{document}")), 3)
        absent += "".join(f"; did you mean {identity!r}?" for identity in ends)
    if not _show(report, absent, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)


@app.command(name="tenant", epilog=examples("braid delete tenant --tenant acme --yes"))
def delete_tenant(
    *,
    tenant: Tenant,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.", metavar=FLAG)] = False,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Delete all data of a tenant: records, graph, files, schema versions, members, jobs, cached answers."""
    from braid.ingestion.tenant_deletion import delete_tenant as delete

    check_tenant(tenant)
    application = open_application(engine)
    if not yes:
        if as_json or not err.is_terminal:
            raise InvalidRequest.of("--yes", "is needed without a terminal, where nobody can confirm")
        typer.confirm(f"Remove all that is stored of {tenant}?", abort=True, err=True)
    report = delete(tenant, application)
    copies = application.settings.home / "eval"
    if copies.is_dir():
        kept = f"what braid eval keeps of evaluated datasets, whosoever they are, in {copies}: remove that folder"
        report = report.model_copy(update={"left": (*report.left, kept)})
    if not as_json:
        for what in report.left:
            out.print(Text(f"left: {what}"), soft_wrap=True)
    _show(report, "nothing is stored", as_json=as_json)  # no error: a deletion may be repeated to complete it


def _show(report: DeleteReport, absent: str, *, as_json: bool) -> bool:
    """Print what was removed, and return whether anything was; ``absent`` says what is not there."""
    left_out = {"tenant_id", "left", "entities"}  # entities are counted among the vertices
    counts = {name: count for name, count in report.model_dump(exclude=left_out).items() if count}
    ones = {name: "vertex" if name == "vertices" else name.removesuffix("s") for name in counts}
    found = ", ".join(counted(count, ones[name], name) for name, count in counts.items())
    if as_json:
        print_json(report.model_dump(mode="json"))
    elif counts:
        out.print(f"{report.tenant_id}: removed {found}")
    else:
        complain(f"{report.tenant_id}: {absent}{'' if absent.endswith('?') else ';'} nothing was removed")
    return bool(counts)
