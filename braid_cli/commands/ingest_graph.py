"""``braid ingest-graph``: a graph in one JSON file."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import Annotated

import typer

from braid_cli.question import check_tenant
from braid_cli.terminal import AsJson, Engine, counted, examples, open_engines, out, print_json, progress

EPILOG = examples("braid ingest-graph graph.json --tenant acme")


def ingest_graph(
    file: Annotated[
        Path, typer.Argument(help="JSON of nodes and edges; NetworkX's node-link form is one.", metavar="FILE")
    ],
    *,
    tenant: Annotated[str, typer.Option("--tenant", "-t", help="Whose graph.", metavar="NAME")] = "default",
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Write a graph of nodes and edges; nodes with content can be answers as well.

    The whole file is checked before anything of it is written.
    """
    from braid_cli.datasets.graph_file import read_graph
    from braid_cli.datasets.ingest import ensure_models, ingest

    check_tenant(tenant)
    wired = open_engines(engine)
    graph = read_graph(file, tenant)
    with progress("Making the model", quiet=as_json) as on_model:
        ensure_models(wired, on_progress=on_model)
    done = ingest(graph, wired, threads=os.cpu_count())
    if as_json:
        print_json({"graph": graph.name, "tenant": tenant, **vars(done)})
    elif done.unchanged:
        out.print(f"{graph.name}: nothing has changed since it was ingested for {tenant}")
    else:
        out.print(
            f"{graph.name}: {counted(done.vertices, 'vertex', 'vertices')}, "
            f"{counted(done.relationships, 'relationship')} and {counted(done.records, 'record')} for {tenant}"
        )
