"""The command line ``braid``: its commands, and how their errors are shown."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from importlib import import_module
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from braid import __version__
from braid.errors import (
    BraidError,
    ConfigurationError,
    DatasetError,
    InvalidRequest,
    StoresUnavailable,
    UnknownTenant,
    needs_extra,
)

from braid_cli.terminal import EXIT_BAD_INPUT, EXIT_FAILED, GARBAGE, Warnings, complain, examples

if TYPE_CHECKING:
    from collections.abc import Iterable

BAD_INPUT = (InvalidRequest, DatasetError, UnknownTenant, ConfigurationError)
EXTRAS = dict.fromkeys(("boto3", "botocore", "gremlin_python", "opensearchpy"), "aws") | {
    "mcp": "mcp",
    "moto": "workflow",
}
"""The extra that brings a package that is not there."""
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for a wrong command line; of its kinds it exports this one."""
COMMANDS = {
    "demo": ("demo", "Ingest the demo corpus, answer questions about it, and measure."),
    "search": ("search", "Ask one question, of the deployed stages run on this machine."),
    "context": (
        "context",
        "Choose what to show a model: of the conversation, of what is stored, of what was decided and done.",
    ),
    "related": ("graph", "Show what an entity is related to, the nearest first."),
    "graph-query": ("graph", "Walk the graph step by step, as a question in JSON says. It can only read."),
    "ingest": ("ingest", "Embed documents or a dataset, and write them to the search index and the knowledge graph."),
    "ingest-graph": ("ingest", "Write a graph of nodes and edges; nodes with content can be answers as well."),
    "stats": ("stats", "Count what is stored for a tenant: documents, records and the knowledge graph."),
    "list": ("listing", "List the documents or the entities of a tenant, or the tenants themselves."),
    "delete": (
        "delete",
        "Remove records, documents or a whole tenant, for good, from the search index and the knowledge graph.",
    ),
    "repair": (
        "repair",
        "Compare the knowledge graph with the search index, and bring it into line where they differ.",
    ),
    "export": (
        "archive",
        "Write all records, the graph and the schema versions of a tenant into a folder; again, and it goes on.",
    ),
    "import": (
        "archive",
        "Write an archive into a tenant and compare what is stored then with it; again, and it goes on.",
    ),
    "reembed": (
        "reembed",
        "Embed again what is outdated: too many schema versions behind, or without a vector of the active models.",
    ),
    "schema": ("schema", "A tenant's schema versions: list them, check the next one, register it."),
    "models": ("models", "List models and make model folders."),
    "members": ("members", "Who may ask for which tenant, where BRAID_MEMBERSHIP is store."),
    "eval": (
        "evaluation",
        "Measure retrieval on judged questions: each strand alone, vectors and words, each fusion, the default.",
    ),
    "tune": (
        "tune",
        "Fit the weights of fusion on judged questions, and write them where the next search reads them.",
    ),
    "serve": ("serve", "Answer HTTP requests as the deployed function does, and show the page at /explorer."),
    "mcp": (
        "mcp",
        "Offer search, context, related, facts and list_documents to an agent, over standard input and output or HTTP.",
    ),
    "home": (
        "home",
        "Show where the store and the models lie; --take moves a store here, such as one of an earlier version.",
    ),
}
"""Each command, its module in :mod:`braid_cli.commands`, whose ``app`` holds it, and its help; in the help's order."""


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with some of its commands, or all; only their modules are imported."""
    app = _app()
    for module in dict.fromkeys(COMMANDS[name][0] for name in names):
        app.add_typer(import_module(f"braid_cli.commands.{module}").app)
    return app


def contents() -> typer.Typer:
    """Return the command line with all commands by name and help alone: nothing of theirs is imported."""
    app = _app()
    for name, (_, what) in COMMANDS.items():
        app.command(name, help=what)(lambda: None)
    return app


def _app() -> typer.Typer:
    app = typer.Typer(
        name="braid",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="One question in, one ranked and cited list out: vectors, words and a knowledge graph, braided.",
        epilog=examples(
            "braid demo",
            "braid ingest my-documents --tenant acme",
            "braid search 'Why did checkout fail in March?' --tenant acme --explain",
            "braid eval my-data",
        ),
    )
    app.callback()(_of_all)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"braid {__version__}\n")
        raise typer.Exit


def _of_all(
    home: Annotated[
        Path | None,
        typer.Option(
            help="Folder of stores and models, before the command. When left out, BRAID_HOME, else the user's own.",
            metavar="DIR",
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    if home is not None:
        os.environ["BRAID_HOME"] = str(home)  # where the settings are read


def main() -> None:
    """Run the command line; errors of the user's making are one line, and no traceback."""
    gc.set_threshold(*GARBAGE)
    atexit.register(gc.freeze)  # nor when the process ends
    os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "CRITICAL")
    logging.getLogger("braid").addHandler(warnings := Warnings())
    chosen = [name for name in sys.argv[1:2] if name in COMMANDS]
    try:
        if any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
            from braid.telemetry.exporting import start

            start("braid")
        line = contents() if sys.argv[1:] in ([], ["--help"]) else command_line(chosen or COMMANDS)
        sys.exit(line(prog_name="braid", standalone_mode=False))
    except USAGE_ERROR as error:
        _complain_of_usage(error)
        sys.exit(EXIT_BAD_INPUT)
    except StoresUnavailable as error:
        complain(f"neither the search index nor the knowledge graph answered: {error}")
        sys.exit(EXIT_FAILED)
    except BraidError as error:
        complain(str(error))
        sys.exit(EXIT_BAD_INPUT if isinstance(error, BAD_INPUT) else EXIT_FAILED)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        complain(needs_extra(EXTRAS[error.name]))
        sys.exit(EXIT_BAD_INPUT)
    except UnicodeEncodeError as error:
        if error.reason != "surrogates not allowed":
            raise
        complain(f"{error.object[:200]!a}: is not UTF-8; give its name or id as it is stored")
        sys.exit(EXIT_BAD_INPUT)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(EXIT_FAILED)
    finally:
        logging.getLogger("braid").removeHandler(warnings)


def _complain_of_usage(error: Any) -> None:  # noqa: ANN401 - its class is not exported
    """Say in one line what is wrong with a command line; one without arguments is answered with help."""
    message = error.format_message().replace("Value error, ", "")
    if "\n" in message:
        error.show()
        return
    where = error.ctx.command_path if error.ctx else "braid"
    end = "" if message.endswith("?") else ";"
    complain(f"{message.rstrip('.')}{end} `{where} --help` shows what there is")


if __name__ == "__main__":
    main()
