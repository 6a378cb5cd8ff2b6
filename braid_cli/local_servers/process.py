"""Starts a server in its own process group, waits until it is ready, and stops the group."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from braid.errors import BraidError

if TYPE_CHECKING:
    from collections.abc import Callable

LOG_TAIL = 2_000
STOP_GRACE_S = 20.0
POLL_S = 0.2


class ServerFailed(BraidError):
    """A server ended early or did not answer in time; the message ends with the tail of its log."""


@dataclass(frozen=True)
class Launch:
    """Command of a server and its readiness check."""

    command: tuple[str, ...]
    endpoint: str
    ready: Callable[[], bool]
    environment: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    """Account to run under; only root can change it."""
    start_timeout_s: float = 90.0


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(launch: Launch, *, folder: Path, log: Path) -> int:
    """Start a server in its own session and return its process id once it answers.

    Raises ServerFailed if it ends, or does not answer within ``start_timeout_s``; it is then stopped.
    """
    account = pwd.getpwnam(launch.user) if launch.user else None
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - a command made here
            launch.command,
            cwd=folder,
            env={**environment, "HOME": str(folder), **launch.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
    deadline = time.monotonic() + launch.start_timeout_s
    while True:
        ended = process.poll()
        if ended is not None:
            raise ServerFailed(f"{log.stem} ended with status {ended} before it answered; {log} ends:\n{tail(log)}")
        if launch.ready():
            # The server outlives this process on purpose; this keeps Popen's finaliser from warning about it.
            process.returncode = 0
            return process.pid
        if time.monotonic() > deadline:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
            raise ServerFailed(f"{log.stem} did not answer in {launch.start_timeout_s:.0f} s; {log} ends:\n{tail(log)}")
        time.sleep(POLL_S)


def tail(log: Path) -> str:
    """Return the last 2,000 characters of a log."""
    return log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]


def command_line(pid: int) -> str:
    """Return the command line of a process; empty when it does not run."""
    file = Path(f"/proc/{pid}/cmdline")
    if file.parent.parent.joinpath("self").exists():
        try:
            return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    answer = subprocess.run(  # noqa: S603 - the system's ps with a number
        ["ps", "-o", "command=", "-p", str(pid)],  # noqa: S607 - its folder differs between systems
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.stdout


def stop(pid: int, *, marker: str, grace_s: float = STOP_GRACE_S) -> bool:
    """Stop a process group and return whether it ran.

    ``marker`` is a part of the command line that only this server has, so that another process which has been given the
    same id in the meantime is not stopped.
    """
    if marker not in command_line(pid):
        return False
    _signal_group(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while marker in command_line(pid):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            _signal_group(pid, signal.SIGKILL)
        time.sleep(POLL_S)
    _signal_group(pid, signal.SIGKILL)
    return True


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
