"""Local HTTP server of Lambda's Invoke API and S3's GetObject, which runs the handlers in this process."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Handler = Callable[[dict[str, Any], Any], dict[str, Any]]
    ReadObject = Callable[[str], bytes]

_INSTALLED = Path(__file__).resolve().parents[1] / "functions"
FUNCTIONS = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parents[1] / "functions"
"""Folder of the handlers: inside the package in an installed wheel, beside it in a clone."""
STAGE_FUNCTIONS = ("plan", "embed", "vector_search", "graph_expand", "fuse_rerank")


@dataclass(frozen=True)
class LocalContext:
    """The Lambda context of a local invocation."""

    function_name: str
    memory_limit_in_mb: int = 512
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def invoked_function_arn(self) -> str:
        """ARN of the function in a placeholder account."""
        return f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """Return the time left: always five minutes."""
        return 300_000


def load_handler(name: str) -> Handler:
    """Load ``functions/<name>/app.py`` as Lambda does, and return its handler."""
    module_name = f"functions.{name}.app"
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, FUNCTIONS / name / "app.py")
        if spec is None or spec.loader is None:
            raise LookupError(f"no function {name!r} in {FUNCTIONS}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]  # the next import must not find a half-initialised module
            raise
    handler: Handler = module.handler
    return handler


def stage_handlers() -> dict[str, Handler]:
    """Return the handlers of the retrieval workflow by function name."""
    return {name: load_handler(name) for name in STAGE_FUNCTIONS}


class InvokeServer:
    """Answers ``POST /2015-03-31/functions/NAME/invocations`` on a free loopback port, with a thread for each request.

    With ``read_object`` also ``GET /BUCKET/KEY``, for any bucket name.
    """

    def __init__(self, handlers: Mapping[str, Handler], read_object: ReadObject | None = None) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _request_handler(handlers, read_object))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """Base URL of the endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _outcome(handler: Handler, body: bytes, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Call a handler and return Lambda's response: a body, and the header that marks a failure."""
    try:
        result = handler(json.loads(body or b"{}"), LocalContext(name))
    except Exception as error:  # noqa: BLE001 - as the Lambda runtime: any exception of a handler is its answer
        failure = {"errorType": type(error).__name__, "errorMessage": str(error)}
    else:
        try:
            json.dumps(result)
        except (TypeError, ValueError) as error:
            failure = {
                "errorType": "Runtime.MarshalError",
                "errorMessage": f"the result of {name} is not JSON: {error}",
            }
        else:
            return result, {}
    return failure, {"X-Amz-Function-Error": "Unhandled"}


def _request_handler(handlers: Mapping[str, Handler], read_object: ReadObject | None) -> type[BaseHTTPRequestHandler]:
    class Invoke(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # headers and body are two writes, the second of which Nagle would delay by 40 ms
        )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            name = unquote(self.path).split("/functions/")[-1].split("/")[0].rsplit(":", 1)[-1]
            handler = handlers.get(name)
            if handler is None:
                message = {"Type": "User", "Message": f"Function not found: {name}"}
                self._answer(404, message, {"X-Amzn-ErrorType": "ResourceNotFoundException"})
                return
            self._answer(200, *_outcome(handler, body, name))

        def do_GET(self) -> None:
            key = unquote(self.path.partition("?")[0]).split("/", 2)[2]
            self._send(200, read_object(key) if read_object else b"", {})

        def _answer(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
            self._send(status, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})

        def _send(self, status: int, payload: bytes, headers: dict[str, str]) -> None:
            try:
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except ConnectionError:
                # The caller has timed out; Lambda drops such a response too.
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Log nothing."""

    return Invoke
