"""The container image, laid out and run without an engine: not as root, on a file system that cannot be written.

What the Dockerfile installs and copies is laid in folders; a mount namespace shows these where the image has them, and
everything but its volume and ``/tmp`` read-only. Command, environment and health check are read from the Dockerfile.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
BUILT, IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").split("\nFROM ")[1:]
USER = 10_001
TEMPORARY = "/tmp"  # noqa: S108 - mounted where the image runs
INSIDE = """
set -e
mount --make-rprivate /
mount -t tmpfs none /opt && mkdir /opt/braid /opt/models
mount --bind "$1/braid" /opt/braid && mount --bind "$1/models" /opt/models
mount -t tmpfs none /srv && mkdir /srv/braid && mount --bind "$1/volume" /srv/braid
mount -t tmpfs none /tmp
for each in / /opt /opt/braid /opt/models /srv; do mount -o remount,bind,ro "$each"; done
cd /; shift
exec unshare --user --map-user=USER --map-group=USER -- "$@"
""".replace("USER", str(USER))
"""The shell's first argument is the folder with what the image has, the others are a command."""


def said(instruction: str) -> str:
    """Return the arguments of the last instruction of a name in the image's own stage."""
    return re.findall(rf"(?m)^{instruction}\s+(.+)$", IMAGE)[-1]


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in re.findall(r"(?m)^ENV\s+(.+)$", IMAGE) for pair in line.split())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay out what the image has: ``/opt``, and an empty volume."""
    folder = tmp_path_factory.mktemp("image")
    uv = os.environ["UV"]
    (export,) = re.findall(r"uv (export .+?) +--output-file (\S+)", BUILT)
    requirements = folder / export[1]
    (wheel,) = (ROOT / "dist").glob("braid_retrieval-*.whl")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    subprocess.run([uv, *export[0].split(), "--output-file", requirements], check=True, cwd=ROOT, capture_output=True)  # noqa: S603 - as the Dockerfile
    with requirements.open("a", encoding="utf-8") as opened:
        opened.write(f"braid-retrieval @ file://{wheel} --hash=sha256:{digest}\n")
    for command in re.findall(r"uv ((?:venv|pip) .+?)(?: +&&|\n|$)", BUILT):
        here = command.replace("/opt/", f"{folder}/").replace("--compile-bytecode", "").split()
        here += ["--python", os.environ["PYTHONS"].split()[0]] if here[0] == "venv" else []
        subprocess.run([uv, *here], check=True, cwd=folder)  # noqa: S603 - as the Dockerfile
    (made,) = re.findall(r"RUN (\.venv/bin/braid models export .+)", BUILT)
    subprocess.run([*made.replace("/opt/", f"{folder}/").split()], check=True, cwd=ROOT, capture_output=True)  # noqa: S603 - as the Dockerfile
    (folder / "volume").mkdir()
    done = subprocess.run(inside(folder, "true"), capture_output=True, text=True, check=False)  # noqa: S603 - made here
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"no namespace: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return folder


def inside(image: Path, *command: str) -> list[str]:
    """Return a command that runs the image's own command, with these arguments, as the image would."""
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    enter = ["unshare", *root, "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh", str(image)]
    # Whatever is fetched would be by this proxy, which is not there: the first start needs no network.
    alone = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}
    given = [f"{name}={value}" for name, value in (environment() | alone).items()]
    return [*enter, "env", "-i", *given, *command]


@pytest.fixture(scope="module")
def server(image: Path) -> Iterator[dict[str, Any]]:
    """Start what the image starts, on a free port; return what it says."""
    command = [*json.loads(said("ENTRYPOINT")), *json.loads(said("CMD")), "--port", "0", "--json"]
    with subprocess.Popen(inside(image, *command), stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - as the Dockerfile says
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def ask(server: dict[str, Any], path: str, **how: Any) -> bytes:
    with urlopen(Request(f"{server['url']}{path}", **how), timeout=60) as answer:  # noqa: S310 - a loopback address
        content: bytes = answer.read()
        return content


def test_it_runs_as_nobody_special_on_files_that_cannot_be_written(image: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "for each in sys.argv[1:]:\n"
        "    try: pathlib.Path(each, 'written').write_text('x'); print(each, os.getuid(), 'written')\n"
        "    except OSError as error: print(each, os.getuid(), error.strerror)\n"
    )
    places = ("/opt/braid", "/opt/models", "/srv", "/srv/braid", TEMPORARY)
    done = subprocess.run(inside(image, "python", "-c", script, *places), capture_output=True, text=True, check=True)  # noqa: S603 - made here
    (image / "volume" / "written").unlink()
    refused = "Read-only file system"
    assert [line.split(maxsplit=2) for line in done.stdout.splitlines()] == [
        [place, said("USER").split(":")[0], "written" if place in {said("VOLUME"), TEMPORARY} else refused]
        for place in places
    ]


def test_its_server_is_healthy_and_answers_a_question_with_the_model_that_is_in_it(
    image: Path, server: dict[str, Any]
) -> None:
    host, _, port = server["url"].rpartition(":")
    assert host == "http://127.0.0.1"
    (check,) = re.findall(r"(?m)^HEALTHCHECK .*?CMD (\[.+\])$", IMAGE)
    subprocess.run(inside(image, *json.loads(check.replace("8700", port))), check=True)  # noqa: S603 - as the Dockerfile says
    headers = {"Authorization": f"Bearer {server['tokens']['saltmarrow']}", "Content-Type": "application/json"}
    body = json.dumps({"text": "Why did label printing fail in Lisbon?"}).encode()
    answer = json.loads(ask(server, "/search", data=body, headers=headers))
    assert answer["results"]
    assert answer["degraded"] == []
    assert b"<html" in ask(server, "/explorer")


def test_an_agents_tools_answer_from_the_same_volume(image: Path, server: dict[str, Any]) -> None:
    assert server["tokens"]
    call = {"name": "search", "arguments": {"question": "Who owns Keelson?"}}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    command = inside(image, *json.loads(said("ENTRYPOINT")), "mcp", "--tenant", "saltmarrow")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - as docs/docker.md says
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines))
            process.stdin.flush()
            answered = next(line for line in map(json.loads, process.stdout) if line.get("id") == 2)
        finally:
            process.kill()
    assert "Keelson" in json.dumps(answered["result"])
    assert not answered["result"].get("isError")
