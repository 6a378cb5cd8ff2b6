"""Nothing of a tenant is left in files that nobody knows of."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

from braid.engines.embedded.files import StoreFiles
from braid.ingestion.tenant_deletion import delete_tenant
from braid.settings import Settings

from braid_cli.commands.delete import delete_tenant as run_delete
from braid_cli.evaluation.run import isolated_engines
from tests.contract.shapes import ACME, GLOBEX
from tests.stages import DEMO, DemoStages, read_dataset

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_file_of_a_process_that_was_killed_goes_with_its_tenant(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    stages.objects.put(GLOBEX, "inbox/kept", b"theirs")
    folder = tmp_path / "objects"
    old, new, (kept,) = folder / ("0" * 32), folder / ("1" * 32), list(folder.iterdir())
    long_ago = time.time() - 2 * 3_600
    for path in (old, new, kept):
        path.write_bytes(b"theirs")
    for path in (old, kept):
        os.utime(path, (long_ago, long_ago))
    delete_tenant(ACME, stages)
    assert set(folder.iterdir()) == {new, kept}
    os.utime(new, (long_ago, long_ago))
    stages.close()
    again = DemoStages(Settings(home=tmp_path))
    again.objects.put(GLOBEX, "inbox/other", b"theirs")
    assert not new.exists()
    assert b"".join(again.objects.open(GLOBEX, "inbox/kept")) == b"theirs"
    again.close()


def test_what_an_evaluation_keeps_is_its_owners_alone_and_named_when_a_tenant_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    (tmp_path / "eval").mkdir(mode=0o755)
    isolated_engines(read_dataset(DEMO / "saltmarrow", "eval"), stages)
    assert stat.S_IMODE((tmp_path / "eval").stat().st_mode) == 0o700
    monkeypatch.setattr("braid_cli.commands.delete.open_application", lambda _: stages)
    run_delete(tenant=ACME, yes=True, as_json=True)
    assert str(tmp_path / "eval") in capsys.readouterr().out
    (tmp_path / "audit.jsonl").touch()
    assert tmp_path in list(StoreFiles(tmp_path / "braid.db")._private())
    stages.close()
