"""Starts ``braid serve`` over the demo's archives, on either engine, as a subprocess."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from bench.engines import servers
from braid_cli.demo.tour import CORPUS, TENANTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

DEPLOYED = "aws"
ENGINES = ("embedded", DEPLOYED)
BRAID = ("-m", "braid_cli.main")
PATIENT = {
    "BRAID_OPENSEARCH_TIMEOUT_S": "30",
    "BRAID_NEPTUNE_EVALUATION_TIMEOUT_S": "60",
    "BRAID_NEPTUNE_READ_TIMEOUT_S": "90",
}
"""While the archives are written, on servers that have only just started."""
INGEST = """
import json, sys
from pathlib import Path
from braid.app import application
from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
for tenant, archive in json.loads(sys.argv[1]).items():
    ingest(read_dataset(Path(archive), tenant), application())
"""


@contextmanager
def prepared(engine: str, folder: Path, tenants: Mapping[str, Path]) -> Iterator[dict[str, str]]:
    """Write each tenant's archive into one engine, with all files in a folder; yields the settings that name it.

    For ``aws`` OpenSearch and Gremlin Server are started before it, and stopped after it.
    """
    given = {"BRAID_ENGINE": engine, "BRAID_HOME": str(folder / "home")}
    with ExitStack() as stack:
        if engine == DEPLOYED:
            addresses, _, _ = stack.enter_context(servers(folder / "servers"))
            given |= addresses
        wanted = json.dumps({tenant: str(archive) for tenant, archive in tenants.items()})
        command = [sys.executable, "-c", INGEST, wanted]
        subprocess.run(command, check=True, env=os.environ | given | PATIENT)  # noqa: S603 - our own
        yield given


@contextmanager
def serving(engine: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Serve the demo on one engine, with all files in a folder; yields the process, and what it said of itself."""
    archives = {tenant: CORPUS / tenant for tenant in TENANTS}
    with prepared(engine, folder, archives) as given, serve(given, TENANTS) as running:
        yield running


@contextmanager
def serve(
    given: Mapping[str, str], tenants: Iterable[str], *options: str, program: Sequence[str] = BRAID
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Start a server with some settings and options, for some tenants; yields the process, and what it said of itself.

    ``program`` is what the interpreter is given to be ``braid``.
    """
    command = [sys.executable, *program, "serve", "--port", "0", "--json", *options]
    command += [part for tenant in tenants for part in ("--tenant", tenant)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | given, text=True) as running:  # noqa: S603 - our own
        try:
            if running.stdout is None or not (line := running.stdout.readline()):
                raise RuntimeError("braid serve did not start")
            yield running, json.loads(line)
        finally:
            running.terminate()
