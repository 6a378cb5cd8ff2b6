"""The command line as a whole: its table of commands, and how the library's warnings are shown."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import pytest
import typer.main
from typer.testing import CliRunner

from braid_cli import main

if TYPE_CHECKING:
    from collections.abc import Iterable


def commands(names: Iterable[str] = main.COMMANDS) -> list[str]:
    return list(getattr(typer.main.get_command(main.command_line(names)), "commands"))  # noqa: B009 - a group has them


def test_the_table_names_every_command_in_the_order_of_the_help() -> None:
    assert commands() == list(main.COMMANDS)


@pytest.mark.parametrize("name", main.COMMANDS)
def test_a_command_is_there_when_only_its_module_is_imported(name: str) -> None:
    assert commands([name]) == [each for each in main.COMMANDS if main.COMMANDS[each][0] == main.COMMANDS[name][0]]


def test_the_table_has_the_help_of_each_command() -> None:
    known = getattr(typer.main.get_command(main.command_line()), "commands")  # noqa: B009 - as above
    assert {name: what for name, (_, what) in main.COMMANDS.items()} == {
        name: " ".join(command.help.split("\n\n")[0].split()) for name, command in known.items()
    }


def test_every_tenant_may_be_given_as_t() -> None:
    waiting = dict(getattr(typer.main.get_command(main.command_line()), "commands"))  # noqa: B009 - as above
    spelled: dict[str, list[str]] = {}
    while waiting:
        name, command = waiting.popitem()
        waiting |= {f"{name} {inner}": below for inner, below in getattr(command, "commands", {}).items()}
        for option in command.params:
            if "--tenant" in option.opts:
                spelled[name] = list(option.opts)
    assert len(spelled) > 10
    assert {name: opts for name, opts in spelled.items() if "-t" not in opts} == {}


@pytest.mark.parametrize(
    ("typed", "offered"), [("braid re", {"reembed", "related", "repair"}), ("braid related --de", {"--depth"})]
)
def test_a_shell_completes_commands_and_options(typed: str, offered: set[str]) -> None:
    words = {"_BRAID_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = CliRunner().invoke(main.command_line(), prog_name="braid", env=words)
    assert set(done.output.split()) == offered


def test_a_name_that_is_not_utf8_is_complained_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bind(**_: object) -> None:
        "minutes-\udcff.md".encode()

    monkeypatch.setattr(sys, "argv", ["braid", "delete", "document", "minutes-\udcff.md"])
    monkeypatch.setattr(main, "command_line", lambda _: bind)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "braid: 'minutes-\\udcff.md': is not UTF-8; give its name or id as it is stored\n"
    )


def test_what_the_library_warns_of_is_a_line_like_any_other_complaint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = logging.getLogger("braid")
    before = list(library.handlers)

    def warn(**_: object) -> None:
        library.getChild("of_a_module").warning("%s cannot be read", "it")

    monkeypatch.setattr(sys, "argv", ["braid", "stats"])
    monkeypatch.setattr(main, "command_line", lambda _: warn)
    with pytest.raises(SystemExit):
        main.main()
    assert capsys.readouterr().err == "braid: it cannot be read\n"
    assert library.handlers == before
