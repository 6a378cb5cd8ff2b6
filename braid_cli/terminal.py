"""Output on standard output and standard error, help texts, exit codes, and the application that a command opens."""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.app import Application
    from braid.models import GraphSource
    from braid.settings import EngineKind, Settings

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
GARBAGE = (10_000, 10, 10)
"""Thresholds of garbage collection: most objects of a short command are of imports, and stay."""

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def complain(message: str, *, style: str = "red") -> None:
    """Print to standard error, without breaking lines: paths in them are to be copied, and searched for.

    What a message quotes, of a file or a server's answer, steers no terminal.
    """
    from braid.models.scalars import printable

    shown = "\n".join(map(printable, message.split("\n")))
    err.print(Text(f"braid: {shown}", style=style), soft_wrap=True)


class Warnings(logging.Handler):
    """Prints the library's warnings to standard error, like the command line's own complaints."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        complain(record.getMessage(), style="yellow")


def examples(*commands: str) -> str:
    """Return the end of a help text: commands to try, one a line."""
    return "\n\n".join(["[bold]Examples[/bold]", *commands])


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def open_application(engine: EngineKind | None = None, graph: GraphSource | None = None) -> Application:
    """Return the application with the engine and the graph that options name, which it sets in the environment."""
    if engine:
        os.environ["BRAID_ENGINE"] = engine
    if graph:
        os.environ["BRAID_GRAPH"] = graph
    from braid.app import application
    from braid.settings import EngineKind

    opened = application()
    tell_of_earlier_store(opened.settings)
    if opened.settings.engine is EngineKind.AWS:
        atexit.register(opened.close)  # a connection left open complains on standard error
    return opened


def tell_of_earlier_store(settings: Settings) -> None:
    """Warn where the working directory has a store of a version that kept one in each, and the user's own has none."""
    from braid.settings import EngineKind
    from braid.settings.folders import DATABASE, EARLIER_HOME, user_folder

    earlier = EARLIER_HOME / DATABASE
    if settings.engine is EngineKind.EMBEDDED and settings.home == user_folder() and earlier.exists():
        moved = not (settings.home / DATABASE).exists()
        how = "`braid home --take .braid` moves it there, " if moved else ""
        complain(
            f"the store in {EARLIER_HOME.absolute()} is not used: Braid keeps its own in {settings.home}; "
            f"{how}BRAID_HOME=.braid goes on with it",
            style="yellow",
        )


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error once there is something to count, and take (done, all).

    Where standard error is not a terminal there is no bar. What it says may name a file: it is no format and no markup.
    """
    from braid.models.scalars import printable
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
    """Make the models that are used and missing, with a bar: seconds where their weights are installed, else longer.

    Raises ModelError or StoreError if a model that is there does not verify, or none can be written.
    """
    with progress("Making the model", quiet=quiet) as tell:
        tell(0, 1)
        application.make_models(tell)
        tell(1, 1)


def print_json(value: object) -> None:
    """Print one JSON object, a line; control characters, and half of a surrogate pair, as escapes."""
    line = re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    try:
        line.encode()
    except UnicodeEncodeError:
        line = json.dumps(value)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()  # while a reader that has gone away may still be noticed quietly


def read_input(file: Path, max_bytes: int) -> tuple[str, bytes]:
    """Return the name and the content of a file, or of standard input for ``-``; of one too long one byte more."""
    if str(file) == "-":
        return "standard input", sys.stdin.buffer.read(max_bytes + 1)
    with file.open("rb") as opened:
        return str(file), opened.read(max_bytes + 1)
