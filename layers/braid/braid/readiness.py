"""What a container that is kept ready does beforehand, which its first question would wait for otherwise."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from braid.errors import BraidError

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_READY = "provisioned-concurrency"
"""How Lambda says, in ``AWS_LAMBDA_INITIALIZATION_TYPE``, that nobody waits for this container yet."""


def load_beforehand(*loads: Callable[[], object]) -> None:
    """Run loads where Lambda keeps this container ready; anywhere else what needs them runs them.

    What cannot be loaded is told of when it is asked for: a container that fails now is never there to be asked.

    Parameters
    ----------
    loads
        Each loads something that is kept, such as a model.
    """
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != _KEPT_READY:
        return
    for load in loads:
        with contextlib.suppress(BraidError):
            load()
