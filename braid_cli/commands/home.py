"""``braid home``: shows the folders of store and models, and moves a store from another folder here."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import Annotated

import typer
from braid.errors import InvalidRequest, StoreError
from braid.settings import load_settings
from braid.settings.folders import DATABASE
from rich.text import Text

from braid_cli.options import AsJson  # noqa: TC001 - typer reads annotations
from braid_cli.terminal import examples, out, print_json

app = typer.Typer()


@app.command(epilog=examples("braid home", "braid home --take .braid", "braid --home ./here home"))
def home(
    *,
    take: Annotated[
        Path | None,
        typer.Option(help="Move the store of this folder to the home folder, which must not have one.", metavar="DIR"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the folders of the store and the models; --take moves the store of another folder here."""
    settings = load_settings()
    if take is not None:
        move_store(take, settings.home)
    places = {
        "home": str(settings.home.absolute()),
        "store": (settings.home / DATABASE).exists(),
        "models": str(settings.models_path().absolute()),
    }
    if as_json:
        print_json(places)
        return
    out.print(
        Text(f"store   {places['home']}{'' if places['store'] else ' (nothing is ingested yet)'}"), soft_wrap=True
    )
    out.print(Text(f"models  {places['models']}"), soft_wrap=True)


def move_store(source: Path, target: Path) -> None:
    """Move all files of a store's folder to another folder. An interrupted move is resumed by repeating it.

    Raises
    ------
    InvalidRequest
        If ``source`` has no store, or ``target`` has a store or files of the same names.
    StoreError
        If another process has the store open.
    """
    if not (source / DATABASE).is_file():
        raise InvalidRequest.of("--take", f"there is no store in {source}")
    if (target / DATABASE).exists():
        raise InvalidRequest.of("--take", f"{target} has a store already; BRAID_HOME={source} uses the other one")
    moved = sorted(entry.name for entry in source.iterdir() if entry.name != "models")
    if held := [name for name in moved if _is_held(target / name)]:
        raise InvalidRequest.of(
            "--take",
            f"{target} has {', '.join(held)} already, which would be mixed with those of {source}; "
            "move them away first",
        )
    try:
        with closing(sqlite3.connect(source / DATABASE, timeout=0, isolation_level=None)) as database:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("BEGIN EXCLUSIVE")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        raise StoreError(f"{source / DATABASE}: in use ({error}); end what has it open first") from error
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The database is moved last: until then the source still counts as a store, and the target does not.
    for entry in sorted(source.iterdir(), key=lambda path: path.name == DATABASE):
        there = target / entry.name
        if entry.name == "models" and there.is_dir():
            for model in entry.iterdir():
                if not (there / model.name).exists():
                    shutil.move(model, there / model.name)
        else:
            if there.is_dir() and not there.is_symlink():
                there.rmdir()  # otherwise the entry would be moved into this empty folder
            shutil.move(entry, there)


def _is_held(there: Path) -> bool:
    """Return whether a path exists and is not an empty folder."""
    empty = there.is_dir() and not there.is_symlink() and next(there.iterdir(), None) is None
    return os.path.lexists(there) and not empty
