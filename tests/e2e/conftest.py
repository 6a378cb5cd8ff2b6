"""One home for all tests of the command line: the real default model, and the demo corpus ingested once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from braid.app import application
from braid.settings import load_settings

from braid_cli import main, terminal
from braid_cli.state_machine.invoke_endpoint import STAGE_FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "braid_cli" / "demo"


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return this process's environment with another home and nothing else that Braid reads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "POWERTOOLS_"))}
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "PYTHONUNBUFFERED"):
        kept.pop(name, None)
    return kept | {"BRAID_HOME": str(home)} | more


def run(home: Path, *arguments: str, **more: str) -> Done:
    """Run ``braid`` in a process of its own."""
    done = subprocess.run(  # noqa: S603 - this interpreter and our own module
        [sys.executable, "-m", "braid_cli.main", *arguments],
        cwd=ROOT,
        env=environment(home, **more),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with the default model and the demo corpus of one tenant; tests only read it."""
    home = tmp_path_factory.mktemp("braid") / "home"
    (home / "models").mkdir(parents=True)  # so that the model is made there, for tests that name the folder
    done = run(home, "ingest", str(DEMO / "saltmarrow"), "--tenant", "saltmarrow")
    assert done.status == 0, done.err
    return home


@pytest.fixture
def braid(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Done]]:
    """Run ``braid`` in this process: ``braid("search", "Why?", home=...)``, in the common home unless told."""
    before = set(os.environ)

    def call(*arguments: str, home: Path = home, **more: str) -> Done:
        for name in [name for name in os.environ if name.startswith(("BRAID_", "POWERTOOLS_"))]:
            if name in before:
                monkeypatch.delenv(name)
            else:  # set by an option of the call before; monkeypatch would bring it back
                del os.environ[name]
        for name, value in {"BRAID_HOME": str(home), "POWERTOOLS_LOG_LEVEL": "CRITICAL", **more}.items():
            monkeypatch.setenv(name, value)
        forget()
        for stage in STAGE_FUNCTIONS:
            # Loggers live as long as the process: one that an earlier test made has that test's level.
            logging.getLogger(stage).setLevel(logging.CRITICAL)
        monkeypatch.setattr(sys, "argv", ["braid", *arguments])
        # As it is at the start of a process.
        terminal.out.width = int(os.environ.get("COLUMNS", terminal.MAX_WIDTH))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main()
        captured = capfd.readouterr()
        return Done(int(ended.value.code or 0), captured.out, captured.err)

    yield call
    for name in set(os.environ) - before:  # what an option sets, for the handlers to read
        del os.environ[name]
    forget()


def forget() -> None:
    """Close what a command opened; the next reads its settings, and loads the functions, anew."""
    if application.cache_info().currsize and "store" in vars(application()):
        application().store.close()
    load_settings.cache_clear()
    application.cache_clear()
    for name in [name for name in sys.modules if name.startswith("functions.")]:
        del sys.modules[name]
