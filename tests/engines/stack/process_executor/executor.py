"""One process a concurrent invocation, kept warm as Lambda keeps a container."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor
from localstack.services.stepfunctions.asl.utils import boto_client

if TYPE_CHECKING:
    from localstack.services.lambda_.invocation.lambda_models import FunctionVersion

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
OPT = "/opt"
RUNTIME = f"python{sys.version_info.major}.{sys.version_info.minor}"
INIT_SECONDS = 10


class ProcessExecutor(RuntimeExecutor):
    """Runs the unzipped code of one function, with its layers, in a process of its own.

    There is no ``/opt``: an environment variable that begins so names a folder of links to the layers instead.
    """

    def __init__(self, id: str, function_version: FunctionVersion) -> None:  # noqa: A002 - the base class's name
        super().__init__(id, function_version)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{function_version.id.function_name}-"))
        self._log = self._folder / "log"
        self._environment: dict[str, str] = {}
        self._paths: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._replies: Any = None
        self._lock = threading.Lock()

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        """Unzip the function and its layers, where no other function has."""
        config = function_version.config
        if config.runtime != RUNTIME:
            message = f"only {RUNTIME} runs here, not {config.runtime}"
            raise ValueError(message)
        for code in (config.code, *(layer.code for layer in config.layers)):
            code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Leave the unzipped code to LocalStack's own folder."""

    def start(self, env_vars: dict[str, str]) -> None:
        """Start the process and import the function."""
        config = self.function_version.config
        opt = self._folder / "opt"
        opt.mkdir()
        for layer in config.layers:
            for entry in layer.code.get_unzipped_code_location().iterdir():
                (opt / entry.name).symlink_to(entry)
        code = config.code.get_unzipped_code_location()
        self._environment = {name: _with_opt(str(value), opt) for name, value in env_vars.items()}
        self._environment |= {"LAMBDA_TASK_ROOT": str(code), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self._paths = [str(code), str(opt / "python")]
        error = self._begin()
        if error:
            raise StatusErrorException(error["errorMessage"], payload=json.dumps(error).encode())

    def _begin(self) -> dict[str, Any] | None:
        """Start a process; return what went wrong, or None."""
        if self._replies:
            self._replies.close()
        replies, pipe = os.pipe()
        # Neither the user's packages nor LocalStack's: what the function and its layers do not carry is not there.
        python = [sys._base_executable, "-I", "-S"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and what a test deploys
                [*python, BOOTSTRAP, self.function_version.config.handler, str(pipe), *self._paths],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._paths[0],
                pass_fds=(pipe,),
                text=True,
            )
        os.close(pipe)
        self._replies = os.fdopen(replies, encoding="utf-8")
        return self._reply(INIT_SECONDS).get("error")

    def _reply(self, seconds: float) -> dict[str, Any]:
        """Return the next line of the process, or the error that Lambda makes of its silence; it is then ended."""
        # The process answers with one line at a time, so nothing waits in the reader's buffer.
        if not select.select([self._replies], [], [], seconds)[0]:
            self.stop()
            return _error("Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds")
        line = self._replies.readline()
        if line:
            reply: dict[str, Any] = json.loads(line)
            return reply
        return _error("Runtime.ExitError", f"Runtime exited with status {self.stop()}")

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """Answer one invocation."""
        assert self._process
        with self._lock:
            written, began = self._log.stat().st_size, time.monotonic()
            error = self._begin() if self._process.poll() is not None else None
            reply = {"error": error} if error else self._exchange(payload)
            took_ms = (time.monotonic() - began) * 1000
            with self._log.open(encoding="utf-8", errors="replace") as log:
                log.seek(written)
                text = log.read()
        request_id = payload["invoke-id"]
        logs = f"START RequestId: {request_id}\n{text}END RequestId: {request_id}\tDuration: {took_ms:.2f} ms\n"
        if "error" in reply:
            return InvocationResult(request_id, json.dumps(reply["error"]).encode(), is_error=True, logs=logs)
        return InvocationResult(request_id, reply["result"].encode(), is_error=False, logs=logs)

    def _exchange(self, payload: dict[str, str]) -> dict[str, Any]:
        assert self._process
        assert self._process.stdin
        # A process that ended a moment ago takes nothing; reading its reply will tell.
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(payload) + "\n")
            self._process.stdin.flush()
        return self._reply(self.function_version.config.timeout)

    def stop(self) -> int | None:
        """End the process and return the status it ended with."""
        if self._process is None:
            return None
        self._process.kill()
        return self._process.wait()

    def get_address(self) -> str:
        """Return where the process is."""
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        """Return where LocalStack is, seen by the process."""
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        """Return the address of an interface that the process does not use."""
        return "http://127.0.0.1"

    def get_logs(self) -> str:
        """Return all that the process has written."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """What the entry point names."""

    name = "process"

    def load(self, *_args: object, **_kwargs: object) -> type[ProcessExecutor]:
        """Return the executor's class."""
        # A workflow that starts another would have LocalStack ask itself at sync-localhost, which nothing resolves.
        boto_client._BOTO_CLIENT_CONFIG = boto_client._BOTO_CLIENT_CONFIG.merge(Config(inject_host_prefix=False))
        return ProcessExecutor


def _with_opt(value: str, opt: Path) -> str:
    return f"{opt}{value[len(OPT) :]}" if value == OPT or value.startswith(f"{OPT}/") else value


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"errorType": kind, "errorMessage": message}}
