"""One process a concurrent invocation, kept warm as Lambda keeps a container."""

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
OPT = "/opt"
RUNTIME = f"python{sys.version_info.major}.{sys.version_info.minor}"
INIT_SECONDS = 10


class ProcessExecutor(RuntimeExecutor):
    """Runs the unzipped code of one function, with its layers, in a process of its own.

    There is no ``/opt``: an environment variable that begins so names a folder of links to the layers instead.
    """

    def __init__(self, id, function_version):
        super().__init__(id, function_version)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{function_version.id.function_name}-"))
        self._log = self._folder / "log"
        self._environment = {}
        self._process = None
        self._replies = None
        self._lock = threading.Lock()

    @classmethod
    def prepare_version(cls, function_version):
        """Unzip the function and its layers, where no other function has."""
        config = function_version.config
        if config.runtime != RUNTIME:
            message = f"only {RUNTIME} runs here, not {config.runtime}"
            raise ValueError(message)
        for code in (config.code, *(layer.code for layer in config.layers)):
            code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        """Leave the unzipped code to LocalStack's own folder."""

    def start(self, env_vars):
        """Start the process and import the function."""
        config = self.function_version.config
        opt = self._folder / "opt"
        opt.mkdir()
        for layer in config.layers:
            for entry in layer.code.get_unzipped_code_location().iterdir():
                (opt / entry.name).symlink_to(entry)
        self._environment = {
            name: str(opt) + value[len(OPT) :] if value == OPT or value.startswith(f"{OPT}/") else value
            for name, value in ((name, str(value)) for name, value in env_vars.items())
        }
        code = config.code.get_unzipped_code_location()
        self._environment |= {"LAMBDA_TASK_ROOT": str(code), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self._paths = [str(code), str(opt / "python")]
        error = self._begin()
        if error:
            raise StatusErrorException(error["errorMessage"], payload=json.dumps(error).encode())

    def _begin(self):
        """Start a process; return what went wrong, or None."""
        if self._replies:
            self._replies.close()
        replies, pipe = os.pipe()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                # Neither the user's packages nor LocalStack's: what the layers do not carry is not there.
                [sys._base_executable, "-I", "-S", BOOTSTRAP, self.function_version.config.handler, str(pipe), *self._paths],
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

    def _reply(self, seconds):
        """Return the next line of the process, or the error that Lambda makes of its silence; it is then ended."""
        # The process answers with one line at a time, so nothing waits in the reader's buffer.
        if not select.select([self._replies], [], [], seconds)[0]:
            self._end()
            return {"error": {"errorType": "Sandbox.Timedout", "errorMessage": f"Task timed out after {seconds:.2f} seconds"}}
        line = self._replies.readline()
        if line:
            return json.loads(line)
        self._end()
        status = self._process.returncode
        return {"error": {"errorType": "Runtime.ExitError", "errorMessage": f"Runtime exited with status {status}"}}

    def invoke(self, payload):
        """Answer one invocation."""
        with self._lock:
            before = self._log.stat().st_size
            began = time.monotonic()
            error = self._begin() if self._process.poll() is not None else None
            if error:
                reply = {"error": error}
            else:
                try:
                    self._process.stdin.write(json.dumps(payload) + "\n")
                    self._process.stdin.flush()
                except OSError:
                    pass  # it ended a moment ago, which is what reading its reply will tell
                reply = self._reply(self.function_version.config.timeout)
            with self._log.open(encoding="utf-8", errors="replace") as log:
                log.seek(before)
                text = log.read()
        took = (time.monotonic() - began) * 1000
        request_id = payload["invoke-id"]
        logs = f"START RequestId: {request_id}\n{text}END RequestId: {request_id}\tDuration: {took:.2f} ms\n"
        if "error" in reply:
            return InvocationResult(request_id, json.dumps(reply["error"]).encode(), is_error=True, logs=logs)
        return InvocationResult(request_id, reply["result"].encode(), is_error=False, logs=logs)

    def _end(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        """End the process."""
        if self._process:
            self._end()

    def get_address(self):
        """Return where the process is."""
        return "127.0.0.1"

    def get_endpoint_from_executor(self):
        """Return where LocalStack is, seen by the process."""
        return "127.0.0.1"

    def get_runtime_endpoint(self):
        """Return the address of an interface that the process does not use."""
        return "http://127.0.0.1"

    def get_logs(self):
        """Return all that the process has written."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """What the entry point names."""

    name = "process"

    def load(self, *_args, **_kwargs):
        """Return the executor's class."""
        return ProcessExecutor
