"""Starting and stopping servers, with small programs in their place."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from braid.errors import ConfigurationError

from braid_cli.local_servers import __main__ as command
from braid_cli.local_servers import java, localstack_server, maven, process, running_servers
from braid_cli.local_servers.process import Launch, ServerFailed

if TYPE_CHECKING:
    from pathlib import Path

SLEEP = "import time; time.sleep(60)"


def program(folder: Path, name: str, body: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def java_of(folder: Path, version: str) -> Path:
    program(folder, "bin/java", f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")
    return folder


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what this machine has: each test brings its own."""
    monkeypatch.setattr(java, "_FOLDERS", ())
    for name in ("JAVA_HOME", "OPENSEARCH_JAVA_HOME", "GREMLIN_JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("BRAID_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("version", "major"), [("21.0.2", 21), ("1.8.0_392", 8), ("25", 25)])
def test_a_java_says_its_version(tmp_path: Path, version: str, major: int) -> None:
    assert java.major_version(java_of(tmp_path / "jdk", version)) == major


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    program(tmp_path / "broken", "bin/java", "exit 1")
    assert java.major_version(tmp_path / "broken") is None
    assert java.major_version(tmp_path / "absent") is None


def test_the_first_java_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_of(tmp_path / "old", "17.0.1")))
    monkeypatch.setattr(java, "_FOLDERS", (f"{tmp_path}/jvm/*",))
    new = java_of(tmp_path / "jvm" / "new", "25")
    assert java.find("it", minimum=21) == new
    assert java.find("it", minimum=11, maximum=21) == tmp_path / "old"
    monkeypatch.setenv("SERVER_JAVA_HOME", str(java_of(tmp_path / "named", "22")))
    assert java.find("it", minimum=21, variables=("SERVER_JAVA_HOME", "JAVA_HOME")) == tmp_path / "named"


def test_a_missing_java_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_of(tmp_path / "old", "17.0.1")))
    with pytest.raises(ConfigurationError, match=r"OpenSearch needs Java 21 or newer; found .*old: Java 17.*JAVA_HOME"):
        java.find("OpenSearch", minimum=21)
    monkeypatch.delenv("JAVA_HOME")
    with pytest.raises(ConfigurationError, match="no Java at all"):
        java.find("OpenSearch", minimum=21)


def test_a_missing_maven_is_said_plainly() -> None:
    with pytest.raises(ConfigurationError, match=r"no mvn on PATH"):
        maven.fetch("it", (maven.Artifact("g", "a", "1"),), transitive=True)


def test_what_could_not_be_fetched_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "mvn", "echo 'Could not find artifact g:a'; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    with pytest.raises(ConfigurationError, match="Could not find artifact"):
        maven.fetch("it", (maven.Artifact("g", "a", "1"),), transitive=True)
    assert list((tmp_path / "cache" / "servers").iterdir()) == []


def test_packages_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    program(
        tmp_path / "bin",
        "mvn",
        f'echo x >> {calls}; for a in "$@"; do case $a in -DoutputDirectory=*) touch "${{a#*=}}/a.jar";; esac; done',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    artifacts = (maven.Artifact("g", "a", "1"),)
    folders = {maven.fetch("it", artifacts, transitive=False) for _ in range(2)}
    assert [[file.name for file in folder.iterdir()] for folder in folders] == [["a.jar"]]
    assert calls.read_text().count("x") == 1


def test_what_localstack_needs_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(localstack_server, "_ROOT", tmp_path)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no uv on PATH"):
        localstack_server.prepare(tmp_path)
    program(tmp_path / ".uv" / "bin", "uv", "exit 0")
    with pytest.raises(ConfigurationError, match=r"needs Python 3\.13"):
        localstack_server.prepare(tmp_path)
    program(tmp_path / ".uv" / "bin", "uv", "echo 'no such package'; exit 1")
    program(tmp_path / "versions" / "3.13.9" / "bin", "python3.13", "echo Python 3.13.9")
    with pytest.raises(ConfigurationError, match="no such package"):
        localstack_server.prepare(tmp_path)
    assert list((tmp_path / "cache" / "servers").iterdir()) == []


def test_a_server_that_ends_at_once_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    launch = Launch((sys.executable, "-c", "raise SystemExit('no more memory')"), "", ready=lambda: False)
    with pytest.raises(ServerFailed, match=r"(?s)ended with status 1.*no more memory"):
        process.start(launch, folder=tmp_path, log=tmp_path / "it.log")


def test_a_server_that_never_answers_is_stopped(tmp_path: Path) -> None:
    launch = Launch((sys.executable, "-c", SLEEP, str(tmp_path)), "", ready=lambda: False, start_timeout_s=0.5)
    with pytest.raises(ServerFailed, match="did not answer"):
        process.start(launch, folder=tmp_path, log=tmp_path / "it.log")
    assert children(tmp_path) == []


def test_a_server_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{SLEEP}', {str(tmp_path)!r}])"
    launch = Launch((sys.executable, "-c", script), "", ready=lambda: bool(children(tmp_path)))
    pid = process.start(launch, folder=tmp_path, log=tmp_path / "it.log")
    (child,) = children(tmp_path)
    assert process.stop(pid, marker=str(tmp_path))
    deadline = time.monotonic() + 5
    while process.command_line(child) and time.monotonic() < deadline:
        pass
    assert process.command_line(child) == ""


def children(folder: Path) -> list[int]:
    """Return the processes that have the folder as their own argument."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [""])[-1] == str(folder)]


def test_a_process_id_that_is_somebody_elses_by_now_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", SLEEP])  # noqa: S603 - our own interpreter
    try:
        assert not process.stop(other.pid, marker=str(tmp_path))
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_servers_start_once_and_stop_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Path] = []

    def prepare(folder: Path) -> Launch:
        started.append(folder)
        return Launch(
            (sys.executable, "-c", SLEEP, str(folder)), "http://127.0.0.1:1", ready=lambda: bool(children(folder))
        )

    monkeypatch.setattr(command, "SERVERS", {"opensearch": (prepare, lambda _: True)})
    arguments = ["--state", str(tmp_path / "state")]
    assert command.main(["status", *arguments]) == 1
    assert command.main(["up", *arguments]) == 0
    assert command.main(["up", *arguments]) == 0
    assert command.main(["status", *arguments]) == 0
    assert len(started) == 1
    assert "export BRAID_OPENSEARCH_ENDPOINT=http://127.0.0.1:1" in capsys.readouterr().out
    assert command.main(["down", *arguments]) == 0
    assert command.main(["down", *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == ["stopped opensearch", "nothing ran"]
    assert not started[0].exists()
    assert running_servers.read(tmp_path / "state") == {}
    assert (tmp_path / "state" / "opensearch.log").exists()


def test_a_server_that_cannot_start_leaves_no_folder_and_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Path] = []

    def prepare(folder: Path) -> Launch:
        tried.append(folder)
        raise ConfigurationError("no Java")

    monkeypatch.setattr(command, "SERVERS", {"opensearch": (prepare, lambda _: False)})
    assert command.main(["up", "--state", str(tmp_path / "state")]) == 1
    assert capsys.readouterr().err == "error: no Java\n"
    assert not tried[0].exists()
    assert running_servers.read(tmp_path / "state") == {}


def test_names_may_stand_behind_the_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["status", "--state", str(tmp_path), "gremlin"]) == 1
    assert capsys.readouterr().out == "gremlin: does not run\n"
