"""Write the OpenAPI document of the HTTP interface: ``python -m braid_cli.openapi``."""

from __future__ import annotations

from pathlib import Path

from braid.api.handler import make_api
from braid.api.openapi import document
from braid.app import Wired
from braid.settings import Settings

TARGET = Path(__file__).resolve().parent.parent / "shared" / "openapi.json"


def generated() -> str:
    """Return the document of this checkout. No store is opened for it."""
    return document(make_api(Wired(Settings())))


if __name__ == "__main__":
    TARGET.write_text(generated(), encoding="utf-8")
