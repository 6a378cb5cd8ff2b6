"""The runtime of one function: what AWS runs in a container, as a program that talks over a pipe.

Usage: ``python bootstrap.py HANDLER PIPE PATH...``. Begins by writing one line to the pipe, ``{}`` or the error of
importing the function; then answers each line of standard input, an invocation, by one line. Standard output and
standard error are the function's own.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback


class Context:
    """What a handler learns of its invocation."""

    def __init__(self, invocation: dict[str, str]) -> None:
        self.aws_request_id = invocation["invoke-id"]
        self.invoked_function_arn = invocation["invoked-function-arn"]
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = int(os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = self.client_context = None
        self._ends = time.monotonic() + int(os.environ["AWS_LAMBDA_FUNCTION_TIMEOUT"])

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the function may still run."""
        return max(0, int((self._ends - time.monotonic()) * 1000))


def described(error: Exception) -> dict[str, object]:
    """Return an exception as Lambda words it: the state machine matches on the name of its class."""
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "stackTrace": traceback.format_tb(error.__traceback__),
    }


def main() -> None:
    """Import the function, then answer invocations until standard input ends."""
    module, _, name = sys.argv[1].rpartition(".")
    pipe = os.fdopen(int(sys.argv[2]), "w", encoding="utf-8")
    sys.path[:0] = sys.argv[3:]

    def answer(value: dict[str, object]) -> None:
        pipe.write(json.dumps(value) + "\n")
        pipe.flush()

    try:
        handler = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 - as Lambda: whatever it is, it is the answer
        answer({"error": described(error)})
        return
    answer({})
    for line in sys.stdin:
        invocation = json.loads(line)
        os.environ["_X_AMZN_TRACE_ID"] = invocation["trace-id"]
        try:
            result = json.dumps(handler(json.loads(invocation["payload"]), Context(invocation)))
        except Exception as error:  # noqa: BLE001 - likewise
            answer({"error": described(error)})
        else:
            answer({"result": result})


if __name__ == "__main__":
    main()
