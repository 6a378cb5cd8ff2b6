"""Last part of the demo: a schema change, with re-embedding while questions are answered."""

from __future__ import annotations

import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from braid import reembedding
from braid.app import Application
from braid.ports.schema_registry import SchemaVersion
from braid.retrieval import pipeline

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from braid_cli.terminal import print_heading

if TYPE_CHECKING:
    from rich.console import Console

TENANT = "pellworth"
VERSIONS = 3
"""Number of schema versions to register, after which the oldest records are close to the drift limit."""


def show_schema_change(console: Console, application: Application, corpus: Path) -> None:
    """Show a schema change on a copy of the smaller archive, in a temporary folder.

    Parameters
    ----------
    console
        Console to print to.
    application
        Provides settings and models; its stores are not used.
    corpus
        Folder of the tenant's dataset, with judged questions.
    """
    console.print()
    print_heading(console, "The schema changes, and the records follow while questions are answered")
    with tempfile.TemporaryDirectory() as folder:
        settings = application.settings.model_copy(
            update={"home": Path(folder), "models_dir": application.settings.models_path(), "reembed_page": 8}
        )
        copy = Application(settings)
        try:
            _run(console, copy, corpus)
        finally:
            copy.close()


def _run(console: Console, application: Application, corpus: Path) -> None:
    dataset = read_dataset(corpus, TENANT, judged=True)
    ingest(dataset, application)
    newest = application.schemas.versions(TENANT)[-1]
    for step in range(1, VERSIONS + 1):
        version = newest.model_copy(
            update={
                "version": newest.version + step,
                "created_at": datetime.now(UTC),
                "entity_types": (*newest.entity_types, *(f"Vessel{number}" for number in range(step))),
                "changes": "one more type",
            }
        )
        application.schemas.register(SchemaVersion.model_validate(version.model_dump()))
    services = application.reembedding
    behind = reembedding.outdated(services, TENANT)["schema"]
    console.print(
        f"versions {newest.version + 1} to {newest.version + VERSIONS} are registered: {behind} records are two or more"
        " versions behind and lose score; at four they are no longer searched",
    )
    stop, answered, empty = threading.Event(), [0], [0]

    def ask() -> None:
        while not stop.is_set():
            for judged in dataset.judged:
                answer = pipeline.answer(judged.query, application)
                answered[0] += 1
                empty[0] += not answer.results or bool(answer.degraded)
                if stop.is_set():
                    return

    asking = threading.Thread(target=ask)
    asking.start()
    began = time.perf_counter()
    try:
        job = reembedding.run_to_end(services, reembedding.plan(services))
    finally:
        stop.set()
        asking.join()
    console.print(
        f"{job.written} records are embedded again and current in {time.perf_counter() - began:.1f} s; meanwhile "
        f"{answered[0]} questions were answered, {empty[0]} of them without a whole answer",
    )
    left = reembedding.outdated(services, TENANT)["schema"]
    console.print(f"{left} records are outdated now. The same by hand: [bold]braid reembed[/]")
