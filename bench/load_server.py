"""``braid serve`` over the demo's archives, on either engine, as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import psutil

from bench.engines import servers
from braid_cli.demo.tour import CORPUS, TENANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DEPLOYED = "aws"
ENGINES = ("embedded", DEPLOYED)
PATIENT = {
    "BRAID_OPENSEARCH_TIMEOUT_S": "30",
    "BRAID_NEPTUNE_EVALUATION_TIMEOUT_S": "60",
    "BRAID_NEPTUNE_READ_TIMEOUT_S": "90",
}
"""While the archives are written, on servers that have only just started."""


@contextmanager
def serving(engine: str, folder: Path) -> Iterator[tuple[psutil.Process, dict[str, Any]]]:
    """Serve the demo on one engine, with all files in a folder; yields the process, and what it said of itself.

    For ``aws`` OpenSearch and Gremlin Server are started before it, and stopped after it.
    """
    given = {"BRAID_ENGINE": engine, "BRAID_HOME": str(folder / "home")}
    with ExitStack() as stack:
        if engine == DEPLOYED:
            addresses, _, _ = stack.enter_context(servers(folder / "servers"))
            given |= addresses
        for tenant in TENANTS:
            _braid(given | PATIENT, "ingest", str(CORPUS / tenant), "--tenant", tenant)
        yield stack.enter_context(_serve(given))


def _braid(given: Mapping[str, str], *arguments: str) -> None:
    command = [sys.executable, "-m", "braid_cli.main", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | given)  # noqa: S603 - our own


@contextmanager
def _serve(given: Mapping[str, str]) -> Iterator[tuple[psutil.Process, dict[str, Any]]]:
    command = [sys.executable, "-m", "braid_cli.main", "serve", "--port", "0", "--json"]
    command += [part for tenant in TENANTS for part in ("--tenant", tenant)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | given, text=True) as running:  # noqa: S603 - our own
        try:
            if running.stdout is None or not (line := running.stdout.readline()):
                raise RuntimeError("braid serve did not start")
            yield psutil.Process(running.pid), json.loads(line)
        finally:
            running.terminate()
