"""``make audit`` finds what is listed, and never passes for want of a list. It brings pip-audit from the registry."""

from __future__ import annotations

import os
import re
import subprocess
import time
import tomllib
from importlib.metadata import version as installed
from pathlib import Path

import pytest

from tests.audit.osv_server import Advisory, concerns, osv_server

ROOT = Path(__file__).resolve().parents[2]
ADVISORY = "MADE-UP-2026-1"


@pytest.fixture(scope="module")
def locked() -> dict[str, list[str]]:
    """Versions of each package of the lock, ascending."""
    versions: dict[str, list[str]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]:
        if "version" in package:
            versions.setdefault(package["name"], []).append(package["version"])
    return versions


def advisory(package: str, *events: dict[str, str]) -> Advisory:
    affected = {"package": {"ecosystem": "PyPI", "name": package}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {"id": ADVISORY, "summary": "Made up by a test.", "affected": [affected]}


def audit(url: str) -> tuple[int, str]:
    """Run the command as somebody would who has only this list; return its status, and all that it printed."""
    outer = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    run = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "audit", f"OSV_URL={url}"],  # noqa: S607 - whichever make ran the tests
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in outer} | {"NO_PROXY": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return run.returncode, run.stdout


def test_a_list_without_ours_passes_and_was_asked_for_every_version_that_is_locked_for_any_machine(
    locked: dict[str, list[str]],
) -> None:
    with osv_server([advisory("idna", {"introduced": "0"}, {"fixed": "0.1"})]) as server:
        status, printed = audit(server.url)
    assert status == 0, printed
    # numpy differs between this Python and the functions', and pywin32 is of another system.
    assert {version for name, version in server.asked if name == "numpy"} == set(locked["numpy"])
    assert set(locked["numpy"]) > {installed("numpy")}
    assert ("pywin32", locked["pywin32"][0]) in server.asked
    assert len(server.asked) == len(set(server.asked)) > 80


def test_an_advisory_for_the_newest_of_two_locked_versions_is_named_with_its_package(
    locked: dict[str, list[str]],
) -> None:
    newest = locked["numpy"][-1]
    with osv_server([advisory("numpy", {"introduced": newest}, {"fixed": "999"})]) as server:
        status, printed = audit(server.url)
    assert status != 0
    assert re.search(rf"(?m)^numpy +{re.escape(newest)} +{ADVISORY} +999", printed)
    assert "make audit: vulnerable, or not looked up" in printed


def test_a_service_that_fails_or_never_answers_is_no_pass(locked: dict[str, list[str]]) -> None:
    assert locked
    with osv_server() as server:
        server.status = 500
        failed, printed = audit(server.url)
        assert failed != 0
        assert "500 Server Error" in printed
        assert "make audit: vulnerable, or not looked up" in printed
        server.status = None
        started = time.monotonic()
        failed, printed = audit(server.url)
        assert failed != 0
        assert "Read timed out" in printed
        assert "make audit: vulnerable, or not looked up" in printed
        assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("version", "listed"),
    [("1.4", False), ("1.5", True), ("2.0rc1", True), ("2.0", False), ("3.1", True), ("3.2", False)],
)
def test_a_range_begins_at_what_introduced_and_ends_before_what_fixed_or_after_what_was_last(
    version: str, listed: bool
) -> None:
    made = advisory("a-b", {"introduced": "1.5"}, {"fixed": "2.0"}, {"introduced": "3"}, {"last_affected": "3.1"})
    assert concerns(made, "a-b", version) is listed
    assert not concerns(made, "a", version)
