"""Run the built functions on what was built for them and nothing else, as Lambda would.

Starts the given Python without its site packages, with only one function's folder and the layer's ``python/`` on its
path, or what all images have, and calls that function's handler with its event from ``events/``. The stores' addresses
lead nowhere and there is no model: a function that can answer without must, and one that cannot must say by name what
is missing. One of each kind is called again with a receiver of OTLP, which must get its traces and metrics.

Usage: ``python make/check_build.py PYTHON FOLDER``, where ``FOLDER/<Name>Function`` holds one ``sam build`` each, or of
an image what it has besides ``FOLDER/image``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_BYTES = 250 * 1024 * 1024
TELEMETRY_MB = 20
"""What Lambda allows a zip function with its layers, unpacked; an image may have 10 GB."""

# Function, its event, and the class of the error that it must raise; None means that it answers.
EXPECTED = (
    ("PlanFunction", "plan.json", None),
    ("VectorSearchFunction", "vector_search.json", "TransientStoreError"),
    ("GraphExpandFunction", "graph_expand.json", "TransientStoreError"),
    ("EmbedFunction", "embed.json", "ModelMissing"),
    ("FuseRerankFunction", "fuse_rerank.json", None),
    ("AnswerFunction", "answer.json", "StoresUnavailable"),
    # Of messages that cannot be written it says which; a file's bucket and the table of jobs are not named here.
    ("IngestFunction", "ingest.json", None),
    ("IngestFunction", "ingest--object-created.json", "ConfigurationError"),
    ("ReembedFunction", "reembed--queue.json", None),
    ("ReembedFunction", "reembed.json", "ConfigurationError"),
    ("ContextFunction", "context.json", None),
    ("SearchApiFunction", "search_api--health.json", None),
    ("SmallFunction", "search_api--health.json", None),
    ("SmallFunction", "search_api.json", None),
)

EXPORTING = ("PlanFunction", "plan.json"), ("FuseRerankFunction", "fuse_rerank.json")
"""One function with the layer of telemetry, and one whose image has the same."""

SCRIPT = """
import json, sys, time
started = time.perf_counter()
import app
print("import", round((time.perf_counter() - started) * 1000), "ms", file=sys.stderr)
from types import SimpleNamespace
context = SimpleNamespace(
    function_name="check", memory_limit_in_mb=512, aws_request_id="check", tenant_id=None,
    invoked_function_arn="arn:aws:lambda:eu-west-1:123456789012:function:check",
)
try:
    print(json.dumps({"answer": app.handler(json.load(sys.stdin), context)}))
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""


def call(python: str, build: Path, event: Path, otlp: str = "") -> tuple[dict[str, object], str]:
    """Return what a built function answered or raised, and what it logged.

    Raises
    ------
    subprocess.CalledProcessError
        If it cannot even be imported.
    """
    function = next(path for path in build.iterdir() if path.name.endswith("Function"))
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{imports_of(build)}:{function}{':' + str(telemetry_of(build)) if otlp else ''}",
        "OTEL_EXPORTER_OTLP_ENDPOINT": otlp,
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_ACCESS_KEY_ID": "check",
        "AWS_SECRET_ACCESS_KEY": "check",
        "BRAID_ENGINE": "aws",
        "BRAID_MODELS_DIR": str(build / "no-models"),
        "BRAID_SHARED_DIR": str(shared_of(build)),
        "BRAID_OPENSEARCH_ENDPOINT": "https://127.0.0.1:9",
        "BRAID_NEPTUNE_ENDPOINT": "wss://127.0.0.1:9/gremlin",
        "BRAID_SCHEMA_TABLE": "braid-schemas",
        "AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:9",
    }
    if function.name == "SmallFunction":
        environment |= {"BRAID_ENGINE": "embedded", "BRAID_STORE_JOURNAL": "persist", "BRAID_HOME": str(build / "home")}
    done = subprocess.run(  # noqa: S603 - the Python that the caller names, our own script
        [python, "-S", "-P", "-c", SCRIPT],
        input=event.read_text(encoding="utf-8"),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    outcome: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return outcome, done.stderr


def imports_of(build: Path) -> Path:
    """Return where a function's imports lie: in the layer, or in what is the same in every image."""
    layer = build / "BraidLayer" / "python"
    return layer if layer.is_dir() else build.parent / "image"


def shared_of(build: Path) -> Path:
    """Return what a function finds in ``/opt``: the layer of what is shared, or what is copied there in every image."""
    return ROOT / "shared" if (build / "BraidLayer").is_dir() else build.parent / "opt"


def telemetry_of(build: Path) -> Path:
    """Return the layer that a function has besides where telemetry is exported; of an image, what it has anyway."""
    is_image = not (build / "BraidLayer").is_dir()
    return imports_of(build) if is_image else build.parent / "TelemetryLayer" / "TelemetryLayer" / "python"


def received(python: str, build: Path, event: Path) -> set[str]:
    """Return the paths that a receiver of OTLP was asked while a function was called."""
    paths: set[str] = set()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.add(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Leave the terminal alone."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            call(python, build, event, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
    return paths


def size_bytes(folder: Path) -> int:
    """Return what the files of a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(python: str, builds: Path) -> int:
    """Check every function; return how many are wrong."""
    wrong = 0
    for name, event, expected in EXPECTED:
        build = builds / name
        outcome, logged = call(python, build, ROOT / "events" / event)
        size = size_bytes(build) + (0 if imports_of(build).is_relative_to(build) else size_bytes(imports_of(build)))
        is_image = not imports_of(build).is_relative_to(build)
        right = outcome.get("error") == expected and (is_image or size < LIMIT_BYTES)
        wrong += not right
        said = outcome.get("error") or "answered"
        imported = logged.splitlines()[0]
        print(f"{'ok' if right else 'WRONG':5} {name}: {said}, {imported}, {size / 2**20:.0f} MB with what it imports")
        if not right:
            print(f"      expected {expected or 'an answer'}: {outcome}")
    for name, event in EXPORTING:
        paths = received(python, builds / name, ROOT / "events" / event)
        right = {"/v1/traces", "/v1/metrics"} <= paths
        wrong += not right
        print(f"{'ok' if right else 'WRONG':5} {name}: sends {', '.join(sorted(paths)) or 'nothing'}")
    telemetry = size_bytes(builds / "TelemetryLayer") / 2**20
    print(f"{'ok' if telemetry < TELEMETRY_MB else 'WRONG':5} TelemetryLayer: {telemetry:.0f} MB")
    return wrong + (telemetry >= TELEMETRY_MB)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
