"""One state machine and one demo corpus for all workflow tests; each test begins healthy.

Both end with the package: while the interpreter is open, requests to other services than its own are not moto's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl

from braid_cli.state_machine.interpreter import Workflow
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package", autouse=True)
def _tries_again_at_once() -> Iterator[None]:
    """Let the interpreter not wait before another try; how long it is to wait is read from the definition."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda _seconds: None))
        yield


@pytest.fixture(scope="package")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DemoStages, Workflow]]:
    stages = demo_stages(tmp_path_factory.mktemp("demo"))
    with Workflow(stages.handlers()) as workflow:
        yield stages, workflow
    stages.store.close()


@pytest.fixture
def stages(_demo: tuple[DemoStages, Workflow]) -> DemoStages:
    """Return the stages, with no fault."""
    _demo[0].healthy()
    return _demo[0]


@pytest.fixture
def workflow(_demo: tuple[DemoStages, Workflow]) -> Workflow:
    """Return the deployed state machine over the same stages."""
    return _demo[1]
