"""Entry point of the command line ``braid``: builds it from its commands, and shows errors."""

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
"""The extra of Braid that installs each optional package."""
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Base class of typer's usage errors, which typer does not export itself."""
COMMANDS = {
    "demo": ("demo", "Ingest the demo corpus, answer questions about it, and measure."),
    "search": ("search", "Answer a question with ranked, cited results, by the deployed stages run on this machine."),
    "context": (
        "context",
        "Build a model's context from the conversation, stored records, and past decisions and tool calls.",
    ),
    "related": ("graph", "List the entities related to one, fewest hops first."),
    "facts": ("graph", "List an entity's relationships as sentences, each with the id of its evidence."),
    "graph-query": ("graph", "Run a read-only graph query, given as JSON, which walks the graph step by step."),
    "ingest": ("ingest", "Embed documents or a dataset, and write them to the search index and the knowledge graph."),
    "ingest-graph": ("ingest", "Write a graph of nodes and edges; nodes with content can be found as results too."),
    "stats": ("stats", "Count what is stored for a tenant: documents, records and the knowledge graph."),
    "list": ("listing", "List the documents or the entities of a tenant, or the tenants themselves."),
    "delete": (
        "delete",
        "Delete records, documents or a whole tenant permanently, from the search index and the knowledge graph.",
    ),
    "repair": (
        "repair",
        "Compare the knowledge graph with the search index, and repair differences.",
    ),
    "export": (
        "archive",
        "Export a tenant's records, graph and schema versions to a folder; repeat to resume.",
    ),
    "import": (
        "archive",
        "Import an archive into a tenant, and verify that the stored data equals it; repeat to resume.",
    ),
    "reembed": (
        "reembed",
        "Re-embed outdated records: too many schema versions behind, or without a vector of the active models.",
    ),
    "schema": ("schema", "A tenant's schema versions: list them, check the next one, register it."),
    "models": ("models", "List models and make model folders."),
    "members": ("members", "Manage the members of tenants and their roles, for BRAID_MEMBERSHIP=store."),
    "eval": (
        "evaluation",
        "Measure retrieval on judged questions: each strand alone, vectors and words, each fusion, the default.",
    ),
    "tune": (
        "tune",
        "Fit the fusion parameters on judged questions, and write them to the file that searches read.",
    ),
    "serve": ("serve", "Serve the HTTP API of the deployed function, and the explorer page at /explorer."),
    "mcp": (
        "mcp",
        "Serve the MCP tools search, context, related, facts and list_documents, over stdin and stdout or HTTP.",
    ),
    "home": (
        "home",
        "Show the folders of the store and the models; --take moves the store of another folder here.",
    ),
}
"""Each command's module in :mod:`braid_cli.commands`, and its help, in the order of ``braid --help``."""


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with the named commands, all by default; only their modules are imported."""
    app = _app()
    for module in dict.fromkeys(COMMANDS[name][0] for name in names):
        app.add_typer(import_module(f"braid_cli.commands.{module}").app)
    return app


def contents() -> typer.Typer:
    """Return a command line of all commands' names and help texts, for ``braid --help``; no module is imported."""
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
        help="Hybrid retrieval: answers a question with one ranked, cited list, from vectors, words and a graph.",
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
            help="Folder of stores and models; given before the command. Default: BRAID_HOME, else the user's own.",
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
    """Run the command line; errors of the library, and of the command line itself, are one line without a traceback."""
    gc.set_threshold(*GARBAGE)
    atexit.register(gc.freeze)  # no collection at the end of the process
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
    """Print a usage error in one line; for a command without arguments its help."""
    message = error.format_message().replace("Value error, ", "")
    if "\n" in message:
        error.show()
        return
    where = error.ctx.command_path if error.ctx else "braid"
    end = "" if message.endswith("?") else ";"
    complain(f"{message.rstrip('.')}{end} `{where} --help` shows what there is")


if __name__ == "__main__":
    main()
