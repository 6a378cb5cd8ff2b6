"""Start ``braid serve``, ask it one question over HTTP, and stop it; for a process that a test isolates."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

TENANT = "saltmarrow"


def main(question: str) -> None:
    """Print the ids of what the server answers."""
    serve = [sys.executable, "-m", "braid_cli.main", "serve", "--tenant", TENANT, "--port", "0", "--json"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:  # noqa: S603 - this interpreter and our own module
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        headers = {"Authorization": f"Bearer {said['tokens'][TENANT]}", "Content-Type": "application/json"}
        body = json.dumps({"text": question}).encode()
        asked = urllib.request.Request(f"{said['url']}/search", body, headers)  # noqa: S310 - our own server
        with urllib.request.urlopen(asked, timeout=60) as answered:  # noqa: S310 - our own server
            print(*(result["id"] for result in json.load(answered)["results"]))
        server.terminate()


if __name__ == "__main__":
    main(sys.argv[1])
