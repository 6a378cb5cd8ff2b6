"""An entry of the audit log that a full disk cuts is told, and takes no other one with it."""

from __future__ import annotations

import json
import resource
from typing import TYPE_CHECKING

from braid.api.audit import FILE, AuditEntry, AuditEvent, open_audit_log
from braid.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_entry_that_is_cut_is_told_and_the_next_one_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = open_audit_log(Settings(home=tmp_path))

    def add(route: str) -> None:
        log.add(AuditEntry(event=AuditEvent.WRITE, status=200, method="POST", route=route, subject="ada"))

    add("/first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / FILE).stat().st_size + 40, hard))
    try:
        add("/cut")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    add("/next")
    told = capsys.readouterr().err
    assert "No space left" in told
    assert "/cut" in told
    lines = (tmp_path / FILE).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert [json.loads(lines[at])["route"] for at in (0, 2)] == ["/first", "/next"]
