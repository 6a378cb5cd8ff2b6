"""``compose.yaml`` starts what ``python -m braid_cli.local_servers`` starts: the same versions and configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from braid_cli.local_servers import gremlin_server, localstack_server, opensearch_server


@pytest.fixture
def compose() -> dict[str, Any]:
    text = (Path(__file__).resolve().parents[3] / "compose.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def test_both_ways_start_the_same_versions(compose: dict[str, Any]) -> None:
    images = {name: service["image"].partition("@")[0] for name, service in compose["services"].items()}
    versions = {name: image.rpartition(":")[2] for name, image in images.items()}
    assert versions == {
        "opensearch": opensearch_server.VERSION,
        "gremlin": gremlin_server.VERSION,
        "localstack": localstack_server.VERSION,
    }


def test_the_graph_is_configured_alike_in_both_ways(compose: dict[str, Any]) -> None:
    contents = {name: config["content"] for name, config in compose["configs"].items()}
    ours = yaml.safe_load(gremlin_server._SERVER.format(port=8182).replace("127.0.0.1", "0.0.0.0"))  # noqa: S104 - inside a container
    theirs = yaml.safe_load(contents["gremlin-server"].replace("/etc/braid/", ""))
    assert theirs == ours
    assert contents["gremlin-graph"] == gremlin_server._GRAPH
    assert contents["gremlin-init"] == gremlin_server._INIT


def test_no_port_is_open_to_others_and_every_service_says_when_it_is_ready(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert service["healthcheck"]["test"][0] == "CMD", name
