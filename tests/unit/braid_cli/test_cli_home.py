"""Where everything lies, and moving a store of an earlier version there."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from braid import Braid, __version__
from braid.app import application
from braid.client.in_process import InProcess
from braid.errors import InvalidRequest, StoreError
from braid.settings import Settings, load_settings
from typer.testing import CliRunner

from braid_cli.commands.home import move_store
from braid_cli.main import command_line
from braid_cli.terminal import open_application
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("BRAID_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    load_settings.cache_clear()
    application.cache_clear()
    yield
    load_settings.cache_clear()
    application.cache_clear()


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Make a store as versions before had it, in the working directory."""
    (tmp_path / ".braid" / "models" / "tiny").mkdir(parents=True)
    stages = DemoStages(Settings(home=tmp_path / ".braid"))
    Braid._of(InProcess(stages.settings, stages), None).add({"id": "a", "text": "Kept since long."})
    stages.close()
    return tmp_path / ".braid"


def stored(home: Path) -> list[str]:
    with Braid(home) as braid:
        return [record.id for record in braid.records()]


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(command_line(), ["--version"])
    assert (done.exit_code, done.output) == (0, f"braid {__version__}\n")


def test_everything_lies_in_one_place_a_user_unless_another_is_named(tmp_path: Path) -> None:
    def places(*options: str) -> dict[str, object]:
        load_settings.cache_clear()
        done = CliRunner(env={"BRAID_HOME": None}).invoke(command_line(), [*options, "home", "--json"])
        shown: dict[str, object] = json.loads(done.output)
        return shown

    own = tmp_path / "data" / "braid"
    assert places() == {"home": str(own), "store": False, "models": str(own / "models")}
    assert places("--home", "here")["home"] == str(tmp_path / "here")


def test_a_store_of_an_earlier_version_is_pointed_out_and_moved_on_request(
    tmp_path: Path, earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_application()
    assert "`braid home --take .braid` moves it there" in capsys.readouterr().err
    (tmp_path / "data" / "braid" / "models" / "other").mkdir(parents=True)
    done = CliRunner().invoke(command_line(), ["home", "--take", ".braid"])
    assert done.exit_code == 0, done.output
    own = tmp_path / "data" / "braid"
    assert stored(own) == ["a"]
    assert {model.name for model in (own / "models").iterdir()} == {"other", "tiny"}
    assert not (earlier / "braid.db").exists()
    application.cache_clear()
    open_application()
    assert capsys.readouterr().err == ""


def test_a_store_is_mixed_with_nothing_that_lies_where_it_is_to_go(tmp_path: Path, earlier: Path) -> None:
    new = tmp_path / "new"
    (new / "objects" / "acme").mkdir(parents=True)
    (earlier / "objects" / "acme").mkdir(parents=True, exist_ok=True)
    with pytest.raises(InvalidRequest, match="has objects already"):
        move_store(earlier, new)
    assert stored(earlier) == ["a"]
    (new / "objects" / "acme").rmdir()
    move_store(earlier, new)
    assert [path.name for path in (new / "objects").iterdir()] == ["acme"]


def test_a_store_is_moved_over_none_from_nowhere_and_not_while_it_is_open(tmp_path: Path, earlier: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no store in"):
        move_store(tmp_path / "nowhere", tmp_path / "new")
    with closing(sqlite3.connect(earlier / "braid.db")) as other:
        other.execute("SELECT count(*) FROM records").fetchone()
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="in use"):
            move_store(earlier, tmp_path / "new")
    move_store(earlier, tmp_path / "new")
    (earlier / "braid.db").write_bytes(b"")
    with pytest.raises(InvalidRequest, match="has a store already"):
        move_store(earlier, tmp_path / "new")
    assert stored(tmp_path / "new") == ["a"]
