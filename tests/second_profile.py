"""The demo corpus, and a second model profile that it can be moved to: another model id and another dimension."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from braid.ports.schema_registry import SchemaVersion
from braid.settings import Settings

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.stages import DEMO, NOW, DemoStages

if TYPE_CHECKING:
    from pathlib import Path

SECOND = "second"
SECOND_MODEL = "second-model"
TENANT = "saltmarrow"
SHARED = DEMO.parents[1] / "shared"


def shared_with_a_second_profile(folder: Path) -> Path:
    """Copy ``shared/`` and add a profile."""
    shutil.copytree(SHARED, folder)
    file = folder / "models" / "profiles.json"
    profiles = json.loads(file.read_text(encoding="utf-8"))
    profiles["models"].append({**profiles["models"][0], "id": SECOND_MODEL, "dimension": 512})
    kinds = profiles["profiles"]["minilm"]
    profiles["profiles"][SECOND] = dict.fromkeys(kinds, SECOND_MODEL)
    file.write_text(json.dumps(profiles), encoding="utf-8")
    return folder


def demo_with_a_second_profile(folder: Path, tenants: tuple[str, ...] = (TENANT,), **settings: Any) -> DemoStages:
    """Ingest the demo corpus and return the stages over it, with pages of 20 records for what is embedded again."""
    shared = folder / "shared"
    if not shared.exists():
        shared_with_a_second_profile(shared)
    stages = DemoStages(Settings(**{"home": folder / "home", "shared_dir": shared, "reembed_page": 20} | settings))
    for tenant in tenants:
        ingest(read_dataset(DEMO / tenant, tenant), stages)
    return stages


def raise_schema(stages: DemoStages, to: int, tenant: str = TENANT) -> None:
    """Register versions up to this one."""
    for version in range(stages.schemas.current(tenant) + 1, to + 1):
        stages.schemas.register(SchemaVersion(tenant_id=tenant, version=version, created_at=NOW))
