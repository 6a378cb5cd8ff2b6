"""``braid ingest`` and ``braid ingest-graph``: ingest documents, datasets and graphs."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated

import typer
from braid.errors import InvalidRequest
from braid.ingestion.documents.ingesting import Options
from braid.ingestion.writing import MissingEnds
from braid.models.enums_and_scalars import on_one_line
from rich.markup import escape

from braid_cli.answer_rendering import print_found_names
from braid_cli.options import DEFAULT_TENANT, FLAG, AsJson, Engine, Graph, Tenant, any_of
from braid_cli.question_validation import check_tenant, foreign_to
from braid_cli.terminal import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    complain,
    counted,
    examples,
    make_models,
    open_application,
    out,
    print_json,
    progress,
)

if TYPE_CHECKING:
    from braid.app import Application

app = typer.Typer()


@app.command(
    epilog=examples(
        "braid ingest handbook --tenant acme",
        "braid ingest handbook --tenant acme --where team=payments --watch",
        "braid ingest tickets.csv --tenant acme --map title=Subject --map text=Body",
        "braid ingest my-data --tenant acme",
        "braid ingest late.jsonl --tenant acme --missing stub",
    )
)
def ingest(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder of documents, or one document: Markdown, text, HTML, PDF, DOCX, PPTX, XLSX, ODT, ODP, ODS, "
            "EPUB, RTF, CSV, JSON, e-mail, notebooks, source code. Or a dataset: a folder with corpus.jsonl, or a JSON "
            "Lines file.",
            metavar="PATH",
        ),
    ],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    where: Annotated[
        list[str] | None, typer.Option(help="Metadata for every chunk of the documents.", metavar="KEY=VALUE")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Use a column of tables as title (the heading above a row's text), text, timestamp, valid_at, "
            "invalid_at or a metadata field; each row becomes a chunk. Only title and text are searched: without text, "
            "all other columns are the text.",
            metavar="FIELD=COLUMN",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the folder in its documents' ids. Default: its own name. An ingest deletes the documents of "
            "this name that the folder does not have: do not give two folders the same."
        ),
    ] = None,
    moved_from: Annotated[
        Path | None,
        typer.Option(
            help="Folder that was ingested under this name before and that this one replaces; needed while it exists. "
            "Its documents are replaced, and those that this folder does not have are deleted.",
            metavar="DIR",
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running and ingest changes, until Ctrl-C.", metavar=FLAG)
    ] = False,
    every: Annotated[float, typer.Option(help="Interval of --watch, in seconds.", metavar="SECONDS")] = 10.0,
    prune: Annotated[
        bool, typer.Option(help="Delete items that are gone from a dataset folder since it was last ingested.")
    ] = True,
    missing: Annotated[
        MissingEnds,
        typer.Option(
            help=f"For edges of a JSON Lines file with an end that is not stored: {any_of(MissingEnds)} (create "
            "an entity without a name).",
            metavar="WHAT",
        ),
    ] = MissingEnds.REFUSE,
    graph: Graph = None,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Embed documents or a dataset, and write them to the search index and the knowledge graph.

    Of a folder of documents, new and changed files are read, and the documents of removed files are deleted. Files that
    cannot be read are skipped and reported.

    A dataset folder is checked as a whole before any of it is written. Of a JSON Lines file, valid lines are written,
    and invalid ones reported.

    Ingesting again resumes an interrupted run, and writes only what has changed.
    """
    from braid_cli.documents.dataset_or_documents import is_dataset, is_lines
    from braid_cli.documents.ingest import check_same_folder, pairs

    check_tenant(tenant)
    mapping = pairs("--map", columns or ())
    lines = source.is_file() and not mapping and is_lines(source)
    documents = not lines and not (is_dataset(source) and not source.is_file())
    if moved_from and not name:
        name = source.resolve().name
    metadata = pairs("--where", where or ())
    options = Options(metadata, mapping, name, threads=os.cpu_count(), keep_if_empty=watch)
    if not documents and (where or mapping or name or watch):
        raise InvalidRequest("--where, --map, --name, --moved-from, --watch: are for documents, and this is a dataset")
    application = open_application(engine, graph)
    if documents and name:
        check_same_folder(source, application, tenant, name, moved_from)
    if documents or lines:
        make_models(application, quiet=as_json)
    if documents:
        _ingest_documents(source, tenant, application, options, every=every if watch else None, as_json=as_json)
    elif lines:
        _ingest_file(source, tenant, application, missing, as_json=as_json)
    else:
        _ingest_folder(source, tenant, application, prune=prune, as_json=as_json)
    if not as_json and (foreign := foreign_to(application, tenant)):
        complain(foreign, style="yellow")


def _ingest_documents(
    path: Path, tenant: str, application: Application, options: Options, *, every: float | None, as_json: bool
) -> None:
    from braid_cli.documents.ingest import ingest

    try:
        whole = ingest(path, application, tenant, options=options, every_s=every, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if not whole:
        raise typer.Exit(EXIT_BAD_INPUT)


def _ingest_folder(folder: Path, tenant: str, application: Application, *, prune: bool, as_json: bool) -> None:
    from braid_cli.datasets.ingest import ingest as write
    from braid_cli.datasets.streaming import open_dataset

    with open_dataset(folder, tenant, application.settings.graph) as dataset:
        make_models(application, quiet=as_json)
        with progress(f"Embedding {dataset.name}", quiet=as_json) as on_progress:
            done = write(dataset, application, threads=os.cpu_count(), prune=prune, on_progress=on_progress)
    if as_json:
        print_json({"dataset": dataset.name, "tenant": tenant, **vars(done)})
    elif done.unchanged:
        out.print(f"{_shown(dataset.name)}: nothing has changed since it was ingested for {tenant}")
    else:
        seconds = done.embed_seconds + done.write_seconds
        removed = f", {done.removed:,} removed" if done.removed else ""
        kept = f" ({done.written:,} new or changed{removed})" if removed or done.written < done.records else ""
        out.print(
            f"{_shown(dataset.name)}: {counted(done.records, 'record')}{kept}, "
            f"{counted(done.vertices, 'vertex', 'vertices')} and "
            f"{counted(done.relationships, 'relationship')} for {tenant} in {seconds:.1f} s "
            f"(embedding {done.embed_seconds:.1f} s)"
        )
        print_found_names(done, application, tenant)


def _ingest_file(path: Path, tenant: str, application: Application, missing: MissingEnds, *, as_json: bool) -> None:
    from braid_cli.datasets.ingest_file import ingest_file

    with progress(f"Reading {path.name}", quiet=as_json) as on_progress:
        done = ingest_file(
            path,
            tenant,
            application,
            missing=missing,
            threads=os.cpu_count(),
            on_progress=on_progress,
            on_error=lambda error: complain(str(error)),
        )
    if as_json:
        print_json({"file": path.name, "tenant": tenant, **asdict(done)})
    else:
        seconds = done.embed_seconds + done.write_seconds
        wrong = f", {counted(done.errors, 'line')} refused" if done.errors else ""
        out.print(
            f"{_shown(path.name)}: {counted(done.written, 'record')} new or changed, {done.unchanged:,} unchanged, "
            f"{counted(done.relationships, 'relationship')}{wrong} for {tenant} in {seconds:.1f} s"
        )
    if done.errors:
        raise typer.Exit(EXIT_BAD_INPUT)


@app.command(
    name="ingest-graph",
    epilog=examples(
        "braid ingest-graph graph.json --tenant acme",
        "braid ingest-graph owners.graphml --tenant acme --name-field title --type-field kind",
        "braid ingest-graph edges.csv --tenant acme",
    ),
)
def ingest_graph(
    file: Annotated[
        Path,
        typer.Argument(
            help="Nodes and edges as JSON, such as NetworkX's node-link format; GraphML; a CSV or TSV of edges; a JSON "
            "export of Neo4j.",
            metavar="FILE",
        ),
    ],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    name_field: Annotated[
        str | None,
        typer.Option(help="Field of nodes with their name. Default: name, label or title.", metavar="FIELD"),
    ] = None,
    type_field: Annotated[
        str | None,
        typer.Option(
            help="Field of nodes and edges with their type. Default: type; for edges also label, relation or name.",
            metavar="FIELD",
        ),
    ] = None,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Write a graph of nodes and edges; nodes with content can be found as results too.

    The whole file is checked before any of it is written.
    """
    from braid_cli.datasets.graph_elements import Fields
    from braid_cli.datasets.graph_file import read_graph
    from braid_cli.datasets.ingest import ingest

    check_tenant(tenant)
    application = open_application(engine)
    graph = read_graph(file, tenant, Fields(name_field, type_field))
    make_models(application, quiet=as_json)
    done = ingest(graph, application, threads=os.cpu_count())
    if as_json:
        print_json({"graph": graph.name, "tenant": tenant, **vars(done)})
    elif done.unchanged:
        out.print(f"{_shown(graph.name)}: nothing has changed since it was ingested for {tenant}")
    else:
        out.print(
            f"{_shown(graph.name)}: {counted(done.vertices, 'vertex', 'vertices')}, "
            f"{counted(done.relationships, 'relationship')} and {counted(done.records, 'record')} for {tenant}"
        )


def _shown(name: str) -> str:
    """Return a file's or folder's name as it is printed: it steers no terminal and is no markup."""
    return escape(on_one_line(name))
