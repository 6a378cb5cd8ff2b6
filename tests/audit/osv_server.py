"""A server on this machine that answers as OSV documents, from advisories in OSV's format, or fails as a test says.

``python -m tests.audit.osv_server FOLDER`` serves the advisories of a folder's ``*.json`` files until it is stopped.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tests.loopback import listening

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Advisory = dict[str, Any]


@dataclass
class OsvServer:
    """Attributes that a test reads or sets.

    Attributes
    ----------
    advisories
        Of each package, by its canonical name.
    status
        What every question is answered with; ``None`` reads it and never answers, until the server ends.
    asked
        Package and version of each question.
    """

    advisories: dict[str, list[Advisory]]
    status: int | None = 200
    asked: list[tuple[str, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)
    url: str = ""


def within(version: Version, events: Iterable[dict[str, str]]) -> bool:
    """Return whether a version lies in a range, by the rule that OSV's format gives for it."""
    inside = False
    # Of two events at one version the one that begins counts last.
    for where, what in sorted(_placed(event) for event in events):
        if what == "introduced" and version >= where:
            inside = True
        elif (what == "fixed" and version >= where) or (what == "last_affected" and version > where):
            inside = False
    return inside


def _placed(event: dict[str, str]) -> tuple[Version, str]:
    [(what, where)] = event.items()
    return Version("0.dev0" if where == "0" else where), what


def concerns(advisory: Advisory, package: str, version: str) -> bool:
    """Return whether an advisory lists a version of a package of PyPI."""
    for affected in advisory["affected"]:
        if affected["package"]["ecosystem"] != "PyPI" or canonicalize_name(affected["package"]["name"]) != package:
            continue
        ranges = [one["events"] for one in affected.get("ranges", ()) if one["type"] == "ECOSYSTEM"]
        if version in affected.get("versions", ()) or any(within(Version(version), events) for events in ranges):
            return True
    return False


class _Handler(BaseHTTPRequestHandler):
    osv: OsvServer

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        package, version = canonicalize_name(question["package"]["name"]), question["version"]
        self.osv.asked.append((package, version))
        if self.osv.status is None:
            self.osv.ended.wait(60)
            return
        found = [one for one in self.osv.advisories.get(package, ()) if concerns(one, package, version)]
        body = json.dumps({"vulns": found} if found else {}).encode()
        self.send_response(self.osv.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def osv_server(advisories: Iterable[Advisory] = ()) -> Iterator[OsvServer]:
    """Run a server for the time of a context."""
    packages: defaultdict[str, list[Advisory]] = defaultdict(list)
    for advisory in advisories:
        for name in {canonicalize_name(affected["package"]["name"]) for affected in advisory["affected"]}:
            packages[name].append(advisory)
    server = OsvServer(packages)
    with listening(type("Handler", (_Handler,), {"osv": server})) as address:
        server.url = f"{address}/v1/query"
        try:
            yield server
        finally:
            server.ended.set()


def main(folder: Path) -> None:
    """Serve a folder's advisories; ``InvalidVersion`` names a range that cannot be compared."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("**/*.json"))]
    for advisory in read:
        for affected in advisory["affected"]:
            for one in affected.get("ranges", ()):
                if one["type"] == "ECOSYSTEM":
                    try:
                        within(Version("1"), one["events"])
                    except InvalidVersion as error:
                        raise SystemExit(f"{advisory['id']}: {error}") from error
    with osv_server(read) as server:
        print(f"{len(read)} advisories: make audit OSV_URL={server.url}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
