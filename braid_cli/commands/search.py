"""``braid search``: answers one question, which :mod:`braid_cli.answer_rendering` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from braid.errors import InvalidRequest
from braid.models import Fusion, Intent, Query, Ranking, RerankerKind, Strategy

from braid_cli.options import DEFAULT_TENANT, FLAG, AsJson, AsOf, Engine, Tenant, Where, any_of
from braid_cli.question_validation import check_known, of_option, question, unusable_models, warn_of_unknown_types
from braid_cli.terminal import complain, examples, open_application, out, print_json

if TYPE_CHECKING:
    from braid.app import Application
    from braid.models import Answer

app = typer.Typer()


@app.command(
    epilog=examples(
        "braid search 'What caused the Beacon text storm?' --tenant saltmarrow",
        "braid search 'Who owns the ledger?' -t saltmarrow --top-k 3 --explain",
        "braid search 'What did the audit find?' -t acme --where team=payments --where 'floor>=2' --facet team",
        "braid search 'How long are messages kept?' -t saltmarrow --as-of 2024-01-10 --json",
    )
)
def search(
    text: Annotated[str, typer.Argument(help="The question, 1 to 10,000 characters.", metavar="TEXT")],
    *,
    tenant: Tenant = DEFAULT_TENANT,
    top_k: Annotated[int, typer.Option(help="Maximum of results, 1 to 50.", metavar="N")] = 10,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Show the plan, the ranks and scores of each result, and timings.", metavar=FLAG
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Show the whole text, dates and metadata of each result.", metavar=FLAG)
    ] = False,
    as_of: AsOf = None,
    within: Annotated[
        str | None, typer.Option(help="Only results that the graph reaches from this entity.", metavar="ENTITY")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only records of this entity type; may be repeated.", metavar="TYPE"),
    ] = None,
    where: Where = None,
    facets: Annotated[
        list[str] | None,
        typer.Option("--facet", help="Count the values of this metadata field; may be repeated.", metavar="FIELD"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only records whose timestamp is at this time or later; those without one are left out.",
            metavar="TIME",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Only records whose timestamp is before this time; those without one are left out.", metavar="TIME"
        ),
    ] = None,
    min_similarity: Annotated[
        float | None,
        typer.Option(
            help="Minimum vector similarity of results found by their text, 0 to 1; not applied to graph results.",
            metavar="SCORE",
        ),
    ] = None,
    intent: Annotated[
        Intent | None, typer.Option(help=f"{any_of(Intent)}. Default: detected in the question.", metavar="INTENT")
    ] = None,
    strategy: Annotated[
        Strategy | None, typer.Option(help=f"{any_of(Strategy)}. Default: chosen by the planner.", metavar="STRATEGY")
    ] = None,
    ranking: Annotated[
        Ranking, typer.Option(help=f"Ranking profile: {any_of(Ranking)}.", metavar="RANKING")
    ] = Ranking.RELEVANCE,
    fusion: Annotated[
        Fusion | None,
        typer.Option(
            help=f"Method of fusing the strands: {any_of(Fusion)}. Default: chosen by the planner.", metavar="FUSION"
        ),
    ] = None,
    reranker: Annotated[
        RerankerKind | None,
        typer.Option(help=f"Reranker of the first 50 candidates: {any_of(RerankerKind)}.", metavar="RERANKER"),
    ] = None,
    engine: Engine = None,
    as_json: AsJson = False,
    state_machine: Annotated[
        bool,
        typer.Option(
            "--state-machine",
            help="Run the deployed state machine: same answer, slower. Needs the extra workflow.",
            metavar=FLAG,
        ),
    ] = False,
) -> None:
    """Answer a question with ranked, cited results, by the deployed stages run on this machine."""
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
                "metadata": tuple(where or ()),
            },
            "facets": tuple(facets or ()),
            "hints": {"strategy": strategy, "min_similarity": min_similarity},
            "explain": explain,
        }
    )
    application = open_application(engine)
    check_known(tenant, application)
    for problem in unusable_models(asked, application):
        complain(f"answering without {problem}", style="yellow")
    try:
        answer = _ask(asked, application, state_machine=state_machine)
    except InvalidRequest as error:
        raise of_option(error, {"filters": "--where"}) from error
    if types and not answer.results:
        warn_of_unknown_types(types, application.index.stats(tenant).by_entity_type, f"record of {tenant}")
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    if answer.unknown_entity:
        from braid.retrieval.tenant_search import TenantQuestions, did_you_mean

        similar = did_you_mean(TenantQuestions(application, tenant).similar_names(answer.unknown_entity))
        raise InvalidRequest(f"--within: nothing in the graph of {tenant} is called {answer.unknown_entity!r}{similar}")
    from braid.understanding.intent import names_moment

    from braid_cli.answer_rendering import show_answer

    moment = asked.as_of is None and names_moment(asked.text)
    show_answer(
        out,
        answer,
        explain=explain,
        full=full,
        moment=moment,
        as_of=asked.as_of is not None,
        dated=asked.filters.time_range is not None,
    )


def _ask(query: Query, application: Application, *, state_machine: bool) -> Answer:
    if state_machine:
        from braid_cli.state_machine.interpreter import Workflow

        with Workflow() as workflow:
            return application.traced(query, workflow.answer)
    from braid.retrieval import pipeline

    return application.traced(query, lambda asked: pipeline.answer(asked, application))
