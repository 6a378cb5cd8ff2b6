"""How ``braid list`` prints rows: on a wide terminal, on a narrow one, and elsewhere."""

from __future__ import annotations

import pytest
from rich.console import Console

from braid_cli.commands import listing
from braid_cli.terminal import MAX_WIDTH

HEADINGS = ("document", "title", "format", "chunks")
SHORT = ("a.md", "Harbour", "markdown", "3")
LONG = (f"company/{'deep/' * 12}contract 7.pdf", "A contract whose title is long enough to fold", "pdf", "12")
SKIPPED = ("company/scan.pdf", "skipped: is scanned: it has pages and no text", "", "")


def printed(monkeypatch: pytest.MonkeyPatch, *rows: tuple[str, ...], width: int = 80, limit: int = 9) -> list[str]:
    console = Console(width=width, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(listing, "out", console)
    with console.capture() as capture:
        listing._table(HEADINGS, rows, limit)
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


def test_rows_that_fit_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    heading, _, *lines = printed(monkeypatch, SHORT, SKIPPED, width=120)
    assert heading.split() == list(HEADINGS)
    assert [line.split()[0] for line in lines] == ["a.md", "company/scan.pdf"]
    assert lines[0].endswith("3")


def test_on_a_narrow_terminal_nothing_of_a_row_is_lost_and_its_id_can_be_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = printed(monkeypatch, LONG, SKIPPED)
    assert lines == [LONG[0], f"    {LONG[1]} · pdf · chunks 12", SKIPPED[0], f"    {SKIPPED[1]}"]
    assert printed(monkeypatch, LONG, width=160)[0].split() == list(HEADINGS)


def test_elsewhere_each_row_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    heading, _, *lines = printed(monkeypatch, LONG, SKIPPED, width=MAX_WIDTH)
    assert heading.split() == list(HEADINGS)
    assert len(lines) == 2
    assert all(cell in lines[0] for cell in LONG)
    assert all(cell in lines[1] for cell in SKIPPED)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_what_is_beyond_the_limit_is_said(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = printed(monkeypatch, LONG, SHORT, width=width, limit=1)
    assert lines[-1] == "and more; --limit shows them"
    assert not any(line.startswith("a.md") for line in lines)
    assert printed(monkeypatch) == ["Nothing is stored."]
