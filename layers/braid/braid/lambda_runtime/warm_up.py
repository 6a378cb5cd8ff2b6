"""Initialises clients and models while Lambda starts a container, before its first request."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from braid.errors import BraidError

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_READY = "provisioned-concurrency"
"""How Lambda says, in ``AWS_LAMBDA_INITIALIZATION_TYPE``, that nobody waits for this container yet."""


def open_beforehand(*opens: Callable[[], object]) -> None:
    """Open clients, and import what they need, while a container starts in Lambda; elsewhere what needs them does.

    A container has a whole processor while it starts, and a function of 512 MB less than a third of one from then on:
    importing OpenSearch's client and boto3 with the first question costs it seconds, and the question that stage.

    Parameters
    ----------
    opens
        Each opens something that is kept, such as a client; none asks a network.
    """
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        _run(opens)


def load_beforehand(*loads: Callable[[], object]) -> None:
    """Run loads, which may take long and may ask a network, where Lambda keeps this container ready.

    Parameters
    ----------
    loads
        Each loads something that is kept, such as a model.
    """
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == _KEPT_READY:
        _run(loads)


def _run(what: tuple[Callable[[], object], ...]) -> None:
    for each in what:
        # Told of when it is asked for: a container that fails now is never there to be asked.
        with contextlib.suppress(BraidError):
            each()
