"""What every test may use."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import botocore.session
import braid  # noqa: F401 - before any test imports ONNX Runtime, which would report its use
import pytest
from _pytest.nodeid import coerce_node_id
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.recorded import Recorded

_FIGURE = "figure"
# No test reads or writes the stores and models of whoever runs it.
_USERS_FILES = tempfile.TemporaryDirectory(prefix="braid-tests-")
os.environ["XDG_DATA_HOME"] = _USERS_FILES.name

# moto gives each test a new session of boto3, which would read the descriptions of services from their files again.
botocore.session.create_loader = cache(botocore.session.create_loader)

# How long an example takes says how busy the machine is.
settings.register_profile("braid", settings.default, deadline=None)
settings.load_profile("braid")


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Lines that a test wants printed at the end of the run, passed or failed: what it measured."""
    lines: list[str] = []
    yield lines
    # The test's report is what comes back from another process, where tests run in several.
    request.node.user_properties.extend((_FIGURE, line) for line in lines)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Return the spans and metrics that the test makes."""
    from tests.recorded import Recorded

    return Recorded(monkeypatch)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the operation in the ids of Schemathesis's items, which pytest 9.2 leaves out of them."""
    if not item.nodeid.endswith(item.name) and item.parent is not None:
        item._id = coerce_node_id(f"{item.parent.nodeid}::{item.name}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests of one id: in several processes only one of them would run."""
    twice = sorted(name for name, count in Counter(item.nodeid for item in items).items() if count > 1)
    if twice:
        raise pytest.UsageError("tests of one id: " + ", ".join(twice))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured."""
    lines = [
        line
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
        for name, line in report.user_properties
        if name == _FIGURE
    ]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
