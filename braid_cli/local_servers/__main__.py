"""``python -m braid_cli.local_servers up|down|status``: start, stop and list the servers."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from braid.errors import BraidError

from braid_cli.local_servers import gremlin_server, localstack_server, opensearch_server, process, running_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid_cli.local_servers.process import Launch

SERVERS: dict[str, tuple[Callable[[Path], Launch], Callable[[str], bool]]] = {
    "opensearch": (opensearch_server.prepare, opensearch_server.answers),
    "gremlin": (gremlin_server.prepare, gremlin_server.answers),
    "localstack": (localstack_server.prepare, localstack_server.answers),
}
STORES = ("opensearch", "gremlin")
"""Default servers of ``up`` and ``status``."""
VARIABLES = {
    "opensearch": "BRAID_OPENSEARCH_ENDPOINT",
    "gremlin": "BRAID_NEPTUNE_ENDPOINT",
    "localstack": "AWS_ENDPOINT_URL",
}


def up(folder: Path, names: Sequence[str]) -> dict[str, running_servers.Running]:
    """Start the named servers that do not run yet, and return all that run."""
    with running_servers.locked(folder):
        running = running_servers.read(folder)
        for name in names:
            prepare, answers = SERVERS[name]
            if name in running:
                if answers(running[name].endpoint):
                    continue
                _stop(running.pop(name))
                running_servers.write(folder, running)
            # In a folder of its own outside the state folder, which an unprivileged account can reach.
            copy = Path(tempfile.mkdtemp(prefix=f"braid-{name}-"))
            log = (folder / f"{name}.log").resolve()
            log.write_bytes(b"")
            try:
                launch = prepare(copy)
                pid = process.start(launch, folder=copy, log=log)
            except BaseException:
                shutil.rmtree(copy, ignore_errors=True)
                raise
            running[name] = running_servers.Running(name, pid, launch.endpoint, str(copy), str(log))
            running_servers.write(folder, running)
        return running


def down(folder: Path, names: Sequence[str]) -> list[str]:
    """Stop the named servers and return those that ran; their logs stay."""
    with running_servers.locked(folder):
        running = running_servers.read(folder)
        stopped = [name for name in names if name in running and _stop(running.pop(name))]
        running_servers.write(folder, running)
        return stopped


def _stop(server: running_servers.Running) -> bool:
    ran = process.stop(server.pid, marker=server.folder)
    shutil.rmtree(server.folder, ignore_errors=True)
    return ran


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m braid_cli.local_servers", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument(
        "names", nargs="*", help=f"servers: {', '.join(SERVERS)}; default: opensearch and gremlin, for down all"
    )
    parser.add_argument(
        "--state", type=Path, default=running_servers.default_folder(), help="folder for addresses and logs"
    )
    options = parser.parse_intermixed_args(arguments)
    unknown = sorted(set(options.names) - set(SERVERS))
    if unknown:
        parser.error(f"no server is called {', '.join(unknown)}; there are {', '.join(SERVERS)}")
    default = list(SERVERS) if options.command == "down" else [name for name in STORES if name in SERVERS]
    names = options.names or default
    try:
        if options.command == "up":
            running = up(options.state, names)
            for name in names:
                print(f"export {VARIABLES[name]}={running[name].endpoint}")
            return 0
        if options.command == "down":
            stopped = down(options.state, names)
            print(f"stopped {', '.join(stopped)}" if stopped else "nothing ran")
            return 0
        running = running_servers.read(options.state)
        healthy = {name: name in running and SERVERS[name][1](running[name].endpoint) for name in names}
        for name in names:
            print(f"{name}: {running[name].endpoint if healthy[name] else 'does not run'}")
    except BraidError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if all(healthy.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
