"""Nothing reports to anybody: what a laptop runs sends no packet to another machine, and keeps no id of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import braid
import pytest

from tests.hostile.isolated import NoNamespace, run_isolated

if TYPE_CHECKING:
    from collections.abc import Callable

    Isolated = Callable[..., tuple[int, list[str], str]]

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "What was the root cause of the Lisbon label stoppage?"
ANSWER = "event:lisbon-label-stoppage"
TALKATIVE = """
import socket
socket.getaddrinfo("stranger.example", 443)
for address in (("198.51.100.7", 443), ("2001:db8::7", 443)):
    try:
        socket.create_connection(address, 1)
    except OSError:
        pass
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"used", ("203.0.113.7", 4317))
"""


@pytest.fixture(scope="module")
def user_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory, user_home: Path) -> Isolated:
    """Run a command without a network, in an environment that forbids no library anything."""
    folder = tmp_path_factory.mktemp("isolated")
    said = tuple(braid.NO_TELEMETRY)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "XDG_", *said))}
    environment = kept | {
        "HOME": str(user_home),
        "BRAID_HOME": str(folder / "braid"),
        "BRAID_MODELS": str(folder / "models"),
    }

    def run(*command: str) -> tuple[int, list[str], str]:
        try:
            return run_isolated([sys.executable, *command], folder / "report.json", cwd=ROOT, env=environment)
        except NoNamespace as reason:
            if os.environ.get("CI"):
                pytest.fail(f"a network namespace is needed, and not to be had: {reason}")
            pytest.skip(f"no network namespace: {reason}")

    return run


@pytest.fixture(scope="module")
def demo(isolated: Isolated) -> tuple[int, list[str], str]:
    return isolated("-m", "braid_cli.main", "demo")


def test_whoever_calls_another_machine_is_found_out(isolated: Isolated) -> None:
    status, sent, printed = isolated("-c", TALKATIVE)
    assert status == 0, printed
    assert {
        "name stranger.example",
        "TCP 198.51.100.7 port 443",
        "TCP 2001:db8::7 port 443",
        "UDP 203.0.113.7 port 4317",
    } <= set(sent)


def test_a_demo_calls_nobody(demo: tuple[int, list[str], str]) -> None:
    status, sent, printed = demo
    assert status == 0, printed
    assert sent == []


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("braid_cli.main", "search", QUESTION, "-t", "saltmarrow", "--json"), ANSWER),
        (("braid_cli.main", "search", QUESTION, "-t", "saltmarrow", "--json", "--state-machine"), ANSWER),
        (("braid_cli.main", "context", QUESTION, "-t", "saltmarrow", "--json"), '"degraded": []'),
        (("tests.hostile.served_question", QUESTION), ANSWER),
    ],
    ids=["search", "state machine", "context", "served question"],
)
def test_a_question_calls_nobody(isolated: Isolated, command: tuple[str, ...], expected: str) -> None:
    status, sent, printed = isolated("-m", *command)
    assert status == 0, printed
    assert expected in printed
    assert sent == []


@pytest.mark.usefixtures("demo")
def test_no_library_keeps_an_id_in_the_users_home(user_home: Path) -> None:
    assert list(user_home.rglob("*")) == []


@pytest.mark.parametrize(
    "first", ["braid", "braid_cli.main", "braid_cli.model_export.model_folder", "functions.embed.app"]
)
def test_telemetry_is_off_whatever_is_imported_first_and_whatever_the_environment_says(first: str) -> None:
    script = f"import importlib, os; importlib.import_module({first!r}); print(os.environ['ORT_DISABLE_TELEMETRY'])"
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run(  # noqa: S603 - this interpreter and our own modules
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1"], done.stderr


def test_images_and_functions_say_so_too() -> None:
    for image in (ROOT / "functions" / "Dockerfile", ROOT / "Dockerfile"):
        for stage in image.read_text(encoding="utf-8").split("\nFROM ")[1:]:
            assert "ORT_DISABLE_TELEMETRY=1" in stage
    template = (ROOT / "template.yaml").read_text(encoding="utf-8")
    assert 'ORT_DISABLE_TELEMETRY: "1"' in template.partition("\nResources:")[0]
