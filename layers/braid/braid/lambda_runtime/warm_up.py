"""Initialises clients and models while Lambda starts a container, before its first request."""

from __future__ import annotations

import contextlib
import gc
import os
import random
from typing import TYPE_CHECKING, Final

from braid.errors import BraidError
from braid.settings.folders import in_lambda

if TYPE_CHECKING:
    from collections.abc import Callable

GARBAGE: Final = (10_000, 10, 10)
"""Thresholds of garbage collection. A question makes some ten thousand objects, few of them in cycles, and collecting
every 700, as Python does by itself, takes a tenth more processor time."""
_SNAPSHOT = "snap-start"
"""Value of ``AWS_LAMBDA_INITIALIZATION_TYPE`` in a container of which SnapStart takes the snapshot."""
_UNHURRIED = ("provisioned-concurrency", _SNAPSHOT)
"""Values of that variable in containers that start before any request waits for them."""


def open_beforehand(*opens: Callable[[], object]) -> None:
    """Open clients, with their imports, while a container starts in Lambda; elsewhere they open on first use.

    A container has a whole processor while it starts, and a function of 512 MB less than a third of one afterwards:
    importing OpenSearch's client and boto3 during the first question takes seconds, and loses the stage.

    Parameters
    ----------
    opens
        Each opens and caches something, such as a client, without network calls.
    """
    if in_lambda():
        gc.set_threshold(*GARBAGE)
        _run(opens)


def load_beforehand(*loads: Callable[[], object]) -> None:
    """Run loads, which may be slow and may use the network, where no request waits for the container's start."""
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") in _UNHURRIED:
        _run(loads)


def run_after_restore(run: Callable[[], object]) -> None:
    """Register a function that runs in each container restored from a snapshot, whose connections are stale.

    So does a new seed of ``random``: all containers would draw the same ids of spans and the same pauses.
    """
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == _SNAPSHOT:
        from snapshot_restore_py import register_after_restore  # type: ignore[import-not-found]  # the runtime brings it

        def restored() -> None:
            random.seed()
            run()

        register_after_restore(restored)


def _run(what: tuple[Callable[[], object], ...]) -> None:
    for each in what:
        # The error is raised again on first use; a container that fails to start could not report it.
        with contextlib.suppress(BraidError):
            each()
