"""The command line: ``braid``."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - typer reads annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from braid.errors import BraidError, DatasetError, InvalidRequest, UnknownTenant
from braid.models import Fusion, Intent, Query, Ranking, RerankerKind, Strategy
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.models import Answer
    from braid.wiring import Wired

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
DEFAULT_TENANT = "default"

app = typer.Typer(
    name="braid",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    help="One question in, one ranked and cited list out: vectors, words and a knowledge graph, braided.",
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Whose data.", show_default=True)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def main() -> None:
    """Run the command line; errors of the user's making are one line, and no traceback."""
    os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "CRITICAL")
    try:
        app()
    except BraidError as error:
        err.print(Text(f"braid: {error}", style="red"))
        bad_input = isinstance(error, InvalidRequest | DatasetError | UnknownTenant)
        sys.exit(EXIT_BAD_INPUT if bad_input else EXIT_FAILED)
    except BrokenPipeError:
        # The reader of a pipe has seen enough; without this, closing standard output would say so again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)


def _wired() -> Wired:
    from braid.wiring import wired

    return wired()


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, and take (done, all)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=quiet, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield update


@app.command(epilog="Example: `braid demo`")
def demo() -> None:
    """Ingest the demo corpus and answer questions about it, through the real handlers and state machine."""
    from local.demo_tour import tour

    tour(out, _wired(), progress)


@app.command(epilog="Example: `braid ingest my-data --tenant acme`")
def ingest(
    folder: Annotated[Path, typer.Argument(help="Dataset folder: corpus.jsonl, and entities and relationships.")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Embed a dataset folder and write it to the search index and the knowledge graph."""
    from local.dataset import read_dataset
    from local.ingest import ensure_models
    from local.ingest import ingest as write

    _check_tenant(tenant)
    wired = _wired()
    dataset = read_dataset(folder, tenant)
    ensure_models(wired)
    with progress(f"Embedding {dataset.name}", quiet=as_json) as on_progress:
        done = write(dataset, wired, threads=os.cpu_count(), on_progress=on_progress)
    if as_json:
        _print_json({"dataset": dataset.name, "tenant": tenant, **vars(done)})
    elif done.unchanged:
        out.print(f"{dataset.name}: nothing has changed since it was ingested for {tenant}")
    else:
        seconds = done.embed_seconds + done.write_seconds
        out.print(
            f"{dataset.name}: {done.records:,} records, {done.vertices:,} vertices and {done.relationships:,} "
            f"relationships for {tenant} in {seconds:.1f} s (embedding {done.embed_seconds:.1f} s)"
        )


@app.command(
    epilog="Examples: `braid search 'Why did checkout fail in March?' --explain` · "
    "`braid search 'Who owns the ledger?' --tenant acme --top-k 3 --json`"
)
def search(
    text: Annotated[str, typer.Argument(help="The question, 1 to 10,000 characters.")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    intent: Annotated[Intent | None, typer.Option(help="What it wants to know; read from the question.")] = None,
    strategy: Annotated[Strategy | None, typer.Option(help="In which order the stores are asked; planned.")] = None,
    ranking: Annotated[Ranking, typer.Option(help="How the final score is made.")] = Ranking.RELEVANCE,
    fusion: Annotated[Fusion, typer.Option(help="How the strands become one list.")] = Fusion.WEIGHTED,
    reranker: Annotated[RerankerKind | None, typer.Option(help="Who rescores the first 50; a setting.")] = None,
    top_k: Annotated[int, typer.Option(help="How many results, 1 to 50.")] = 10,
    as_of: Annotated[str | None, typer.Option(help="Answer as of this time, such as 2024-05-01.")] = None,
    within: Annotated[str | None, typer.Option(help="Only what this entity reaches.", metavar="ENTITY")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the plan, origins and timings.")] = False,
    as_json: AsJson = False,
    in_process: Annotated[bool, typer.Option("--in-process", help="Leave out the state machine.")] = False,
) -> None:
    """Ask one question. The deployed state machine answers, run on this machine."""
    asked = _query(
        {
            "text": text,
            "tenant_id": tenant,
            "intent": intent,
            "top_k": top_k,
            "ranking": ranking,
            "fusion": fusion,
            "reranker": reranker,
            "as_of": as_of,
            "graph_constraint": {"entity": within} if within else None,
            "hints": {"strategy": strategy},
            "explain": explain,
        }
    )
    wired = _wired()
    _check_known(tenant, wired)
    answer = _ask(asked, wired, in_process=in_process)
    if as_json:
        _print_json(answer.model_dump(mode="json"))
        return
    from local.show import show_answer

    show_answer(out, answer, explain=explain)


@app.command(name="eval", epilog="Example: `braid eval my-data` · `braid eval my-data --json`")
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Dataset folder with queries.jsonl and qrels/test.tsv.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Measure retrieval on judged questions: each strand alone, plain hybrid, and the product's default."""
    from local.evaluate import evaluate_folder
    from local.show import show_evaluation

    with (
        progress("Ingesting", quiet=as_json) as ingesting,
        progress("Asking", quiet=as_json) as asking,
    ):
        evaluation = evaluate_folder(folder, _wired(), on_ingest=ingesting, on_question=asking)
    if as_json:
        _print_json(evaluation.as_json())
    else:
        show_evaluation(out, evaluation)


def _query(fields: dict[str, Any]) -> Query:
    try:
        return Query.model_validate(fields)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from None


def _ask(query: Query, wired: Wired, *, in_process: bool) -> Answer:
    if in_process:
        from braid import pipeline

        return pipeline.answer(query, wired)
    from local.workflow import Workflow

    with Workflow() as workflow:
        return workflow.answer(query)


def _check_tenant(tenant: str) -> None:
    _query({"text": "tenant", "tenant_id": tenant})


def _check_known(tenant: str, wired: Wired) -> None:
    """Say so when nothing was ever ingested for a tenant, rather than answer with nothing."""
    from braid.settings import EngineKind

    if wired.settings.engine is not EngineKind.EMBEDDED:
        return
    known = wired.store.tenants()
    if tenant not in known:
        listed = f"tenants here: {', '.join(known)}" if known else "nothing is ingested here yet"
        raise UnknownTenant(
            f"tenant: {tenant!r} is unknown in {wired.settings.home}; {listed}. "
            f"`braid ingest DIR --tenant {tenant}` makes it"
        )


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def _add_models() -> None:
    from local.cli_models import models_app

    app.add_typer(models_app, name="models")


_add_models()
