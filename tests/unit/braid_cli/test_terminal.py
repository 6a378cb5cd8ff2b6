"""What the command line says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from braid.errors import InvalidRequest
from braid.models import Path
from braid.models.enums_and_scalars import on_one_line
from braid.ports.schema_registry import SchemaVersion
from rich.console import Console

from braid_cli import terminal
from braid_cli.answer_rendering import path_text
from braid_cli.commands import schema
from braid_cli.terminal import complain, counted, print_json, progress
from tests.contract.shapes import ACME, AS_OF

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path as FilePath

HOSTILE = "\x1b]0;x\x07[red]\u202et[/x]"
SHOWN = "�]0;x�[red]�t[/x]"


def complained() -> None:
    complain(f"archive/manifest.json: {HOSTILE}: unknown field\nsecond line")


def listed_schemas() -> None:
    schema.list_versions(tenant=ACME)


@pytest.mark.parametrize("said", [complained, listed_schemas])
def test_what_a_file_or_a_tenant_s_writer_says_steers_no_terminal(
    said: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = SchemaVersion(tenant_id=ACME, version=2, created_at=AS_OF, changes=HOSTILE)
    stages = SimpleNamespace(schemas=SimpleNamespace(versions=lambda _: [version]))
    monkeypatch.setattr(schema, "open_application", lambda _: stages)
    said()
    out, err = capsys.readouterr()
    assert SHOWN in "".join((out + err).split())
    assert all(on_one_line(line) == line for line in (out + err).splitlines())


@pytest.mark.parametrize(
    ("content", "why"), [("[" * 100_000, "is not JSON"), (" " * 2_000_001, "longer than 2,000,000 bytes")]
)
def test_a_schema_s_file_is_read_in_part_and_what_is_no_json_is_said_in_a_line(
    content: str, why: str, tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "open_application", lambda _: SimpleNamespace())
    file = tmp_path / "schema.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidRequest, match=why):
        schema.check(file, tenant=ACME)


def test_a_bar_says_a_file_s_name_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr(terminal, "err", Console(file=shown, force_terminal=True, width=120))
    with progress(f"Reading {{b}} {{task.id.real}} {HOSTILE}") as tell:
        tell(1, 2)
    assert f"Reading {{b}} {{task.id.real}} {SHOWN}" in shown.getvalue()


@pytest.mark.parametrize(("width", "lines"), [({}, 1), ({"COLUMNS": "40"}, 13)])
def test_what_is_not_printed_on_a_terminal_is_not_wrapped_unless_a_width_is_set(
    width: dict[str, str], lines: int
) -> None:
    program = [sys.executable, "-c", "from braid_cli.terminal import out; out.print('word ' * 100)"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | width
    printed = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 - our own code
    assert len(printed.stdout.splitlines()) == lines


@pytest.mark.parametrize(("width", "printed"), [(terminal.MAX_WIDTH, terminal.RULE_WIDTH), (60, 60)])
def test_the_line_of_a_heading_is_no_wider_than_a_page(width: int, printed: int) -> None:
    shown = StringIO()
    terminal.print_heading(Console(file=shown, width=width), "A heading")
    assert shown.getvalue() == f"A heading {'─' * (printed - 10)}\n"


def test_ids_and_names_of_a_path_do_not_turn_around_what_stands_beside_them() -> None:
    path = Path(ids=("a\u202e", "b"), types=("CAUSES",), names=("x\u2066y", "z"))
    assert path_text(path).plain == "x�y ─CAUSES→ z"


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("record",), "1 record"),
        (0, ("record",), "0 records"),
        (1_200, ("record",), "1,200 records"),
        (1, ("vertex", "vertices"), "1 vertex"),
        (2, ("vertex", "vertices"), "2 vertices"),
    ],
)
def test_what_is_counted_agrees_with_its_number(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said


def test_json_steers_no_terminal_and_says_what_the_text_holds(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "a\x9b31m\x7fb\x1b[2J é \u202e \U000e0041"})
    out = capsys.readouterr().out
    assert on_one_line(out.rstrip("\n")) == out.rstrip("\n")
    assert json.loads(out) == {"text": "a\x9b31m\x7fb\x1b[2J é \u202e \U000e0041"}


def test_a_heading_is_not_cut_where_there_is_room_for_it() -> None:
    shown = StringIO()
    terminal.print_heading(Console(file=shown, width=terminal.MAX_WIDTH), "word " * 30 + "end")
    assert shown.getvalue() == "word " * 30 + "end ─\n"
