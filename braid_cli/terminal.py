"""Shared by the commands: output, progress bars, exit codes, and opening the application."""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.app import Application
    from braid.models import GraphSource
    from braid.settings import EngineKind, Settings

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
GARBAGE = (10_000, 10, 10)
"""Thresholds of garbage collection; high, because most objects of a short command are modules, which stay alive."""

MAX_WIDTH: Final = 100_000
"""Width of output that is not printed on a terminal, where lines are not wrapped: above that of any line."""

RULE_WIDTH: Final = 100
"""Greatest width of a heading's line, unless the heading itself is longer."""

out = Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else MAX_WIDTH)
err = Console(stderr=True, highlight=False)


def complain(message: str, *, style: str = "red") -> None:
    """Print a message to standard error.

    Lines are not wrapped, so that paths in them can be copied. Control characters, which a message may quote from a
    file or a response, are replaced.
    """
    from braid.models.enums_and_scalars import printable

    shown = "\n".join(map(printable, message.split("\n")))
    err.print(Text(f"braid: {shown}", style=style), soft_wrap=True)


class Warnings(logging.Handler):
    """Log handler that prints the library's warnings by :func:`complain`."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message of a log record."""
        complain(record.getMessage(), style="yellow")


def print_heading(console: Console, heading: str | Text, *, style: str = "rule.line") -> None:
    """Print a heading at the left of a horizontal line."""
    title = Text(heading) if isinstance(heading, str) else heading
    width = max(RULE_WIDTH, title.cell_len + len(" ─"))
    console.print(Rule(title, align="left", style=style), width=min(console.width, width))


def examples(*commands: str) -> str:
    """Return the epilog of a help text: example commands, one a line."""
    return "\n\n".join(["[bold]Examples[/bold]", *commands])


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def open_application(engine: EngineKind | None = None, graph: GraphSource | None = None) -> Application:
    """Open the application; the engine and graph source, if given, are set in the environment first."""
    if engine:
        os.environ["BRAID_ENGINE"] = engine
    if graph:
        os.environ["BRAID_GRAPH"] = graph
    from braid.app import application
    from braid.settings import EngineKind

    opened = application()
    tell_of_earlier_store(opened.settings)
    if opened.settings.engine is EngineKind.AWS:
        atexit.register(opened.close)  # open connections would print warnings at exit
    return opened


def tell_of_earlier_store(settings: Settings) -> None:
    """Warn if the working directory has a store of an earlier version, which is not used.

    Earlier versions kept a store in each working directory, in ``.braid``; now each user has one.
    """
    from braid.settings import EngineKind
    from braid.settings.folders import DATABASE, EARLIER_HOME, user_folder

    earlier = EARLIER_HOME / DATABASE
    if settings.engine is EngineKind.EMBEDDED and settings.home == user_folder() and earlier.exists():
        moved = not (settings.home / DATABASE).exists()
        how = "`braid home --take .braid` moves it there, " if moved else ""
        complain(
            f"the store in {EARLIER_HOME.absolute()} is not used: Braid keeps its own in {settings.home}; "
            f"{how}BRAID_HOME=.braid uses it there",
            style="yellow",
        )


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, if that is a terminal.

    Yields a function that updates it, with the numbers of items done and in all; the first call shows the bar. The
    description may name a file: it is neither a format nor markup.
    """
    from braid.models.enums_and_scalars import printable
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    said = TextColumn("{task.description}", markup=False)
    columns = (said, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, disable=quiet or not err.is_terminal, transient=True)
    task = bar.add_task(printable(what), total=None)

    def update(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)
        if done >= total:
            bar.stop()

    try:
        yield update
    finally:
        bar.stop()


def make_models(application: Application, *, quiet: bool = False) -> None:
    """Make the missing models of the settings, with a progress bar.

    It takes seconds if their weights are installed, otherwise longer.

    Raises ModelError or StoreError if an existing model is damaged, or one cannot be made.
    """
    with progress("Making the model", quiet=quiet) as tell:
        tell(0, 1)
        application.make_models(tell)
        tell(1, 1)


def print_json(value: object) -> None:
    """Print a value as one line of JSON, with control and invisible characters and unpaired surrogates as escapes."""
    from braid.models.enums_and_scalars import UNSEEN

    line = re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    line = UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], line)
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(value)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()  # so that a closed pipe is noticed here, not at exit with a traceback


def read_input(file: Path, max_bytes: int) -> tuple[str, bytes]:
    """Read a file, or standard input for ``-``, and return its name for messages and its content.

    Content above the limit is cut after ``max_bytes`` + 1 bytes, by which the caller notices it.
    """
    if str(file) == "-":
        return "standard input", sys.stdin.buffer.read(max_bytes + 1)
    with file.open("rb") as opened:
        return str(file), opened.read(max_bytes + 1)
