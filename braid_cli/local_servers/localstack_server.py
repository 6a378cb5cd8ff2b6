"""LocalStack in host mode, in a Python environment of its own outside the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from braid.errors import ConfigurationError

from braid_cli.local_servers.maven import cache_folder
from braid_cli.local_servers.process import Launch, free_port

VERSION = "4.14.0"
SERVICES = ("events", "iam", "lambda", "logs", "s3", "scheduler", "secretsmanager", "sqs", "stepfunctions", "sts")
_INSTALL_TIMEOUT_S = 900
_ROOT = Path(__file__).resolve().parents[2]


def prepare(folder: Path) -> Launch:
    """Install LocalStack the first time and return how to start it.

    Raises ConfigurationError if there is no Python 3.13 or no uv, or the packages cannot be fetched.
    """
    python = _environment() / "bin" / "python"
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    return Launch(
        # LocalStack ignores the argument --folder, by which the process is recognised later.
        command=(str(python), "-m", "localstack.runtime.main", f"--folder={folder}"),
        endpoint=endpoint,
        ready=lambda: answers(endpoint),
        environment={
            "GATEWAY_LISTEN": f"127.0.0.1:{port}",
            "SERVICES": ",".join(SERVICES),
            "STRICT_SERVICE_LOADING": "0",
            "EAGER_SERVICE_LOADING": "0",
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
            # In any container LocalStack takes itself to be in its own image, and would write outside the folder.
            "OVERRIDE_IN_DOCKER": "0",
            "FILESYSTEM_ROOT": str(folder / "files"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        start_timeout_s=90,
    )


def answers(endpoint: str) -> bool:
    """Return whether LocalStack at the endpoint answers its health check."""
    try:
        with urllib.request.urlopen(f"{endpoint}/_localstack/health", timeout=2) as response:  # noqa: S310 - a loopback address made here
            health = json.load(response)
    except (OSError, ValueError, urllib.error.URLError):
        return False
    return "services" in health


def _environment() -> Path:
    """Return the environment's folder; create it the first time."""
    folder = cache_folder() / "servers" / f"localstack-{VERSION}"
    if folder.is_dir():
        return folder
    uv = shutil.which("uv") or (str(_ROOT / ".uv" / "bin" / "uv") if (_ROOT / ".uv" / "bin" / "uv").exists() else None)
    if uv is None:
        message = "LocalStack is installed with uv, and there is no uv on PATH or in .uv. Run make setup"
        raise ConfigurationError(message)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        _run([uv, "venv", "--quiet", "--python", _python(), str(folder)])
        install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
        _run([*install, "--require-hashes", "--requirement", str(_ROOT / "make" / "tools" / "localstack-core.txt")])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _python() -> str:
    """Return a Python 3.13: older ones cannot read LocalStack's source."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [shutil.which("python3.13"), *map(str, sorted(pyenv.glob("3.13*/bin/python3.13")))]
    for candidate in candidates:
        # On PATH may be a version manager's shim, for a Python that is not selected.
        if candidate and "3.13." in _version(candidate):
            return candidate
    raise ConfigurationError("LocalStack needs Python 3.13, as python3.13 on PATH")


def _version(python: str) -> str:
    answer = subprocess.run([python, "--version"], capture_output=True, text=True, timeout=20, check=False)  # noqa: S603 - a Python found on this machine
    return answer.stdout if answer.returncode == 0 else ""


def _run(command: list[str]) -> None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False)  # noqa: S603 - the user's own uv, and arguments made here
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"LocalStack was not installed in {_INSTALL_TIMEOUT_S} s") from error
    if answer.returncode:
        message = f"LocalStack could not be installed: {(answer.stdout + answer.stderr).strip()[-1_000:]}"
        raise ConfigurationError(message)
