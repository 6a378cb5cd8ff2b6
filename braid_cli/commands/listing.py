"""``braid list``: lists stored documents, entities and tenants."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from braid.models.enums_and_scalars import on_one_line
from rich import box
from rich.cells import cell_len
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from braid_cli.options import DEFAULT_TENANT, AsJson, Engine, Tenant
from braid_cli.question_validation import check_known, check_tenant
from braid_cli.terminal import MAX_WIDTH, err, examples, open_application, out, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from braid.api.schemas import DocumentSummary
    from braid.app import Application
    from braid.ingestion.documents.folder_state import FileState

_PAGE: Final = 500
MAX_VERTICES: Final = 100_000
"""Limit of vertices that are read to find the best connected entities."""
MIN_FOLDED: Final = 24
"""Fewest characters to which a title is folded."""

app = typer.Typer()
listing = typer.Typer(
    name="list",
    no_args_is_help=True,
    help="List the documents or the entities of a tenant, or the tenants themselves.",
    epilog=examples(
        "braid list documents --tenant acme", "braid list entities --tenant acme --limit 20", "braid list tenants"
    ),
)
app.add_typer(listing)
Limit = Annotated[int, typer.Option(help="Maximum of lines.", min=1, metavar="N")]


@listing.command(name="documents", epilog=examples("braid list documents --tenant acme"))
def list_documents(
    *, tenant: Tenant = DEFAULT_TENANT, limit: Limit = 1_000, engine: Engine = None, as_json: AsJson = False
) -> None:
    """List the documents of a tenant, and the skipped files of its ingested folders.

    Links and folders that were skipped are not listed; each ingest reports them.
    """
    check_tenant(tenant)
    application = open_application(engine)
    by_document = {file.document: file for _, file in files(application, tenant)}
    rows = [
        _row(document, by_document.get(document.id))
        for document in islice(stored_documents(application, tenant), limit + 1)
    ]
    rows += [_skipped(file) for file in by_document.values() if file.skipped and not file.chunks]
    if not rows:
        check_known(tenant, application)
    if as_json:
        print_json({"tenant": tenant, "documents": rows[:limit], "more": len(rows) > limit})
        return
    _table(
        ("document", "title", "format", "chunks"),
        ((one["document"], _title(one), one["format"], f"{one['chunks'] or ''}") for one in rows),
        limit,
    )


@listing.command(name="entities", epilog=examples("braid list entities --tenant acme"))
def list_entities(
    *, tenant: Tenant = DEFAULT_TENANT, limit: Limit = 100, engine: Engine = None, as_json: AsJson = False
) -> None:
    """List the named entities of the knowledge graph, those with most edges first."""
    from braid.retrieval.listing import best_connected

    check_tenant(tenant)
    application = open_application(engine)
    check_known(tenant, application)
    found, unread = best_connected(application.graph, tenant, read=MAX_VERTICES)
    if as_json:
        rows = [
            {"id": one.id, "name": one.name, "type": one.entity_type, "relations": relations}
            for one, relations in found[:limit]
        ]
        print_json({"tenant": tenant, "entities": rows, "more": len(found) > limit or unread is not None})
        return
    _table(
        ("id", "name", "type", "relations"),
        ((one.id, one.name or "", one.entity_type, f"{relations:,}") for one, relations in found),
        limit,
    )
    if unread is not None:
        err.print(f"of the first {MAX_VERTICES:,} vertices of the graph; GET /entities pages through all")


@listing.command(name="tenants", epilog=examples("braid list tenants --engine aws --limit 100000"))
def list_tenants(*, limit: Limit = 1_000, engine: Engine = None, as_json: AsJson = False) -> None:
    """List the names of the tenants that have records, in order, one a line."""
    application = open_application(engine)
    found = list(islice(_tenants(application), limit + 1))
    if as_json:
        print_json({"tenants": found[:limit], "more": len(found) > limit})
        return
    for tenant in found[:limit]:
        out.print(Text(tenant), soft_wrap=True)
    if len(found) > limit:
        err.print("and more; --limit shows them")


def _tenants(application: Application) -> Iterator[str]:
    after: str | None = None
    while page := application.migration.tenants(after=after, limit=_PAGE):
        yield from page
        after = page[-1]


def stored_documents(application: Application, tenant: str) -> Iterator[DocumentSummary]:
    """Yield the documents of a tenant."""
    from braid.api.schemas import DocumentSummary
    from braid.ports.keys import pages
    from braid.retrieval.listing import documents

    for page in pages(partial(documents, application.index), tenant, limit=_PAGE, read=_PAGE):
        yield from map(DocumentSummary.of, page.first_records)


def files(application: Application, tenant: str) -> Iterator[tuple[str, FileState]]:
    """Yield the folder name and state of each file that was ingested for a tenant, skipped ones included."""
    from braid.ingestion.documents.folder_state import stored_documents as files_of

    from braid_cli.datasets.manifest import manifests

    objects = manifests(application)
    return files_of(objects, tenant) if objects else iter(())


def _row(document: DocumentSummary, file: FileState | None) -> dict[str, Any]:
    """Return a document's row; chunks and size are None unless it was ingested from a file."""
    return {
        "document": document.id,
        "title": document.title,
        "format": document.format or "",
        "chunks": file.chunks if file else None,
        "size": file.size if file else None,
        "skipped": file.skipped if file else "",
    }


def _title(row: dict[str, Any]) -> str:
    """Return a document's title, and the reason if the last ingest skipped its file."""
    return "; ".join(filter(None, (row["title"], row["skipped"] and f"skipped: {row['skipped']}")))


def _skipped(file: FileState) -> dict[str, Any]:
    names = ("document", "title", "format", "chunks", "size", "skipped")
    return {name: getattr(file, name) for name in names}


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], limit: int) -> None:
    """Print rows as a table, whose second column may fold; on a narrow terminal as two lines a row.

    Ids, in the first column, are not cut, so that they can be copied.
    """
    shown = [tuple(map(on_one_line, row)) for row in islice(rows, limit + 1)]
    if not shown:
        out.print(Text("Nothing is stored.", style="yellow"))
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number != 1, overflow="fold")
    for row in shown[:limit]:
        table.add_row(*map(Text, row))
    unfolded = Measurement.get(out, out.options.update(max_width=MAX_WIDTH), table).maximum
    titles = max(cell_len(row[1]) for row in (headings, *shown[:limit]))
    if unfolded - max(titles - MIN_FOLDED, 0) <= out.width:
        out.print(table)
    else:
        for row in shown[:limit]:
            named = (row[1], row[2], f"{headings[3]} {row[3]}" if row[3] else "")
            out.print(Text(row[0], style="bold"), soft_wrap=True)
            out.print(Padding(Text(" · ".join(filter(None, named))), (0, 0, 0, 4), expand=False))
    if len(shown) > limit:
        out.print(Text("and more; --limit shows them", style="dim"))
