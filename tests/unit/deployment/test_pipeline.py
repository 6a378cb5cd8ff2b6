"""The pipeline that a team takes over: its order, what it may do, and that its commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.unit.deployment.test_template import OBSERVABILITY, ROOT, SAMCONFIG, TEMPLATE

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/deploy.yml").read_text(encoding="utf-8"))
JOBS: dict[str, Any] = PIPELINE["jobs"]
STEPS = [step for job in ("change-set", "deploy") for step in JOBS[job]["steps"]]
RUNS = [step["run"] for step in STEPS if "run" in step]


def place(command: str) -> int:
    """Return which step runs a command."""
    (found,) = [number for number, step in enumerate(STEPS) if command in step.get("run", "")]
    return found


def test_what_is_proposed_was_checked_and_built_and_what_is_deployed_was_approved_and_is_asked() -> None:
    order = ["make lint lint-deploy", "make build", "Release=", "make deploy-check", "sam build"]
    order += ["sam deploy", "execute-change-set", "lambda invoke"]
    assert [place(command) for command in order] == sorted(place(command) for command in order)
    assert "--no-execute-changeset" in STEPS[place("sam deploy")]["run"]
    assert JOBS["deploy"]["needs"] == "change-set"
    assert JOBS["deploy"]["environment"] != JOBS["change-set"]["environment"]


@pytest.mark.parametrize("sound", [True, False])
def test_a_proposal_that_fails_fails_the_run(sound: bool, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    proposed = "arn:aws:cloudformation:eu-west-1:123456789012:changeSet/samcli-deploy1/0a1b"
    sam = tmp_path / "bin" / "sam"
    sam.write_text(f"#!/bin/sh\necho 'Created {proposed}'\nexit {0 if sound else 1}\n", encoding="utf-8")
    sam.chmod(0o755)
    files = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "GITHUB_OUTPUT": str(tmp_path / "output")}
    named = {"PATH": f"{sam.parent}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "CONFIG": "dev", **files}
    assert PIPELINE["defaults"] == {"run": {"shell": "bash"}}  # which GitHub runs as below
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    done = subprocess.run([*shell, STEPS[place("sam deploy")]["run"]], cwd=tmp_path, env=named, check=False)  # noqa: S603
    assert (done.returncode == 0) == sound
    if sound:
        assert (tmp_path / "output").read_text(encoding="utf-8") == f"change-set={proposed}\n"


def test_the_check_finds_the_sam_cli() -> None:
    assert place("GITHUB_PATH") < place("make deploy-check")
    assert ".uv/tools/aws-sam-cli/bin" in STEPS[place("GITHUB_PATH")]["run"]


def test_every_action_is_pinned_by_its_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", each) for each in used)


def test_it_holds_no_key_and_no_right_that_it_does_not_need() -> None:
    text = (ROOT / ".github/workflows/deploy.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    assert PIPELINE["permissions"] == {}
    assert [job["permissions"] for job in JOBS.values()] == [
        {"contents": "read", "id-token": "write"},
        {"id-token": "write"},
    ]
    assert not any("${{" in run for run in RUNS), "no input is a part of a script"


def test_what_it_runs_and_reads_exists() -> None:
    makefiles = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "make/deploy.mk"))
    for targets in re.findall(r"\bmake ([a-z -]+)", "\n".join(RUNS)):
        for target in targets.split():
            assert re.search(rf"(?m)^{target}:", makefiles), target
    (choice,) = PIPELINE[True]["workflow_dispatch"]["inputs"].values()  # YAML takes "on" for a truth
    for environment in choice["options"]:
        assert SAMCONFIG[environment]["global"]["parameters"]["stack_name"] == f"braid-{environment}"
    assert TEMPLATE["Outputs"]["CanaryFunctionName"]["Value"] == "Observability.Outputs.CanaryName"
    assert OBSERVABILITY["Outputs"]["CanaryName"]["Value"] == ["HasCanary", "Canary", "none"]


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_the_release_of_one_environment_is_named_after_the_commit(environment: str, tmp_path: Path) -> None:
    settings = tmp_path / "samconfig.toml"
    settings.write_text((ROOT / "samconfig.toml").read_text(encoding="utf-8"), encoding="utf-8")
    named = {**os.environ, "CONFIG": environment}
    for commit, release in (("0123456789abcdef", "0123456789"), ("fedcba9876543210", "fedcba9876")):
        script = STEPS[place("Release=")]["run"]
        subprocess.run(["bash", "-ec", script], cwd=tmp_path, env={**named, "GITHUB_SHA": commit}, check=True)  # noqa: S603, S607
        written = tomllib.loads(settings.read_text(encoding="utf-8"))
        for name in ("dev", "prod"):
            found = written[name]["global"]["parameters"]["parameter_overrides"]
            before = SAMCONFIG[name]["global"]["parameters"]["parameter_overrides"]
            assert sorted(found) == sorted(before + ([f"Release={release}"] if name == environment else []))
