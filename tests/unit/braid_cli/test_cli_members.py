"""``braid members``: who may ask for which tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.app import application
from braid.errors import InvalidRequest
from braid.settings import load_settings
from typer.testing import CliRunner

from braid_cli.main import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BRAID_HOME", str(tmp_path))
    forget()
    yield
    application().close()
    forget()


def forget() -> None:
    load_settings.cache_clear()
    application.cache_clear()


def members(*arguments: str) -> str:
    done = CliRunner().invoke(command_line(), ["members", *arguments])
    if done.exception:
        raise done.exception
    return done.output


def test_a_member_is_added_listed_and_removed() -> None:
    assert members("add", "user:ines", "--tenant", "acme", "--role", "writer") == "user:ines is a writer of acme\n"
    assert members("list", "user:ines") == "acme  writer\n"
    members("remove", "user:ines", "--tenant", "acme")
    assert members("list", "user:ines") == ""


@pytest.mark.parametrize("subject", ["ines", "user:", "iam: ", "group:ines", "user:a\nb"])
def test_what_is_no_subject_is_refused(subject: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^SUBJECT: "):
        members("add", subject, "--tenant", "acme")
