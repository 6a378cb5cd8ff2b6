"""What the commands share: where they print, the engines they open, the options that several have."""

from __future__ import annotations

import atexit
import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from braid.settings import EngineKind
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from enum import StrEnum

    from braid.app import Wired

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def any_of(choices: type[StrEnum]) -> str:
    """Return the values that an option takes, for its help."""
    return ", ".join(choice.value for choice in choices)


def counted(number: int, one: str, several: str = "") -> str:
    """Return how many there are of something, in words that agree."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


FLAG = ""
"""Instead of a type, which would look as if a value were to follow."""
Engine = Annotated[
    EngineKind | None,
    typer.Option(help=f"Whose stores: {any_of(EngineKind)}. When left out, BRAID_ENGINE tells.", metavar="ENGINE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", metavar=FLAG)]


def examples(*commands: str) -> str:
    """Return the end of a help text: commands to try, one a line."""
    return "\n\n".join(["[bold]Examples[/bold]", *commands])


def open_engines(engine: EngineKind | None = None) -> Wired:
    """Return the stages over the engines that an option names, else the environment."""
    if engine:
        os.environ["BRAID_ENGINE"] = engine  # where the handlers read it
    from braid.app import wired

    stages = wired()
    if stages.settings.engine is EngineKind.AWS:
        atexit.register(stages.close)  # a connection left open complains on standard error
    return stages


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error once there is something to count, and take (done, all).

    Where standard error is not a terminal there is no bar.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, disable=quiet or not err.is_terminal, transient=True)
    task = bar.add_task(what, total=None)

    def update(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)
        if done >= total:
            bar.stop()

    try:
        yield update
    finally:
        bar.stop()


def print_json(value: object) -> None:
    """Print one JSON object, a line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()  # while whoever reads may still have gone away unnoticed
