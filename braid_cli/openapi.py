"""``python -m braid_cli.openapi``: writes the OpenAPI document of the HTTP API."""

from __future__ import annotations

from braid.api.handler import make_api
from braid.api.openapi import document
from braid.app import Application
from braid.settings import Settings
from braid.settings.folders import shared_folder

TARGET = shared_folder() / "openapi.json"


def generated() -> str:
    """Return the OpenAPI document of this checkout's API; no store is opened."""
    return document(make_api(Application(Settings())))


if __name__ == "__main__":
    TARGET.write_text(generated(), encoding="utf-8")
