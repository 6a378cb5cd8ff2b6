"""What every unit test begins with."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True)
def _stages_are_heard() -> None:
    """Let every stage's logger speak: each is one for the whole process, and a command line makes them quiet ones."""
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and getattr(logger, "init", False):
            logger.setLevel("INFO")
