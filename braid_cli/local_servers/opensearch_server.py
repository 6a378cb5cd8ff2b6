"""OpenSearch with its k-NN plug-in, from the distribution that its own integration tests use."""

from __future__ import annotations

import json
import os
import shutil
import stat
import urllib.error
import urllib.request
import zipfile
from typing import TYPE_CHECKING

from braid_cli.local_servers import java, maven
from braid_cli.local_servers.process import Launch, free_port

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "3.6.0"
ARTIFACTS = (
    maven.Artifact("org.opensearch.distribution.integ-test-zip", "opensearch", VERSION, "zip"),
    maven.Artifact("org.opensearch.plugin", "opensearch-knn", f"{VERSION}.0", "zip"),
)
HEAP = "512m"
MINIMUM_JAVA = 21
_UNPRIVILEGED = "nobody"

# The native k-NN libraries are not in the package, so only ``engine: lucene`` works on this server.
_CONFIGURATION = """\
cluster.name: {name}
network.host: 127.0.0.1
http.port: {port}
transport.port: 0
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
"""


def prepare(folder: Path) -> Launch:
    """Unpack a copy into an empty folder and return how to start it.

    Raises ConfigurationError if there is no Java 21 or newer, or the packages cannot be fetched.
    """
    home = java.find("OpenSearch", minimum=MINIMUM_JAVA, variables=("OPENSEARCH_JAVA_HOME", "JAVA_HOME"))
    packages = maven.fetch("opensearch", ARTIFACTS, transitive=False)
    with zipfile.ZipFile(packages / f"opensearch-{VERSION}.zip") as archive:
        archive.extractall(folder)
    copy = next(path for path in folder.iterdir() if (path / "bin" / "opensearch").is_file())
    with zipfile.ZipFile(packages / f"opensearch-knn-{VERSION}.0.zip") as archive:
        archive.extractall(copy / "plugins" / "opensearch-knn")
    for script in (copy / "bin").iterdir():
        script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    port = free_port()
    name = folder.name
    (copy / "config" / "opensearch.yml").write_text(_CONFIGURATION.format(name=name, port=port), encoding="utf-8")
    user = None
    if os.geteuid() == 0:
        # OpenSearch refuses to run as root.
        user = _UNPRIVILEGED
        _give(folder, user)
    endpoint = f"http://127.0.0.1:{port}"
    return Launch(
        command=(str(copy / "bin" / "opensearch"),),
        endpoint=endpoint,
        ready=lambda: answers(endpoint, cluster=name),
        environment={"OPENSEARCH_JAVA_HOME": str(home), "OPENSEARCH_JAVA_OPTS": f"-Xms{HEAP} -Xmx{HEAP}"},
        user=user,
        start_timeout_s=180,
    )


def _give(folder: Path, user: str) -> None:
    folder.chmod(0o755)
    shutil.chown(folder, user)
    for path in folder.rglob("*"):
        shutil.chown(path, user)


def answers(endpoint: str, *, cluster: str | None = None) -> bool:
    """Return whether a server at the endpoint is green or yellow, and has this cluster's name if one is given."""
    try:
        with urllib.request.urlopen(f"{endpoint}/_cluster/health", timeout=2) as response:  # noqa: S310 - a loopback address made here
            health = json.load(response)
    except (OSError, ValueError, urllib.error.URLError):
        return False
    return health.get("status") in {"green", "yellow"} and cluster in {None, health.get("cluster_name")}
