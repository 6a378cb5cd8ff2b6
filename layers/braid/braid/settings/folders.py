"""Folders of Braid's own data files and of the user's data, on a machine and in a Lambda function."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
DATABASE = "braid.db"
"""File of a store in its folder."""
EARLIER_HOME = Path(".braid")
"""Folder of the store in versions that kept one in each working directory."""


def shared_folder() -> Path:
    """Return the folder of state machines, index mappings and model profiles.

    It is inside the package if a wheel is installed, next to the library in a clone, and ``/opt`` in a function, from a
    layer.
    """
    in_clone = PACKAGE.parents[2] / "shared" if len(PACKAGE.parents) > 2 else None  # noqa: PLR2004 - layers/braid/braid
    for folder in (PACKAGE / "shared", in_clone):
        if folder is not None and (folder / "models").is_dir():
            return folder
    return Path("/opt")


def in_lambda() -> bool:
    """Return whether this process is a Lambda function, which has no user and is frozen between two events."""
    return "AWS_LAMBDA_FUNCTION_NAME" in os.environ


def user_folder() -> Path:
    """Return this user's folder of stores and models; in a function, which has no user, a temporary folder."""
    if in_lambda():
        return Path(tempfile.gettempdir()) / "braid"
    from platformdirs import user_data_path

    return user_data_path("braid", appauthor=False)
