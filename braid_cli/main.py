"""The command line: ``braid``."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from braid.errors import BraidError, ConfigurationError, DatasetError, InvalidRequest, StoresUnavailable, UnknownTenant
from braid.models import Fusion, Intent, Query, Ranking, RerankerKind, Strategy
from rich.text import Text

from braid_cli.question import check_known, question, unusable_models
from braid_cli.terminal import FLAG, AsJson, Engine, any_of, err, examples, open_engines, out, print_json, progress

if TYPE_CHECKING:
    from braid.app import Wired
    from braid.models import Answer

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
BAD_INPUT = (InvalidRequest, DatasetError, UnknownTenant, ConfigurationError)
DEFAULT_TENANT = "default"


app = typer.Typer(
    name="braid",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    help="One question in, one ranked and cited list out: vectors, words and a knowledge graph, braided.",
    epilog=examples(
        "braid demo",
        "braid ingest my-data --tenant acme",
        "braid search 'Why did checkout fail in March?' --tenant acme --explain",
        "braid eval my-data",
    ),
)
Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Whose data.", show_default=True, metavar="NAME")]


def main() -> None:
    """Run the command line; errors of the user's making are one line, and no traceback."""
    os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "CRITICAL")
    logging.getLogger("braid").addHandler(warnings := _Warnings())
    try:
        app()
    except StoresUnavailable as error:
        _complain(f"neither the search index nor the knowledge graph answered: {error}")
        sys.exit(EXIT_FAILED)
    except BraidError as error:
        _complain(str(error))
        sys.exit(EXIT_BAD_INPUT if isinstance(error, BAD_INPUT) else EXIT_FAILED)
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(EXIT_FAILED)
    finally:
        logging.getLogger("braid").removeHandler(warnings)


class _Warnings(logging.Handler):
    """Show what the library warns of as the command line shows its own complaints."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        _complain(record.getMessage(), style="yellow")


def _complain(message: str, *, style: str = "red") -> None:
    """Print to standard error, without breaking lines: paths in them are to be copied, and searched for."""
    err.print(Text(f"braid: {message}", style=style), soft_wrap=True)


@app.command(epilog=examples("braid demo"))
def demo() -> None:
    """Ingest the demo corpus, answer questions about it, and measure.

    The real handlers answer, run by the real state machine, on this machine and without a network.
    """
    from braid_cli.demo.tour import tour

    tour(out, open_engines(), progress)


@app.command(
    epilog=examples(
        "braid search 'What caused the Beacon text storm?' --tenant saltmarrow",
        "braid search 'Who owns the ledger?' -t saltmarrow --top-k 3 --explain",
        "braid search 'How long are messages kept?' -t saltmarrow --as-of 2024-01-10 --json",
    )
)
def search(
    text: Annotated[str, typer.Argument(help="The question, 1 to 10,000 characters.", metavar="TEXT")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    top_k: Annotated[int, typer.Option(help="How many results, 1 to 50.", metavar="N")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan, where each result comes from, and timings.", metavar=FLAG)
    ] = False,
    as_of: Annotated[
        str | None, typer.Option(help="Answer with what held at this time, such as 2024-05-01.", metavar="TIME")
    ] = None,
    within: Annotated[
        str | None, typer.Option(help="Only what the graph reaches from this entity.", metavar="ENTITY")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this entity type; may be repeated.", metavar="TYPE")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only what happened then or later.", metavar="TIME")] = None,
    until: Annotated[str | None, typer.Option(help="Only what happened before then.", metavar="TIME")] = None,
    min_similarity: Annotated[
        float | None,
        typer.Option(
            help="Least similarity in meaning of what is found by its text, 0 to 1; what the graph reaches needs none.",
            metavar="SCORE",
        ),
    ] = None,
    intent: Annotated[
        Intent | None, typer.Option(help=f"{any_of(Intent)}. When left out, the question tells.", metavar="INTENT")
    ] = None,
    strategy: Annotated[
        Strategy | None, typer.Option(help=f"{any_of(Strategy)}. When left out, it is planned.", metavar="STRATEGY")
    ] = None,
    ranking: Annotated[
        Ranking, typer.Option(help=f"What the score is made of: {any_of(Ranking)}.", metavar="RANKING")
    ] = Ranking.RELEVANCE,
    fusion: Annotated[
        Fusion | None,
        typer.Option(
            help=f"How the strands become one list: {any_of(Fusion)}. When left out, it is planned.", metavar="FUSION"
        ),
    ] = None,
    reranker: Annotated[
        RerankerKind | None,
        typer.Option(help=f"Who scores the first 50 again: {any_of(RerankerKind)}.", metavar="RERANKER"),
    ] = None,
    engine: Engine = None,
    as_json: AsJson = False,
    state_machine: Annotated[
        bool,
        typer.Option("--state-machine", help="By the one that is deployed: the same answer, later.", metavar=FLAG),
    ] = False,
) -> None:
    """Ask one question, of the deployed stages run on this machine."""
    if strategy is Strategy.GRAPH_FIRST and not within:
        raise InvalidRequest("--strategy: graph_first needs --within ENTITY, from which the graph is walked")
    asked = question(
        {
            "text": text,
            "tenant_id": tenant,
            "intent": intent,
            "top_k": top_k,
            "ranking": ranking,
            "fusion": fusion,
            "reranker": reranker,
            "as_of": as_of,
            "graph_constraint": None if within is None else {"entity": within},
            "filters": {
                "entity_types": tuple(types or ()),
                "time_range": {"start": since, "end": until} if since or until else None,
            },
            "hints": {"strategy": strategy, "min_similarity": min_similarity},
            "explain": explain,
        }
    )
    wired = open_engines(engine)
    check_known(tenant, wired)
    for problem in unusable_models(asked, wired):
        _complain(f"answering without {problem}", style="yellow")
    answer = _ask(asked, wired, state_machine=state_machine)
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    if answer.unknown_entity:
        raise InvalidRequest(f"--within: nothing in the graph of {tenant} is called {answer.unknown_entity!r}")
    from braid_cli.show import show_answer

    show_answer(out, answer, explain=explain)


def _ask(query: Query, wired: Wired, *, state_machine: bool) -> Answer:
    if state_machine:
        from braid_cli.state_machine.interpreter import Workflow

        with Workflow() as workflow:
            return workflow.answer(query)
    from braid.retrieval import pipeline

    return pipeline.answer(query, wired)


def _add_models() -> None:
    from braid_cli.commands.context import EPILOG as CONTEXT_EPILOG
    from braid_cli.commands.context import context
    from braid_cli.commands.evaluation import EVALUATE_EPILOG, TUNE_EPILOG, evaluate, tune
    from braid_cli.commands.graph import QUERY_EPILOG, RELATED_EPILOG, graph_query, related
    from braid_cli.commands.ingest_graph import EPILOG as INGEST_GRAPH_EPILOG
    from braid_cli.commands.ingest_graph import ingest_graph
    from braid_cli.commands.members import members_app
    from braid_cli.commands.models import models_app
    from braid_cli.commands.reembed import EPILOG as REEMBED_EPILOG
    from braid_cli.commands.reembed import reembed
    from braid_cli.commands.schema import schema_app
    from braid_cli.commands.serve import EPILOG as SERVE_EPILOG
    from braid_cli.commands.serve import serve
    from braid_cli.commands.writes import INGEST_EPILOG, REPAIR_EPILOG, delete_app, ingest, repair

    app.command(epilog=INGEST_EPILOG)(ingest)
    app.add_typer(models_app, name="models")
    app.add_typer(members_app, name="members")
    app.add_typer(schema_app, name="schema")
    app.command(epilog=REEMBED_EPILOG)(reembed)
    app.add_typer(delete_app, name="delete")
    app.command(epilog=REPAIR_EPILOG)(repair)
    app.command(epilog=CONTEXT_EPILOG)(context)
    app.command(name="ingest-graph", epilog=INGEST_GRAPH_EPILOG)(ingest_graph)
    app.command(epilog=RELATED_EPILOG)(related)
    app.command(name="graph-query", epilog=QUERY_EPILOG)(graph_query)
    app.command(epilog=SERVE_EPILOG)(serve)
    app.command(name="eval", epilog=EVALUATE_EPILOG)(evaluate)
    app.command(epilog=TUNE_EPILOG)(tune)


_add_models()

if __name__ == "__main__":
    main()
