"""The real servers' addresses. Asked for and absent is a failure, never a skip."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from braid.settings import Settings

from local.servers import state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def endpoint(name: str, variable: str) -> str:
    """Return a server's address: the environment's, else that of the server that was started here."""
    running = state.read(state.default_folder())
    address = os.environ.get(variable) or (running[name].endpoint if name in running else "")
    if not address:
        pytest.fail(f"{name} does not run: start it with `make engines-up`, or name one in {variable}", pytrace=False)
    return address


@pytest.fixture(scope="session")
def opensearch_endpoint() -> str:
    return endpoint("opensearch", "BRAID_OPENSEARCH_ENDPOINT")


@pytest.fixture(scope="session")
def gremlin_endpoint() -> str:
    return endpoint("gremlin", "BRAID_NEPTUNE_ENDPOINT")


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., Settings]:
    """Return a function that makes settings from the named ones and the defaults, whatever the environment says."""

    def make(**fields: Any) -> Settings:
        return Settings(home=tmp_path, **fields)

    return make
